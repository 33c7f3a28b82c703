"""The full-size differential test of transformations: 200,000 (query, document) pairs give what Saxon says.

In chunks of 10,000 pairs, each from its own seed: `-k chunk07` runs one alone, and two processes halve the time.
"""

from __future__ import annotations

from collections import Counter

import pytest
from support.rounds_transformations import round_transformations

pytestmark = pytest.mark.long

CHUNKS = 20
PAIRS = 10_000


@pytest.mark.parametrize("chunk", [pytest.param(number, id=f"chunk{number:02}") for number in range(CHUNKS)])
def test_drawn_rounds(chunk: int, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"full {chunk}", capsys, related=False)


@pytest.mark.parametrize("chunk", range(2))
def test_related_rounds(chunk: int, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"related {chunk}", capsys, related=True)


def run(seed: str, capsys: pytest.CaptureFixture[str], *, related: bool) -> None:
    tally: Counter[str] = Counter()
    number = 0
    while tally["pairs"] < PAIRS:
        tally += round_transformations(f"{seed}/{number}", related=related)
        number += 1
    with capsys.disabled():
        counts = ", ".join(f"{count:,} {what}" for what, count in tally.most_common() if what != "pairs")
        print(f"\n{seed}: {tally['pairs']:,} pairs: {counts}")
    assert tally["undecided"] < tally["pairs"] / 50
    assert tally["equal"] > tally["pairs"] / 5
