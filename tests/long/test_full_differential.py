"""The full-size differential test: 2,000,000 (query, document) decisions equal lxml's, each by two configurations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from generators.search_cases import SEARCHED
from hypothesis import given
from oracles.differential import Setting, compare, plain
from support.rounds import ROUNDS, real_documents, round_real, round_schema

from treecast.workload import Schema

pytestmark = pytest.mark.long

DECISIONS = {"tiny": 700_000, "namespaces": 500_000, "deep": 100_000, "schema": 400_000}
REAL_DECISIONS = 300_000


@pytest.mark.parametrize("name", list(ROUNDS))
def test_drawn_rounds(name: str) -> None:
    random = Random(f"{name}/full")
    decisions = 0
    while decisions < DECISIONS[name]:
        decisions += ROUNDS[name](random, random.choice((20, 100, 400)), random.choice((5, 20, 50)))


@given(SEARCHED)
def test_searched(case: tuple[list[str], list[bytes], Setting]) -> None:
    queries, documents, setting = case
    compare([plain(query) for query in queries], documents, [setting])


def test_real_documents(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    """Real documents and the real NITF DTD; without data, as many more decisions from the built-in schema."""
    random = Random("real/full")
    decisions = 0
    if data_directory is None:
        leave_out("paths of real documents against lxml")
        while decisions < REAL_DECISIONS:
            decisions += round_schema(random, 400, 20)
        return
    everything = real_documents(data_directory)
    schema = Schema.from_dtd(data_directory / "dtd/nitf-2.5/nitf-2-5.dtd")
    while decisions < REAL_DECISIONS:
        decisions += round_real(random, everything, random.choice((50, 200)), random.choice((5, 20, 40)))
        decisions += round_schema(random, 400, 20, schema)
