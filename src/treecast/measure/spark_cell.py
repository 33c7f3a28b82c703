"""Peers on Spark: what a Spark user can write today, and treecast.spark.match next to it.

CPU time is that of the process and its children: the JVM and the Python workers. The cost of a job without queries is
measured separately; only what the queries add is scaled up from a sample to all of them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from treecast.index import Index
from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sample import scale, shuffle_numbers
from treecast.measure.seconds import Seconds, clock, tree_clock

if TYPE_CHECKING:
    import pyarrow as pa

# pyspark's, which only treecast.spark imports.
DataFrame: TypeAlias = Any
SparkSession: TypeAlias = Any
Job: TypeAlias = Callable[[DataFrame], DataFrame]

NOTE = "on Spark documents come again and again, and parse is what a job costs that asks nothing"

FILES = 2
# Spark plans this many columns of xpath_boolean in a few seconds; more would measure its planner.
COLUMNS_MAX = 100
XPATHS_MAX = 2_000
ROWS_FIRST, ROWS_FIRST_OURS, ROWS_MAX, GROWTH_MAX = 8, 2_048, 65_536, 64
JOB_SECONDS = 0.1  # the fixed cost of a job: a shorter time says nothing about its rows


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
        return _measure_treecast(inputs, effort, session)
    ask, idle, most = (_by_xpath, _select, COLUMNS_MAX) if name == "spark-xpath" else (_by_lxml, _no_map, XPATHS_MAX)
    _, unseen = effort.divide(inputs.documents)
    numbers = shuffle_numbers(len(inputs.queries))[:most]
    documents_compared = min(effort.compared, len(unseen))
    with tempfile.TemporaryDirectory(prefix="treecast-spark-") as directory:
        few = _frame(session, unseen[:documents_compared], Path(directory, "few"))
        answer_rows = ask(few, inputs, numbers).collect()  # starts the workers
        job = partial(ask, inputs=inputs, numbers=numbers)
        rows, floor, seconds = _measure_growing(session, unseen, Path(directory), idle, job, effort, ROWS_FIRST)
    pairs = [(int(row[0]), int(row[1])) for row in answer_rows]
    factor = scale(len(numbers), len(inputs.queries))
    match = (seconds - floor) * factor
    return Cell(
        engine=name,
        queries=len(inputs.queries),
        sampled=len(numbers),
        documents=rows,
        offered=rows,
        document_bytes=inputs.document_bytes,
        matches=len(pairs) * factor / documents_compared,
        unseen=floor + match,
        warm=floor + match,
        parse=floor,
        match=match,
        notes=(NOTE,),
    ), Answers.of(pairs, documents=documents_compared, queries=numbers)


def _measure_treecast(inputs: Inputs, effort: Effort, session: SparkSession) -> tuple[Cell, Answers]:
    from treecast.spark import match

    _, unseen = effort.divide(inputs.documents)
    documents_compared = min(effort.compared, len(unseen))
    index = Index(namespaces=inputs.namespaces)
    build = clock(lambda: index.add_many([(str(number), query) for number, query in enumerate(inputs.queries)]))
    with tempfile.TemporaryDirectory(prefix="treecast-spark-") as directory:
        answer_rows = match(_frame(session, unseen[:documents_compared], Path(directory, "few")), index).collect()
        rows, floor, seconds = _measure_growing(
            session, unseen, Path(directory), _select, lambda frame: match(frame, index), effort, ROWS_FIRST_OURS
        )
    pairs = [(int(row["number"]), int(row["subscription"])) for row in answer_rows]
    return Cell(
        engine="spark-treecast",
        queries=len(inputs.queries),
        sampled=len(inputs.queries),
        documents=rows,
        offered=rows,
        document_bytes=inputs.document_bytes,
        matches=len(pairs) / documents_compared,
        build=build,
        index_bytes=index.stats().bytes,
        unseen=seconds,
        warm=seconds,
        parse=floor,
        match=seconds - floor,
        notes=(NOTE,),
    ), Answers.of(pairs, documents=documents_compared, queries=range(len(inputs.queries)))


def _measure_growing(
    session: SparkSession, documents: Sequence[bytes], directory: Path, idle: Job, job: Job, effort: Effort, rows: int
) -> tuple[int, Seconds, Seconds]:
    """Repeat the documents until the start of a job does not matter, or as far as the budget allows. Returns the number
    of rows, and the cost of each in a job without queries and in one with them."""
    begin = time.perf_counter()
    while True:
        repeats = -(-rows // len(documents))
        frame = _frame(session, (list(documents) * repeats)[:rows], directory / str(rows))
        floor, seconds = _clock(idle(frame)), _clock(job(frame))
        seconds_left = effort.budget_seconds - (time.perf_counter() - begin)
        growth = min(int(seconds_left / 2 / max((seconds - floor).wall, JOB_SECONDS)), GROWTH_MAX, ROWS_MAX // rows)
        if growth < 2:
            return rows, floor / rows, seconds / rows
        rows *= growth


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


def _clock(frame: DataFrame) -> Seconds:
    """Run the whole job and discard the answers."""
    return tree_clock(lambda: frame.write.format("noop").mode("overwrite").save())


def _select(frame: DataFrame) -> DataFrame:
    return frame.select("document")


def _by_xpath(frame: DataFrame, inputs: Inputs, numbers: Sequence[int]) -> DataFrame:
    """(document, query) for every match: one column per query, collected into an array of those that match."""
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

        tests = [(number, etree.XPath(f"boolean({query})", namespaces=namespaces)) for number, query in queries]
        for batch in batches:
            pairs: list[tuple[int, int]] = []
            for place, document in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                tree = etree.fromstring(document)
                pairs += [(place, number) for number, test in tests if test(tree)]
            columns: Any = [pa.array(column, pa.int64()) for column in zip(*pairs, strict=True)] or [[], []]
            yield pa.RecordBatch.from_pydict(
                {"number": pa.array(columns[0], pa.int64()), "query": pa.array(columns[1], pa.int64())}
            )

    return frame.select("number", "document").mapInArrow(evaluate, "number long, query long")


def _no_map(frame: DataFrame) -> DataFrame:
    """The cost of mapInArrow without queries."""

    def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(["number"])

    return frame.select("number", "document").mapInArrow(nothing, "number long")
