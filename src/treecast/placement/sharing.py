"""The two simple placements of XTrie, "Parallel XTrie": share the documents, or share the filters.

Data-sharing (X4): every shard holds all subscriptions, each document goes to one shard. The most documents per second;
needs room for everything everywhere. Filter-sharing (X5): every subscription is held by one shard, each document goes
to all. The least memory per shard and the shortest answer for one document; every shard reads every document.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from treecast.placement.facts import Survey
from treecast.placement.group_placement import GroupPlacement
from treecast.placement.router import Everywhere, Router, Spread


class DataSharing(GroupPlacement):
    """All subscriptions on every shard; a document goes to one of them, by its bytes."""

    name = "data-sharing"

    def __init__(self, shards: int, *, namespaces: Mapping[str, str] | None = None) -> None:
        super().__init__(shards, namespaces)
        self._everywhere = tuple(range(self.shards))

    def _enter(self, facts: Survey) -> None:
        self._members.enter(facts.ids, [0] * len(facts))

    def _shards_of(self, group: int) -> tuple[int, ...]:
        return self._everywhere

    def router(self) -> Router:
        """See Placement."""
        return Spread(self.shards)

    def describe(self) -> str:
        """See Placement."""
        return f"{len(self)} subscriptions on each of {self.shards} shards; a document goes to one of them."


class FilterSharing(GroupPlacement):
    """Each distinct query on one shard, by its text; a document goes to all of them.

    Equal queries stay together, as the paper has it, so that a shard's machine stores them once. The shard follows from
    the text alone: nothing has to be remembered or moved as queries come and go.
    """

    name = "filter-sharing"

    def __init__(self, shards: int, *, namespaces: Mapping[str, str] | None = None) -> None:
        super().__init__(shards, namespaces)

    def _enter(self, facts: Survey) -> None:
        self._members.enter(facts.ids, [zlib.crc32(text.encode()) % self.shards for text in facts.queries])

    def _shards_of(self, group: int) -> tuple[int, ...]:
        return (group,)

    def router(self) -> Router:
        """See Placement."""
        return Everywhere(self.shards)

    def describe(self) -> str:
        """See Placement."""
        return f"{len(self)} subscriptions divided over {self.shards} shards by their text; a document goes to all."
