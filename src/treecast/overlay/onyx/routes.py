"""Where the documents of a message go: what a routing table answers, by bits of its targets.

>>> from treecast.overlay.onyx.network_messages import Parcel
>>> parcels = Parcels.of([Parcel(7, "s", "", 0, "text", b"<a/>"), Parcel(9, "s", "", 0, "text", b"<b/>")])
>>> routes = Routes([0b01, 0b11], {"b2": 0b01, "b3": 0b10})
>>> [len(routes.choose(parcels, target)) for target in ("b2", "b3", "b4")]
[2, 1, 0]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from treecast.overlay.onyx.parcels import NONE, Parcels


class Routes:
    """Of documents, by place: the bits of the targets that want each of them."""

    def __init__(self, masks: Sequence[int], bits: Mapping[str, int]) -> None:
        self._masks = masks
        self._bits = bits

    @classmethod
    def same(cls, targets: Iterable[str], count: int) -> Routes:
        """Of so many documents, all for the same targets."""
        return cls([1] * count, dict.fromkeys(targets, 1))

    @classmethod
    def join(cls, routes: Sequence[Routes]) -> Routes:
        """Of documents of several messages, one behind the other; their bits mean the same."""
        return routes[0] if len(routes) == 1 else cls([mask for one in routes for mask in one._masks], routes[0]._bits)

    def is_like(self, other: Routes) -> bool:
        """Bits of both mean the same."""
        return self._bits == other._bits

    def at(self, places: Sequence[int]) -> Routes:
        """Of the documents at these places."""
        if len(places) == len(self._masks):
            return self
        return Routes([self._masks[place] for place in places], self._bits)

    def choose(self, parcels: Parcels, target: str) -> Parcels:
        """Those for a target, of the documents that were routed."""
        bit = self._bits.get(target, 0)
        return parcels.having(self._masks, bit) if bit else NONE
