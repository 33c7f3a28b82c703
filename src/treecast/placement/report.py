"""What a placement costs on given documents: fan-out, balance, false forwards, bytes moved.

>>> from treecast import Index
>>> from treecast.placement import FilterSharing, measure
>>> index, placement = Index(), FilterSharing(4)
>>> index.add("a", "/a"); placement.add("a", "/a") == placement.holders("a")
True
>>> report = measure(placement, index, [b"<a/>", b"<b/>"])
>>> report.fan_out, report.false_forwards, report.bytes_moved
(4.0, 0.875, 32)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from treecast.document import Bytes
from treecast.index import Index
from treecast.placement.placement import Placement


@dataclass(frozen=True)
class Report:
    """Measured over the documents that are well-formed."""

    placement: str
    shards: int
    documents: int
    fan_out: float
    """Shards that see a document, on average."""
    fan_out_max: int
    balance: float
    """Subscriptions of the fullest shard over the mean: 1 is even."""
    load_balance: float
    """Documents of the busiest shard over the mean: 1 is even."""
    false_forwards: float
    """Of all times that a shard sees a document, the share where nothing there matches."""
    bytes_moved: int
    """Bytes of documents, once for every shard that sees them."""
    subscriptions_held: int
    """Over all shards; one that several hold counts several times."""

    def describe(self) -> str:
        """A sentence for people."""
        return (
            f"{self.placement}: a document goes to {self.fan_out:.2f} of {self.shards} shards (at most "
            f"{self.fan_out_max}), {self.false_forwards:.1%} of that in vain; the fullest shard holds "
            f"{self.balance:.2f} and the busiest sees {self.load_balance:.2f} times the mean; "
            f"{self.bytes_moved / 1e6:.1f} MB moved."
        )


def measure(placement: Placement, index: Index, documents: Sequence[Bytes]) -> Report:
    """Route the documents and compare with what an index of all the subscriptions finds."""
    subscriptions_held: Counter[int] = Counter()
    for id in index.subscriptions().column("id").to_pylist():
        subscriptions_held.update(placement.holders(id))
    documents_seen: Counter[int] = Counter()
    fan_outs: list[int] = []
    vain = bytes_moved = 0
    for document, route in zip(documents, placement.route(documents), strict=True):
        part = index.match_part([document], report=True)
        if route is None or part.rejected:
            continue
        useful = {shard for id in part.matches[0].as_py() for shard in placement.holders(id)}
        fan_outs.append(len(route))
        documents_seen.update(route)
        vain += sum(shard not in useful for shard in route)
        bytes_moved += len(document) * len(route)
    return Report(
        placement.name,
        placement.shards,
        len(fan_outs),
        sum(fan_outs) / max(1, len(fan_outs)),
        max(fan_outs, default=0),
        _evenness(subscriptions_held, placement.shards),
        _evenness(documents_seen, placement.shards),
        vain / max(1, sum(fan_outs)),
        bytes_moved,
        subscriptions_held.total(),
    )


def _evenness(counts: Counter[int], shards: int) -> float:
    return max(counts.values(), default=0) * shards / max(1, counts.total()) if counts else 1.0
