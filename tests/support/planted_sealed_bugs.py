"""Bugs in networks of sealed documents, planted to see whether the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from treecast.overlay.selective.publication import Publication
from treecast.overlay.selective.tree_broker import CarriedTree, TreeBroker
from treecast.selective import parcels
from treecast.selective.keys import derive
from treecast.selective.policies import Policies


def _is_never_behind(self: CarriedTree) -> bool:
    """An outline is asked for once."""
    return not self.has_outline


def _updates_wait(self: TreeBroker, tree: CarriedTree, now_ms: int) -> Any:
    """What came for a later edition is dropped, and receipts say that it is there."""
    for _, update in tree.updates.values():
        link = tree.broker.upward.links.get(update.root) if tree.broker.upward is not None else None
        if link is not None:
            link.position = update.upto
    tree.updates.clear()
    return _go_on(self, tree, now_ms)


_go_on = TreeBroker._go_on


def _no_mail(self: Publication, now_ms: int) -> Any:
    """Members get their first letters and no more."""
    return [] if self._mail else _collect_mail(self, now_ms)


_collect_mail = Publication._collect_mail


def _keep_epoch(self: Policies, group: str, member: str) -> None:
    """Who is taken out of a group keeps its key."""
    self._members[group].discard(member)


def _plain(key: bytes, data: bytes, about: bytes) -> bytes:
    """What travels is not encrypted."""
    return derive(key, about, length=12) + data


BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "outlines are asked for once": (CarriedTree, "is_behind", _is_never_behind),
    "updates of later editions are lost": (TreeBroker, "_go_on", _updates_wait),
    "mail is sent once": (Publication, "_collect_mail", _no_mail),
    "revocation keeps the key": (Policies, "revoke", _keep_epoch),
    "boxes can be read": (parcels, "seal", _plain),
}


@contextmanager
def plant(name: str) -> Iterator[None]:
    owner, method, bug = BUGS[name]
    with patch.object(owner, method, bug):
        yield
