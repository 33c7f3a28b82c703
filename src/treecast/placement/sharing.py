"""The two simple placements of XTrie, "Parallel XTrie": share the documents, or share the filters.

Data-sharing (X4): every shard holds all subscriptions, each document goes to one shard. The most documents per second;
needs room for everything everywhere. Filter-sharing (X5): every subscription is held by one shard, each document goes
to all. The least memory per shard and the shortest answer for one document; every shard reads every document.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from treecast.document import Bytes
from treecast.model import Subscription
from treecast.placement.facts import survey
from treecast.placement.members import Members
from treecast.placement.placement import check_shards
from treecast.placement.router import Everywhere, Route, Router, Spread

if TYPE_CHECKING:
    from treecast.placement.facts import Subscriptions


class DataSharing:
    """All subscriptions on every shard; a document goes to one of them, by its bytes."""

    name = "data-sharing"

    def __init__(self, shards: int, *, namespaces: Mapping[str, str] | None = None) -> None:
        self.shards = check_shards(shards)
        self._namespaces = dict(namespaces or {})
        self._members = Members()

    def add_many(self, subscriptions: Subscriptions) -> None:
        """See Placement."""
        found = survey(subscriptions, self._namespaces)
        self._members.check_new(found.ids)
        self._members.enter(found.ids, [0] * len(found))

    def add(self, id: str, query: str, *, namespaces: Mapping[str, str] | None = None) -> tuple[int, ...]:
        """See Placement."""
        self.add_many([Subscription(id, query, namespaces or {})])
        return self.holders(id)

    def remove(self, id: str) -> tuple[int, ...]:
        """See Placement."""
        self._members.remove(id)
        return tuple(range(self.shards))

    def holders(self, id: str) -> tuple[int, ...]:
        """See Placement."""
        self._members.group(id)
        return tuple(range(self.shards))

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Placement."""
        return self.router().route(documents)

    def router(self) -> Router:
        """See Placement."""
        return Spread(self.shards)

    def describe(self) -> str:
        """See Placement."""
        return f"{len(self)} subscriptions on each of {self.shards} shards; a document goes to one of them."

    def __len__(self) -> int:
        return len(self._members)


class FilterSharing:
    """Each distinct query on one shard, by its text; a document goes to all of them.

    Equal queries stay together, as the paper has it, so that a shard's machine stores them once. The shard follows from
    the text alone: nothing has to be remembered or moved as queries come and go.
    """

    name = "filter-sharing"

    def __init__(self, shards: int, *, namespaces: Mapping[str, str] | None = None) -> None:
        self.shards = check_shards(shards)
        self._namespaces = dict(namespaces or {})
        self._members = Members()

    def add_many(self, subscriptions: Subscriptions) -> None:
        """See Placement."""
        found = survey(subscriptions, self._namespaces)
        self._members.check_new(found.ids)
        self._members.enter(found.ids, [zlib.crc32(text.encode()) % self.shards for text in found.queries])

    def add(self, id: str, query: str, *, namespaces: Mapping[str, str] | None = None) -> tuple[int, ...]:
        """See Placement."""
        self.add_many([Subscription(id, query, namespaces or {})])
        return self.holders(id)

    def remove(self, id: str) -> tuple[int, ...]:
        """See Placement."""
        return (self._members.remove(id),)

    def holders(self, id: str) -> tuple[int, ...]:
        """See Placement."""
        return (self._members.group(id),)

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Placement."""
        return self.router().route(documents)

    def router(self) -> Router:
        """See Placement."""
        return Everywhere(self.shards)

    def describe(self) -> str:
        """See Placement."""
        return f"{len(self)} subscriptions divided over {self.shards} shards by their text; a document goes to all."

    def __len__(self) -> int:
        return len(self._members)
