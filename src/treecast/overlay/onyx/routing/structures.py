"""Which structures cover which, among many that come and go: an index answers, instead of a look at every pair.

A *structure* is a conjunction without tests. Whatever covers it matches its document (`structure_document`), so one
match of that document in an index of all structures gives everything that may cover it; and the documents of all
structures, matched with a new one, give what that may cover. Both are candidates: `covers` has the last word.

    >>> structures = Structures()
    >>> structures.add([(("/a",),), (("//c",),), (("/b",),)])
    >>> structures.above([(("/a", "/c"),)])
    [[(('/a',),), (('//c',),)]]
    >>> structures.below([(("/*", "//*"),)])
    [[(('//c',),)]]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treecast.index import Index
from treecast.model import Subscription
from treecast.overlay.onyx.routing.covering import split, structure_document
from treecast.overlay.onyx.routing.routing_query import Conjunction, is_plain, write_query


class Structures:
    """Structures, each once."""

    def __init__(self, *, seed: int | None = None) -> None:
        self._seed = seed
        self._index = Index(seed=seed)
        self._numbers: dict[Conjunction, str] = {}
        self._structures: dict[str, Conjunction] = {}
        self._documents: dict[Conjunction, bytes] = {}
        self._holding: dict[str, dict[Conjunction, None]] = {}  # the name of an element -> the structures that have it
        self._next = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, structure: Conjunction) -> bool:
        return structure in self._numbers

    def add(self, structures: Iterable[Conjunction]) -> None:
        """Add structures that are not there yet; raises QueryError, and adds none, if one cannot be a query."""
        rows: list[Subscription] = []
        added: list[tuple[str, Conjunction]] = []
        for structure in structures:
            number = str(self._next)
            self._next += 1
            text, namespaces = write_query(structure)
            rows.append(Subscription(number, text, namespaces))
            added.append((number, structure))
        self._index.add_many(rows)
        for number, structure in added:
            self._numbers[structure] = number
            self._structures[number] = structure
            self._documents[structure] = structure_document(structure)
            for name in _names(structure):
                self._holding.setdefault(name, {})[structure] = None

    def remove(self, structures: Iterable[Conjunction]) -> None:
        """Remove structures that are there."""
        numbers: list[str] = []
        for structure in structures:
            number = self._numbers.pop(structure)
            numbers.append(number)
            del self._structures[number], self._documents[structure]
            for name in _names(structure):
                holding = self._holding[name]
                del holding[structure]
                if not holding:
                    del self._holding[name]
        self._index.remove_many(numbers)

    def above(self, structures: Sequence[Conjunction]) -> list[list[Conjunction]]:
        """For each, those that may cover it, itself among them if it is there."""
        if not self._numbers:
            return [[] for _ in structures]
        documents = [self._documents.get(structure) or structure_document(structure) for structure in structures]
        return [[self._structures[number] for number in row] for row in _matches(self._index, documents)]

    def below(self, structures: Sequence[Conjunction]) -> list[list[Conjunction]]:
        """For each, those that it may cover, itself among them if it is there."""
        index = Index(seed=self._seed)
        index.add_many([Subscription(str(place), *write_query(each)) for place, each in enumerate(structures)])
        found: list[list[Conjunction]] = [[] for _ in structures]
        candidates = self._candidates(structures)
        rows = _matches(index, [self._documents[candidate] for candidate in candidates])
        for candidate, row in zip(candidates, rows, strict=True):
            for place in row:
                found[int(place)].append(candidate)
        return found

    def _candidates(self, structures: Sequence[Conjunction]) -> list[Conjunction]:
        """Those that have all names of one of the structures, or at least its rarest."""
        found: dict[Conjunction, None] = {}
        for structure in structures:
            names = _names(structure)
            if not names:
                return list(self._numbers)
            found |= self._holding.get(min(names, key=self._frequency), {})
        return list(found)

    def _frequency(self, name: str) -> int:
        return len(self._holding.get(name, ()))


def _names(structure: Conjunction) -> list[str]:
    names = (step.name for path in structure for step in split(path))
    return list(dict.fromkeys(name for name in names if is_plain(name) and name[0] != "@"))


def _matches(index: Index, documents: Sequence[bytes]) -> list[list[str]]:
    """The ids that each document matches."""
    rows: list[list[str]] = []
    while len(rows) < len(documents):
        rows += index.match_part(documents[len(rows) :], report=True).matches.to_pylist()
    return rows
