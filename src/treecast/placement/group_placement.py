"""What placements have in common that put each subscription into one group, held by the shards of that group.

A placement on this base says where surveyed subscriptions go (`_enter`), which shards hold a group (`_shards_of`) and
how documents are routed (`router`). Adding, removing and looking up are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from treecast.document import Bytes
from treecast.model import Subscription
from treecast.placement.facts import Survey, survey
from treecast.placement.filter_tree import FilterTree
from treecast.placement.members import Members
from treecast.placement.placement import check_shards
from treecast.placement.router import Route, Router

if TYPE_CHECKING:
    from treecast.placement.facts import Subscriptions


class GroupPlacement(ABC):
    """The part of a Placement that does not depend on how groups are chosen."""

    def __init__(self, shards: int, namespaces: Mapping[str, str] | None) -> None:
        self.shards = check_shards(shards)
        self._namespaces = dict(namespaces or {})
        self._members = Members()

    @abstractmethod
    def _enter(self, facts: Survey) -> None:
        """Choose a group for each of these, whose ids are new, and enter them into the members."""

    @abstractmethod
    def _shards_of(self, group: int) -> tuple[int, ...]:
        """The shards that hold a group."""

    @abstractmethod
    def router(self) -> Router:
        """See Placement."""

    def _leave(self, id: str) -> int:
        """Take a member out; the answer is its group."""
        return self._members.remove(id)

    def add_many(self, subscriptions: Subscriptions) -> None:
        """See Placement."""
        facts = survey(subscriptions, self._namespaces)
        self._members.check_new(facts.ids)
        self._enter(facts)

    def add(self, id: str, query: str, *, namespaces: Mapping[str, str] | None = None) -> tuple[int, ...]:
        """See Placement."""
        self.add_many([Subscription(id, query, namespaces or {})])
        return self.holders(id)

    def remove(self, id: str) -> tuple[int, ...]:
        """See Placement."""
        return self._shards_of(self._leave(id))

    def holders(self, id: str) -> tuple[int, ...]:
        """See Placement."""
        return self._shards_of(self._members.group(id))

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Placement."""
        if isinstance(documents, (bytes, bytearray, memoryview, str)):
            raise TypeError("route takes a sequence of documents; for a single one give [document]")
        return self.router().route(documents)

    def __len__(self) -> int:
        return len(self._members)


class FilteredPlacement(GroupPlacement):
    """One whose groups are the chains of a tree of filters, which also routes the documents."""

    _tree: FilterTree

    def _leave(self, id: str) -> int:
        return self._tree.remove(id)

    def _shards_of(self, group: int) -> tuple[int, ...]:
        return (self._tree.chain(group).shard,)

    def router(self) -> Router:
        """See Placement."""
        return self._tree.router()
