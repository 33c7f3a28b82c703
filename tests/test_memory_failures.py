"""Out of memory anywhere in a call: MemoryError, an index as it was, and the same call succeeds afterwards.

Allocations of C++ code fail in turn, in a process of its own; see tests/support/failing_allocations.py. In `make long`
each of them does, here every fourth, and under the sanitizers, which are slow, fewer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.sanitized import SANITIZED

from treecast import engines

HERE = Path(__file__).resolve().parent / "support"
ACTIONS = {
    "changes": [
        "add",
        "add with settings",
        "add a union",
        "add a pattern",
        "add many",
        "replace",
        "remove",
        "remove many",
        "catch up",
    ],
    "merges": ["merge", "renumber", "compact"],
    "documents": ["match", "match many", "match in threads", "render"],
}
ENGINE_ACTIONS = [
    "engine: add",
    "engine: add many",
    "engine: replace",
    "engine: remove",
    "engine: catch up",
    "engine: match",
    "renumber",
]
STEPS = [23 if SANITIZED else 4, pytest.param(1, marks=pytest.mark.long)]
"""One of how many allocations fails."""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("shim") / "failing_new.so"
    compiler = os.environ.get("CXX", "g++")
    subprocess.run(
        [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", HERE / "failing_new.cpp", "-o", library],
        check=True,
    )
    return library


def failures(shim: Path, step: int, names: list[str], actions: list[str]) -> dict[tuple[str, str], int]:
    """How many allocations failed in each action, each without harm, by engine and action."""
    program = [sys.executable, str(HERE / "failing_allocations.py"), str(step), ",".join(names), *actions]
    environment = {**os.environ, "LD_PRELOAD": f"{shim} {os.environ.get('LD_PRELOAD', '')}"}
    if SANITIZED:  # ours comes before the sanitizer's, which then is asked for the memory
        environment["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    lines = (line.split("\t") for line in done.stdout.splitlines())
    return {(engine, action): int(count) for engine, action, count in lines}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("group", ACTIONS)
def test_an_allocation_that_fails_changes_nothing(shim: Path, group: str, step: int) -> None:
    counts = failures(shim, step, ["auto"], ACTIONS[group])
    assert [action for _, action in counts] == ACTIONS[group]
    assert all(counts.values())


@pytest.mark.parametrize("step", STEPS)
def test_engines_of_the_papers_are_made_anew(shim: Path, step: int) -> None:
    names = [name for name in engines.names() if name not in ("auto", "lazydfa")]
    counts = failures(shim, step, names, ENGINE_ACTIONS)
    assert list(counts) == [(name, action) for name in names for action in ENGINE_ACTIONS]
    assert all(counts.values())
