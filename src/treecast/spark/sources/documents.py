"""Read documents on Spark: files, directories, globs, archives, and large record files in parallel.

    from treecast.spark import documents, match

    matches = match(documents(spark, "inbox/"), subscriptions, on_error="report")
    articles = documents(spark, "dblp.xml", record="article", entities="html")

Columns: `document`, `file` (with the member of an archive: "a.zip!/x/y.xml"), `offset` and `ordinal` of a record in its
file, and `error`: whatever cannot be read is a row with an error in place of a document, which `match(…,
on_error="report")` passes on. Streams take files as they come (`treecast.spark.sources.source_stream`).

Paths are those of this machine, which all machines have to reach, or lie elsewhere: `s3a://bucket/dblp.xml`
(`treecast.inputs.locations`), with the keys that Spark has for them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treecast.document import EntityTexts
from treecast.errors import PipelineError
from treecast.inputs.listing import check_exists, local_path
from treecast.inputs.locations import LOCAL, Storage, is_remote
from treecast.spark.internals import hadoop_settings, session_key
from treecast.spark.sources.source_options import Options, to_strings

_registered: deque[str] = deque(maxlen=64)
"""The sessions that know the format already, the last ones."""

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def documents(
    spark: SparkSession,
    path: Paths,
    *,
    record: str | Sequence[str] | None = None,
    entities: EntityTexts = None,
    pattern: str | None = None,
    partition_bytes: int | None = None,
    document_bytes_max: int | None = None,
    record_bytes_max: int | None = None,
    ratio_max: int | None = None,
    stream: bool = False,
    max_files_per_batch: int | None = None,
    log: str | os.PathLike[str] | None = None,
) -> DataFrame:
    """The documents at a path, or at several: files, directories with all below, globs, archives.

    Which files of a directory are read, and how they are unpacked, is said in docs/guide/files.md: it is the same as
    for `treecast match`.

    Without `record` each file, or member of an archive, is one document. With it, files are split: "*" makes every
    child of the root a document, names (as spelled in tags) the outermost elements of these names; references to
    `entities` (a mapping, or "html") are replaced in them. `pattern` chooses by name from directories and archives.

    Files are packed and cut into partitions of about `partition_bytes` (32 MiB). A document over `document_bytes_max`,
    a record over `record_bytes_max` (64 MiB each), or a file that unpacks to more than `ratio_max` times its size (250)
    is a row with an error. With `stream`, files that come later are read as well, at most `max_files_per_batch`
    (10,000) at a time; which were read is kept in the directory `log` (by default .treecast in the watched directory).

    Raises PipelineError if a path does not exist or an option is wrong.
    """
    given = {
        "record": record,
        "entities": entities,
        "pattern": pattern,
        "partition_bytes": partition_bytes,
        "document_bytes_max": document_bytes_max,
        "record_bytes_max": record_bytes_max,
        "ratio_max": ratio_max,
        "max_files_per_batch": max_files_per_batch,
        "log": log,
    }
    frame, _ = source_frame(spark, path, given, stream=stream)
    return frame


def source_frame(
    spark: SparkSession, path: Paths, given: Mapping[str, Any], *, stream: bool, parts: bool = False
) -> tuple[DataFrame, dict[str, str]]:
    """The documents, or with `parts` what each task is to read (`treecast.spark.batch.files`); and the options.

    `given` are the arguments of `documents`; those that are None are left out.
    """
    several = [os.fspath(one) for one in ([path] if isinstance(path, (str, os.PathLike)) else path)]
    options = {**given, "parts": parts or None}
    for name in ("max_files_per_batch", "log"):
        if not stream and options.get(name) is not None:
            raise PipelineError("max_files_per_batch and log are for streams", code="TC711", hint="say stream=True")
    here = "connect" not in type(spark).__module__  # a Connect server may see other files than we do
    if here:
        for one in several:
            check_exists(one, may_be_empty=stream)
        several = [local_path(one) for one in several]  # Spark's processes may run in another directory
        if options.get("log") is not None:
            options["log"] = local_path(os.fspath(options["log"]))
    options["paths"] = several
    options["storage_secrets"] = dict(storage_of(spark, several).pairs) or None
    strings = to_strings(options)
    Options.parse(strings)
    reader = spark.readStream if stream else spark.read
    return reader.format(_known_format(spark)).options(**strings).load(), strings


def storage_of(spark: SparkSession, paths: Sequence[str]) -> Storage:
    """What Spark knows of how these paths are reached."""
    return Storage.of(hadoop_settings(spark)) if any(is_remote(path) for path in paths) else LOCAL


def _known_format(spark: SparkSession) -> str:
    """The name of the format, after the session has been told of it, once: Spark warns of a second time."""
    from treecast.spark.sources.source import FORMAT, DocumentSource

    key = session_key(spark)
    if key not in _registered:
        spark.dataSource.register(DocumentSource)
        _registered.append(key)
    return FORMAT
