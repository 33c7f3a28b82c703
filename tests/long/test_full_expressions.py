"""The full-size differential test of the whole of XPath 1.0: 10,000,000 (query, document) decisions equal lxml's.

All ways in, both instruction sets and saved indexes are drawn with each round; where libxml2 deviates, Saxon decides.
"""

from __future__ import annotations

from random import Random

import pytest
from support.rounds_expressions import EXPRESSION_ROUNDS, oracles_agree, round_saxon

pytestmark = pytest.mark.long

DECISIONS = {
    "grammar": 4_000_000,
    "plain names": 3_000_000,
    "edges": 1_500_000,
    "canonical texts": 1_300_000,
    "explanations": 200_000,
    "reasons": 100_000,
    "columns": 1_000_000,
    "marks": 1_000_000,
}
SAXON_DECISIONS = 200_000
# Queries in one index: alone, a few, many, thousands; the documents that each such index is asked about.
SIZES = ((1, 30), (50, 20), (400, 12), (3000, 5))
SHARES = (2, 5, 6, 3)


def tell(capsys: pytest.CaptureFixture[str], what: str, decisions: int) -> None:
    with capsys.disabled():
        print(f"\n{what}: {decisions:,} decisions agree")


@pytest.mark.parametrize("name", list(EXPRESSION_ROUNDS))
def test_drawn_rounds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(f"{name} expressions/full")
    decisions = 0
    while decisions < DECISIONS[name]:
        queries, documents = random.choices(SIZES, SHARES)[0]
        decisions += EXPRESSION_ROUNDS[name](random, queries, documents)
    tell(capsys, name, decisions)


def test_saxon_decides_where_libxml2_deviates(capsys: pytest.CaptureFixture[str]) -> None:
    random = Random("saxon expressions/full")
    decisions = 0
    while decisions < SAXON_DECISIONS:
        decisions += round_saxon(random, 200, 6)
    tell(capsys, "Saxon", decisions)


def test_lxml_and_saxon_agree_on_what_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    random = Random("oracles/full")
    decisions = 0
    while decisions < SAXON_DECISIONS:
        made, _, differences = oracles_agree(random, 200, 6)
        assert differences == []
        decisions += made
    tell(capsys, "both oracles", decisions)
