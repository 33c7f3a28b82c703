"""Announcements of children that wait for their turn: a large one takes long, and questions must not wait for it.

A small announcement is taken at once, unless others of the same child wait already. Large ones are taken one child at a
tick, in their order. A child of whom too many wait is forgotten: it asks again, and then announces everything.

    >>> from treecast.overlay.onyx.settings import NetworkSettings
    >>> announces = Announces(NetworkSettings(), {})
    >>> announces.take_waiting()
"""

from __future__ import annotations

from collections.abc import Mapping

from treecast.overlay.onyx.network_messages import Announce
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.tree import Tree


class Announces:
    """What children of a broker have announced, in all its trees, as far as it waits."""

    def __init__(self, settings: NetworkSettings, trees: Mapping[str, Tree]) -> None:
        self._settings = settings
        self._trees = trees
        self._waiting: dict[tuple[str, str], list[Announce]] = {}  # by root and child

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

    def take_waiting(self) -> None:
        """What one child has announced, in its order."""
        if self._waiting:
            root, sender = key = next(iter(self._waiting))
            for message in self._waiting.pop(key):
                if (tree := self._trees.get(root)) is not None:
                    tree.take_announce(sender, message)
