"""One broker's part in a tree, by itself: it keeps what its tree sends; tests make the messages of its neighbours."""

from __future__ import annotations

from random import Random
from typing import Any

from treecast.model import Subscription
from treecast.overlay.onyx.network_messages import Announce, Covered
from treecast.overlay.onyx.path_routing import PathRouting
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.tree import Tree

ROUTING = PathRouting(seed=1)
X, Y = ROUTING.map(Subscription("", "/x")), ROUTING.map(Subscription("", "/y"))
NOTHING = ROUTING.empty()


class Place:
    """A broker that keeps what its tree sends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 1
        self.life = 10
        self.now_ms = 0
        self.sent: list[tuple[str, Any]] = []
        self.last = 0

    def send(self, to: str, message: Any) -> None:
        self.sent.append((to, message))

    def take(self, kind: type) -> list[Any]:
        """What of this kind was sent since the last time."""
        messages = [message for _, message in self.sent if isinstance(message, kind)]
        self.sent = [item for item in self.sent if not isinstance(item[1], kind)]
        return messages


def tree(place: Place, root: str, parent: str | None, *children: str) -> Tree:
    new_tree = Tree(root, place, ROUTING, NetworkSettings(), Random(1), lambda: place.last)
    new_tree.store = "store" if new_tree.is_root else ""
    new_tree.place_in(parent, children)
    new_tree.flush()
    return new_tree


def announce(version: int, base: int, *changes: Any, life: int = 5) -> Announce:
    return Announce("r", 1, life, version, base, [(added.encode(), removed.encode()) for added, removed in changes])


def covered(version: int, since: int, life: int = 7) -> Covered:
    return Covered("r", "store", 1, life, 10, version, since)
