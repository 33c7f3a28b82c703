"""The full-size differential test of the papers' engines: 1,000,000 (query, document) decisions each equal lxml's.

What an engine does not support is asserted to be refused, and counts as a decision too. The small twin is
tests/test_engines.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from oracles.differential import Setting, compare
from oracles.engine_support import PUBLISHED
from support.rounds_conditions import YFILTER_DOCUMENTS, yfilter_queries
from support.rounds_engines import ENGINE_ROUNDS, takes

pytestmark = pytest.mark.long

DECISIONS = {"filters": 450_000, "chains": 150_000, "paths": 150_000, "language": 150_000, "schema": 100_000}
SIZES = ((1, 30), (50, 20), (400, 12), (3000, 5))
SHARES = (8, 5, 3, 1)


@pytest.mark.parametrize("engine", PUBLISHED)
@pytest.mark.parametrize("name", list(ENGINE_ROUNDS))
def test_drawn_rounds(engine: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(f"{engine} {name}/full")
    decisions = 0
    while decisions < DECISIONS[name]:
        queries, documents = random.choices(SIZES, SHARES)[0]
        decisions += ENGINE_ROUNDS[name](engine, random, queries, documents)
    with capsys.disabled():
        print(f"\n{engine}, {name}: {decisions:,} decisions agree")


@pytest.mark.parametrize("engine", PUBLISHED)
def test_yfilter_queries(engine: str, data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    """The queries that YFilter's generator drew from the NITF DTD, on documents of its release."""
    if data_directory is None:
        leave_out("the queries that YFilter's generator drew, for the engines of the papers")
        return
    paths = sorted((data_directory / "docs" / YFILTER_DOCUMENTS["nitf-2-5"]).glob("*.xml"))[:25]
    queries = [query for query in yfilter_queries(data_directory, "nitf-2-5") if takes(engine, query)]
    setting = Setting.draw(Random(engine), engine)
    assert compare(queries, [path.read_bytes() for path in paths], [setting]) > 0
