"""Peers on Spark: what a Spark user can write today, and treecast.spark.match beside it.

CPU time is that of the process and all below it: the JVM and the Python workers. What a job costs that asks nothing is
measured apart; only what the queries add to it is scaled up from a sample to all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from treecast.index import Index
from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sample import Costs, sample_sizes, scale, shuffled
from treecast.measure.seconds import Seconds, clock, tree_clock

if TYPE_CHECKING:
    import pyarrow as pa

# pyspark's, which only treecast.spark imports.
DataFrame: TypeAlias = Any
SparkSession: TypeAlias = Any

PROBED = 20
FILES = 2
# So many columns of xpath_boolean are planned in a few seconds; many more would measure Spark's planner.
COLUMNS_MAX = 200
ROWS_MIN = 2_000


def measure_on_spark(
    name: str, inputs: Inputs, effort: Effort, session: SparkSession | None = None
) -> tuple[Cell, Answers]:
    """Figures and answers of one peer, on a session of its own unless one is given."""
    if session is not None:
        return _measure(name, inputs, effort, session)
    from treecast.spark.session import start

    session = start("local[2]", name="treecast bench")
    try:
        return _measure(name, inputs, effort, session)
    finally:
        session.stop()


def _measure(name: str, inputs: Inputs, effort: Effort, session: SparkSession) -> tuple[Cell, Answers]:
    if name == "spark-treecast":
        return _ours(inputs, effort, session)
    ask, idle = (_by_xpath, _select) if name == "spark-xpath" else (_by_lxml, _no_map)
    order = shuffled(len(inputs.queries))
    _, unseen = effort.divide(inputs.documents)
    limit = min(len(order), COLUMNS_MAX) if name == "spark-xpath" else len(order)
    with tempfile.TemporaryDirectory(prefix="treecast-spark-") as directory:
        few = _frame(session, unseen[:2], Path(directory, "few"))
        probed = order[:PROBED]
        _drain(ask(few, inputs, probed))  # starts the workers
        each = _costs(_clock(idle(few)), _clock(ask(few, inputs, probed)), len(unseen[:2]), len(probed))
        wanted, documents = sample_sizes(limit, len(unseen), effort.budget_seconds / 2, each)
        asked = order[:wanted]
        frame = _frame(session, unseen[:documents], Path(directory, "all"))
        floor, taken = _clock(idle(frame)), _clock(ask(frame, inputs, asked))
        compared = min(effort.compared, documents)
        pairs = [(int(row[0]), int(row[1])) for row in ask(frame, inputs, asked).collect() if row[0] < compared]
        every = ask(frame, inputs, asked).count() if compared < documents else len(pairs)
    factor = scale(wanted, len(order))
    floor, match = floor / documents, (taken - floor) * factor / documents
    return Cell(
        engine=name,
        queries=len(order),
        sampled=wanted,
        documents=documents,
        offered=len(unseen),
        document_bytes=inputs.document_bytes,
        matches=every * factor / documents,
        unseen=floor + match,
        warm=floor + match,
        parse=floor,
        match=match,
        notes=("on Spark parse is what a job costs that asks nothing, its start included",),
    ), Answers.of(pairs, documents=compared, queries=asked)


def _ours(inputs: Inputs, effort: Effort, session: SparkSession) -> tuple[Cell, Answers]:
    from treecast.spark import match

    index = Index(namespaces=inputs.namespaces)
    build = clock(lambda: index.add_many([(str(number), query) for number, query in enumerate(inputs.queries)]))
    _, unseen = effort.divide(inputs.documents)
    repeats = -(-ROWS_MIN // len(unseen))
    with tempfile.TemporaryDirectory(prefix="treecast-spark-") as directory:
        frame = _frame(session, unseen * repeats, Path(directory, "all"))
        rows = repeats * len(unseen)
        found = match(frame, index)
        first = _clock(found)
        floor, taken = _clock(_select(frame)) / rows, _clock(found) / rows
        compared = min(effort.compared, len(unseen))
        some = match(frame.filter(frame["number"] < compared), index).collect()
        pairs = [(int(row["number"]), int(row["subscription"])) for row in some]
        matches = found.count() / rows
    return Cell(
        engine="spark-treecast",
        queries=len(inputs.queries),
        sampled=len(inputs.queries),
        documents=rows,
        offered=rows,
        document_bytes=inputs.document_bytes,
        matches=matches,
        build=build,
        index_bytes=index.stats().bytes,
        unseen=first / rows,
        warm=taken,
        parse=floor,
        match=taken - floor,
        notes=("on Spark unseen is the first job, which ships the index and starts the workers",),
    ), Answers.of(pairs, documents=compared, queries=range(len(inputs.queries)))


def _frame(session: SparkSession, documents: Sequence[bytes], directory: Path) -> DataFrame:
    """Documents and their numbers, in as many Parquet files as there are cores."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir()
    for part in range(min(FILES, len(documents))):
        numbers = list(range(part, len(documents), FILES))
        table = pa.table({"number": numbers, "document": pa.array([documents[n] for n in numbers], pa.binary())})
        pq.write_table(table, directory / f"{part}.parquet")
    return session.read.parquet(str(directory))


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _clock(frame: DataFrame) -> Seconds:
    return tree_clock(lambda: _drain(frame))


def _costs(floor: Seconds, taken: Seconds, documents: int, queries: int) -> Costs:
    match = max(taken.wall - floor.wall, 1e-4) / documents / queries
    return Costs(0.0, floor.wall / documents, match)


def _select(frame: DataFrame) -> DataFrame:
    return frame.select("document")


def _by_xpath(frame: DataFrame, inputs: Inputs, numbers: Sequence[int]) -> DataFrame:
    """(document, query) for every match: a column a query, gathered into an array of those that hold."""
    tests = [
        f"if(xpath_boolean(text, {_literal(inputs.queries[number])}), {number}L, null) AS q{place}"
        for place, number in enumerate(numbers)
    ]
    names = ", ".join(f"q{place}" for place in range(len(numbers)))
    columns = frame.selectExpr("number", "cast(document AS string) AS text").selectExpr("number", *tests)
    return columns.selectExpr("number", f"explode(filter(array({names}), q -> q IS NOT NULL)) AS query")


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _by_lxml(frame: DataFrame, inputs: Inputs, numbers: Sequence[int]) -> DataFrame:
    """What a user would write: compiled XPaths, one after the other."""
    queries, namespaces = [(number, inputs.queries[number]) for number in numbers], dict(inputs.namespaces)

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from lxml import etree

        compiled = [(number, etree.XPath(f"boolean({query})", namespaces=namespaces)) for number, query in queries]
        for batch in batches:
            found: list[tuple[int, int]] = []
            for place, document in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                tree = etree.fromstring(document)
                found += [(place, number) for number, test in compiled if test(tree)]
            columns: Any = [pa.array(column, pa.int64()) for column in zip(*found, strict=True)] or [[], []]
            yield pa.RecordBatch.from_pydict(
                {"number": pa.array(columns[0], pa.int64()), "query": pa.array(columns[1], pa.int64())}
            )

    return frame.select("number", "document").mapInArrow(evaluate, "number long, query long")


def _no_map(frame: DataFrame) -> DataFrame:
    """What mapInArrow costs when nothing is asked."""

    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(["number"])

    return frame.select("number", "document").mapInArrow(nothing, "number long")
