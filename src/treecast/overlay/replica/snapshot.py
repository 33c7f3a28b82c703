"""A snapshot of a broker's data, in chunks, read while the broker goes on.

Rows are read at different times, so what the chunks hold together is the state after no group. It need not be: each
chunk shows what some group at or after `base` has left, and all changes say what is to be there, whatever was before.
So a replica that has all chunks, and then gets all groups after `base`, is right as soon as it has the last group whose
traces any chunk may show. `Transfer.end_group` is that group: until then the replica is not complete.
"""

from __future__ import annotations

from collections.abc import Iterator

from treecast.overlay.replica.settings import ReplicaSettings
from treecast.overlay.replica.space import Space, encode_changes
from treecast.overlay.storage import Append, Change, Put

KEY_MIN = -(1 << 62)
"""Less than all integer keys."""


class Transfer:
    """The chunks of one snapshot, made one after the other. Those that were not acknowledged are kept."""

    def __init__(self, id: int, base: int, space: Space, tables: dict[str, bool], settings: ReplicaSettings) -> None:
        self.id = id
        self.base = base
        """A group that was durable before anything was read."""
        self.tables = tables
        self.acknowledged = 0
        self.last: int | None = None
        """The number of the last chunk, once it is made."""
        self._space = space
        self._settings = settings
        self._changes = self._read()
        self._chunk_count = 0
        self._waiting: dict[int, bytes] = {}

    def _read(self) -> Iterator[Change]:
        for table, is_integer in sorted(self.tables.items()):
            after: int | str = KEY_MIN if is_integer else ""
            while rows := self._space.scan(table, after, self._settings.chunk_rows_max):  # type: ignore[type-var]
                yield from (Put(table, key, value) for key, value in rows)
                after = rows[-1][0]
        for number, body in self._space.bodies(after=0):
            yield Append(number, body)

    def acknowledge(self, number: int) -> None:
        """The backup has all chunks up to this one."""
        for chunk_number in range(self.acknowledged + 1, number + 1):
            self._waiting.pop(chunk_number, None)
        self.acknowledged = max(number, self.acknowledged)

    def unacknowledged_chunks(self) -> list[tuple[int, bytes]]:
        return sorted(self._waiting.items())

    def more(self) -> Iterator[tuple[int, bytes]]:
        """Further chunks, as many as may be on their way."""
        while self.last is None and len(self._waiting) < self._settings.chunks_ahead_max:
            changes: list[Change] = []
            size = 0
            for change in self._changes:
                changes.append(change)
                size += len(change.body if isinstance(change, Append) else change.value)  # type: ignore[union-attr]
                if size >= self._settings.chunk_bytes_max:
                    break
            else:
                self.last = self._chunk_count + 1
            self._chunk_count += 1
            data = self._waiting[self._chunk_count] = encode_changes(changes)
            yield self._chunk_count, data
