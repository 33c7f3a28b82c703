"""Several schemas in one workload: whose turn is it?

After any number of turns every schema has had its share, to within one turn; without weights all shares are equal. So
a prefix of a workload is a workload of the same kind, and nothing about the turns is random.

    >>> from itertools import islice
    >>> from treecast.workload.shares import turns
    >>> [place for place, number in islice(turns(2, [3, 1]), 8)]
    [0, 0, 1, 0, 0, 0, 1, 0]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence


def turns(count: int, weights: Sequence[float] | None = None) -> Iterator[tuple[int, int]]:
    """An endless sequence: whose turn it is, and how many turns it has had before."""
    return _deal(check_weights(count, weights))


def _deal(weights: Sequence[float]) -> Iterator[tuple[int, int]]:
    count, total = len(weights), sum(weights)
    if len(set(weights)) == 1:
        for turn in itertools.count():
            yield turn % count, turn // count
    shares = [weight / total for weight in weights]
    turns_had = [0] * count
    turns = 0
    while True:
        turns += 1
        behind = [share * turns - own_turns for share, own_turns in zip(shares, turns_had, strict=True)]
        place = max(range(count), key=behind.__getitem__)
        yield place, turns_had[place]
        turns_had[place] += 1


def check_weights(count: int, weights: Sequence[float] | None) -> list[float]:
    if count < 1:
        raise ValueError("a workload has at least one schema")
    if weights is None:
        return [1.0] * count
    if len(weights) != count or not all(0 <= weight < float("inf") for weight in weights) or not sum(weights):
        raise ValueError("there is one weight for every schema, none of them negative and not all zero")
    return list(weights)
