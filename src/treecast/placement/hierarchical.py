"""Coarse covering filters above, exact ones at the leaves (X6): XTrie's hierarchy of routers.

Theory of operation. Subscriptions are divided step by step, so that a few coarse filters describe each part and most
documents concern few parts:

1. by the name of the root;
2. by sets of element names that rarely meet, which a schema gives, or a sample of documents, root by root;
3. by the rarest name that a query needs;
4. by the text of the query, where no name divides any further.

A part is divided as long as it is worth more than one shard: its worth is the number of its subscriptions times the
share of the documents that come there. Light parts share a shard.

Each leaf is guarded by an aggregate of what it holds (`aggregate`). So a document must pass one filter per level, and
then one of the leaf. Queries without a fixed root are a part that every document enters, if there are any; their leaves
are guarded as well.

Why root by root: some names are in all documents of a type. They meet all other names of that type, and would join its
kinds of documents into one set. Among the documents of one root they are left out, because most of these have them.

A router is one index of the filters of all levels. It matches them in one pass, and then walks the tree.

Later subscriptions go down the same divisions, to the part that their names lead to; one with a new name goes to the
lightest part. The guards of a leaf grow by what is new to them, up to twice `filters_max`; then they become coarser.

Source: XTrie, "Hierarchical XTrie". We differ: names are local names; levels are passed by matching, not by separate
machines; the third division is ours.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from treecast.document import Bytes, EntityTexts, Limits
from treecast.placement.aggregate import ANYTHING, Selectivity, generalisations, of_survey
from treecast.placement.dimension import allot
from treecast.placement.exclusive import exclusive_sets, name_sets
from treecast.placement.facts import Survey
from treecast.placement.filter_tree import Chain, FilterTree
from treecast.placement.group_placement import FilteredPlacement
from treecast.placement.root_name import root_name

DIVISIONS = ("root", "exclusive", "name", "text")
_OTHERS = ""  # the part of what has no such name


@dataclass
class _Part:
    """A branch of the tree and how it is divided: into parts by key, into parts by text, or not at all (a leaf)."""

    branch: int
    leaf: int = -1  # of a leaf: the branch below it, with its guards
    division: int = 0  # of DIVISIONS; a leaf has a shard instead
    shard: int | None = None
    parts: list[_Part] = field(default_factory=list)
    by_key: dict[str, int] = field(default_factory=dict)
    size: int = 0
    """How many subscriptions were ever sent there: what is lightest."""
    guards: dict[str, str] = field(default_factory=dict)
    """Of a leaf: for what a query is reduced to the filter that covers it."""


class Hierarchical(FilteredPlacement):
    """A tree of filters over shards, grown from the first subscriptions that are added.

    `documents` is a sample of what will come. `exclusive` are sets of element names that never meet, if a schema says
    so; otherwise they are found in the sample. `levels` is how many times subscriptions are divided, at most
    four: by root, by exclusive names, by single names, by text. `filters_max` bounds the guards of one leaf.
    """

    name = "hierarchical"

    def __init__(
        self,
        shards: int,
        *,
        documents: Sequence[Bytes] = (),
        exclusive: Sequence[Collection[str]] | None = None,
        levels: int = 4,
        filters_max: int = 32,
        namespaces: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        entities: EntityTexts = None,
    ) -> None:
        super().__init__(shards, namespaces)
        if not 1 <= levels <= len(DIVISIONS):
            raise ValueError(f"levels must be from 1 to {len(DIVISIONS)}, not {levels}")
        if filters_max < 1:
            raise ValueError(f"filters_max must be 1 or more, not {filters_max}")
        self._divisions = (*DIVISIONS[: levels - 1], "text") if levels < len(DIVISIONS) else DIVISIONS
        self._filters_max = filters_max
        self._tree = FilterTree(self._members, limits=limits, entities=entities)
        self._selectivity = Selectivity(documents, limits=limits, entities=entities)
        names_by_document = name_sets(self._selectivity.documents, limits=limits, entities=entities)
        roots = [root_name(document) or "" for document in self._selectivity.documents]
        self._documents = max(1, len(names_by_document))
        self._name_counts = Counter(name for names in names_by_document for name in names)
        self._root_counts = Counter(roots)
        self._set_counts: Counter[str] = Counter()  # documents, by set
        self._set_of: dict[str, dict[str, str]] = {}  # by root, or _OTHERS for any: the set of each name
        self._note_sets(
            _OTHERS, exclusive_sets(names_by_document) if exclusive is None else exclusive, names_by_document
        )
        for root in self._root_counts if exclusive is None else ():
            names_under_root = [
                names for names, own_root in zip(names_by_document, roots, strict=True) if own_root == root
            ]
            self._note_sets(root, exclusive_sets(names_under_root), names_under_root)
        self._top: _Part | None = None

    def _note_sets(
        self, root: str, sets: Sequence[Collection[str]], names_by_document: Sequence[frozenset[str]]
    ) -> None:
        if len(sets) < 2:  # one set divides nothing
            sets = ()
        self._set_of[root] = {}
        for number, names in enumerate(sets):
            key = f"{root} {number}"
            self._set_of[root] |= dict.fromkeys(names, key)
            self._set_counts[key] = sum(not document_names.isdisjoint(names) for document_names in names_by_document)

    # -- the interface

    def _enter(self, facts: Survey) -> None:
        if self._top is None and len(facts):
            self._top = self._grow(facts)
        self._tree.enter(facts.ids, [self._descend(facts, row) for row in range(len(facts))])

    def describe(self) -> str:
        """See Placement."""
        sizes = self._tree.shard_sizes()
        return (
            f"{len(self)} subscriptions on {len(+sizes)} of {self.shards} shards, divided by "
            f"{', '.join(self._divisions)} as far as needed; {self._tree.filters()} filters lead there, "
            f"with {len(self._set_counts)} sets of element names that rarely meet."
        )

    # -- growing

    def _grow(self, facts: Survey) -> _Part:
        self._free = 0  # the next shard
        top = _Part(-1)
        self._divide(facts, list(range(len(facts))), top, 0, self.shards)
        return top

    def _divide(self, facts: Survey, rows: list[int], part: _Part, division: int, shards: int) -> None:
        if shards == 1:
            self._end(facts, rows, part)
            return
        kind = self._divisions[division]
        part.division = division
        if kind == "text":
            for number in range(shards):
                group = [row for row in rows if zlib.crc32(facts.queries[row].encode()) % shards == number]
                part.parts.append(_Part(part.branch))
                self._end(facts, group, part.parts[-1])
            return
        rows_by_key: dict[str, list[int]] = {}
        for row in rows:
            rows_by_key.setdefault(self._key(kind, facts, row), []).append(row)
        loads = {key: len(group) * self._frequency(kind, key) for key, group in rows_by_key.items()}
        for keys, count in allot(loads, shards):
            child = _Part(self._tree.branch(part.branch))
            part.by_key |= dict.fromkeys(keys, len(part.parts))
            part.parts.append(child)
            self._divide(facts, [row for key in keys for row in rows_by_key[key]], child, division + 1, count)

    def _end(self, facts: Survey, rows: list[int], part: _Part) -> None:
        part.shard = self._free
        self._free += 1
        part.leaf = self._tree.branch(part.branch, shard=part.shard)
        part.guards = of_survey(facts, rows, self._selectivity, self._filters_max)

    # -- going down

    def _descend(self, facts: Survey, row: int) -> Chain:
        part = self._top
        assert part is not None
        uses: list[tuple[int, str]] = []
        while part.shard is None:
            kind = self._divisions[part.division]
            if kind == "text":
                part = part.parts[zlib.crc32(facts.queries[row].encode()) % len(part.parts)]
                continue
            key = self._key(kind, facts, row)
            place = part.by_key.get(key)
            if place is None:
                place = part.by_key[key] = self._lightest(part)
            part = part.parts[place]
            uses.append((part.branch, self._filter(kind, facts, row)))
            part.size += 1
        for text in facts.covers_of(row):
            uses.append((part.leaf, self._guard(part, text)))
        return Chain(part.shard, tuple(dict.fromkeys(uses)))

    def _lightest(self, part: _Part) -> int:
        """Where a new key goes."""
        return min(range(len(part.parts)), key=lambda number: (part.parts[number].size, number))

    def _guard(self, leaf: _Part, path: str) -> str:
        guard = leaf.guards.get(path)
        if guard is not None:
            return guard
        there = self._tree.filters_of(leaf.leaf)
        options = generalisations(path)
        fitting = next((text for text in options if text in there), None)
        if fitting is None:
            # While there is room the exact path; then the shortest prefix; at last what lets everything pass.
            room = len(there) - self._filters_max
            fitting = path if room < 0 else options[-1] if room >= self._filters_max else _shortest(options)
        return fitting

    # -- names

    def _key(self, kind: str, facts: Survey, row: int) -> str:
        if kind == "root":
            return facts.root(row) or _OTHERS
        name = self._rarest(kind, facts, row)
        if name is None:
            return _OTHERS
        return self._sets(facts, row)[name] if kind == "exclusive" else name

    def _filter(self, kind: str, facts: Survey, row: int) -> str:
        """What covers a query, in the division by `kind`. One without a root or such a name may want any document."""
        name = facts.root(row) if kind == "root" else self._rarest(kind, facts, row)
        if name is None:
            return ANYTHING
        return f"{'/' if kind == 'root' else '//'}*[local-name() = '{name}']"

    def _rarest(self, kind: str, facts: Survey, row: int) -> str | None:
        """Of the names that the query needs, the one that the fewest documents have."""
        names = facts.required(row)
        if kind == "exclusive":
            sets = self._sets(facts, row)
            names = tuple(name for name in names if name in sets)
        return min(names, key=lambda name: (self._name_counts[name], name), default=None)

    def _sets(self, facts: Survey, row: int) -> Mapping[str, str]:
        """The sets that hold where the query can match: those of its root, if any were noted for that."""
        return self._set_of.get(facts.root(row) or _OTHERS, self._set_of[_OTHERS])

    def _frequency(self, kind: str, key: str) -> float:
        """The share of the documents that come to a part, never quite nothing."""
        if key == _OTHERS or not self._selectivity.documents:
            return 1.0
        counts: dict[str, Counter[str]] = {
            "root": self._root_counts,
            "exclusive": self._set_counts,
            "name": self._name_counts,
        }
        return (counts[kind][key] + 0.5) / (self._documents + 1)


def _shortest(options: list[str]) -> str:
    return min(options[:-1], key=len, default=ANYTHING)
