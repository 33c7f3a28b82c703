"""The log of bodies: files that are only appended to, sealed at some size, and deleted as a whole.

Which bytes of which file count is decided elsewhere: the store keeps a row for each segment in SQLite, written in the
same transaction as everything else of a group. So a group is first written here and synced (`prepare`), then
committed there, and then made visible here (`publish`). What a crash leaves behind the end that a row names is cut off
at the next opening.

One thread writes, others may read at any time. A reader sees a body when it is published, and never waits for a writer.
Where a file is deleted that somebody reads, its descriptor stays open until the reader is done.
"""

from __future__ import annotations

import logging
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from treecast import durable
from treecast.overlay.checksums import log_records
from treecast.overlay.storage import BODY_HEAD_BYTES, Append, AppendMany, BodyGoneError, one_by_one
from treecast.serve.store import failures
from treecast.serve.store.cache import Cache
from treecast.serve.store.segment import (
    BODY_BYTES_MAX,
    HEADER_BYTES,
    Offsets,
    header,
    offsets_from_bytes,
    offsets_to_bytes,
    read_record,
    scan,
)
from treecast.serve.store.settings import StoreSettings

log = logging.getLogger("treecast.serve.store")

_BUFFERS_MAX = 1024  # of one call of pwritev, on Linux
_OFFSET_MAX = (1 << 32) - 1  # offsets are kept in 32 bits
_first = attrgetter("first")


class SegmentRow(NamedTuple):
    """What SQLite knows of a segment: the numbers of its first and last body, and how much of its file counts."""

    first: int
    last: int
    size: int
    bodies: int


class Descriptor:
    """An open file. It is closed when nobody refers to it any more, so never while somebody reads."""

    def __init__(self, path: Path, flags: int = os.O_RDONLY) -> None:
        self.number = -1
        self.number = os.open(path, flags | os.O_CLOEXEC, 0o600)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


@dataclass(eq=False)
class Segment:
    """A segment as the process sees it. Only the active one has offsets and a file here; sealed ones are in caches."""

    first: int
    last: int
    size: int
    bodies: int
    offsets: Offsets | None = None
    file: Descriptor | None = None

    def row(self) -> SegmentRow:
        return SegmentRow(self.first, self.last, self.size, self.bodies)


@dataclass
class Run:
    """Bodies of a group that go to one segment."""

    segment: Segment
    is_new: bool
    size: int  # of the segment when the run is written
    numbers: array[int] = field(default_factory=lambda: array("Q"))
    offsets: array[int] = field(default_factory=lambda: array("I"))
    buffers: list[bytes] = field(default_factory=list)

    def add(self, mark: bytes, number: int, body: bytes) -> None:
        self.buffers += (header(mark, number, body), body)
        self.numbers.append(number)
        self.offsets.append(self.size)
        self.size += HEADER_BYTES + len(body)

    def fits(self, bodies: AppendMany, size_max: int) -> bool:
        return self.size + len(bodies.data) + (HEADER_BYTES - BODY_HEAD_BYTES) * len(bodies.ends) <= size_max

    def add_many(self, mark: bytes, bodies: AppendMany) -> None:
        records, offsets = log_records(mark, bodies.first, bodies.data, bodies.ends, BODY_HEAD_BYTES)
        self.buffers.append(records)
        self.numbers.extend(range(bodies.first, bodies.last + 1))
        self.offsets.extend([self.size + offset for offset in offsets])
        self.size += len(records)

    def row(self) -> SegmentRow:
        segment = self.segment
        return SegmentRow(segment.first, self.numbers[-1], self.size, segment.bodies + len(self.numbers))


def segment_path(directory: Path, first: int) -> Path:
    return directory / f"{first:020}.log"


def offsets_path(directory: Path, first: int) -> Path:
    return directory / f"{first:020}.offsets"


def lost_path(directory: Path, first: int) -> Path:
    """A file that a person makes: the store is to go on without this segment."""
    return directory / f"{first:020}.lost"


def segment_files(directory: Path, first: int) -> tuple[Path, Path, Path]:
    """The files that may be there for a segment, itself first."""
    return segment_path(directory, first), offsets_path(directory, first), lost_path(directory, first)


def read_whole(file: Descriptor, size: int) -> bytes:
    """The first `size` bytes of a file, or fewer if it is shorter."""
    parts, position = [], 0
    while position < size and (part := os.pread(file.number, min(size - position, 1 << 30), position)):
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def write_at(file: Descriptor, buffers: Sequence[bytes], offset: int) -> None:
    """Write all buffers one behind the other, mostly with one call."""
    for begin in range(0, len(buffers), _BUFFERS_MAX):
        some: list[bytes | memoryview] = list(buffers[begin : begin + _BUFFERS_MAX])
        while some:
            written = os.pwritev(file.number, some, offset)
            offset += written
            # A disk that is nearly full takes a part; the next call then says so.
            while some and written >= len(some[0]):
                written -= len(some.pop(0))
            if some and written:
                some[0] = memoryview(some[0])[written:]


class SegmentLog:
    """All segments of a store."""

    def __init__(self, directory: Path, mark: bytes, settings: StoreSettings) -> None:
        self._directory = directory
        self._mark = mark
        self._settings = settings
        self._segments: tuple[Segment, ...] = ()  # replaced, never changed: readers take it once
        self._bytes = 0
        self._files: Cache[Descriptor] = Cache(settings.segment_files_max)
        self._offsets: Cache[Offsets] = Cache(settings.segment_offsets_max)
        self._runs: list[Run] = []  # prepared and not yet published
        self._pins = 0
        self._unwanted: list[Path] = []  # files to delete when nothing is pinned
        self._lock = Lock()  # of the two above

    # --- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, directory: Path, mark: bytes, rows: Sequence[SegmentRow], settings: StoreSettings) -> SegmentLog:
        """The log with these segments, ascending, which are all there (`losses.py`). What a crash has left of the group
        that was under way is removed."""
        opened = cls(directory, mark, settings)
        wanted = {path.name for row in rows for path in segment_files(directory, row.first)}
        for path in directory.iterdir():
            if path.suffix in (".log", ".offsets", ".lost", ".part") and path.name not in wanted:
                path.unlink()
        segments = [Segment(*row) for row in rows]
        if segments:
            opened._open_active(segments[-1])
        opened._segments = tuple(segments)
        opened._bytes = sum(row.size - HEADER_BYTES * row.bodies for row in rows)
        return opened

    def _open_active(self, segment: Segment) -> None:
        segment.file = Descriptor(segment_path(self._directory, segment.first), os.O_RDWR)
        if os.fstat(segment.file.number).st_size > segment.size:
            os.ftruncate(segment.file.number, segment.size)
        segment.offsets = self._scan(segment, segment.file)

    def _scan(self, segment: Segment, file: Descriptor) -> Offsets:
        found = scan(read_whole(file, segment.size), self._mark, first=segment.first, last=segment.last)
        for low, high in found.damaged:
            log.warning("the log is damaged: bodies %d to %d, or some of them, are lost", low, high)
        return found

    def close(self) -> None:
        self._segments = ()
        self._files.clear()
        self._offsets.clear()

    # --- writing: one thread ------------------------------------------------------------------------------------------

    def prepare(self, bodies: Sequence[Append | AppendMany]) -> list[SegmentRow]:
        """Write bodies and sync them. Returns the rows that have to be committed before they can be published."""
        self._runs = self._divide(bodies)
        for run in self._runs:
            file = run.segment.file
            if file is None:
                path = segment_path(self._directory, run.segment.first)
                file = run.segment.file = Descriptor(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            write_at(file, run.buffers, run.segment.size)
            run.buffers = []
        return [run.row() for run in self._runs]

    def sync(self) -> None:
        """Let what was prepared survive a loss of power."""
        for run in self._runs:
            assert run.segment.file is not None
            durable.sync_data(run.segment.file.number)
        if any(run.is_new for run in self._runs):
            durable.sync(self._directory)

    def _divide(self, bodies: Sequence[Append | AppendMany]) -> list[Run]:
        """Which body goes to which segment, at which offset."""
        runs: list[Run] = []
        size_max = min(self._settings.segment_bytes_max, _OFFSET_MAX)
        last = 0
        if self._segments:
            active = self._segments[-1]
            last = active.last
            runs.append(Run(active, False, active.size))
        for change in bodies:
            if isinstance(change, AppendMany) and runs and change.first > last and runs[-1].fits(change, size_max):
                runs[-1].add_many(self._mark, change)
                last = change.last
                continue
            for append in one_by_one([change]):
                assert isinstance(append, Append)
                number, body = append.number, append.body
                if number <= last or len(body) > BODY_BYTES_MAX:
                    raise ValueError(f"body {number} follows {last}, or is too large")
                last = number
                if not runs or (runs[-1].size and runs[-1].size + HEADER_BYTES + len(body) > size_max):
                    runs.append(Run(Segment(number, number, 0, 0), True, 0))
                runs[-1].add(self._mark, number, body)
        return [run for run in runs if run.numbers]

    def publish(self) -> None:
        """What was prepared is committed: let readers see it, and seal the segments that are full."""
        for run in self._runs:
            segment = run.segment
            if run.is_new:
                segment.last, segment.size, segment.bodies = run.row()[1:]
                segment.offsets = Offsets(run.numbers, run.offsets)
                former = self._segments[-1:]
                self._segments = (*self._segments, segment)
                for full in former:
                    self._seal(full)
            else:
                # Readers look into numbers first, so these come last.
                assert segment.offsets is not None
                segment.offsets.offsets.extend(run.offsets)
                segment.last, segment.size, segment.bodies = run.row()[1:]
                segment.offsets.numbers.extend(run.numbers)
            self._bytes += run.size - (run.offsets[0] if run.offsets else 0) - HEADER_BYTES * len(run.numbers)
        self._runs = []

    def discard(self) -> None:
        """What was prepared will not be committed. To be called only if nothing was committed for certain."""
        for run in self._runs:
            with suppress(OSError):  # what stays is overwritten by the next group, or cut off at the next opening
                if run.is_new:
                    segment_path(self._directory, run.segment.first).unlink(missing_ok=True)
                elif run.segment.file is not None:
                    os.ftruncate(run.segment.file.number, run.segment.size)
        self._runs = []

    def _seal(self, segment: Segment) -> None:
        assert segment.offsets is not None and segment.file is not None
        self._offsets.put(segment.first, segment.offsets)
        self._files.put(segment.first, segment.file)
        self._write_offsets(segment, segment.offsets)
        segment.offsets = segment.file = None

    def _write_offsets(self, segment: Segment, offsets: Offsets) -> None:
        """Without a sync: a damaged one is made again."""
        path = durable.unused_path(self._directory)
        try:
            path.touch(0o600)
            path.write_bytes(offsets_to_bytes(offsets, segment.first, segment.size))
            path.replace(offsets_path(self._directory, segment.first))
        except OSError as error:
            log.warning("the offsets of segment %d could not be written: %s", segment.first, error)
            with suppress(OSError):
                path.unlink(missing_ok=True)

    # --- dropping -----------------------------------------------------------------------------------------------------

    def droppable(self, number: int) -> list[int]:
        """The sealed segments, by their first numbers, that have only bodies before this one."""
        return [segment.first for segment in self._segments[:-1] if segment.last < number]

    def drop(self, firsts: Sequence[int]) -> None:
        """Delete segments whose rows are gone."""
        gone = [segment for segment in self._segments if segment.first in set(firsts)]
        self._segments = tuple(segment for segment in self._segments if segment not in gone)
        self._bytes -= sum(segment.size - HEADER_BYTES * segment.bodies for segment in gone)
        for segment in gone:
            self._files.remove(segment.first)
            self._offsets.remove(segment.first)
        with self._lock:
            self._unwanted += (path for segment in gone for path in segment_files(self._directory, segment.first))
        self._delete_unwanted()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Meanwhile no file is deleted; for whoever copies them."""
        with self._lock:
            self._pins += 1
        try:
            yield
        finally:
            with self._lock:
                self._pins -= 1
            self._delete_unwanted()

    def _delete_unwanted(self) -> None:
        with self._lock:
            if self._pins:
                return
            unwanted, self._unwanted = self._unwanted, []
        for path in unwanted:
            with suppress(OSError):  # the next opening tries again
                path.unlink(missing_ok=True)

    # --- reading: any thread ------------------------------------------------------------------------------------------

    @property
    def body_bytes(self) -> int:
        """The size of all bodies."""
        return self._bytes

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments

    def prepared(self) -> list[Run]:
        """What is being written, in a list that never changes."""
        return self._runs

    def body(self, number: int) -> bytes:
        """A body that was published."""
        segments = self._segments
        place = bisect_right(segments, number, key=_first) - 1
        if place < 0 or number > segments[place].last:
            raise BodyGoneError(number)
        segment = segments[place]
        offsets = segment.offsets or self._load_offsets(segment, number)
        found = offsets.find(number)
        if found is None:
            if offsets.is_damaged(number):
                raise failures.damaged(f"document {number} is lost: the log is damaged")
            raise BodyGoneError(number)
        # The last record of a segment ends with it. Should the writer have extended the segment meanwhile, more is
        # read than needed.
        is_last = found + 1 == len(offsets.offsets)
        return self.read(
            segment, number, offsets.offsets[found], segment.size if is_last else offsets.offsets[found + 1]
        )

    def read(self, segment: Segment, number: int, begin: int, end: int) -> bytes:
        """The body in these bytes of a segment."""
        file = segment.file or self._open_file(segment, number)
        body = read_record(os.pread(file.number, end - begin, begin), self._mark, number)
        if body is None:
            raise failures.damaged(f"document {number} is damaged")
        return body

    def _open_file(self, segment: Segment, number: int) -> Descriptor:
        file = self._files.get(segment.first)
        if file is None:
            path = segment_path(self._directory, segment.first)
            try:
                file = Descriptor(path)
            except FileNotFoundError:
                if segment not in self._segments:
                    raise BodyGoneError(number) from None  # dropped just now
                raise failures.damaged(f"{path.name} is missing from the log") from None
            self._files.put(segment.first, file)
        return file

    def _load_offsets(self, segment: Segment, number: int) -> Offsets:
        """The offsets of a sealed segment: from memory, from the file beside it, or from the segment itself."""
        offsets = self._offsets.get(segment.first)
        if offsets is None:
            try:
                content = offsets_path(self._directory, segment.first).read_bytes()
            except FileNotFoundError:
                content = b""
            offsets = offsets_from_bytes(content, segment.first, segment.size)
            if offsets is None:
                file = self._open_file(segment, number)
                log.warning("the offsets of segment %d are missing or damaged: made again", segment.first)
                offsets = self._scan(segment, file)
                self._write_offsets(segment, offsets)
            self._offsets.put(segment.first, offsets)
        return offsets
