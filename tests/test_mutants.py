"""The places that tools/mutants.py and tools/mutants_python.py change are where they say. `make long` changes them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


mutants, mutants_python = load("mutants"), load("mutants_python")


@pytest.mark.parametrize("number", range(1, len(mutants.MUTANTS) + 1))
def test_each_place_exists_once(number: int) -> None:
    mutant = mutants.MUTANTS[number - 1]
    source = (ROOT / "native" / mutant.file).read_text()
    start = mutants.place(source, mutant)
    assert source[start:].startswith(mutant.original)
    assert mutant.mutated != mutant.original


def test_the_predicate_machinery_is_covered() -> None:
    files = {Path(mutant.file).name for mutant in mutants.MUTANTS}
    assert {"values.hpp", "pattern.cpp", "tree_run.cpp", "evaluate_condition.cpp", "evaluate_path.cpp"} <= files
    assert len(mutants.MUTANTS) >= 12
    assert len({(m.file, m.original, m.mutated) for m in mutants.MUTANTS}) == len(mutants.MUTANTS)


@pytest.mark.parametrize("number", range(1, len(mutants_python.MUTANTS) + 1))
def test_each_python_place_exists_once(number: int) -> None:
    mutant = mutants_python.MUTANTS[number - 1]
    source = (ROOT / "src" / "treecast" / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.original) == 1 and mutant.mutated != mutant.original
    assert (ROOT / mutant.test).is_file()
