"""Routers: from documents to the shards that must see them. Small values that travel; placements make them.

A router answers for a batch of documents: for each a tuple of shard numbers without repetition, ascending, or None
where the document is certainly not well-formed. A router that `reads` has read documents whole, so None or not None is
the final word; the others look at the beginning at most.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from treecast.document import Bytes, EntityTexts, Limits
from treecast.index import Index
from treecast.placement.root_name import root_name

Route: TypeAlias = tuple[int, ...] | None


class Router(Protocol):
    """From documents to shards."""

    @property
    def reads(self) -> bool:
        """Whether it reads documents whole, and so finds every bad one."""

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """For each document the shards that must see it."""


def spread(document: Bytes, count: int) -> int:
    """One of `count`, by the document's bytes: the same whenever it is asked, in any process."""
    return zlib.crc32(document) % count


@dataclass(frozen=True)
class Spread:
    """Each document to one shard, all alike."""

    shards: int
    reads: bool = False

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Router."""
        return [(spread(document, self.shards),) for document in documents]


@dataclass(frozen=True)
class Everywhere:
    """Each document to all shards."""

    shards: int
    reads: bool = False

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Router."""
        everywhere = tuple(range(self.shards))
        return [everywhere for _ in documents]


@dataclass(frozen=True)
class ByRoot:
    """Each document to one shard of those that serve its root's name, and to one of those that want every document."""

    clusters: Mapping[str, tuple[int, ...]]
    rest: tuple[int, ...]
    reads: bool = False

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Router."""
        return [self._route(document) for document in documents]

    def _route(self, document: Bytes) -> Route:
        name = root_name(document)
        if name is None:
            return None
        wanted = {
            shards[spread(document, len(shards)) if len(shards) > 1 else 0]
            for shards in (self.clusters.get(name, ()), self.rest)
            if shards
        }
        return tuple(sorted(wanted))


@dataclass(frozen=True)
class Branch:
    """A place in a tree of routers: what of the documents of its parent goes on to it."""

    parent: int
    """The number of a branch before it; -1: the top, where every document arrives."""
    filters: frozenset[int]
    """Numbers of filters: a document goes on that matches one of them."""
    shard: int | None = None
    """Where it ends in one."""


@dataclass(frozen=True)
class ByFilters:
    """Each document down a tree of coarse filters, to the shards at the ends of the branches that it passes.

    All filters of the tree are matched at once, by one index: a document is read once, whatever the number of levels.
    """

    filters: Mapping[int, str]
    branches: tuple[Branch, ...]
    index: Index | None = field(default=None, compare=False)
    reads: bool = True

    def bound(
        self, index: Index | None = None, *, limits: Limits | None = None, entities: EntityTexts = None
    ) -> ByFilters:
        """Ready to route, with an index of its filters: a loaded one, or one that is made here."""
        if index is None:
            index = Index(limits=limits, entities=entities)
            index.add_many([(str(number), text) for number, text in self.filters.items()])
        return replace(self, index=index)

    def unbound(self) -> ByFilters:
        """Without its index, which travels by itself."""
        return replace(self, index=None)

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Router."""
        router = self if self.index is not None else self.bound()
        assert router.index is not None
        routes: list[Route] = []
        while len(routes) < len(documents):
            part = router.index.match_part(documents[len(routes) :], report=True)
            bad = {row for row, _ in part.rejected}
            lists = part.matches.to_pylist()
            for row, number, _ in part.undecided:  # what may pass has to be let through
                lists[row].append(number)
            routes += [None if row in bad else self._reached(matched) for row, matched in enumerate(lists)]
        return routes

    def _reached(self, matched: list[str]) -> tuple[int, ...]:
        passed = {int(number) for number in matched}
        open_branches: list[bool] = []
        shards: set[int] = set()
        for branch in self.branches:  # parents come first
            here = (branch.parent < 0 or open_branches[branch.parent]) and not passed.isdisjoint(branch.filters)
            open_branches.append(here)
            if here and branch.shard is not None:
                shards.add(branch.shard)
        return tuple(sorted(shards))
