"""Run a pipeline: documents in, matches out, and accounts of both, in one pass over the data.

A row per document comes back from matching: ids, error, time and size. Before its ids are exploded into rows, Spark
observes it: counts, sums and the slowest few are gathered by the tasks that write the result, so the totals are those
of the rows written, whatever was repeated on the way. While a batch runs, the sums of the tasks that ended are read
from the running query, for show; a stream tells them batch by batch, and each is a directory of the result.

What is kept of the result's details (matches per subscription, refused documents) is counted from the written files.

    figures = run(spark, pipeline, index, tell=print)

Codes: TC736 an output that is in the way.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.catalog.index_settings import IndexSettings
from treecast.catalog.versions import Version
from treecast.errors import PipelineError
from treecast.index import Index
from treecast.report.figures import Figures, Moment, RefusedDocument, SlowDocument
from treecast.spark import session
from treecast.spark.batch.match import profiled, split
from treecast.spark.batch.place import Placed, Shipped
from treecast.spark.batch.plan import ERROR_TYPE, subscription_table
from treecast.spark.batch.render import ROW_BYTES_MAX, check_room
from treecast.spark.batch.sampling import first_documents
from treecast.spark.batch.sinks import write_directories
from treecast.spark.job.pipeline import AVAILABLE_NOW, Pipeline
from treecast.spark.sources.documents import documents
from treecast.spark.stream.batches import is_elsewhere, remove
from treecast.spark.stream.match_stream import Batch, shipping, start

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from treecast.catalog.versions import Supplier as Supply

POLL_SECONDS = 0.25
COUNT_SECONDS = 1.0
SLOWEST_SHOWN = 10
TOP_SHOWN = 20
REFUSED_SHOWN = 50
MOMENTS_MAX = 2_000

Tell = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    seconds: float = 0.0
    documents: int = 0
    matches: int = 0
    errors: int = 0
    size_bytes: int = 0
    nanoseconds: int = 0
    """Of reading and matching, over all processors."""
    tasks_done: int = 0
    tasks: int = 0
    """0 while nobody knows; a stream has none."""
    payload_bytes: int = 0
    refused_deliveries: int = 0
    stage: str = ""
    """What is done with the documents behind it."""


@dataclass
class _Account:
    """What was observed so far, and when."""

    progress: Progress = field(default_factory=Progress)
    moments: list[Moment] = field(default_factory=lambda: [Moment(0.0, 0, 0)])
    slowest: list[SlowDocument] = field(default_factory=list)

    def see(self, progress: Progress) -> None:
        if progress.documents > self.moments[-1].documents:
            self.moments.append(Moment(progress.seconds, progress.documents, progress.matches))
            if len(self.moments) > MOMENTS_MAX:
                del self.moments[1:-1:2]
        self.progress = progress


def run(spark: SparkSession, pipeline: Pipeline, index: Index, tell: Tell, supply: Supply | None = None) -> Figures:
    """Run it to its end, or a stream until it is interrupted, and say what came of it.

    A stream asks `supply` before each batch for the subscriptions as they are then; without one they are those of the
    index, throughout.

    `tell` is called a few times a second. KeyboardInterrupt ends a batch without a result, and a stream with what it
    has done.
    """
    placed = Placed(pipeline.placement, pipeline.shards, pipeline.cache_bytes_max)
    if pipeline.sinks.render:
        check_room(index)
    if pipeline.source.stream:
        account = _stream(spark, pipeline, index, placed, tell, supply)
    else:
        account = _batch(spark, pipeline, index, placed, tell)
    figures = Figures(
        title=pipeline.name,
        began=time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(time.time() - account.progress.seconds)),
        documents=account.progress.documents,
        matches=account.progress.matches,
        errors=account.progress.errors,
        size_bytes=account.progress.size_bytes,
        busy_nanoseconds=account.progress.nanoseconds,
        seconds=account.progress.seconds,
        subscriptions=len(index),
        moments=tuple(account.moments),
        slowest=tuple(account.slowest),
        settings=_settings(pipeline, placed),
        payload_bytes=account.progress.payload_bytes if pipeline.sinks.render else None,
        refused_deliveries=account.progress.refused_deliveries,
    )
    # A stream that was ended before its first batch has written nothing that could tell what its columns are.
    reader = spark.read.schema(_row_type(pipeline)) if pipeline.source.stream else spark.read
    written = reader.parquet(pipeline.sinks.matches_path)
    if pipeline.sinks.by_subscription:
        tell(replace(account.progress, stage="writing the matches by subscription"))
        _write_directories(written, pipeline, len(index))
    tell(replace(account.progress, stage="counting the matches of each subscription"))
    return _with_details(written, figures)


def _row_type(pipeline: Pipeline) -> str:
    payload = ", payload binary" if pipeline.sinks.render else ""
    return f"file string, offset long, ordinal long, subscription string{payload}, error {ERROR_TYPE}"


def _settings(pipeline: Pipeline, placed: Placed) -> tuple[tuple[str, str], ...]:
    """Those of the pipeline; of a placement that was chosen, which and why."""
    return tuple((name, placed.why or text if name == "placement" else text) for name, text in pipeline.describe())


@contextmanager
def started(pipeline: Pipeline, log: Path) -> Iterator[SparkSession]:
    """A session for the job: its own, and stopped behind it, unless one was there."""
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    spark = session.start(pipeline.master, name=pipeline.name, log=log, settings=pipeline.spark)
    try:
        yield spark
    finally:
        if found is None:
            spark.stop()


def subscriptions_at(spark: SparkSession, path: str) -> pa.Table:
    """The subscriptions of a Parquet file or directory that Spark can reach; ids may be numbers."""
    from pyspark.sql import functions

    table = spark.read.parquet(path)
    names = [name for name in table.columns if name.lower() == "id"]
    return subscription_table(table.withColumns({name: functions.col(name).cast("string") for name in names}))


def check_output(pipeline: Pipeline) -> None:
    """Raise PipelineError where results would meet what is not theirs. Creates nothing."""
    sinks = pipeline.sinks
    output = Path(sinks.output)
    if output.exists() and not output.is_dir():
        raise PipelineError(f"{output} is no directory", code="TC736", hint="name another output directory")
    if output.is_dir() and any(output.iterdir()) and not (output / RUN_FILE).exists():
        hint = "name another output directory, or empty it"
        raise PipelineError(f"{output} holds something that is not of treecast", code="TC736", hint=hint)
    checkpoint = _checkpoint(pipeline).exists()
    if checkpoint and not pipeline.source.stream:
        hint = "name another output directory, or remove it first"
        raise PipelineError(f"{output} holds the results of a stream", code="TC736", hint=hint)
    if sinks.matches is not None and not is_elsewhere(sinks.matches):
        place = Path(sinks.matches.removeprefix("file://"))
        kept = [sinks.output, *pipeline.source.path, *pipeline.subscriptions.path]
        for path in [Path(path).resolve() for path in kept if not is_elsewhere(path)]:
            if path.is_relative_to(place.resolve()):
                hint = "name a directory of its own: what is in it is replaced"
                raise PipelineError(f"sinks.matches: {place} holds {path}", code="TC736", hint=hint)
        if checkpoint or sinks.overwrite:
            return
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            hint = "name another directory, or set sinks.overwrite = true"
            raise PipelineError(f"sinks.matches: {place} is there already", code="TC736", hint=hint)


RUN_FILE = "run.json"  # says that a directory is ours, and what came of the job


def _checkpoint(pipeline: Pipeline) -> Path:
    return Path(pipeline.sinks.output, "checkpoint")


# -- the plan


def _read(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    return documents(spark, list(pipeline.source.path), **_source_options(pipeline))


def _plan(
    read: DataFrame, pipeline: Pipeline, index: Index | Path, shipped: Shipped | None, observed: Any
) -> DataFrame:
    """The rows to be written: file, offset, ordinal, and a subscription, if wanted with its payload, or an error."""
    from pyspark.sql import functions

    render = pipeline.sinks.render
    form, array = ("payload profile", "found.deliveries") if render else ("profile", "found.matches")
    given = read.select("file", "offset", "ordinal", "document", "error")
    found = profiled(given, index, shipped, form, pipeline.cache_bytes_max).observe(observed, *_metrics(array))
    wanted = functions.col("found.error").isNotNull() | (functions.size(array) > 0)
    one = functions.col("one")
    rows = found.filter(wanted).select("*", functions.explode_outer(array).alias("one"))
    if not render:  # an error has a row of its own, beside the matches of what was decided
        error = functions.when(one.isNull(), functions.col("found.error"))
        return rows.select("file", "offset", "ordinal", one.alias("subscription"), error.alias("error"))
    return rows.select(
        "file",
        "offset",
        "ordinal",
        one["subscription"].alias("subscription"),
        functions.get("found.payloads", one["number"]).alias("payload"),
        functions.coalesce("found.error", one["error"]).alias("error"),
    )


def _source_options(pipeline: Pipeline) -> dict[str, Any]:
    source = pipeline.source
    size_max = min(pipeline.limits.document_bytes_max, ROW_BYTES_MAX)
    options: dict[str, Any] = {"pattern": source.pattern, "document_bytes_max": size_max}
    if source.record:
        options |= {"record": list(source.record), "entities": source.entities, "record_bytes_max": size_max}
    if source.stream:
        options |= {"stream": True, "log": str(Path(pipeline.sinks.output, "source-log").absolute())}
    return options


def _metrics(array: str) -> list[Column]:
    """`array` is what was found of a document: ids, or deliveries."""
    from pyspark.sql import functions

    size = functions.coalesce(functions.size(array), functions.lit(0))
    unknown = functions.col("found.error").isNotNull() & (size > 0)  # what is undecided is a null among the matches
    count = size if array == "found.deliveries" else size - unknown.cast("int")
    document = functions.struct(
        "file",
        "ordinal",
        functions.col("found.nanoseconds").alias("nanoseconds"),
        functions.col("found.bytes").alias("bytes"),
        count.alias("matches"),
    )
    rendered: list[Column] = []
    if array == "found.deliveries":
        refused = functions.size(functions.filter(array, lambda one: one["error"].isNotNull()))
        rendered = [
            functions.sum("found.payload_bytes").alias("payload_bytes"),
            functions.sum(refused).alias("refused_deliveries"),
        ]
    return [
        functions.count_if("first").alias("documents"),
        functions.sum(count).alias("matches"),
        functions.count("found.error").alias("errors"),
        functions.sum(functions.when(functions.col("first"), functions.col("found.bytes"))).alias("bytes"),
        functions.sum("found.nanoseconds").alias("nanoseconds"),
        functions.max_by(document, functions.col("found.nanoseconds"), SLOWEST_SHOWN).alias("slowest"),
        *rendered,
    ]


def _slow(rows: list[Row] | None) -> list[SlowDocument]:
    """Each document once: where it goes to several shards, as it was where it took longest."""
    found: dict[str, SlowDocument] = {}
    for row in sorted(rows or [], key=lambda row: row["nanoseconds"] or 0):
        if row["nanoseconds"]:
            name = _name(row["file"], row["ordinal"])
            found[name] = SlowDocument(name, row["nanoseconds"], row["bytes"] or 0, row["matches"])
    return sorted(found.values(), key=lambda one: -one.nanoseconds)[:SLOWEST_SHOWN]


def _name(file: str | None, ordinal: int | None) -> str:
    return f"{file or '?'}#{ordinal}" if ordinal else file or "?"


def _refused_name(row: Row) -> str:
    name = _name(row["file"], row["ordinal"])
    return name if row["subscription"] is None else f"{name}, for {row['subscription']}"


# -- batch


def _batch(spark: SparkSession, pipeline: Pipeline, index: Index, placed: Placed, tell: Tell) -> _Account:
    from pyspark import InheritableThread
    from pyspark.sql import Observation

    account, began = _Account(), time.monotonic()
    observation = Observation(f"treecast-{uuid.uuid4().hex}")
    target = _Target(pipeline.sinks.matches_path, overwrite=pipeline.sinks.overwrite)
    read = _read(spark, pipeline)
    shipped = None if placed.everywhere else placed.ship(spark, index, lambda: first_documents(read))
    rows = _plan(read, pipeline, index, shipped, observation)
    failed: list[BaseException] = []
    done = threading.Event()

    def write() -> None:
        try:
            spark.sparkContext.setJobGroup(str(observation._name), "treecast run", interruptOnCancel=True)
            rows.write.mode(target.mode).parquet(target.path)
        except BaseException as error:  # raised again below, where somebody hears it
            failed.append(error)
        finally:
            done.set()

    writer = InheritableThread(target=write, session=spark)
    writer.start()
    meter = _Meter(spark, str(observation._name))
    try:
        while not done.wait(POLL_SECONDS):
            account.see(meter.read(account.progress, time.monotonic() - began))
            tell(account.progress)
    except BaseException:
        cancelled = False
        while not cancelled:  # again, should the job not have begun when it was cancelled first
            spark.sparkContext.cancelJobGroup(str(observation._name))
            cancelled = done.wait(POLL_SECONDS)
        target.abandon()
        raise
    writer.join()
    if failed:
        target.abandon()
        raise failed[0]
    target.commit()
    last = observation.get
    account.see(_progress(last, time.monotonic() - began))
    account.slowest = _slow(last["slowest"])
    return account


def _progress(sums: dict[str, Any], seconds: float) -> Progress:
    return Progress(
        seconds=seconds,
        documents=int(sums["documents"] or 0),
        matches=int(sums["matches"] or 0),
        errors=int(sums["errors"] or 0),
        size_bytes=int(sums["bytes"] or 0),
        nanoseconds=int(sums["nanoseconds"] or 0),
        payload_bytes=int(sums.get("payload_bytes") or 0),
        refused_deliveries=int(sums.get("refused_deliveries") or 0),
    )


class _Meter:
    """How far the running query is, for show: it never fails a job.

    The observed sums are those of the tasks that have ended. Of tasks under way Spark's own metrics tell, with the
    executors' heartbeats: rows out of matching are documents, rows out of the explosion are matches.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        self._store: Any = spark._jsparkSession.sharedState().statusStore()
        self._execution: int | None = None
        self._counted_at = 0.0
        self._counted = (0, 0)

    def read(self, before: Progress, seconds: float) -> Progress:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]

        try:
            tracker = self._spark.sparkContext.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage)
            tasks = sum(stage.numTasks for stage in stages if stage)
            sums = self._observed()
            if sums is not None and seconds - self._counted_at >= COUNT_SECONDS:
                self._counted, self._counted_at = self._count(), seconds
        except (
            Py4JError,
            OSError,
            ValueError,
        ):  # it has just ended, or Spark is gone, which the writer finds out as well
            return replace(before, seconds=seconds)
        now = before if sums is None else _progress(sums, seconds)
        return replace(
            now,
            seconds=seconds,
            documents=max(before.documents, now.documents, self._counted[0]),
            matches=max(before.matches, now.matches, self._counted[1] - now.errors),
            errors=max(before.errors, now.errors),
            tasks_done=done,
            tasks=tasks,
        )

    def _observed(self) -> dict[str, Any] | None:
        jvm: Any = self._spark._jvm
        numbers = [self._execution] if self._execution is not None else self._latest()
        for number in numbers:
            query = jvm.org.apache.spark.sql.execution.SQLExecution.getQueryExecution(number)
            observed = None if query is None else query.observedMetrics().get(self._name)
            if observed is not None and observed.isDefined():
                self._execution = number
                return dict(json.loads(observed.get().json()))
        return None

    def _latest(self) -> list[int]:
        executions = self._store.executionsList()
        return [executions.apply(place).executionId() for place in range(executions.size() - 1, -1, -1)[:8]]

    def _count(self) -> tuple[int, int]:
        """(documents, rows) so far, of all tasks. Where documents are routed first, both operators are there twice: the
        lower ones see documents, the upper ones matches."""
        found: dict[str, list[int]] = {"ArrowEvalPython": [0], "Generate": [0]}
        values = self._store.executionMetrics(self._execution)
        operators = self._store.planGraph(self._execution).allNodes()
        for operator in (operators.apply(place) for place in range(operators.size())):
            name = operator.name().split(" ")[0]
            metrics = operator.metrics()
            for metric in (metrics.apply(place) for place in range(metrics.size() if name in found else 0)):
                value = values.get(metric.accumulatorId())
                if metric.name() == "number of output rows" and value.isDefined():
                    found.setdefault(name, []).append(int(value.get().replace(",", "")))
        return found["ArrowEvalPython"][-1], found["Generate"][1 if len(found["Generate"]) > 1 else 0]


class _Target:
    """Where a batch writes. On this machine beside its place, which it takes when all is done; elsewhere directly."""

    def __init__(self, path: str, *, overwrite: bool = False) -> None:
        self._place = None if is_elsewhere(path) else Path(path.removeprefix("file://"))
        if self._place is None:
            self.path, self.mode = path, "overwrite" if overwrite else "errorifexists"
        else:
            self._new = self._place.with_name(f".{self._place.name}.new")
            self.path, self.mode = str(self._new.absolute()), "overwrite"

    def commit(self) -> None:
        if self._place is None:
            return
        old = self._place.with_name(f".{self._place.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if self._place.exists():
            self._place.rename(old)
        self._new.rename(self._place)
        shutil.rmtree(old, ignore_errors=True)

    def abandon(self) -> None:
        if self._place is not None:
            shutil.rmtree(self._new, ignore_errors=True)


def _write_directories(written: DataFrame, pipeline: Pipeline, subscriptions: int) -> None:
    """The matches once more, by subscription: from the written rows, so nothing is matched twice."""
    sinks = pipeline.sinks
    target = _Target(sinks.by_subscription_path)
    good, _ = split(written)
    try:
        write_directories(good, target.path, subscriptions, directories_max=sinks.directories_max, mode=target.mode)
    except BaseException:
        target.abandon()
        raise
    target.commit()


# -- streaming


def _stream(
    spark: SparkSession, pipeline: Pipeline, index: Index, placed: Placed, tell: Tell, supply: Supply | None
) -> _Account:
    """A directory a batch; the subscriptions are looked at before each (`treecast.spark.stream`)."""
    from pyspark.sql import Observation

    account, began = _Account(), time.monotonic()
    under_way: list[Any] = []
    ended: list[dict[str, Any]] = []
    ship = shipping(placed)

    def plan(read: DataFrame, version: Version, number: int) -> DataFrame:
        shipped = ship(read, version, lambda: first_documents(read))
        under_way[:] = [Observation(f"treecast-{number}-{uuid.uuid4().hex}")]
        return _plan(read, pipeline, version.path, shipped, under_way[0])

    def after(rows: DataFrame, batch: Batch) -> None:
        if under_way:  # else it was written before, and is only noted as done now
            ended.append(under_way.pop().get)

    path, trigger = pipeline.sinks.matches_path, pipeline.source.trigger
    if pipeline.sinks.overwrite and not _checkpoint(pipeline).exists():
        remove(spark, path)
    every = {"availableNow": True} if trigger == AVAILABLE_NOW else {"processingTime": trigger} if trigger else None
    query = start(
        _read(spark, pipeline),
        plan,
        supply or _once(index),
        path,
        checkpoint=_checkpoint(pipeline),
        trigger=every,
        after=[after],
        settings=IndexSettings(
            pipeline.subscriptions.namespaces, pipeline.limits, pipeline.source.entities, pipeline.delivery_limits
        ),
        close=placed.close,
    )
    try:
        while query.isActive:
            time.sleep(POLL_SECONDS)
            _see_batches(ended, account, time.monotonic() - began)
            tell(account.progress)
        query.awaitTermination()  # raises what ended it, if anything did
    except KeyboardInterrupt:
        query.stop()
    finally:
        if query.isActive:
            query.stop()
    _see_batches(ended, account, time.monotonic() - began)
    return account


def _once(index: Index) -> Supply:
    """The index, then nothing new."""
    given = iter([index])
    return lambda: next(given, None)


def _see_batches(ended: list[dict[str, Any]], account: _Account, seconds: float) -> None:
    """Add the batches that ended since the last look."""
    now = account.progress
    while ended:
        sums = ended.pop(0)
        more = vars(_progress(sums, seconds))
        now = Progress(**{name: vars(now)[name] + more[name] for name in more if name not in ("seconds", "stage")})
        slower = [*account.slowest, *_slow(sums["slowest"])]
        account.slowest = sorted(slower, key=lambda one: -one.nanoseconds)[:SLOWEST_SHOWN]
    account.see(replace(now, seconds=seconds))


# -- what the written rows say


def _with_details(written: DataFrame, figures: Figures) -> Figures:
    """Matches per subscription and refused documents, from two small jobs over the result."""
    from pyspark.sql import functions

    counts = written.where("subscription is not null").groupBy("subscription").count()
    bucket = functions.length(functions.bin("count")) - 1  # of the logarithm to base 2, exactly
    most = functions.max_by(
        functions.struct("subscription", "count"), functions.struct("count", "subscription"), TOP_SHOWN
    )
    rows = counts.groupBy(bucket.alias("bucket")).agg(functions.count(functions.lit(1)).alias("n"), most.alias("most"))
    buckets: dict[int, int] = {}
    top: list[tuple[str, int]] = []
    for row in rows.collect():
        buckets[row["bucket"]] = row["n"]
        top += [(one["subscription"], one["count"]) for one in row["most"]]
    top.sort(key=lambda pair: (-pair[1], pair[0]))
    figures = replace(figures, buckets=buckets, top=tuple(top[:TOP_SHOWN]))
    if not figures.errors + figures.refused_deliveries:
        return figures
    first = functions.min_by(
        functions.struct("file", "ordinal", "subscription", "error"), functions.struct("file", "ordinal"), REFUSED_SHOWN
    )
    bad = written.where("error is not null").groupBy("error.code")
    told = bad.agg(functions.count(functions.lit(1)).alias("n"), first.alias("first")).collect()
    listed = [
        RefusedDocument(_refused_name(one), one["error"]["code"], one["error"]["message"])
        for row in told
        for one in row["first"]
    ]
    listed.sort(key=lambda one: (one.name, one.code))
    codes = sorted(((row["code"], row["n"]) for row in told), key=lambda pair: (-pair[1], pair[0]))
    return replace(figures, refused=tuple(listed[:REFUSED_SHOWN]), refused_codes=tuple(codes))
