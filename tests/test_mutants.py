"""The places that tools/mutants.py flips are where it says. Flipping them takes a build: `make long`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
assert SPEC and SPEC.loader
mutants = importlib.util.module_from_spec(SPEC)
sys.modules["mutants"] = mutants  # dataclasses look their module up
SPEC.loader.exec_module(mutants)


@pytest.mark.parametrize("number", range(1, len(mutants.MUTANTS) + 1))
def test_each_place_exists_once(number: int) -> None:
    mutant = mutants.MUTANTS[number - 1]
    source = (ROOT / "native" / mutant.file).read_text()
    start = mutants.place(source, mutant)
    assert source[start:].startswith(mutant.original)
    assert mutant.mutated != mutant.original


def test_the_predicate_machinery_is_covered() -> None:
    files = {mutant.file for mutant in mutants.MUTANTS}
    assert {"values.hpp", "pattern.cpp", "tree_run.cpp", "evaluate_condition.cpp", "evaluate_path.cpp"} <= files
    assert len(mutants.MUTANTS) >= 12
    assert len({(m.file, m.original, m.mutated) for m in mutants.MUTANTS}) == len(mutants.MUTANTS)
