"""Root tags first, then shared documents (X7): XTrie's combination of the hierarchical and the data-sharing strategy.

Theory of operation. A query that starts with `/name` matches documents with that root only. So the names divide queries
into clusters, and a document belongs to one of them; which one is read from its first tag, without parsing the rest. A
cluster has as many shards as its share of the load is worth, and all of them hold the same; a document goes to one of
them. Light clusters share a shard. Queries without a root of their own (`//…`, `/*…`, unions of different roots) form a
cluster that every document visits as well. So a document goes to one shard, or to two where there are such queries.

Source: XTrie, "Hierarchical Strategy", last paragraph. We differ: clusters go by the local name, so that namespaces
need not be resolved; queries without a root have a cluster; a new root goes to the lightest shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from treecast.document import Bytes
from treecast.placement.dimension import allot
from treecast.placement.facts import Survey
from treecast.placement.group_placement import GroupPlacement
from treecast.placement.root_name import root_name
from treecast.placement.router import ByRoot, Router

_REST = ""  # no element is called so


class RootTag(GroupPlacement):
    """Clusters by the root's name, each on as many shards as its documents and queries are worth.

    `documents` (a sample) or `frequencies` (root name -> share of the documents) say how often each root comes; without
    them all are taken to be alike. The first add_many decides the clusters.
    """

    name = "root-tag"

    def __init__(
        self,
        shards: int,
        *,
        documents: Sequence[Bytes] = (),
        frequencies: Mapping[str, float] | None = None,
        namespaces: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(shards, namespaces)
        self._frequencies = dict(frequencies) if frequencies is not None else root_frequencies(documents)
        self._clusters: list[tuple[int, ...]] = []  # the shards of each
        self._cluster_of: dict[str, int] = {}

    def _enter(self, facts: Survey) -> None:
        roots = [facts.root(row) or _REST for row in range(len(facts))]
        if not self._clusters and roots:
            self._lay_out(Counter(roots))
        self._members.enter(facts.ids, [self._cluster(root) for root in roots])

    def _shards_of(self, group: int) -> tuple[int, ...]:
        return self._clusters[group]

    def router(self) -> Router:
        """See Placement."""
        sizes = self._members.sizes
        clusters = {root: self._clusters[number] for root, number in self._cluster_of.items() if sizes[number] > 0}
        rest = clusters.pop(_REST, ())
        return ByRoot(clusters, rest)

    def describe(self) -> str:
        """See Placement."""
        rest = self._members.sizes[self._cluster_of[_REST]] if self._cluster_of else 0
        several = sum(len(shards) > 1 for shards in self._clusters)
        names = max(0, len(self._cluster_of) - 1)
        return (
            f"{len(self)} subscriptions by {names} root names in {len(self._clusters)} clusters "
            f"on {self.shards} shards, {several} of them on more than one; "
            f"{rest} subscriptions are held where every document comes."
        )

    def _lay_out(self, counts: Counter[str]) -> None:
        """Lay out the clusters. Queries without a root never share a cluster with those of a root."""
        counts = counts + Counter({_REST: 1})
        unseen = min(self._frequencies.values(), default=1.0)
        loads = {
            root: count * (1.0 if root == _REST else self._frequencies.get(root, unseen))
            for root, count in counts.items()
        }
        rest = loads.pop(_REST)
        if self.shards == 1:
            groups: list[tuple[tuple[str, ...], int]] = [(tuple(loads), 1)] if loads else []
            rest_shards = 1
        else:
            total = rest + sum(loads.values())
            rest_share = round(rest * self.shards / total) if loads else self.shards
            rest_shards = max(1, min(self.shards - (1 if loads else 0), rest_share))
            groups = allot(loads, self.shards - rest_shards)
        first = 0
        for roots, count in groups:
            self._cluster_of |= dict.fromkeys(roots, len(self._clusters))
            self._clusters.append(tuple(range(first, first + count)))
            first += count
        self._cluster_of[_REST] = len(self._clusters)
        self._clusters.append(tuple(range(first, first + rest_shards)) if self.shards > 1 else (0,))

    def _cluster(self, root: str) -> int:
        cluster = self._cluster_of.get(root)
        if cluster is None:
            candidates = [number for number in range(len(self._clusters)) if number != self._cluster_of[_REST]]
            sizes = self._members.sizes
            cluster = min(candidates, key=lambda n: (sizes[n] / len(self._clusters[n]), n), default=None)
            if cluster is None:  # the first root of all; where there is no shard but that of the rest, it joins it
                cluster = self._cluster_of[_REST]
            self._cluster_of[root] = cluster
        return cluster


def root_frequencies(documents: Sequence[Bytes]) -> dict[str, float]:
    """The share of the documents that each root name has; documents that are none do not count."""
    counts = Counter(name for document in documents if (name := root_name(document)) is not None)
    return {name: count / counts.total() for name, count in counts.items()}
