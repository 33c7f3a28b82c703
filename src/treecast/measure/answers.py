"""Answers in a form that can be compared: pairs of the number of a document and the number of a query.

>>> from treecast.measure.answers import Answers, differences
>>> ours = Answers.of([(0, 1), (0, 2), (1, 1)], documents=2, queries=range(3))
>>> theirs = Answers.of([(0, 1)], documents=1, queries=[0, 1])
>>> differences(ours, theirs)
[]
>>> differences(ours, Answers.of([(0, 1)], documents=1, queries=[1, 2]))
[(0, 2)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_WIDTH = 32  # bits of a query's number inside a pair


@dataclass(frozen=True)
class Answers:
    """The matches of the first unseen documents for the queries that were evaluated, all by number."""

    pairs: pa.Array
    """int64: document << 32 | query."""
    documents: int
    asked: pa.Array
    """int64: the numbers of the queries."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], *, documents: int, queries: Iterable[int]) -> Answers:
        import pyarrow as pa

        numbers = [document << _WIDTH | query for document, query in pairs]
        return cls(pa.array(numbers, pa.int64()), documents, pa.array(list(queries), pa.int64()))

    @classmethod
    def of_table(cls, matches: pa.Table, documents: int, queries: Sequence[int]) -> Answers:
        """From the table that Index.match_many returns, if the ids are the numbers of the queries."""
        import pyarrow as pa
        import pyarrow.compute as pc

        queries_asked = pa.array(queries, pa.int64())
        if not matches.num_rows:
            return cls(pa.array([], pa.int64()), documents, queries_asked)
        ids = matches.column("subscription").combine_chunks()
        numbers = ids.dictionary.cast(pa.int64()).take(ids.indices)
        rows = pc.shift_left(matches.column("document").combine_chunks(), _WIDTH)
        return cls(pc.bit_wise_or(rows, numbers), documents, queries_asked)

    def write(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.feather as feather

        size = max(len(self.pairs), len(self.asked))
        columns = [pa.concat_arrays([a, pa.nulls(size - len(a), pa.int64())]) for a in (self.pairs, self.asked)]
        table = pa.table(columns, names=["pairs", "asked"])
        feather.write_feather(table.replace_schema_metadata({"documents": str(self.documents)}), path)

    @classmethod
    def read(cls, path: Path) -> Answers:
        import pyarrow.feather as feather

        table = feather.read_table(path, memory_map=False)
        pairs, queries_asked = (table.column(name).combine_chunks().drop_null() for name in ("pairs", "asked"))
        return cls(pairs, int(table.schema.metadata[b"documents"]), queries_asked)

    def about(self, documents: int, asked: pa.Array) -> pa.Array:
        """The pairs of these queries and the first documents."""
        import pyarrow.compute as pc

        queries = pc.bit_wise_and(self.pairs, (1 << _WIDTH) - 1)
        near = pc.less(self.pairs, documents << _WIDTH)
        return self.pairs.filter(pc.and_(near, pc.is_in(queries, value_set=asked)))


def differences(ours: Answers, theirs: Answers) -> list[tuple[int, int]]:
    """(document, query) pairs that only one side found, among those that both evaluated."""
    import pyarrow as pa
    import pyarrow.compute as pc

    documents = min(ours.documents, theirs.documents)
    shared_queries = ours.asked.filter(pc.is_in(ours.asked, value_set=theirs.asked))
    our_pairs, their_pairs = ours.about(documents, shared_queries), theirs.about(documents, shared_queries)
    unshared_pairs = pa.concat_arrays([_without(our_pairs, their_pairs), _without(their_pairs, our_pairs)])
    return sorted((pair >> _WIDTH, pair & (1 << _WIDTH) - 1) for pair in unshared_pairs.to_pylist())


def _without(pairs: pa.Array, others: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pairs.filter(pc.invert(pc.is_in(pairs, value_set=others)))
