"""The documents of a broker as a DataFrame: a batch of those that it has, or a stream. See `broker_stream.py`.

Spark is imported when the function is called, so that `import treecast.spark` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treecast.spark.sources.broker_options import BrokerOptions
from treecast.spark.sources.source_options import to_strings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def broker_documents(
    spark: SparkSession,
    url: str,
    *,
    token: str | None = None,
    starting: str | int | None = None,
    max_documents_per_batch: int | None = None,
    partition_documents: int | None = None,
    on_gone: str | None = None,
    timeout_seconds: int | None = None,
    stream: bool = False,
) -> DataFrame:
    """The documents of the broker at a URL: those that it has now; with `stream` also those that are published later.

    `starting` is "earliest" (the first document that is kept), "latest" (only what is published from now on) or a
    number. A batch of a stream has at most `max_documents_per_batch` (10,000), a task `partition_documents` (1,000).
    Documents that are no longer kept end the query with TC758, or with `on_gone="report"` become rows with an error. A
    broker that is away is asked again for `timeout_seconds` (60).

    Raises PipelineError (TC711) if an option is wrong.
    """
    options = {
        "url": url,
        "token": token,
        "starting": starting,
        "max_documents_per_batch": max_documents_per_batch,
        "partition_documents": partition_documents,
        "on_gone": on_gone,
        "timeout_seconds": timeout_seconds,
    }
    strings = to_strings(options)
    BrokerOptions.parse(strings)
    from treecast.spark.sources.source import FORMAT, DocumentSource

    spark.dataSource.register(DocumentSource)
    reader = spark.readStream if stream else spark.read
    return reader.format(FORMAT).options(**strings).load()
