"""Bugs in the network of selective publishing, planted to see whether the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from treecast.overlay.selective.downward import Downward, Feed
from treecast.overlay.selective.neighbours import Neighbours
from treecast.selective.forwarding import Forwarding, Requests
from treecast.selective.routing_table import RoutingTable
from treecast.selective.subtrees import Subtree

_subscribers = RoutingTable.subscribers


def _leak_exclusions(self: RoutingTable, id: int) -> list[tuple[str, Subtree]]:
    """Who excludes something gets it anyway."""
    subscriptions = [(key, Subtree(place.element.id)) for place in self._whole.enclosing(id) for key in place.keys]
    for place in self._limited.enclosing(id):
        subscriptions += [(key.recipient, Subtree(place.element.id, key.without)) for key in place.keys]
    return subscriptions


def _leak_ancestors(self: RoutingTable, id: int) -> list[tuple[str, Subtree]]:
    """An element goes to those who asked for one inside it, too: the slip in the printed algorithm."""
    inside = [(key, Subtree(place.element.id)) for place in self._whole.inside(id) for key in place.keys]
    return [*_subscribers(self, id), *inside]


_unwant = Forwarding.unwant


def _forget_hidden(self: Forwarding, id: int) -> Requests:
    """What a removed subtree covered is not asked for again."""
    requests = _unwant(self, id)
    for hidden_id in requests.ask:
        self._asked.discard(hidden_id, None)
    return requests


def _send_once(self: Downward, part: Subtree, feed: Feed) -> Any:
    """An update that is lost is not sent again."""
    update = _update(self, part, feed)
    feed.pending = {}
    return update


_update = Downward._update


def _everybody_lives(self: Neighbours, name: str, now_ms: int) -> bool:
    """A neighbour that is dead is not noticed."""
    return name in self._neighbour_by_name


def _no_receipts(self: Downward, name: str, message: Any) -> None:
    """Receipts are not understood, so everything is sent again and again."""


def _anybody_may(self: Downward, name: str, want: Any, proof: bytes) -> Subtree | None:
    """Rights are not checked."""
    return Subtree(want.root, tuple(want.without)) if want.root in self._outline else None


BUGS: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "exclusions leak": (RoutingTable, "subscribers", _leak_exclusions),
    "ancestors leak": (RoutingTable, "subscribers", _leak_ancestors),
    "hidden wants are forgotten": (Forwarding, "unwant", _forget_hidden),
    "lost updates stay lost": (Downward, "_update", _send_once),
    "the dead are not noticed": (Neighbours, "is_alive", _everybody_lives),
    "receipts are ignored": (Downward, "take_receipt", _no_receipts),
    "rights are not checked": (Downward, "_valid", _anybody_may),
}


@contextmanager
def plant(name: str) -> Iterator[None]:
    owner, method, bug = BUGS[name]
    with patch.object(owner, method, bug):
        yield
