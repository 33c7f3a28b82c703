"""The plan of a job: files from the source, a row of accounts for each document, and of these the rows to be written.

Before the ids of a document are exploded into rows, Spark observes it: counts, sums and the slowest few are gathered by
the tasks that write the result, so the totals are those of the rows written, whatever was repeated on the way.

    source = source_of(spark, pipeline, placement)
    rows = result_rows(source, pipeline, index, None, Observation("name"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treecast.index import Index
from treecast.spark.batch.answer_form import ANSWER, ERROR_TYPE, AnswerForm
from treecast.spark.batch.files import file_answers
from treecast.spark.batch.place import ShardTickets, SparkPlacement
from treecast.spark.batch.plan import account_rows
from treecast.spark.batch.row_limit import ROW_BYTES_MAX
from treecast.spark.job.pipeline import Pipeline
from treecast.spark.job.progress import FIRST_SHOWN, MOST_SHOWN, SLOWEST_SHOWN
from treecast.spark.session import spark_version
from treecast.spark.sources.documents import source_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession


def row_type(pipeline: Pipeline) -> str:
    """The columns of the rows that a job writes."""
    payload = ", payload binary" if pipeline.sinks.render else ""
    return f"file string, offset long, ordinal long, subscription string{payload}, error {ERROR_TYPE}"


@dataclass(frozen=True)
class JobSource:
    """What a job reads, as a batch or a stream."""

    frame: DataFrame
    """Documents, or parts of files, which the workers that match read themselves."""
    options: Mapping[str, Any]
    """Of the data source."""


def source_of(spark: SparkSession, pipeline: Pipeline, placement: SparkPlacement) -> JobSource:
    """Parts of files where every worker has all subscriptions, documents where shards divide them."""
    options, is_stream = _source_options(pipeline), pipeline.source.stream
    paths = list(pipeline.source.path)
    return JobSource(*source_frame(spark, paths, options, stream=is_stream, parts=placement.everywhere))


def _source_options(pipeline: Pipeline) -> dict[str, Any]:
    source = pipeline.source
    size_max = min(pipeline.limits.document_bytes_max, ROW_BYTES_MAX)
    options: dict[str, Any] = {"pattern": source.pattern, "document_bytes_max": size_max}
    if source.record:
        options |= {"record": list(source.record), "entities": source.entities, "record_bytes_max": size_max}
    if source.stream:
        options |= {"log": str(Path(pipeline.sinks.output, "source-log").absolute())}
    return options


def result_rows(
    source: JobSource,
    pipeline: Pipeline,
    index: Index | Path,
    shards: ShardTickets | None,
    observation: Observation,
) -> DataFrame:
    """The rows to be written: file, offset, ordinal, and a subscription, if wanted with its payload, or an error."""
    from pyspark.sql import functions

    form = AnswerForm(has_payloads=pipeline.sinks.render).with_accounts()
    array = "answer.deliveries" if form.has_payloads else "answer.matches"
    if shards is None:
        answers = file_answers(source.frame, source.options, index, form, pipeline.cache_bytes_max)
        answers = answers.withColumnRenamed(ANSWER, "answer").withColumn("first", functions.lit(True))
    else:
        columns = source.frame.select("file", "offset", "ordinal", "document", "error")
        answers = account_rows(columns, index, shards, form, pipeline.cache_bytes_max)
    answers = answers.observe(observation, *metrics(form, array))

    has_rows = functions.col("answer.error").isNotNull() | (functions.size(array) > 0)
    rows = answers.filter(has_rows).select("*", functions.explode_outer(array).alias("item"))
    item = functions.col("item")
    if not form.has_payloads:
        # An error has its own row, next to the matches of what was decided.
        error = functions.when(item.isNull(), functions.col("answer.error"))
        return rows.select("file", "offset", "ordinal", item.alias("subscription"), error.alias("error"))
    return rows.select(
        "file",
        "offset",
        "ordinal",
        item["subscription"].alias("subscription"),
        functions.get("answer.payloads", item["number"]).alias("payload"),
        functions.coalesce("answer.error", item["error"]).alias("error"),
    )


def metrics(form: AnswerForm, array: str) -> list[Column]:
    """What is observed of all documents; `array` is what one of them has: ids, or deliveries."""
    from pyspark.sql import functions

    size = functions.coalesce(functions.size(array), functions.lit(0))
    # What is undecided is a null among the matches, and no match.
    is_undecided = functions.col("answer.error").isNotNull() & (size > 0)
    count = size if form.has_payloads else size - is_undecided.cast("int")
    document = functions.struct(
        "file",
        "ordinal",
        functions.col("answer.nanoseconds").alias("nanoseconds"),
        functions.col("answer.bytes").alias("bytes"),
        count.alias("matches"),
    )
    sums = [
        functions.count_if("first").alias("documents"),
        functions.sum(count).alias("matches"),
        functions.count("answer.error").alias("errors"),
        functions.sum(functions.when(functions.col("first"), functions.col("answer.bytes"))).alias("bytes"),
        functions.sum("answer.nanoseconds").alias("nanoseconds"),
        first_of(functions.max_by, document, functions.col("answer.nanoseconds"), SLOWEST_SHOWN).alias("slowest"),
        first_of(functions.max_by, document, count, MOST_SHOWN).alias("most"),
        first_of(functions.min_by, document, functions.struct("file", "ordinal"), FIRST_SHOWN).alias("first_documents"),
        functions.min("answer.began").alias("began"),
        functions.max("answer.ended").alias("ended"),
    ]
    if form.has_payloads:
        refused_count = functions.size(functions.filter(array, lambda delivery: delivery["error"].isNotNull()))
        sums += [
            functions.sum("answer.payload_bytes").alias("payload_bytes"),
            functions.sum(refused_count).alias("refused_deliveries"),
        ]
    return sums


def first_of(rank: Callable[..., Column], document: Column, order: Column, count: int) -> Column:
    """The first `count` documents by an order, as an array; Spark 4.1 gives one."""
    from pyspark.sql import functions

    if spark_version() >= (4, 2):
        return rank(document, order, count)
    return functions.array_compact(functions.array(rank(document, order)))
