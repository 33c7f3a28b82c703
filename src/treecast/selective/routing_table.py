"""The routing table of a broker: who gets which part of a subtree that has changed.

It is an MXB tree of the subtrees that recipients asked for. Exclusions are an MXB tree of their own at each subtree
from which something is excluded (the paper's SMXB); only brokers that face subscribers have any, the others take
subscriptions without them.

    >>> from treecast.selective.outline import Outline
    >>> from treecast.selective.routing_table import RoutingTable
    >>> from treecast.selective.subtrees import Subtree
    >>> outline = Outline([-1, 0, 1, 1, 0], spacing=1)  # 5{3{1,2},4}
    >>> table = RoutingTable(outline)
    >>> table.subscribe("ann", Subtree(0, without=(1,)))
    >>> table.subscribe("bob", Subtree(3))
    >>> table.route(0)
    {'ann': (Subtree(root=0, without=(1,)),), 'bob': (Subtree(root=3, without=()),)}
    >>> table.route(2)
    {}

What `route` returns for a recipient is in normal form: nobody is sent an element twice, and an exclusion that another
subscription of theirs undoes is gone. A subtree that contains what somebody asked for reaches them as far as they
asked, not as a whole: the printed algorithm would send a whole document to the subscribers of its last child.

Source: Selective, sections IV-B and V-C, Algorithms 1 to 3, Examples 2 to 4.
"""

from __future__ import annotations

from typing import NamedTuple

from treecast.selective.mxb import MxbTree
from treecast.selective.outline import Outline
from treecast.selective.subtrees import Subtree, Subtrees


class _LimitedKey(NamedTuple):
    """A subscription with exclusions; a recipient may have several to one subtree."""

    recipient: str
    without: tuple[int, ...]


class RoutingTable:
    """Subscriptions of recipients to subtrees, and who is concerned by a change."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._whole: MxbTree[str] = MxbTree(outline)
        self._limited: MxbTree[_LimitedKey] = MxbTree(outline)
        self._exclusions: dict[int, MxbTree[_LimitedKey]] = {}  # by the subtree that something is excluded from
        self.subscriptions = 0

    # -- changes

    def subscribe(self, recipient: str, part: Subtree) -> None:
        """Add a subscription; adding it again changes nothing."""
        if recipient in self._recipients(part):
            return
        self.subscriptions += 1
        if not part.without:
            self._whole.add(part.root, recipient)
            return
        key = _LimitedKey(recipient, part.without)
        self._limited.add(part.root, key)
        substructure = self._exclusions.setdefault(part.root, MxbTree(self._outline))
        for id in part.without:
            substructure.add(id, key)

    def unsubscribe(self, recipient: str, part: Subtree) -> bool:
        """Remove a subscription; says whether it was there."""
        if recipient not in self._recipients(part):
            return False
        self.subscriptions -= 1
        if not part.without:
            return self._whole.discard(part.root, recipient)
        key = _LimitedKey(recipient, part.without)
        self._limited.discard(part.root, key)
        for id in part.without:
            self._exclusions[part.root].discard(id, key)
        if not self._limited.keys(part.root):
            del self._exclusions[part.root]
        return True

    def _recipients(self, part: Subtree) -> list[str]:
        if not part.without:
            return self._whole.keys(part.root)
        return [key.recipient for key in self._limited.keys(part.root) if key.without == part.without]

    def forget(self, id: int) -> list[tuple[str, Subtree]]:
        """Remove what concerns a subtree that is about to be removed from the document. Returns what ended."""
        removed_ids = set(self._outline.subtree(id))
        ended_subscriptions = [(who, part) for who, part in self.all() if part.root in removed_ids]
        for recipient, part in ended_subscriptions:
            self.unsubscribe(recipient, part)
        for recipient, part in self.all():
            if removed_ids.intersection(part.without):
                self.unsubscribe(recipient, part)
                self.subscribe(
                    recipient, Subtree(part.root, tuple(one for one in part.without if one not in removed_ids))
                )
        return ended_subscriptions

    # -- questions

    def all(self) -> list[tuple[str, Subtree]]:
        """Every subscription with its recipient, in document order of the subtrees."""
        whole = [(key, Subtree(place.element.id)) for place in self._whole for key in place.keys]
        limited = [
            (key.recipient, Subtree(place.element.id, key.without)) for place in self._limited for key in place.keys
        ]
        return whole + limited

    def subscribers(self, id: int) -> list[tuple[str, Subtree]]:
        """Every subscription that an element itself is part of, with its recipient."""
        subscriptions = [(key, Subtree(place.element.id)) for place in self._whole.enclosing(id) for key in place.keys]
        for limited in self._limited.enclosing(id):
            root = limited.element.id
            blocked_keys = {key for place in self._exclusions[root].enclosing(id) for key in place.keys}
            subscriptions += [
                (key.recipient, Subtree(root, key.without)) for key in limited.keys if key not in blocked_keys
            ]
        return subscriptions

    def route(self, id: int) -> dict[str, tuple[Subtree, ...]]:
        """Who gets what of a subtree: for each recipient the parts of it, in normal form. Others get nothing."""
        parts_by_recipient: dict[str, list[Subtree]] = {}
        for place in self._whole.enclosing(id):
            for recipient in place.keys:
                parts_by_recipient[recipient] = [Subtree(id)]
        whole = set(parts_by_recipient)  # they get all of it, whatever else they asked for
        for limited in self._limited.enclosing(id):
            self._add_limited(limited.element.id, id, limited.keys, parts_by_recipient, whole)
        for place in self._whole.inside(id):
            for recipient in place.keys.keys() - whole:
                parts_by_recipient.setdefault(recipient, []).append(Subtree(place.element.id))
        for limited in self._limited.inside(id):
            for key in limited.keys:
                if key.recipient not in whole:
                    parts_by_recipient.setdefault(key.recipient, []).append(Subtree(limited.element.id, key.without))
        return {
            recipient: normal
            for recipient in sorted(parts_by_recipient)
            if (normal := self._normal(parts_by_recipient[recipient]))
        }

    def _add_limited(
        self,
        root: int,
        id: int,
        keys: dict[_LimitedKey, None],
        parts_by_recipient: dict[str, list[Subtree]],
        whole: set[str],
    ) -> None:
        """Subscriptions with exclusions whose subtree contains the one that is routed."""
        substructure = self._exclusions[root]
        blocked_keys = {key for place in substructure.enclosing(id) for key in place.keys}
        excluded_ids: dict[_LimitedKey, list[int]] = {}
        for place in substructure.inside(id):
            for key in place.keys:
                excluded_ids.setdefault(key, []).append(place.element.id)
        for key in keys:
            if key not in blocked_keys and key.recipient not in whole:
                parts_by_recipient.setdefault(key.recipient, []).append(Subtree(id, tuple(excluded_ids.get(key, ()))))

    def _normal(self, parts: list[Subtree]) -> tuple[Subtree, ...]:
        if len(parts) == 1 and not parts[0].without:
            return tuple(parts)
        return Subtrees.of(parts, self._outline).parts
