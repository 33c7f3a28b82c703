"""What runs in Spark's Python workers: documents in, answers out, with the index mapped once per process.

Spark starts Python workers by forking and keeps them between tasks, so an index that is cached in this module is loaded
once per process, whatever the number of tasks, retries and queries. The file comes with the job
(`treecast.spark.batch.ship`); the first worker of a host puts it into a directory that all executors of that host
share, under a name that says its content, so that its pages are in memory once per host. Putting it there is a rename:
others see all of it or nothing.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treecast import durable
from treecast.document import arrow_views
from treecast.errors import PipelineError, SnapshotError
from treecast.index import Index
from treecast.placement import ByFilters, Router
from treecast.placement.router import bucket_of
from treecast.spark.batch.answer_form import ANSWER, AnswerForm
from treecast.spark.batch.answers import answer, missing_documents
from treecast.spark.internals import one_sentence_errors
from treecast.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

INDEXES_MAX = 4  # kept open by one process
FILES_MAX = 8  # kept by one host

loads = 0  # how many indexes this process has loaded so far
_indexes: OrderedDict[tuple[str, int], Index] = OrderedDict()


class Ticket(NamedTuple):
    """What a worker needs to find an index.

    It travels as a plain tuple: an executor without treecast can unpickle that, and say what it lacks.
    """

    version: str
    file: str
    bytes: int
    cache_bytes_max: int


def _hiding_frames(pieces: Iterator[pa.Array]) -> Iterator[pa.Array]:
    with one_sentence_errors():
        yield from pieces


def run(batches: Iterator[Any], ticket: tuple[Any, ...], form: tuple[bool, ...]) -> Iterator[pa.Array]:
    """One array out for each array of documents in, or several that together are as long.

    `form` has the fields of an `AnswerForm`. A batch is an array of documents, or a tuple of that and of the errors
    that these documents have already, or of what they are called, or of both.
    """
    return _hiding_frames(_run(batches, Ticket(*ticket), AnswerForm(*form)))


def _run(batches: Iterator[Any], ticket: Ticket, form: AnswerForm) -> Iterator[pa.Array]:
    index = index_of(ticket)
    for batch in batches:
        documents, *others = batch if isinstance(batch, tuple) else (batch,)
        errors, names = _errors_and_names(others)
        yield from answer(index, documents, errors, form, names=names)


def _errors_and_names(columns: list[pa.Array]) -> tuple[pa.Array | None, pa.Array | None]:
    """What comes with the documents: structs are errors, strings are names."""
    import pyarrow as pa

    errors = [column for column in columns if pa.types.is_struct(column.type)]
    names = [column for column in columns if not pa.types.is_struct(column.type)]
    return errors[0] if errors else None, names[0] if names else None


def answer_files(
    batches: Iterator[pa.RecordBatch], options: dict[str, str], ticket: tuple[Any, ...], form: tuple[bool, ...]
) -> Iterator[pa.RecordBatch]:
    """Read, split and answer in one go: parts of files in, names and answers of their documents out.

    `treecast.spark.batch.files` says why. Without accounts, documents without an answer give no row.
    """
    with one_sentence_errors():
        yield from _answer_files(batches, options, Ticket(*ticket), AnswerForm(*form))


def _answer_files(
    batches: Iterator[pa.RecordBatch], given: dict[str, str], ticket: Ticket, form: AnswerForm
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    # These import pyspark, which the driver does not need for a match.
    from treecast.spark.sources.source_options import Options
    from treecast.spark.sources.source_tasks import PART, Task, read

    options = Options.parse(given)

    index = index_of(ticket)
    names = ["file", "offset", "ordinal", ANSWER]
    for task in (Task.from_bytes(part) for batch in batches for part in batch.column(PART).to_pylist()):
        for rows in read(task, options):
            document, *keys, error = rows.columns
            begin = 0
            for answers in answer(index, document, error, form, names=rows.column("file")):
                columns = [*(key.slice(begin, len(answers)) for key in keys), answers]
                begin += len(answers)
                answered = pa.RecordBatch.from_arrays(columns, names)
                yield answered if form.has_accounts else answered.filter(_has_rows(answers, form))


def _has_rows(answers: pa.Array, form: AnswerForm) -> pa.Array:
    """Whether anything comes of each answer."""
    import pyarrow.compute as pc

    return pc.greater(pc.list_value_length(answers.field("deliveries") if form.has_payloads else answers), 0)


def route(
    batches: Iterator[Any], router_bytes: bytes, ticket: tuple[Any, ...] | None, shards: int, form: tuple[bool, ...]
) -> Iterator[pa.Array]:
    """For each document the shards that must see it, the reporter first: see `treecast.spark.batch.place`."""
    return _hiding_frames(_route(batches, router_bytes, ticket, shards, AnswerForm(*form)))


def _route(
    batches: Iterator[Any], router_bytes: bytes, ticket: tuple[Any, ...] | None, count: int, form: AnswerForm
) -> Iterator[pa.Array]:
    import pyarrow as pa

    router = Router.from_bytes(router_bytes)
    if ticket is not None:
        assert isinstance(router, ByFilters)
        router = router.bound(index_of(Ticket(*ticket)))
    for batch in batches:
        documents, errors = batch if isinstance(batch, tuple) else (batch, None)
        views = arrow_views(documents)
        routes = router.route(views)
        for row in missing_documents(documents, errors):
            routes[row] = None
        for row, shards in enumerate(routes):
            # A document that no shard wants goes to any shard, if it was not read yet or accounts are kept.
            if shards is None or (not shards and (form.has_accounts or not router.reads)):
                routes[row] = (bucket_of(views[row], count),)
        yield pa.array(routes, pa.list_(pa.int32()))


def run_shards(
    batches: Iterator[Any], tickets: tuple[tuple[Any, ...], ...], form: tuple[bool, ...]
) -> Iterator[pa.Array]:
    """As `run`, for rows of shards: a batch is shards, places in the document's route, documents (and errors)."""
    return _hiding_frames(_run_shards(batches, tickets, AnswerForm(*form)))


def _run_shards(batches: Iterator[Any], tickets: tuple[tuple[Any, ...], ...], form: AnswerForm) -> Iterator[pa.Array]:
    for shards, places, documents, *others in batches:
        errors, names = _errors_and_names(others)
        numbers, places = shards.to_pylist(), places.to_pylist()
        begin = 0
        for shard, rows in groupby(numbers):  # a task has the rows of one shard, as a rule
            end = begin + len(list(rows))
            silent_rows = {row - begin for row in range(begin, end) if places[row]}
            index = index_of(Ticket(*tickets[shard]))
            error_part = None if errors is None else errors[begin:end]
            name_part = None if names is None else names[begin:end]
            yield from answer(index, documents[begin:end], error_part, form, silent_rows, name_part)
            begin = end


def index_of(ticket: Ticket) -> Index:
    """The index, loaded if this process has not got it yet."""
    global loads
    key = (ticket.file, ticket.cache_bytes_max)
    if key in _indexes:
        _indexes.move_to_end(key)
        return _indexes[key]
    if ticket.version != VERSION:
        raise PipelineError(
            f"the executor has treecast {VERSION}, the driver {ticket.version}",
            code="TC704",
            hint="install the same version on all machines",
        )
    index = _load(ticket)
    loads += 1
    _indexes[key] = index
    while len(_indexes) > INDEXES_MAX:
        _indexes.popitem(last=False)
    return index


def _load(ticket: Ticket) -> Index:
    from pyspark import SparkFiles

    source = Path(SparkFiles.get(ticket.file))
    shared = _shared_directory()
    if shared is not None:
        with suppress(OSError, SnapshotError):  # a full disk, a file that was cut: then the executor's own will do
            place = shared / ticket.file
            if not place.exists() or place.stat().st_size != ticket.bytes:
                _promote(source, place)
            os.utime(place)
            return Index.load(place, cache_bytes_max=ticket.cache_bytes_max)
    try:
        return Index.load(source, cache_bytes_max=ticket.cache_bytes_max)
    except OSError as error:
        raise PipelineError(
            f"the index did not reach this executor: {error}", code="TC705", hint="see the executor's log"
        ) from None


def _shared_directory() -> Path | None:
    """The directory of this user for all executors of the host; None where another could write to it."""
    directory = Path(tempfile.gettempdir(), f"treecast-{os.getuid()}")
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
    except OSError:
        return None
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return directory if is_private else None


def _promote(source: Path, place: Path) -> None:
    temporary = durable.unused_path(place.parent)
    try:
        try:
            os.link(source, temporary)
        except OSError:  # another file system
            shutil.copyfile(source, temporary)
        os.utime(temporary)
        temporary.replace(place)  # not synced: if a loss of power damages it, its checksum shows that
    finally:
        temporary.unlink(missing_ok=True)
    # Files in use stay mapped when their names go.
    files = sorted(place.parent.glob("*.tcx"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in [path for path in files if path != place][FILES_MAX - 1 :]:
        path.unlink(missing_ok=True)
