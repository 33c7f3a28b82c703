"""Fuzz targets say what they hold to be true and begin near the code that they are about.

`make fuzz` runs them (tools/fuzz.sh). Their small twin, tests/fuzz/twin.cpp, runs with the native tests
(tools/sanitize.sh).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "tests" / "fuzz"
TARGETS = sorted(path.stem for path in HOME.glob("fuzz_*.cpp"))
OF_THE_LANGUAGE = ("fuzz_match", "fuzz_query", "fuzz_terms", "fuzz_transformation")


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_states_its_invariant_and_has_seeds(name: str) -> None:
    assert (HOME / f"{name}.cpp").read_text("utf-8").startswith("// Invariant: ")
    seeds = list((HOME / "seeds" / name).iterdir())
    assert seeds and all(seed.stat().st_size for seed in seeds)


def test_nothing_is_left_of_targets_that_are_gone() -> None:
    assert {path.stem for path in HOME.glob("*.dict")} <= set(TARGETS)
    assert {path.name for path in (HOME / "seeds").iterdir()} == set(TARGETS)


@pytest.mark.parametrize("name", OF_THE_LANGUAGE)
def test_dictionaries_have_every_function_and_axis(name: str) -> None:
    """A fuzzer that has to guess `preceding-sibling::` letter by letter does not reach what comes behind it."""
    words = (HOME / f"{name}.dict").read_text("utf-8")
    query = ROOT / "native" / "query"
    terms = (query / "term.hpp").read_text("utf-8")
    functions = re.findall(r'TermFunctionTraits\{TermFunction::\w+, "([a-z-]+)"', terms)
    axes = re.findall(r'\{"([a-z-]+)", TermAxis::', (query / "query_term.cpp").read_text("utf-8"))
    assert len(functions) > 25 and len(axes) == 12
    assert [function for function in functions if f"{function}(" not in words] == []
    assert [axis for axis in axes if f"{axis}::" not in words] == []
    assert {kind for kind in ("comment()", "processing-instruction(") if kind not in words} == set()
