"""A few of the documents that a broker has routed: what generalisation measures its choices by.

Every n-th document is kept, and n doubles whenever the sample is full. So it is spread over all documents, and equal
documents in equal order give equal samples.

    >>> sample = Sample(documents_max=4)
    >>> sample.learn([f"<a><b{number}/></a>".encode() for number in range(10)])
    >>> [document.decode() for document in sample.documents]
    ['<a><b0/></a>', '<a><b4/></a>', '<a><b8/></a>']
    >>> sample.bits([(("/a",),), (("//b4",),)])  # the first document is the lowest bit
    {(('/a',),): 7, (('//b4',),): 2}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treecast.document import AnyDocument, Document
from treecast.index import Index
from treecast.index.rendering import FormCodec
from treecast.model import Subscription
from treecast.overlay.onyx.routing.routing_query import Conjunction, write_query


class Later:
    """A document in the form of a link, to be read if somebody looks at it."""

    __slots__ = ("_body", "_codec")

    def __init__(self, codec: FormCodec, body: bytes) -> None:
        self._codec = codec
        self._body = body

    def __call__(self) -> AnyDocument:
        (document,) = self._codec.decode_many([self._body])
        return document if isinstance(document, Document) else b""


class Sample:
    """Up to `documents_max` documents of any number."""

    def __init__(self, documents_max: int, *, seed: int | None = None) -> None:
        self._documents: list[AnyDocument | Later] = []
        self._documents_max = documents_max
        self._seed = seed
        self._stride = 1
        self._wait = 0  # documents to pass over

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def documents(self) -> list[AnyDocument]:
        """They are read now, if nobody has looked at them before: most samples are never used."""
        documents = [one() if isinstance(one, Later) else one for one in self._documents]
        self._documents = list(documents)
        return documents

    @property
    def is_ready(self) -> bool:
        """Whether it says much about what may come."""
        return 2 * len(self._documents) >= self._documents_max

    def learn(self, documents: Sequence[AnyDocument | Later]) -> None:
        """Take note of documents that went by; some may be read later."""
        place = self._wait
        while place < len(documents):
            if len(self._documents) == self._documents_max:
                self._documents = self._documents[::2]
                # The next that a sample of twice the stride has.
                place += self._stride * (self._documents_max % 2)
                self._stride *= 2
                continue
            self._documents.append(documents[place])
            place += self._stride
        self._wait = place - len(documents)

    def bits(self, conjunctions: Iterable[Conjunction]) -> dict[Conjunction, int]:
        """For each conjunction the documents of the sample that match it, one bit for each."""
        rows = list(conjunctions)
        index = Index(seed=self._seed)
        index.add_many([Subscription(str(place), *write_query(row)) for place, row in enumerate(rows)])
        bits = [0] * len(rows)
        if self._documents and rows:
            numbers = index.match_part(self.documents, report=True, matches_max=1 << 40).matches.to_pylist()
            for document, matched in enumerate(numbers):
                for place in matched:
                    bits[int(place)] |= 1 << document
        return dict(zip(rows, bits, strict=True))

    def union(self, conjunctions: Sequence[Conjunction]) -> int:
        """The documents that match any of the conjunctions."""
        index = Index(seed=self._seed)
        index.add_many([Subscription(str(place), *write_query(row)) for place, row in enumerate(conjunctions)])
        if not self._documents or not conjunctions:
            return 0
        lengths = index.match_part(self.documents, report=True, matches_max=1 << 40).matches.value_lengths()
        return sum(1 << place for place, length in enumerate(lengths.to_pylist()) if length)
