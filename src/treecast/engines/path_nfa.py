"""The shared NFA of all path queries by itself, as it would be spread over peers: states, and a replay of documents.

    >>> machine = PathMachine()
    >>> machine.add(["/a/b", "/a//c", "/a/b"])
    >>> len(machine), machine.label_paths()
    (5, [(), (('', 'a'),), (('', 'a'), ('', 'b')), (('', 'a'), None), (('', 'a'), None, ('', 'c'))])

`replay` says what the peers of a distributed NFA would do with documents: messages, lookups, and the longest chain of
them. It counts, and needs no peers. What happens to an element depends on the names on the way to it, so it is found
once for each such path in all the documents: replay many together. A million queries and a thousand documents of 36 KB
take less than a minute. `treecast.overlay.chord` has the real peers, and tests check that both count the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from treecast import _native
from treecast.document import Document

Label = tuple[str | None, str | None] | None
"""(uri, local), where None stands for any; None is the ε-move of `//`."""


class Replay(NamedTuple):
    """What one document takes."""

    messages: int
    """Recursive: visits that are sent, the first one included."""
    lookup_hops: int
    visits: int
    """States that are visited with an element. Iterative: each is a question and an answer."""
    iterative_lookup_hops: int
    chain: int
    """Recursive: the most messages and hops, one after the other."""
    iterative_chain: int


class PathMachine:
    """Queries without predicates, in one NFA. The start state has the number 0."""

    def __init__(self) -> None:
        self._native = _native.PathReplay()

    def add(self, queries: Iterable[str], namespaces: Mapping[str, str] | None = None) -> None:
        """Raises QueryError, and then has those before it. A query that is there already gains a holder."""
        bindings = [(prefix.encode(), uri.encode()) for prefix, uri in (namespaces or {}).items()]
        self._native.add_many([query.encode("utf-8", "surrogatepass") for query in queries], bindings)

    def __len__(self) -> int:
        """The number of states."""
        return self._native.states()

    def columns(self) -> tuple[array[int], array[int], array[int], array[int]]:
        """By state: its parent, its label, how many queries end in it, and how many transitions it has."""
        parents, labels, holders, children = (_numbers("I", column) for column in self._native.table())
        return parents, labels, holders, children

    def labels(self) -> list[Label]:
        """By number."""
        names: list[Label] = self._native.names()
        return names

    def label_paths(self) -> list[tuple[Label, ...]]:
        """By state: the labels that lead to it. For small machines."""
        parents, numbers, _, _ = self.columns()
        labels = self.labels()
        paths: list[tuple[Label, ...]] = [()]
        for state in range(1, len(parents)):
            paths.append((*paths[parents[state]], labels[numbers[state]]))
        return paths

    def place(self, places: Iterable[int], peers: Iterable[int], hops: bytes) -> None:
        """By state its place on the ring, by place its peer, and how many hops a lookup takes: `hops[peer * places +
        place]`, where both are numbers from 0 up. Without places lookups take none."""
        self._native.place(array("I", places).tobytes(), array("I", peers).tobytes(), hops)

    def replay(self, document: Document, length: int = 0, publisher: int = 0) -> Replay:
        """Filter one document with fragments of this length (the paper's `l`)."""
        return self.replay_many([document], [publisher], length)[0]

    def replay_many(
        self, documents: Sequence[Document], publishers: Sequence[int] | None = None, length: int = 0
    ) -> list[Replay]:
        """Filter documents, each published by the peer of a number."""
        numbers = _numbers(
            "Q",
            self._native.replay(
                [document.native for document in documents], publishers or [0] * len(documents), length
            ),
        )
        return [Replay(*numbers[at : at + 6]) for at in range(0, len(numbers), 6)]

    def path_count(self) -> int:
        """Different label paths among the elements that were replayed last."""
        return self._native.label_paths()

    def received(self) -> array[int]:
        """By state: messages since `clear`."""
        return _numbers("Q", self._native.received())

    def visited(self) -> array[int]:
        """By state: visits since `clear`; of several messages about one element one counts."""
        return _numbers("Q", self._native.visited())

    def documents(self) -> array[int]:
        """By state: how many documents visited it since `clear`."""
        return _numbers("I", self._native.documents())

    def clear(self) -> None:
        """Forget what documents have visited."""
        self._native.clear()


def _numbers(kind: str, data: bytes) -> array[int]:
    numbers: array[int] = array(kind)
    numbers.frombytes(data)
    return numbers
