"""Forward and reverse forwarding along the tree of a root (ONYX, section 5, "control plane"), for control messages.

A root sends something to all brokers: each passes it on to its children in that tree. When all that are below a broker
have answered, it answers its parent, so that the root, and the registry behind it, learn how many have it. What is
not answered is sent again for a while, and then given up: the tree is for speed, and what it did not bring comes with
the answer to a heartbeat. A new view ends all that is under way.

`Membership` has one of these. Documents and queries travel along the same trees, but with links of their own: see the
data plane.
"""

from __future__ import annotations

import msgspec

from treecast.overlay.broker.turn import Turn
from treecast.overlay.onyx.control_messages import Broadcast, Collected


class TreeBroadcastSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and limits."""

    repeat_ms: int = 500
    """What a child has not answered is sent again after so long,"""
    give_up_ms: int = 5_000
    """and no more after so long."""
    open_max: int = 256
    """Broadcasts that are under way, or were answered a while ago. The oldest makes room."""


class _Open:
    """A broadcast that this broker passes on, or has."""

    __slots__ = ("begun_ms", "count", "message", "sender", "sent_ms", "waiting")

    def __init__(self, message: Broadcast, sender: str, waiting: list[str], count: int, now_ms: int) -> None:
        self.message = message
        self.sender = sender
        self.waiting = waiting
        self.count = count
        self.begun_ms = self.sent_ms = now_ms

    def answer(self) -> Collected:
        return Collected(self.message.root, self.message.epoch, self.message.number, self.count)


class TreeBroadcast:
    """What one broker forwards, and collects."""

    def __init__(self, name: str, settings: TreeBroadcastSettings) -> None:
        self.name = name
        self._settings = settings
        self._open: dict[tuple[str, int], _Open] = {}

    def spread(self, sender: str, message: Broadcast, children: tuple[str, ...], count: int, turn: Turn) -> None:
        """Pass a broadcast on. `count` is 1 if this broker has applied it."""
        key = (message.root, message.number)
        known = self._open.get(key)
        if known is not None:
            known.sender = sender
            if not known.waiting:
                turn.send(sender, known.answer())
            return
        if len(self._open) >= self._settings.open_max:
            del self._open[next(iter(self._open))]
        opened = self._open[key] = _Open(message, sender, list(children), count, turn.now_ms)
        for child in children:
            turn.send(child, message)
        if not children:
            turn.send(sender, opened.answer())

    def collect(self, child: str, message: Collected, turn: Turn) -> None:
        """A child, and all below it, have answered."""
        known = self._open.get((message.root, message.number))
        if known is None or known.message.epoch != message.epoch or child not in known.waiting:
            return
        known.waiting.remove(child)
        known.count += message.count
        if not known.waiting:
            turn.send(known.sender, known.answer())

    def tick(self, turn: Turn) -> None:
        settings, now_ms = self._settings, turn.now_ms
        for key, known in list(self._open.items()):
            if not known.begun_ms <= now_ms < known.begun_ms + settings.give_up_ms:
                del self._open[key]
            elif known.waiting and not known.sent_ms <= now_ms < known.sent_ms + settings.repeat_ms:
                known.sent_ms = now_ms
                for child in known.waiting:
                    turn.send(child, known.message)

    def forget(self) -> None:
        """The trees have changed."""
        self._open.clear()
