"""Where matches go: one directory per subscription, or hashed buckets where there are too many.

Parquet needs nothing of ours: `matches.write.parquet(path)`, or `matches.writeStream.format("parquet")` with a
checkpoint. For those who hand each subscriber a directory:

    from treecast.spark.sinks import write_directories
    write_directories(matches, "out", subscriptions=len(index))     # out/directory=sport/part-….parquet

Each task writes each of its directories in turn, so the number open at once is one, whatever the number of them. A file
system does not like millions of directories, so beyond `directories_max` subscriptions the rows go to `buckets`
directories by a hash of the subscription, which stays a column: read one bucket and filter. `directory_of` says which.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from treecast.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

DIRECTORIES_MAX = 1000
BUCKETS = 256
NAME_BYTES_MAX = 64  # escaping makes up to three bytes of one, and a file name has 255


def with_directory(
    matches: DataFrame, subscriptions: int, *, directories_max: int = DIRECTORIES_MAX, buckets: int = BUCKETS
) -> DataFrame:
    """The matches and the name of the directory that each belongs to."""
    from pyspark.sql import functions

    _check(matches, subscriptions, directories_max, buckets)
    subscription = functions.col("subscription")
    digest = functions.sha2(subscription.cast("binary"), 256)
    if subscriptions <= directories_max:
        short = functions.octet_length(subscription) <= NAME_BYTES_MAX
        name = functions.when(short, subscription).otherwise(functions.concat(functions.lit("sha256-"), digest))
    else:
        number = functions.conv(functions.substring(digest, 1, 8), 16, 10).cast("long") % buckets
        name = functions.format_string("bucket-%05d", number)
    return matches.withColumn("directory", name)


def directory_of(
    subscription: str, subscriptions: int, *, directories_max: int = DIRECTORIES_MAX, buckets: int = BUCKETS
) -> str:
    """The value of `directory` for a subscription: what `with_directory` gives it, with the same settings."""
    digest = hashlib.sha256(subscription.encode()).hexdigest()
    if subscriptions > directories_max:
        return f"bucket-{int(digest[:8], 16) % buckets:05d}"
    return subscription if len(subscription.encode()) <= NAME_BYTES_MAX else f"sha256-{digest}"


def write_directories(
    matches: DataFrame,
    path: str | Path,
    subscriptions: int,
    *,
    directories_max: int = DIRECTORIES_MAX,
    buckets: int = BUCKETS,
    format: str = "parquet",
    mode: str = "errorifexists",
) -> None:
    """Write a batch of matches by subscription. `subscriptions` is how many there are in all: it decides the layout.

    The matches are brought together by directory first, so that each has one file, not one from each task.
    """
    placed = with_directory(matches, subscriptions, directories_max=directories_max, buckets=buckets)
    placed.repartition("directory").write.partitionBy("directory").mode(mode).format(format).save(str(path))


def stream_directories(
    matches: DataFrame,
    subscriptions: int,
    *,
    directories_max: int = DIRECTORIES_MAX,
    buckets: int = BUCKETS,
    format: str = "parquet",
) -> DataStreamWriter:
    """The same for a stream: give it a checkpoint and start it with a path. Its rows are there once, as Spark's file
    sink keeps a log of the files that count: read them through Spark.
    """
    placed = with_directory(matches, subscriptions, directories_max=directories_max, buckets=buckets)
    return placed.repartition("directory").writeStream.partitionBy("directory").format(format)


def _check(matches: DataFrame, subscriptions: int, directories_max: int, buckets: int) -> None:
    if subscriptions < 0 or directories_max < 0 or not 1 <= buckets <= 65_536:
        raise ValueError("subscriptions and directories_max are 0 or more, buckets from 1 to 65,536")
    columns = matches.columns
    if "subscription" not in columns or "error" in columns or "directory" in columns:
        raise PipelineError(
            "the matches need a column subscription, and none that is called error or directory",
            code="TC708",
            hint='take the first part of split(match(…, on_error="report")), and rename directory',
        )
