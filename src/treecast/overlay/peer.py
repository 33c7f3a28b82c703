"""The interface of all peers, the effects they ask for, and the order in which effects happen.

A peer is a state machine. It is told what arrived and what time it is, and returns effects: messages to send, changes
to store, documents to hand to an application. It has no clock, no socket, no file and no thread, and its random numbers
come from the `random.Random` that it was made with. So the same calls give the same effects, in every process.

Whoever runs a peer promises:

- Effects happen in order. What follows a `Store` happens only once its changes are durable: an acknowledgement that is
  sent after a `Store` is never sent for something that a crash can take back. Only an urgent `Send`, which depends on
  nothing that is stored, waits for no disk: it may overtake what was asked for before it, but no other urgent one.
- A `Send` may be lost, delayed, duplicated, or overtaken by a later one. Peers have to cope. Only what a peer sends to
  itself always arrives, in order: so it learns when its changes have become durable.
- If storing fails, nothing that follows happens. The peer is dropped and made again from what is stored, because it
  is ahead of its storage.

`Outbox` keeps the first promise, for the simulator and for the real runtime alike.

    >>> outbox = Outbox()
    >>> outbox.add([Store((Put("t", 1, b"x"),)), Send("client", "done")])
    >>> outbox.take_changes()
    [Put(table='t', key=1, value=b'x')]
    >>> outbox.take_ready()
    []
    >>> outbox.stored()
    >>> outbox.take_ready()
    [Send(to='client', message='done', is_urgent=False, sender='')]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, assert_never, cast

import msgspec

from treecast.overlay.storage import Change, Put

__all__ = ["Deliver", "Effect", "Outbox", "Peer", "Put", "SaveIndex", "Send", "Store"]


class Send(msgspec.Struct, frozen=True):
    """Send a message to a peer or client of this name. It may never arrive."""

    to: str
    message: Any
    is_urgent: bool = False
    sender: str = ""
    """In whose name: that of a peer which lives inside this one. Empty: in its own."""


class Store(msgspec.Struct, frozen=True):
    """Make these changes durable, all or none."""

    changes: tuple[Change, ...]


class Deliver(msgspec.Struct, frozen=True):
    """Hand something to the application that this peer works for."""

    event: Any
    sender: str = ""
    """Of a peer which lives inside this one: its name."""


class SaveIndex(msgspec.Struct, frozen=True):
    """Save the peer's index when convenient, so that the next start is fast.

    The saved index contains every change up to `version`, and perhaps some that came later. It takes the place of an
    older one only when all that it contains is durable: a crash must not take back what it has. Saving may be skipped.
    """

    version: int


Effect = Send | Store | Deliver | SaveIndex


class Peer(Protocol):
    """A state machine that takes part in a network."""

    name: str

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        """Handle a message from the peer or client of that name."""

    def tick(self, now_ms: int) -> list[Effect]:
        """Do what has become due. Called now and then, at least every `TICK_MS`."""


class GatheringPeer(Peer, Protocol):
    """A peer for which messages that came together are less work than one after the other."""

    def receive_all(self, sender: str, messages: Sequence[Any], now_ms: int) -> list[Effect]:
        """Handle messages of another peer or client, in order. The outcome is that of `receive` for each."""


def receive_all(peer: Peer, sender: str, messages: Sequence[Any], now_ms: int) -> list[Effect]:
    """Hand a peer messages that came together, as it likes them."""
    if len(messages) > 1 and hasattr(peer, "receive_all"):
        return cast(GatheringPeer, peer).receive_all(sender, messages, now_ms)
    return [effect for message in messages for effect in peer.receive(sender, message, now_ms)]


TICK_MS = 100


class Outbox:
    """Effects in the order in which they were asked for, some waiting for what must be durable first.

    Changes are written in groups: `take_changes` returns all that were added since the last group, `stored` says that
    this group is durable, and `take_ready` returns the effects that may happen now. While a group is being written,
    more effects may be added; they wait for the next group.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Effect]] = deque()
        self._urgent: list[Effect] = []
        self._changes: list[Change] = []
        self._next_group = 1  # the group that changes added now will belong to
        self._stored_group = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._urgent)

    def has_urgent(self) -> bool:
        return bool(self._urgent)

    def add(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Store():
                    self._changes.extend(effect.changes)
                case Send(is_urgent=True):
                    self._urgent.append(effect)
                case Send() | Deliver() | SaveIndex():
                    # Waits for the last group that has any changes in it.
                    self._waiting.append((self._next_group if self._changes else self._next_group - 1, effect))
                case _:
                    assert_never(effect)

    def has_changes(self) -> bool:
        return bool(self._changes)

    def is_waited_for(self, own: str) -> bool:
        """Something waits, besides what the peer of this name says to itself."""
        return any(not isinstance(effect, Send) or effect.to != own for _, effect in self._waiting)

    def take_changes(self) -> list[Change]:
        """The changes of the next group. At most one group may be under way at a time."""
        assert self._stored_group == self._next_group - 1, "a group is already being written"
        changes, self._changes = self._changes, []
        self._next_group += 1
        return changes

    def stored(self) -> None:
        """The group that was taken last is durable."""
        assert self._stored_group == self._next_group - 2, "no group is being written"
        self._stored_group += 1

    def take_ready(self) -> list[Effect]:
        """The effects that wait for nothing, in order; the urgent ones first."""
        ready, self._urgent = self._urgent, []
        while self._waiting and self._waiting[0][0] <= self._stored_group:
            ready.append(self._waiting.popleft()[1])
        return ready
