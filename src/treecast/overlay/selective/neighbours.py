"""Which peers of the levels above and below are there. Found at run time: every peer says now and then that it is.

A peer knows the names of some neighbours when it starts. Others that say that they are there become neighbours as well,
if they are of an adjacent level; a peer that starts asks those it knows to say so at once.

Source: Selective, section V-A.
"""

from __future__ import annotations

from collections.abc import Iterable

from treecast.overlay.peer import Effect, Send
from treecast.overlay.selective.selective_messages import Presence
from treecast.overlay.selective.settings import SelectiveSettings

NEIGHBOURS_MAX = 10_000


class Neighbour:
    """What is known of a peer of an adjacent level."""

    __slots__ = ("address", "heard_ms", "incarnation", "rank")

    def __init__(self, rank: int, incarnation: int, heard_ms: int, address: str = "") -> None:
        self.address = address
        self.rank = rank
        self.incarnation = incarnation
        self.heard_ms = heard_ms


class Neighbours:
    """The neighbours of one peer."""

    def __init__(self, rank: int, incarnation: int, names: Iterable[str], settings: SelectiveSettings) -> None:
        self.rank = rank
        self.incarnation = incarnation
        self._names = list(names)
        self._settings = settings
        self._neighbour_by_name: dict[str, Neighbour] = {}
        self._said_ms: int | None = None
        self._asks = False
        self.address = ""
        """Where others reach this peer, if it is known."""

    def hear(self, sender: str, message: Presence, now_ms: int) -> bool:
        """A peer is there; says whether it is new or has been restarted."""
        if abs(message.rank - self.rank) != 1:
            return False
        old = self._neighbour_by_name.get(sender)
        if old is None and len(self._neighbour_by_name) >= NEIGHBOURS_MAX:
            return False
        is_new = old is None or old.incarnation != message.incarnation
        self._neighbour_by_name[sender] = Neighbour(message.rank, message.incarnation, now_ms, message.address)
        return is_new

    def above(self, now_ms: int) -> list[str]:
        """Those of the level above that are alive."""
        return [name for name in self._neighbour_by_name if self.is_above(name) and self.is_alive(name, now_ms)]

    def is_above(self, name: str) -> bool:
        """Whether it is nearer to the source: requests go to such peers only, and updates come only from them."""
        one = self._neighbour_by_name.get(name)
        return one is not None and one.rank == self.rank - 1

    def is_below(self, name: str) -> bool:
        one = self._neighbour_by_name.get(name)
        return one is not None and one.rank == self.rank + 1

    def is_alive(self, name: str, now_ms: int) -> bool:
        one = self._neighbour_by_name.get(name)
        return one is not None and abs(now_ms - one.heard_ms) < self._settings.failure_ms

    def silence_ms(self, name: str, now_ms: int) -> int:
        """How long a peer has not been heard. A clock that was set back counts as a long time."""
        one = self._neighbour_by_name.get(name)
        return abs(now_ms - one.heard_ms) if one is not None else self._settings.lease_ms

    def incarnation_of(self, name: str) -> int:
        one = self._neighbour_by_name.get(name)
        return one.incarnation if one is not None else 0

    def tick(self, now_ms: int, needs_outline: bool) -> list[Effect]:
        """Say that this peer is there, if it is time."""
        if self._said_ms is not None and 0 <= now_ms - self._said_ms < self._settings.presence_ms:
            return []
        asks = self._said_ms is None or self._asks
        self._asks = False
        self._said_ms = now_ms
        names = list(dict.fromkeys([*self._names, *self._neighbour_by_name]))
        return [Send(name, Presence(self.rank, self.incarnation, asks, needs_outline, self.address)) for name in names]

    def forget(self, now_ms: int, lease_ms: int) -> None:
        """Forget neighbours that have been silent for long, so that nobody speaks to them for ever."""
        for name in [name for name, one in self._neighbour_by_name.items() if abs(now_ms - one.heard_ms) >= lease_ms]:
            del self._neighbour_by_name[name]

    def address_of(self, name: str) -> str:
        """Where a neighbour says that it can be reached; empty if it has not said so."""
        one = self._neighbour_by_name.get(name)
        return one.address if one is not None else ""

    def rank_of(self, name: str) -> int:
        return self._neighbour_by_name[name].rank

    def say_soon(self) -> None:
        """Say with the next tick that this peer is there, and ask the others to say so."""
        self._said_ms = None

    def ask_again(self) -> None:
        """Whoever has not answered yet is asked with the next presence."""
        self._asks = True

    def names(self) -> list[str]:
        """All that have been heard."""
        return list(self._neighbour_by_name)
