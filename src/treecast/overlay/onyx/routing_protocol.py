"""What trees and wants ask of routing: tables of targets, and queries that choose among them.

`treecast.overlay.onyx.routing` has them, and `path_routing.py` puts them together. A simulation may have others, which
are right by their simplicity, or wrong on purpose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from treecast import _native
from treecast.document import AnyDocument, Document
from treecast.index import Index
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.routes import Routes
from treecast.wire import Codec

LOCAL = ""
"""The target of a routing table that stands for the broker's own subscriptions. No broker has an empty name."""


class RoutingQuery(Protocol):
    """What somebody wants, relaxed so that links can be chosen by it."""

    def encode(self) -> bytes: ...


class Delta(Protocol):
    """How an aggregate has changed."""

    @property
    def added(self) -> Any: ...
    @property
    def removed(self) -> Any: ...
    def __bool__(self) -> bool: ...


class RoutingTable(Protocol):
    """Targets and what each of them wants; see `treecast.overlay.onyx.routing`."""

    def update(self, target: str, added: Any, removed: Any) -> Delta: ...
    def update_many(self, target: str, added: Any, removed: Any) -> Delta: ...
    def replace(self, target: str, query: Any) -> Delta: ...
    def drop(self, target: str) -> Delta: ...
    def refine(self) -> Delta: ...
    def aggregate(self) -> Any: ...
    def learn(self, documents: Sequence[AnyDocument]) -> None: ...
    def learn_parcels(self, codec: Codec, parcels: Parcels) -> None: ...
    def route(self, documents: Sequence[AnyDocument], enough: Collection[str] = ()) -> list[tuple[str, ...]]: ...
    def route_forms(
        self, codec: Codec, bodies: Sequence[bytes], enough: Collection[str], needed: Collection[str]
    ) -> tuple[list[tuple[str, ...]], Sequence[Document | None]] | None: ...
    def route_parcels(
        self, codec: Codec, parcels: Parcels, enough: Collection[str], kept: str, own: Index | None
    ) -> Routes | None: ...
    def publish(
        self, index: Index, codec: Codec, texts: Sequence[bytes], enough: Collection[str]
    ) -> tuple[_native.DeliveryBatch, _native.PublishedForms, Routes] | None: ...


class Own(Protocol):
    """What a broker's own subscriptions want: the same for all its trees."""

    @property
    def table(self) -> RoutingTable: ...
    @property
    def is_loaded(self) -> bool: ...
    def encoded(self) -> bytes: ...  # the aggregate


class Routing(Protocol):
    """Makes tables and queries. A simulation may plant a bug here."""

    def table(self) -> RoutingTable: ...
    def root_table(self) -> RoutingTable:
        """One whose aggregate nobody is told."""

    def map(self, subscription: Any) -> Any: ...
    def empty(self) -> Any: ...
    def decode(self, data: bytes) -> Any: ...
    def difference(self, before: Any, after: Any) -> Delta: ...
    def parts(self, queries: Iterable[Any]) -> list[Any]:
        """What `update_many` takes for many queries at once."""
