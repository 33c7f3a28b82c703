"""What runs in Spark's Python workers: documents in, matches out, with the index mapped once per process.

Spark starts Python workers by forking and keeps them between tasks, so an index that is cached in this module is loaded
once per process, whatever the number of tasks, retries and queries. The file comes with the job
(`treecast.spark.ship`); the first worker of a host puts it into a directory that all executors of that host share,
under a name that says its content, so that its pages are in memory once per host. Putting it there is a rename: others
see all of it or nothing.
"""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import tempfile
import uuid
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treecast.document import arrow_views
from treecast.errors import DocumentError, PipelineError, SnapshotError, TreecastError
from treecast.index import Index, Part
from treecast.placement import ByFilters, Router
from treecast.placement.router import spread
from treecast.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

INDEXES_MAX = 4  # kept open by one process
FILES_MAX = 8  # kept by one host
MATCHES_MAX = 1_000_000  # begin no further document in an Arrow batch after so many

loads = 0  # how many indexes this process has loaded so far
_indexes: OrderedDict[tuple[str, int], Index] = OrderedDict()


class Ticket(NamedTuple):
    """What a worker needs to find an index. It travels as a plain tuple: see `treecast.spark.match`."""

    version: str
    file: str
    bytes: int
    cache_bytes_max: int


def _hiding_frames(pieces: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Spark would print the frames between itself and us. This process ends with the exception."""
    try:
        yield from pieces
    except TreecastError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def run(batches: Iterator[Any], ticket: tuple[Any, ...], form: str) -> Iterator[pa.Array]:
    """One array out for each array of documents in, or several that together are as long.

    `form` is "lists" (a list of ids per document; a bad document raises), "report" (a list of structs of id and error)
    or "profile" (a struct of list, error, nanoseconds and bytes). A batch is an array of documents, or a tuple of that
    and of the errors that these documents have already.
    """
    return _hiding_frames(_run(batches, ticket, form))


def _run(batches: Iterator[Any], ticket: tuple[Any, ...], form: str) -> Iterator[pa.Array]:
    index = index_of(Ticket(*ticket))
    for batch in batches:
        documents, errors = batch if isinstance(batch, tuple) else (batch, None)
        yield from _match(index, documents, errors, form)


def route(
    batches: Iterator[Any], pickled: bytes, ticket: tuple[Any, ...] | None, shards: int, form: str
) -> Iterator[pa.Array]:
    """For each document the shards that must see it, the reporter first: see `treecast.spark.place`."""
    return _hiding_frames(_route(batches, pickled, ticket, shards, form))


def _route(
    batches: Iterator[Any], pickled: bytes, ticket: tuple[Any, ...] | None, count: int, form: str
) -> Iterator[pa.Array]:
    import pyarrow as pa

    router: Router = pickle.loads(pickled)
    if ticket is not None:
        assert isinstance(router, ByFilters)
        router = router.bound(index_of(Ticket(*ticket)))
    for batch in batches:
        documents, errors = batch if isinstance(batch, tuple) else (batch, None)
        views = document_views(documents)
        routes = router.route(views)
        for row in _lacking(documents, errors):
            routes[row] = None
        for row, shards in enumerate(routes):
            # One that nobody wants is read by any shard, if nobody has read it yet or it has to be accounted for.
            if shards is None or (not shards and (form == "profile" or not router.reads)):
                routes[row] = (spread(views[row], count),)
        yield pa.array(routes, pa.list_(pa.int32()))


def run_placed(batches: Iterator[Any], tickets: tuple[tuple[Any, ...], ...], form: str) -> Iterator[pa.Array]:
    """As `run`, for rows of shards: a batch is shards, places in the document's route, documents (and errors)."""
    return _hiding_frames(_run_placed(batches, tickets, form))


def _run_placed(batches: Iterator[Any], tickets: tuple[tuple[Any, ...], ...], form: str) -> Iterator[pa.Array]:
    for shards, places, documents, *errors in batches:
        numbers, places = shards.to_pylist(), places.to_pylist()
        begin = 0
        for shard, rows in groupby(numbers):  # a task has the rows of one shard, as a rule
            end = begin + len(list(rows))
            silent = {row - begin for row in range(begin, end) if places[row]}
            index = index_of(Ticket(*tickets[shard]))
            error_part = errors[0][begin:end] if errors else None
            yield from _match(index, documents[begin:end], error_part, form, silent)
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
        with suppress(OSError, SnapshotError):  # a full disk, a file that somebody cut: then the executor's own will do
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
        about = directory.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022
    return directory if ours else None


def _promote(source: Path, place: Path) -> None:
    beside = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    try:
        try:
            os.link(source, beside)
        except OSError:  # another file system
            shutil.copyfile(source, beside)
        os.utime(beside)
        beside.rename(place)
    finally:
        beside.unlink(missing_ok=True)
    # Files in use stay mapped when their names go.
    kept = sorted(place.parent.glob("*.tcx"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in [path for path in kept if path != place][FILES_MAX - 1 :]:
        path.unlink(missing_ok=True)


def _match(
    index: Index, documents: pa.Array, errors: pa.Array | None, form: str, silent: Collection[int] = ()
) -> Iterator[pa.Array]:
    """The rows in `silent` match as the others do, but another row tells what is wrong with their documents."""
    views = document_views(documents)
    lacking = _lacking(documents, errors)
    if form == "lists" and lacking:
        raise _with_advice(next(iter(lacking.values())))
    begin = 0
    while begin < len(views):
        try:
            part = index.match_part(
                views[begin:], report=form != "lists", matches_max=MATCHES_MAX, timed=form == "profile"
            )
        except DocumentError as error:
            raise _with_advice(error) from None
        end = begin + len(part.matches)
        if form == "lists":
            yield part.matches
        else:
            rejected = dict(part.rejected) | {row - begin: lacking[row] for row in lacking if begin <= row < end}
            rejected = {row: error for row, error in rejected.items() if row + begin not in silent}
            yield _report(part, rejected) if form == "report" else _profile(part, rejected, views[begin:end])
        begin = end


def document_views(documents: pa.Array) -> list[Any]:
    """The documents as buffers. In a string the declared encoding means nothing: its bytes are UTF-8."""
    import pyarrow as pa

    views: list[Any] = arrow_views(documents)
    if pa.types.is_string(documents.type) or pa.types.is_large_string(documents.type):
        for row, view in enumerate(views):
            if view[:5] == b"<?xml" or view[:8] == b"\xef\xbb\xbf<?xml":
                views[row] = _without_declaration(bytes(view))
    return views


def _without_declaration(text: bytes) -> bytes:
    """White space in place of an XML declaration that names an encoding: offsets stay."""
    end = text.find(b"?>") + 2
    declaration = text[:end]
    if end < 2 or b"encoding" not in declaration:
        return text
    return b" " * end + text[end:]


def _lacking(documents: pa.Array, errors: pa.Array | None) -> dict[int, DocumentError]:
    """The rows that hold no document, with the reason that the source gave, if any."""
    found: dict[int, DocumentError] = {}
    if documents.null_count:
        for row, valid in enumerate(documents.is_valid().to_pylist()):
            if not valid:
                found[row] = DocumentError("the document is null", code="TC210", hint="leave such rows out")
    if errors is not None and errors.null_count < len(errors):
        for row, error in enumerate(errors.to_pylist()):
            if error is not None:
                found[row] = DocumentError("", code=error["code"] or "TC210", offset=error["offset"] or 0)
                found[row].args = (error["message"],)
    return found


def _with_advice(error: DocumentError) -> DocumentError:
    advice = 'match(…, on_error="report") gives bad documents a row of their own and goes on'
    error.args = (f"{error}\n  hint: {advice}" if not error.hint else f"{error}; {advice}",)
    return error


def _error_type() -> pa.DataType:
    import pyarrow as pa

    return pa.struct([("code", pa.string()), ("message", pa.string()), ("offset", pa.int64())])


def _error_row(error: DocumentError) -> dict[str, Any]:
    return {"code": error.code, "message": str(error), "offset": error.offset}


def _report(part: Part, rejected: dict[int, DocumentError]) -> pa.Array:
    """Lists of structs: for a rejected document one that has an error and no id."""
    import pyarrow as pa

    ids, ends = part.matches.values, part.matches.offsets
    if not rejected:
        rows = pa.StructArray.from_arrays([ids, pa.nulls(len(ids), _error_type())], ["subscription", "error"])
        return pa.ListArray.from_arrays(ends, rows)
    places = ends.to_pylist()
    id_parts, error_parts, done, shift = [], [], 0, 0
    for row in range(len(part.matches)):
        places[row] += shift
        if row in rejected:
            begin = places[row] - shift
            id_parts += [ids[done:begin], pa.nulls(1, pa.string())]
            error_parts += [
                pa.nulls(begin - done, _error_type()),
                pa.array([_error_row(rejected[row])], _error_type()),
            ]
            done, shift = begin, shift + 1
    places[-1] += shift
    id_parts.append(ids[done:])
    error_parts.append(pa.nulls(len(ids) - done, _error_type()))
    rows = pa.StructArray.from_arrays(
        [pa.concat_arrays(id_parts), pa.concat_arrays(error_parts)], ["subscription", "error"]
    )
    return pa.ListArray.from_arrays(pa.array(places, pa.int32()), rows)


def _profile(part: Part, rejected: dict[int, DocumentError], views: list[Any]) -> pa.Array:
    """Structs: the ids, the error if there is one, what the document took and how large it is."""
    import pyarrow as pa

    errors: list[Any] = [None] * len(views)
    for row, error in rejected.items():
        errors[row] = _error_row(error)
    sizes = pa.array([len(view) for view in views], pa.int64())
    columns = [part.matches, pa.array(errors, _error_type()), part.nanoseconds, sizes]
    return pa.StructArray.from_arrays(columns, ["matches", "error", "nanoseconds", "bytes"])
