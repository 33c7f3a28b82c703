"""Sets of element names that rarely meet in one document, found by looking at documents.

    >>> sets = exclusive_sets([{"a", "b", "r"}, {"c", "r"}, {"a", "b", "r"}, {"c", "d", "r"}])
    >>> sorted(sorted(names) for names in sets)
    [['a', 'b'], ['c', 'd']]

Two names belong together if they meet more often than `meeting_max` of the documents that have the rarer one. Names
that most documents have divide nothing, and are left out. Where the schema is known, its owner can do better:
placements take such sets as they are given.

Source: XTrie, "Clustering XPath expressions".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from treecast.document import Bytes, EntityTexts, Limits, read
from treecast.errors import DocumentError

NAMES_MAX = 400  # of one document that are compared with each other


def name_sets(
    documents: Iterable[Bytes], *, limits: Limits | None = None, entities: EntityTexts = None
) -> list[frozenset[str]]:
    """The local names of the elements of each document; bad documents are left out."""
    sets = []
    for document in documents:
        try:
            names = read(document, limits=limits, entities=entities).names
        except DocumentError:
            continue
        sets.append(frozenset(local for _, local in names))
    return sets


def exclusive_sets(
    documents: Sequence[Collection[str]], *, meeting_max: float = 0.1, common_min: float = 0.5
) -> list[frozenset[str]]:
    """Names that belong together, apart from those of other sets, which they rarely meet; most documents first."""
    counts = Counter(name for names in documents for name in set(names))
    telling = {name for name, count in counts.items() if count <= common_min * len(documents)}
    meetings: Counter[tuple[str, str]] = Counter()
    for names in documents:
        meetings.update(combinations(sorted(telling & set(names))[:NAMES_MAX], 2))
    leader = {name: name for name in telling}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for (a, b), count in meetings.items():
        if count > meeting_max * min(counts[a], counts[b]):
            leader[find(a)] = find(b)
    groups: dict[str, set[str]] = {}
    for name in telling:
        groups.setdefault(find(name), set()).add(name)
    return sorted((frozenset(group) for group in groups.values()), key=lambda g: (-sum(counts[n] for n in g), min(g)))
