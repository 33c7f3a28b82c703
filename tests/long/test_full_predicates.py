"""The full-size differential test of predicates: 5,000,000 (query, document) decisions equal lxml's.

Each test says how many it made. All ways in, both instruction sets and saved indexes are drawn with each round.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from generators.paths_and_documents import words_of
from generators.values import draw_samples
from oracles.differential import Setting, compare
from support.rounds import REAL_BYTES_MAX, real_documents
from support.rounds_conditions import CONDITION_ROUNDS, YFILTER_DOCUMENTS, round_samples, yfilter_queries

from treecast.workload import Schema

pytestmark = pytest.mark.long

DECISIONS = {
    "language": 1_500_000,
    "namespaces": 700_000,
    "values": 1_400_000,
    "deep": 200_000,
    "samples": 400_000,
    "ordered": 300_000,
}
REAL_DECISIONS = 500_000
# Queries in one index: alone, a few, many, thousands; the documents that each such index is asked about.
SIZES = ((1, 30), (50, 20), (400, 12), (3000, 5))
SHARES = (8, 5, 3, 1)


def tell(capsys: pytest.CaptureFixture[str], what: str, decisions: int) -> None:
    with capsys.disabled():
        print(f"\n{what}: {decisions:,} decisions agree")


@pytest.mark.parametrize("name", list(CONDITION_ROUNDS))
def test_drawn_rounds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(f"{name} conditions/full")
    decisions = 0
    while decisions < DECISIONS[name]:
        queries, documents = random.choices(SIZES, SHARES)[0]
        decisions += CONDITION_ROUNDS[name](random, queries, documents)
    tell(capsys, name, decisions)


def test_real_documents(
    data_directory: Path | None, leave_out: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Predicates that real documents satisfy, or nearly; without data, as many more from the built-in schema."""
    random = Random("real conditions/full")
    decisions = 0
    if data_directory is None:
        leave_out("predicates drawn from real documents against lxml")
        while decisions < REAL_DECISIONS:
            decisions += round_samples(random, 400, 12)
        tell(capsys, "more samples", decisions)
        return
    everything = real_documents(data_directory)
    schema = Schema.from_dtd(data_directory / "dtd/nitf-2.5/nitf-2-5.dtd")
    while decisions < REAL_DECISIONS:
        chosen = random.sample(everything, 12)
        queries = draw_samples(random, chosen, words_of(random, chosen), random.choice((100, 400)))
        decisions += compare(queries, chosen, [Setting.draw(random)])
        decisions += round_samples(random, 400, 12, schema)
    tell(capsys, "real documents", decisions)


@pytest.mark.parametrize("dtd", list(YFILTER_DOCUMENTS))
def test_yfilter_queries(
    dtd: str, data_directory: Path | None, leave_out: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """All queries that YFilter's generator drew from a DTD, in one index, on up to 25 real documents of that DTD."""
    if data_directory is None:
        leave_out(f"the queries that YFilter's generator drew from the DTD {dtd}, against lxml")
        return
    random = Random(f"yfilter {dtd}")
    paths = sorted((data_directory / "docs" / YFILTER_DOCUMENTS[dtd]).glob("*.xml"))
    documents = [path.read_bytes() for path in paths if path.stat().st_size < REAL_BYTES_MAX][:25]
    if not documents:
        leave_out(f"documents of {dtd} below {REAL_BYTES_MAX:,} bytes for the queries of YFilter's generator")
        return
    queries = yfilter_queries(data_directory, dtd)
    tell(capsys, dtd, compare(queries, documents, [Setting(), Setting.draw(random)]))
