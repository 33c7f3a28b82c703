"""Who on a ring carries how much: amounts that lie at places, added up over what each peer owns.

    >>> from treecast.experiments.ring_model import RingModel
    >>> amounts = RingAmounts([5, 1 << 62], [2.0, 3.0])
    >>> sum(amounts.by_peer(RingModel(10)))
    5.0

A peer owns arcs of the ring, so it carries what lies between their ends. The amounts are sorted by place and summed up
once; then any ring of peers takes two searches for each of its members, however many states there are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from treecast.experiments.ring_model import RingModel


class RingAmounts:
    """Amounts by place: states, transitions or messages."""

    def __init__(self, places: Sequence[int], amounts: Sequence[float]) -> None:
        order = sorted(range(len(places)), key=places.__getitem__)
        self._places = array("Q", (places[number] for number in order))
        self._sums = array("d", accumulate((amounts[number] for number in order), initial=0.0))

    def by_peer(self, ring: RingModel) -> list[float]:
        """By the number of a peer: what lies on its arcs."""
        amounts = [0.0] * ring.peers
        # What lies at a member's own place is its own; what lies behind the last member is the first one's.
        before = 0
        for number, member in enumerate(ring.members):
            end = bisect_right(self._places, member.place)
            amounts[ring.peer_numbers[number]] += self._sums[end] - self._sums[before]
            before = end
        amounts[ring.peer_numbers[0]] += self._sums[-1] - self._sums[before]
        return amounts
