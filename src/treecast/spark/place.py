"""A placement on Spark: the subscriptions divided into shards, each an index of its own, and documents sent to them.

The plan: an Arrow function tells for each document the shards that must see it; Spark explodes that, brings the rows of
a shard together in one task, and a second function matches them with the index of that shard. The document crosses a
shuffle, once per shard that must see it, with all the columns beside it: that pays where the whole index is too large
for a worker, and only there (docs/guide/placements.md).

The first shard of a document is its *reporter*: where the document turns out to be bad, that row alone says so. A
document that no shard wants is read by the router, or, if that does not read whole documents, by shard 0: no bad one
goes unseen.

Codes: TC709 a placement of other subscriptions.
"""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treecast.errors import PipelineError
from treecast.index import Index
from treecast.placement import ByFilters, DataSharing, FilterSharing, Hierarchical, Pep, Placement, RootTag
from treecast.placement.auto import WORKER_BYTES_MAX, choose, index_bytes
from treecast.spark.ship import ship

if TYPE_CHECKING:
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


@dataclass(frozen=True)
class Shipped:
    """What the two functions of the plan need, as plain values that travel."""

    shards: int
    router: bytes
    """A pickled Router, without its index."""
    router_ticket: tuple[Any, ...] | None
    """Of the index of the router's filters, if it has one."""
    tickets: tuple[tuple[Any, ...], ...]
    """Of the index of each shard; shards that hold the same have the same."""


def check(placement: object) -> None:
    """Raise unless it is the name of a placement, or one."""
    if isinstance(placement, str):
        if placement not in NAMES:
            raise ValueError(
                f"placement must be {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}, not {placement!r}"
            )
    elif not all(hasattr(placement, name) for name in ("holders", "router", "shards", "add_many")):
        raise TypeError(f"placement is a name or a Placement, not {type(placement).__name__}")


def make(
    placement: str | Placement, session: SparkSession, shards: int | None, index: Index, cache_bytes_max: int
) -> Placement:
    """The placement that is meant; by name with so many shards, or as many as the session has shuffle partitions."""
    if not isinstance(placement, str):
        if shards is not None and shards != placement.shards:
            raise ValueError(f"the placement has {placement.shards} shards already, not {shards}")
        return placement
    if shards is None:
        shards = min(SHARDS_MAX, int(session.conf.get("spark.sql.shuffle.partitions") or 1))
    if not 1 <= shards <= SHARDS_MAX:
        raise ValueError(f"shards must be from 1 to {SHARDS_MAX}, not {shards}")
    if placement != "auto":
        return MAKERS[placement](shards)
    choice = choose(
        index.subscriptions(),
        shards,
        index_bytes=index_bytes(index, cache_bytes_max),
        worker_bytes_max=worker_bytes(session.conf.get("spark.executor.pyspark.memory", "") or ""),
    )
    logging.getLogger("treecast").info("placement: %s", choice.why)
    return choice.placement


def worker_bytes(given: str) -> int:
    """What the cluster gives the Python workers of an executor, as Spark writes it; where nothing is given, a guess."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", given.lower())
    if found is None:
        return WORKER_BYTES_MAX
    # A number without a unit is in mebibytes.
    return int(found[1]) << {"k": 10, "": 20, "m": 20, "g": 30, "t": 40}[found[2]]


def ship_shards(session: SparkSession, placement: Placement, index: Index, cache_bytes_max: int) -> Shipped:
    """Divide the subscriptions of an index by the placement, and make each part available to all executors."""
    table = index.subscriptions()
    if not len(placement):
        placement.add_many(table)
    parts = divide(placement, table.column("id").to_pylist())
    tickets: list[tuple[Any, ...]] = [()] * placement.shards
    for holders, rows in parts.items():
        ticket = tuple(ship(session, index.part(table.take(rows)), cache_bytes_max=cache_bytes_max))
        for shard in holders:
            tickets[shard] = ticket
    router = placement.router()
    router_ticket = None
    if isinstance(router, ByFilters):
        # Made anew: which documents are accepted is a setting of the index.
        filters = index.part([(str(number), text) for number, text in router.filters.items()], engine="auto")
        router_ticket = tuple(ship(session, filters, cache_bytes_max=cache_bytes_max))
        router = router.unbound()
    if not all(tickets):  # a shard that holds nothing: any document that comes there is only read
        empty = tuple(ship(session, index.part([]), cache_bytes_max=cache_bytes_max))
        tickets = [ticket or empty for ticket in tickets]
    return Shipped(placement.shards, pickle.dumps(router), router_ticket, tuple(tickets))


def divide(placement: Placement, ids: Sequence[str]) -> dict[tuple[int, ...], list[int]]:
    """The rows of these ids by the shards that hold them. Raises unless the placement has placed just these."""
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
