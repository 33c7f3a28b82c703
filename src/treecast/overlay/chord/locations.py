"""Owners that were found lately, with the ranges of the ring that they own: most lookups need no message.

>>> from treecast.overlay.chord.chord_messages import Member
>>> locations = Locations(count_max=10)
>>> locations.add(Step(0, Member(10, "p1"), [Member(20, "p2")]))
>>> locations.find(15), locations.find(25)
([Member(place=20, peer='p2', index=0)], None)
"""

from __future__ import annotations

from bisect import bisect_left, insort

from treecast.overlay.chord.chord_messages import Member, Step
from treecast.overlay.chord.identifiers import is_within


class Locations:
    """What was found may be outdated: who is asked says so, and it is dropped."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._places: list[int] = []
        self._ranges: dict[int, tuple[int, list[Member]]] = {}

    def add(self, step: Step) -> None:
        if step.via is None or self._count_max == 0:
            return
        if len(self._places) >= self._count_max:
            self._places.clear()
            self._ranges.clear()
        place = step.members[0].place
        if place not in self._ranges:
            insort(self._places, place)
        self._ranges[place] = (step.via.place, list(step.members))

    def _owner_place(self, place: int) -> int | None:
        if not self._places:
            return None
        owner = self._places[bisect_left(self._places, place) % len(self._places)]
        return owner if is_within(self._ranges[owner][0], place, owner) else None

    def find(self, place: int) -> list[Member] | None:
        """The owner, and its successors."""
        owner = self._owner_place(place)
        return None if owner is None else self._ranges[owner][1]

    def drop(self, place: int) -> None:
        owner = self._owner_place(place)
        if owner is not None:
            del self._ranges[owner]
            self._places.remove(owner)
