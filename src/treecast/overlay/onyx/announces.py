"""Announcements of children that wait for their turn: a large one takes long, and questions must not wait for it.

A small announcement is taken at once, unless others of the same child wait already. Large ones are taken one child at a
tick, in their order, and after one that took long, the next waits for as long again: half of the time is for documents,
which come by way of the roots until all is covered. A child of whom too many wait is forgotten: it asks again, and then
announces everything.

    >>> from treecast.overlay.onyx.settings import NetworkSettings
    >>> announces = Announces(NetworkSettings(), {})
    >>> announces.take_waiting(now_ms=0)
"""

from __future__ import annotations

from collections.abc import Mapping

from treecast.overlay.onyx.network_messages import Announce
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.tree import Tree
from treecast.overlay.peer import TICK_MS

REST_MS_MAX = 1_000
"""Between two large announcements."""


class Announces:
    """What children of a broker have announced, in all its trees, as far as it waits."""

    def __init__(self, settings: NetworkSettings, trees: Mapping[str, Tree]) -> None:
        self._settings = settings
        self._trees = trees
        self._waiting: dict[tuple[str, str], list[Announce]] = {}  # by root and child
        self._taken_ms: int | None = None  # when the last one was taken, until the next tick
        self._rest_until_ms = 0

    def take(self, tree: Tree, sender: str, message: Announce) -> None:
        """At once if it is small, and behind those that wait already."""
        key = (tree.root, sender)
        waiting = self._waiting.get(key)
        size = sum(len(added) + len(removed) for added, removed in message.changes)
        if waiting is None and size <= self._settings.announce_bytes_at_once:
            tree.take_announce(sender, message)
            return
        if waiting is None or message.base == 0:  # all that was announced before is void
            waiting = self._waiting[key] = []
        waiting.append(message)
        if len(waiting) > self._settings.announces_waiting_max:
            del self._waiting[key]

    def take_waiting(self, now_ms: int) -> None:
        """What one child has announced, in its order. To be called with every tick."""
        if self._taken_ms is not None:
            # The clock stands still while one is taken: the next tick shows how long that was.
            took_ms = now_ms - self._taken_ms - TICK_MS
            self._taken_ms = None
            self._rest_until_ms = now_ms + min(max(took_ms, 0), REST_MS_MAX)
        if not self._waiting or 0 < self._rest_until_ms - now_ms <= REST_MS_MAX:
            return
        self._taken_ms = now_ms
        root, sender = key = next(iter(self._waiting))
        for message in self._waiting.pop(key):
            if (tree := self._trees.get(root)) is not None:
                tree.take_announce(sender, message)
