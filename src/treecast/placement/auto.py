"""Choose a placement from the subscriptions, the documents and the cluster, and say why.

What decides first is room: as long as a worker can hold the whole index, data-sharing is the best there is, because no
document is read twice or moved. Where it cannot, the question is what divides the subscriptions so that a document
concerns few parts: roots, values, or names. Where nothing does, the filters are shared, and every shard sees
everything.

The bound of 5 on the fan-out is XTrie's: above it, its authors found sharing everything to be the better half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treecast.document import Bytes, EntityTexts, Limits
from treecast.index import Index
from treecast.placement.facts import survey
from treecast.placement.hierarchical import Hierarchical
from treecast.placement.pep import Pep
from treecast.placement.placement import Placement
from treecast.placement.root_tag import RootTag
from treecast.placement.sharing import DataSharing, FilterSharing

if TYPE_CHECKING:
    from treecast.placement.facts import Subscriptions

WORKER_BYTES_MAX = 2 << 30
ROOTED_MIN = 0.8
COVERED_MIN = 0.8
FAN_OUT_MAX = 5.0


@dataclass(frozen=True)
class Choice:
    """A placement with the subscriptions in it, and the reason for it."""

    placement: Placement
    why: str


def choose(
    subscriptions: Subscriptions,
    shards: int,
    *,
    index_bytes: int,
    worker_bytes_max: int = WORKER_BYTES_MAX,
    documents: Sequence[Bytes] = (),
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
) -> Choice:
    """The placement for these subscriptions on so many shards.

    `index_bytes` is what an index of all of them takes (`Index.stats().bytes`, with room for its caches), and
    `worker_bytes_max` what a worker has for it. A sample of `documents` makes the choice a better one.
    """
    rows: Subscriptions = subscriptions if hasattr(subscriptions, "schema") else list(subscriptions)
    settings = {"namespaces": namespaces, "limits": limits, "entities": entities}
    if index_bytes <= worker_bytes_max:
        room = f"the index takes {_size(index_bytes)}, a worker has {_size(worker_bytes_max)} for it"
        return _with_subscriptions(
            DataSharing(shards, namespaces=namespaces),
            rows,
            f"data-sharing: {room}, so each holds everything and no document moves",
        )
    short = f"the index takes {_size(index_bytes)}, more than the {_size(worker_bytes_max)} of a worker"
    if shards == 1:
        return _with_subscriptions(
            FilterSharing(1, namespaces=namespaces), rows, f"filter-sharing: {short}, and there is only one shard"
        )
    facts = survey(rows, namespaces)
    roots = Counter(facts.root(row) for row in range(len(facts)))
    rooted_share = 1 - roots[None] / max(1, len(facts))
    largest_share = max((count for root, count in roots.items() if root is not None), default=0) / max(1, len(facts))
    if rooted_share >= ROOTED_MIN and len(roots) > 2 and largest_share * index_bytes <= worker_bytes_max:
        names = len(roots) - (None in roots)
        why = f"{rooted_share:.0%} of the subscriptions name one of {names} roots, the largest {largest_share:.0%}"
        return _with_subscriptions(
            RootTag(shards, documents=documents, namespaces=namespaces),
            rows,
            f"root-tag: {short}; {why}, so the first tag of a document says where it goes",
        )
    paired_share = sum(bool(facts.pairs(row)) for row in range(len(facts))) / max(1, len(facts))
    if paired_share >= COVERED_MIN:
        pep = Pep(shards, documents=documents, **settings)  # type: ignore[arg-type]
        pep.add_many(rows)
        if pep.uncovered <= 1 - COVERED_MIN:
            things = ", ".join(pattern.path for pattern in pep.patterns[:3]) + (", …" if len(pep.patterns) > 3 else "")
            why = f"{1 - pep.uncovered:.0%} of the subscriptions compare {things} with a value"
            return Choice(pep, f"pep: {short}; {why}, so their values say where documents go")
    return _by_names(rows, shards, short, documents, lambda: Hierarchical(shards, documents=documents, **settings))  # type: ignore[arg-type]


def _by_names(
    rows: Subscriptions, shards: int, short: str, documents: Sequence[Bytes], make: Callable[[], Placement]
) -> Choice:
    placement = make()
    placement.add_many(rows)
    routes = [route for route in placement.route(documents) if route is not None]
    fan_out = sum(map(len, routes)) / len(routes) if routes else 0.0
    if not routes:
        return Choice(placement, f"hierarchical: {short}; without a sample of documents names are the best guess")
    if fan_out <= max(FAN_OUT_MAX, shards / 2):
        why = f"its filters send a document to {fan_out:.1f} of {shards} shards on average"
        return Choice(placement, f"hierarchical: {short}; {why}")
    why = f"filters above them would still send a document to {fan_out:.1f} of {shards} shards"
    return _with_subscriptions(
        FilterSharing(shards), rows, f"filter-sharing: {short}; {why}, so they would cost more than they save"
    )


def _with_subscriptions(placement: Placement, rows: Subscriptions, why: str) -> Choice:
    placement.add_many(rows)
    return Choice(placement, why)


def index_bytes(index: Index, cache_bytes_max: int) -> int:
    """What an index takes in a worker, its cache as full as it may be but not more than four times the rest."""
    own = index.stats().bytes
    return own + min(cache_bytes_max, 4 * own)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GB" if count >= 1 << 29 else f"{count / (1 << 20):.1f} MB"
