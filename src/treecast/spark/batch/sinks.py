"""Where matches go: one directory per subscription, or hashed buckets where there are too many.

Parquet needs nothing of ours: `matches.write.parquet(path)`, or `matches.writeStream.format("parquet")` with a
checkpoint. For those who hand each subscriber a directory:

    from treecast.spark.batch.sinks import write_directories
    write_directories(matches, "out", subscriptions=len(index))     # out/directory=sport/part-….parquet

Each task writes each of its directories in turn, so the number open at once is one, whatever the number of them. A file
system does not like millions of directories, so beyond `directories_max` subscriptions the rows go to `buckets`
directories by a hash of the subscription, which stays a column: read one bucket and filter. `directory_of` says which.

Deliveries, which `render` gives, are written the same way, with their payloads in a column; or with one file for
each payload, in the same directories:

    from treecast.spark.batch.sinks import write_payloads
    write_payloads(deliveries, "out", subscriptions=len(index), key=("file",))      # out/directory=sport/5d8e….xml

Codes: TC708 a DataFrame that holds no matches, TC719 payloads that cannot be written as files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treecast.errors import PipelineError
from treecast.names import HASHED, hashed
from treecast.spark.batch.payload_files import COUNT_TYPE, directory_name, file_name
from treecast.spark.batch.worker_function import worker_function
from treecast.spark.stream.batches import is_elsewhere

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from treecast.spark.stream.match_stream import Batch

DIRECTORIES_MAX = 1000
BUCKETS = 256
NAME_BYTES_MAX = 64  # escaping makes up to three bytes of one, and a file name has 255
NULL_NAME = "__HIVE_DEFAULT_PARTITION__"  # what Spark calls the directory of no value
KEY = ("file", "offset", "ordinal")
KEY_TYPES = ("string", "bigint", "int", "smallint", "tinyint")


def with_directory(
    matches: DataFrame, subscriptions: int, *, directories_max: int = DIRECTORIES_MAX, buckets: int = BUCKETS
) -> DataFrame:
    """The matches and the name of the directory that each belongs to."""
    from pyspark.sql import functions

    _check(matches, subscriptions, directories_max, buckets)
    subscription = functions.col("subscription")
    digest = functions.sha2(subscription.cast("binary"), 256)
    if subscriptions <= directories_max:
        plain = (
            (functions.octet_length(subscription) <= NAME_BYTES_MAX)
            & ~subscription.startswith(HASHED)
            & ~subscription.contains("\0")
            & (subscription != NULL_NAME)
        )
        name = functions.when(plain, subscription).otherwise(functions.concat(functions.lit(HASHED), digest))
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
    plain = len(subscription.encode()) <= NAME_BYTES_MAX and "\0" not in subscription and subscription != NULL_NAME
    return subscription if plain and not subscription.startswith(HASHED) else hashed(subscription)


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
    rows = with_directory(matches, subscriptions, directories_max=directories_max, buckets=buckets)
    rows.repartition("directory").write.partitionBy("directory").mode(mode).format(format).save(str(path))


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
    rows = with_directory(matches, subscriptions, directories_max=directories_max, buckets=buckets)
    return rows.repartition("directory").writeStream.partitionBy("directory").format(format)


# -- payloads as files


@dataclass(frozen=True)
class Written:
    """What `write_payloads` did."""

    files: int
    present: int
    """Deliveries whose files were there already, with the same bytes."""
    bytes: int


def write_payloads(
    deliveries: DataFrame,
    path: str | Path,
    subscriptions: int,
    *,
    key: tuple[str, ...] = KEY,
    suffix: str = ".xml",
    directories_max: int = DIRECTORIES_MAX,
    buckets: int = BUCKETS,
) -> Written:
    """Write each payload of a batch of deliveries as a file: `path/directory=…/….xml`, where `path_of` says.

    `key` names the columns that identify a document (strings or integers). A file appears under its name only when it
    is complete, and is never overwritten: writing the same deliveries again changes nothing, another payload under the
    same name raises. The tasks write: `path` is a directory of this machine, or one that is mounted on all executors.
    """
    return _write_payloads(deliveries, str(path), subscriptions, key, (), suffix, directories_max, buckets)


@dataclass(frozen=True)
class PayloadFiles:
    """The same for a stream: `match_stream(…, render=True, after=[PayloadFiles("out", len(index))])`.

    A batch that is repeated writes the same files, so that each delivery is there once. In their names stream and
    batch are part of the key.
    """

    path: str | Path
    """The directory of all of it."""
    subscriptions: int
    """How many there are: whether each has a directory, or shares one of the buckets."""
    key: tuple[str, ...] = KEY
    """The columns that identify a document in its batch."""
    suffix: str = ".xml"
    """How the name of a file ends."""
    directories_max: int = DIRECTORIES_MAX
    """Up to so many subscriptions each has a directory of its own."""
    buckets: int = BUCKETS
    """How many directories there are for more."""

    def __call__(self, rows: DataFrame, batch: Batch) -> None:
        """Write the deliveries of a batch; what was refused is left out."""
        good = rows.filter(rows["error"].isNull()).drop("error")
        of_batch = (batch.stream, batch.number)
        settings = (self.suffix, self.directories_max, self.buckets)
        _write_payloads(good, str(self.path), self.subscriptions, self.key, of_batch, *settings)


def path_of(
    subscription: str,
    key: tuple[str | int | None, ...],
    subscriptions: int,
    *,
    suffix: str = ".xml",
    directories_max: int = DIRECTORIES_MAX,
    buckets: int = BUCKETS,
) -> Path:
    """Where `write_payloads` puts a delivery, below its path. In a stream the key begins with stream and batch."""
    directory = directory_of(subscription, subscriptions, directories_max=directories_max, buckets=buckets)
    return Path(directory_name(directory), file_name(subscription, key, suffix))


def _write_payloads(
    deliveries: DataFrame,
    path: str,
    subscriptions: int,
    key: tuple[str, ...],
    of_batch: tuple[str | int, ...],
    suffix: str,
    directories_max: int,
    buckets: int,
) -> Written:
    from pyspark.sql import functions

    check_payloads({field.name: field.dataType.simpleString() for field in deliveries.schema}, path, key, suffix)
    rows = with_directory(deliveries, subscriptions, directories_max=directories_max, buckets=buckets)
    target = str(Path(path.removeprefix("file://")).absolute())
    columns = list(dict.fromkeys(("directory", "subscription", "payload", *key)))
    write = worker_function("treecast.spark.batch.payload_files", "write", (target, key, of_batch, suffix))
    counts = rows.select(*columns).mapInArrow(write, COUNT_TYPE)
    names = ("files", "present", "bytes")
    row = counts.agg(*[functions.sum(name).alias(name) for name in names]).first()
    return Written(*[(row and row[name]) or 0 for name in names])


def check_payloads(kinds: Mapping[str, str], path: str, key: tuple[str, ...], suffix: str) -> None:
    """Raise where columns of these kinds are no deliveries that could be written as files."""
    if not key or "/" in suffix or "\0" in suffix:
        raise ValueError("key names at least one column, and suffix is the end of a file's name")
    if is_elsewhere(path):
        hint = "name a directory that is mounted on all executors, or call write_directories()"
        raise PipelineError(f"{path} is not a directory of this machine", code="TC719", hint=hint)
    if kinds.get("payload") != "binary":
        raise PipelineError("the deliveries have no payloads", code="TC719", hint="they are what render() gives")
    for name in key:
        if kinds.get(name) not in KEY_TYPES:
            problem = f"is of {kinds[name]}" if name in kinds else "is not there"
            raise PipelineError(
                f"the column {name}, part of the key of a document, {problem}",
                code="TC719",
                hint="name columns of strings or integers: key=(…,)",
            )


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
