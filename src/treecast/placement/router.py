"""Routers: from documents to the shards that must see them. Small values that travel; placements make them.

A router answers for a batch of documents: for each a tuple of shard numbers without repetition, ascending, or None
where the document is certainly not well-formed. A router that `reads` has read documents whole, so None or not None is
the final word; the others look at the beginning at most.

`to_bytes` writes a router down, `Router.from_bytes` reads it again, in another process or on another machine:

    >>> from treecast.placement import Router, Spread
    >>> Router.from_bytes(Spread(4).to_bytes())
    Spread(shards=4, reads=False)

The form is a line with what it is, its version, the size and the CRC-32 of the rest, and then the rest: a JSON object
with the kind of the router and its fields. Equal routers have equal bytes. The checksum guards against accidents.

Codes: TC504 not a router, or one of another version; TC505 a damaged one.
"""

from __future__ import annotations

import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from treecast.document import Bytes, EntityTexts, Limits
from treecast.errors import SnapshotError
from treecast.index import Index
from treecast.placement.root_name import root_name

Route: TypeAlias = tuple[int, ...] | None
FORM_VERSION = 1
SHARDS_MAX = 65_536
_FIRST_LINE = re.compile(rb"treecast router (\d{1,9}) (\d{1,18}) ([0-9a-f]{8})\n")


class Router(ABC):
    """From documents to shards."""

    kind: ClassVar[str]
    """What it is called where it is written down."""
    reads: bool
    """Whether it reads documents whole, and so finds every bad one."""

    @abstractmethod
    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """For each document the shards that must see it."""

    @abstractmethod
    def to_fields(self) -> dict[str, Any]:
        """Its fields as JSON has them."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Router:
        """The router with these fields; a ValueError where they are none of it."""

    def to_bytes(self) -> bytes:
        """The router written down, to travel or to be kept. An index of filters is not part of it."""
        fields = {"kind": self.kind, **self.to_fields()}
        body = json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()
        return b"treecast router %d %d %08x\n" % (FORM_VERSION, len(body), zlib.crc32(body)) + body

    @staticmethod
    def from_bytes(data: bytes) -> Router:
        """What `to_bytes` wrote. Raises a SnapshotError for anything else."""
        first = _FIRST_LINE.match(data)
        if first is None:
            raise _snapshot_error(
                "TC504", "this is no router of treecast", "give the bytes that Router.to_bytes() made"
            )
        version, size, checksum = int(first[1]), int(first[2]), int(first[3], 16)
        if version != FORM_VERSION:
            raise _snapshot_error(
                "TC504",
                f"this router has the form of version {version}, this treecast reads version {FORM_VERSION}",
                "use the same version of treecast on both sides",
            )
        body = data[first.end() :]
        if len(body) != size or zlib.crc32(body) != checksum:
            raise _damage_error()
        try:
            fields = json.loads(body)
            return KINDS[fields["kind"]].from_fields(fields)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damage_error() from error


def _damage_error() -> SnapshotError:
    return _snapshot_error("TC505", "this router is damaged, or cut off", "make its bytes again")


def _snapshot_error(code: str, message: str, hint: str) -> SnapshotError:
    return SnapshotError(f"{code} {message}\n  hint: {hint}", code=code, hint=hint)


def _shards(values: Any, least: int = 0, most: int = SHARDS_MAX - 1) -> tuple[int, ...]:
    """Numbers from `least` to `most`, if they are."""
    if not isinstance(values, list):
        raise ValueError(f"no list of numbers: {values!r}")
    if not all(type(value) is int and least <= value <= most for value in values):
        raise ValueError(f"not all of these are numbers from {least} to {most}: {values!r}")
    return tuple(values)


def bucket_of(document: Bytes, count: int) -> int:
    """One of `count`, by the document's bytes: the same whenever it is asked, in any process."""
    return zlib.crc32(document) % count


@dataclass(frozen=True)
class Spread(Router):
    """Each document to one shard, all alike."""

    kind: ClassVar[str] = "spread"
    shards: int
    reads: bool = False

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Router."""
        return [(bucket_of(document, self.shards),) for document in documents]

    def to_fields(self) -> dict[str, Any]:
        """See Router."""
        return {"shards": self.shards}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Spread:
        """See Router."""
        (shards,) = _shards([fields["shards"]], 1, SHARDS_MAX)
        return cls(shards)


@dataclass(frozen=True)
class Everywhere(Router):
    """Each document to all shards."""

    kind: ClassVar[str] = "everywhere"
    shards: int
    reads: bool = False

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """See Router."""
        everywhere = tuple(range(self.shards))
        return [everywhere for _ in documents]

    def to_fields(self) -> dict[str, Any]:
        """See Router."""
        return {"shards": self.shards}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Everywhere:
        """See Router."""
        (shards,) = _shards([fields["shards"]], 1, SHARDS_MAX)
        return cls(shards)


@dataclass(frozen=True)
class ByRoot(Router):
    """Each document to one shard of those that serve its root's name, and to one of those that want every document."""

    kind: ClassVar[str] = "by-root"
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
        route = {
            shards[bucket_of(document, len(shards)) if len(shards) > 1 else 0]
            for shards in (self.clusters.get(name, ()), self.rest)
            if shards
        }
        return tuple(sorted(route))

    def to_fields(self) -> dict[str, Any]:
        """See Router."""
        return {"clusters": {name: list(shards) for name, shards in self.clusters.items()}, "rest": list(self.rest)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> ByRoot:
        """See Router."""
        clusters = fields["clusters"]
        if not isinstance(clusters, dict):
            raise ValueError("the clusters are no object")
        return cls({name: _shards(shards) for name, shards in clusters.items()}, _shards(fields["rest"]))


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
class ByFilters(Router):
    """Each document down a tree of coarse filters, to the shards at the ends of the branches that it passes.

    All filters of the tree are matched at once, by one index: a document is read once, whatever the number of levels.
    """

    kind: ClassVar[str] = "by-filters"
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
            routes += [None if row in bad else self._shards_of(numbers) for row, numbers in enumerate(lists)]
        return routes

    def _shards_of(self, numbers: list[str]) -> tuple[int, ...]:
        passed_filters = {int(number) for number in numbers}
        open_branches: list[bool] = []
        shards: set[int] = set()
        for branch in self.branches:  # parents come first
            here = (branch.parent < 0 or open_branches[branch.parent]) and not passed_filters.isdisjoint(branch.filters)
            open_branches.append(here)
            if here and branch.shard is not None:
                shards.add(branch.shard)
        return tuple(sorted(shards))

    def to_fields(self) -> dict[str, Any]:
        """See Router."""
        branches = [[branch.parent, sorted(branch.filters), branch.shard] for branch in self.branches]
        return {"filters": sorted(map(list, self.filters.items())), "branches": branches}

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> ByFilters:
        """See Router."""
        filters: dict[int, str] = {}
        for number, text in fields["filters"]:
            if type(number) is not int or number < 0 or not isinstance(text, str):
                raise ValueError(f"no filter: {number!r}, {text!r}")
            filters[number] = text
        branches: list[Branch] = []
        for parent, numbers, shard in fields["branches"]:
            # Parents come first, and a branch has filters of the router only.
            _shards([parent], -1, len(branches) - 1)
            if not filters.keys() >= set(numbers):
                raise ValueError(f"a branch has filters that are not there: {numbers!r}")
            branches.append(Branch(parent, frozenset(numbers), None if shard is None else _shards([shard])[0]))
        return cls(filters, tuple(branches))


KINDS: dict[str, type[Router]] = {kind.kind: kind for kind in (Spread, Everywhere, ByRoot, ByFilters)}
