"""A placement on Spark: the subscriptions divided into shards, one index each, and documents sent to them.

The plan: an Arrow function gives for each document the shards that must see it. Spark explodes that and brings the rows
of a shard together in one task. A second function matches them with the index of that shard. The document crosses a
shuffle, once per shard that must see it, with all its other columns. That pays only where the whole index is too large
for a worker (docs/guide/placements.md).

The first shard of a document is its *reporter*: where the document turns out to be bad, that row alone says so. A
document that no shard wants is read by the router, or, if that does not read whole documents, by one of the shards: no
bad one goes unseen.

Codes: TC709 a placement of other subscriptions.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treecast.catalog.changes import compare, rows_of
from treecast.document import Bytes
from treecast.errors import PipelineError
from treecast.index import Index
from treecast.placement import ByFilters, DataSharing, FilterSharing, Hierarchical, Pep, Placement, RootTag, Router
from treecast.placement.auto import WORKER_BYTES_MAX, choose, index_bytes
from treecast.placement.placement import check_shards
from treecast.spark.batch.ship import give_back, ship
from treecast.spark.batch.worker import Ticket

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MAKERS: dict[str, Callable[[int], Placement]] = {
    "data-sharing": DataSharing,
    "filter-sharing": FilterSharing,
    "hierarchical": Hierarchical,
    "pep": Pep,
    "root-tag": RootTag,
}
NAMES = (*MAKERS, "auto")
SHARDS_MAX = 1024
GROWTH_MAX = 4  # times as many subscriptions as a layout was made for: then a new one is made
LAYOUT_SIZE_MIN = 1_000  # fewer are not worth it


@dataclass(frozen=True)
class ShardTickets:
    """How workers find the shards that are on the executors: what the two functions of the plan need, plain values."""

    count: int
    router: bytes
    """What Router.to_bytes() wrote: it is without its index."""
    router_ticket: tuple[Any, ...] | None
    """Of the index of the router's filters, if it has one."""
    tickets: tuple[tuple[Any, ...], ...]
    """Of the index of each shard; shards that hold the same have the same."""


def check(placement: object) -> None:
    """Raise unless it is a placement, or the name of one."""
    if isinstance(placement, str):
        if placement not in NAMES:
            raise ValueError(
                f"placement must be {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}, not {placement!r}"
            )
    elif not all(hasattr(placement, name) for name in ("holders", "router", "shards", "add_many")):
        raise TypeError(f"placement is a name or a Placement, not {type(placement).__name__}")


class SparkPlacement:
    """A placement for a job, and its shards on the executors. It follows a set that changes.

    Each set after the first is compared with the one before: the placement gets what is new, changed or removed, and
    only the shards that this concerns are built again.
    """

    def __init__(self, placement: str | Placement, shards: int | None, cache_bytes_max: int) -> None:
        check(placement)
        if not isinstance(placement, str) and shards is not None and shards != placement.shards:
            raise ValueError(f"the placement has {placement.shards} shards already, not {shards}")
        if shards is not None:
            check_shards(shards, SHARDS_MAX)
        self.why = ""
        """Of "auto": why it chose what it chose."""
        self.cache_bytes_max = cache_bytes_max
        self._requested, self._shards = placement, shards
        self._asker = object()  # who asks for what is shipped
        self._placement: Placement | None = None if isinstance(placement, str) else placement
        self._layout_size = 0  # for how many subscriptions it was made
        self._rows: pa.Table | None = None  # the set that is placed, as treecast.catalog.changes writes it
        self._tickets: dict[tuple[int, ...], tuple[Any, ...]] = {}
        self._filters: tuple[Mapping[int, str], tuple[Any, ...]] | None = None

    @property
    def everywhere(self) -> bool:
        """Whether each worker is to hold all subscriptions, whatever they are."""
        return self._requested == "data-sharing"

    def check_empty(self) -> None:
        """Raise where it is a placement with subscriptions: those of a stream are not known yet."""
        if self._placement is not None and len(self._placement):
            raise PipelineError(
                f"the placement has {len(self._placement)} subscriptions already",
                code="TC709",
                hint="give a stream an empty one: the stream adds its subscriptions",
            )

    def ship(
        self, session: SparkSession, index: Index, sample: Callable[[], Sequence[Bytes]], *, lasting: bool = True
    ) -> ShardTickets | None:
        """Divide the subscriptions of an index, and make each part available to all executors.

        None: each worker holds all of them. `sample` gives documents to placements that need them. What is not
        `lasting` is withdrawn when the next set is shipped.
        """
        placement = self._choose(session, index, sample)
        if placement.name == "data-sharing":
            return None
        table = index.subscriptions()
        touched_holders = None if lasting else self._follow(placement, table)
        if not len(placement):
            placement.add_many(table)
        parts = divide(placement, table.column("id").to_pylist())
        asker = None if lasting else self._asker
        for holders, rows in parts.items():
            if touched_holders is None or holders in touched_holders or holders not in self._tickets:
                self._tickets[holders] = self._ship_index(session, index.part(table.take(rows)), asker)
        tickets: list[tuple[Any, ...]] = [()] * placement.shards
        for holders in parts:
            for shard in holders:
                tickets[shard] = self._tickets[holders]
        if not all(tickets):  # a shard that holds nothing: any document that comes there is only read
            empty = self._ship_index(session, index.part([]), asker)
            tickets = [ticket or empty for ticket in tickets]
        router, router_ticket = self._router(session, placement.router(), index, asker)
        if not lasting:
            used_tickets = {*tickets, *([router_ticket] if router_ticket else [])}
            give_back(session, self._asker, {Ticket(*ticket).file for ticket in used_tickets})
        return ShardTickets(placement.shards, router.to_bytes(), router_ticket, tuple(tickets))

    def close(self) -> None:
        """Release the placement and its index after a stream: py4j keeps forever what Spark has called."""
        self._placement, self._rows = None, None

    def _choose(self, session: SparkSession, index: Index, sample: Callable[[], Sequence[Bytes]]) -> Placement:
        """The placement; one given by name has `shards` shards, or as many as the session has shuffle partitions.

        What "auto" chose stays, except data-sharing without enough room, and as long as the set does not outgrow it.
        """
        if self._is_outgrown(len(index)):
            self._placement, self._rows = None, None
        if self._placement is not None and (self._requested != "auto" or self._placement.name != "data-sharing"):
            return self._placement
        shards = self._shards or min(SHARDS_MAX, int(session.conf.get("spark.sql.shuffle.partitions") or 1))
        if self._requested != "auto":
            assert isinstance(self._requested, str)
            self._placement, self._layout_size = MAKERS[self._requested](shards), len(index)
            return self._placement
        bytes_needed = index_bytes(index, self.cache_bytes_max)
        room = worker_bytes(session.conf.get("spark.executor.pyspark.memory", "") or "")
        if self._placement is not None and bytes_needed <= room:
            return self._placement
        documents = () if bytes_needed <= room else sample()
        choice = choose(
            index.subscriptions(), shards, index_bytes=bytes_needed, worker_bytes_max=room, documents=documents
        )
        logging.getLogger("treecast").info("placement: %s", choice.why)
        self._placement, self.why, self._rows, self._layout_size = choice.placement, choice.why, None, len(index)
        return self._placement

    def _is_outgrown(self, count: int) -> bool:
        """Whether the layout was made for far fewer. A Pep says itself when it is unbalanced; a given one stays."""
        if not isinstance(self._requested, str) or self._placement is None or isinstance(self._placement, Pep):
            return False
        return count > GROWTH_MAX * max(LAYOUT_SIZE_MIN, self._layout_size)

    def _follow(self, placement: Placement, table: pa.Table) -> set[tuple[int, ...]] | None:
        """Make the placement hold this set; the answer is the holders of what is new or gone, None for all."""
        import pyarrow.compute as pc

        rows, _ = rows_of(table)
        before, self._rows = self._rows, rows
        if before is None:
            return None
        places, is_same, removed_rows = compare(before, rows)
        is_different = pc.invert(is_same)
        is_changed = pc.and_(is_different, pc.is_valid(places))
        leaving = [*removed_rows.column("id").to_pylist(), *rows.filter(is_changed).column("id").to_pylist()]
        touched_holders = {placement.remove(id) for id in leaving}
        coming = table.filter(is_different)
        placement.add_many(coming)
        touched_holders |= {placement.holders(id) for id in coming.column("id").to_pylist()}
        if isinstance(placement, Pep) and placement.unbalanced:
            placement.rebalance(table)
            return None
        return touched_holders

    def _router(
        self, session: SparkSession, router: Router, index: Index, asker: object
    ) -> tuple[Router, tuple[Any, ...] | None]:
        """The router without its index, which travels by itself."""
        if not isinstance(router, ByFilters):
            return router, None
        if self._filters is None or self._filters[0] != router.filters:
            # A new index: which documents are accepted is one of its settings.
            filters = index.part([(str(number), text) for number, text in router.filters.items()], engine="auto")
            self._filters = dict(router.filters), self._ship_index(session, filters, asker)
        return router.unbound(), self._filters[1]

    def _ship_index(self, session: SparkSession, index: Index, asker: object) -> tuple[Any, ...]:
        return tuple(ship(session, index, cache_bytes_max=self.cache_bytes_max, asker=asker))


def worker_bytes(setting: str) -> int:
    """The memory for Python workers of an executor, from Spark's setting; a guess where it is not set."""
    size = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", setting.lower())
    if size is None:
        return WORKER_BYTES_MAX
    # A number without a unit is in mebibytes.
    return int(size[1]) << {"k": 10, "": 20, "m": 20, "g": 30, "t": 40}[size[2]]


def divide(placement: Placement, ids: Sequence[str]) -> dict[tuple[int, ...], list[int]]:
    """The rows of these ids by the shards that hold them. Raises unless the placement holds exactly these."""
    parts: dict[tuple[int, ...], list[int]] = {}
    try:
        for row, id in enumerate(ids):
            parts.setdefault(placement.holders(id), []).append(row)
    except KeyError as error:
        raise _other_set(f"the placement does not know all of the subscriptions: {error.args[0]}") from None
    if len(placement) != len(ids):
        raise _other_set(f"the placement has {len(placement)} subscriptions, match() was given {len(ids)}")
    return parts


def _other_set(message: str) -> PipelineError:
    return PipelineError(
        message, code="TC709", hint="give match() a placement of the same subscriptions, or an empty one"
    )
