"""Where the data of one broker lies within the storage of a host that keeps several.

Slot 0 is the host's own broker: its tables and bodies have their own names and numbers, as without replicas. All other
brokers have a slot with a number: each table has a prefix, and bodies are rows of a table, since the log of a storage
has one sequence of numbers only. A slot is never used twice at the same time; a snapshot goes into a new one.

    >>> from treecast.overlay.storage import Append, Put
    >>> Space(None, 3).translate([Put("t", 1, b"x"), Append(7, b"<a/>")])[0]
    Put(table='r3_t', key=1, value=b'x')

Changes travel, and are logged, as MessagePack:

    >>> decode_changes(encode_changes([Put("t", 1, b"x")]))
    [Put(table='t', key=1, value=b'x')]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, assert_never

import msgspec

from treecast.errors import PeerError
from treecast.overlay.storage import (
    Append,
    AppendMany,
    BodyGoneError,
    Change,
    Delete,
    DeleteBefore,
    DropBefore,
    Key,
    Put,
    SingleChange,
    Storage,
    StorageError,
    one_by_one,
)

LOG = "replica_log"
"""`replica_log[group]`: changes of groups that the backup may not have. Bodies are not repeated in it."""
BODIES = "replica_bodies"
"""`replica_bodies[number]`: the bytes of all bodies before this one, in eight bytes, and the body."""

_PUT, _DELETE, _DELETE_BEFORE, _APPEND, _DROP_BEFORE, _LOGGED_BODY = range(6)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[tuple[int, str, int | str, bytes]])
_SIZE_BYTES = 8


class ReplicaError(PeerError):
    """TC425: what the other side has sent about a replica cannot be right."""

    def __init__(self, message: str) -> None:
        super().__init__(f"TC425 {message}", code="TC425")


def encode_changes(changes: Iterable[Change], with_bodies: bool = True) -> bytes:
    """For the backup; or, without bodies, for the log of a storage that has them."""
    entries: list[tuple[int, str, int | str, bytes]] = []
    for change in one_by_one(changes):
        # PERF: bench/replica.py; types are compared, as isinstance is slow where it says no.
        kind = type(change)
        if kind is Put:
            entries.append((_PUT, change.table, change.key, change.value))  # type: ignore[union-attr]
        elif kind is Append:
            number, body = change.number, change.body  # type: ignore[union-attr]
            entries.append((_APPEND, "", number, body) if with_bodies else (_LOGGED_BODY, "", number, b""))
        elif kind is Delete:
            entries.append((_DELETE, change.table, change.key, b""))  # type: ignore[union-attr]
        elif kind is DeleteBefore:
            entries.append((_DELETE_BEFORE, change.table, change.key, b""))  # type: ignore[union-attr]
        else:
            assert kind is DropBefore
            entries.append((_DROP_BEFORE, "", change.number, b""))  # type: ignore[union-attr]
    return _ENCODER.encode(entries)


def decode_changes(data: bytes, storage: Storage | None = None) -> list[Change]:
    """The changes. Bodies that are not with them are read from `storage`; those that it has lost are left out.

    Raises ReplicaError.
    """
    try:
        entries = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ReplicaError(f"a group of changes cannot be decoded: {error}") from None
    changes: list[Change] = []
    for kind, table, key, value in entries:
        if kind == _LOGGED_BODY and storage is not None and isinstance(key, int):
            if (body := body_or_none(storage, key)) is not None:
                changes.append(Append(key, body))
        else:
            changes.append(_change(kind, table, key, value))
    return changes


def _change(kind: int, table: str, key: Any, value: bytes) -> Change:
    if (not table) is (kind <= _DELETE_BEFORE) or (kind > _DELETE and not isinstance(key, int)):
        raise ReplicaError("a group of changes has one without a table, or with a key of the wrong type")
    match kind:
        case 0:
            return Put(table, key, value)
        case 1:
            return Delete(table, key)
        case 2:
            return DeleteBefore(table, key)
        case 3:
            return Append(key, value)
        case 4:
            return DropBefore(key)
        case _:
            raise ReplicaError(f"a group of changes has one of the unknown kind {kind}")


def body_or_none(storage: Storage, number: int) -> bytes | None:
    """A body; None if it is gone, or damaged: its readers would get no more here than they get from a replica."""
    try:
        return storage.body(number)
    except StorageError as error:
        if error.code not in ("TC422", "TC424"):
            raise
        return None


class Space:
    """The data of one broker, for reading (it is a `Storage`) and for translating what the broker asks to store."""

    def __init__(self, storage: Storage, slot: int, last_body: int = 0, body_end: int = 0) -> None:
        self.slot = slot
        self.last_body = last_body
        """The number of the last body that was appended,"""
        self.body_end = body_end
        """and the bytes of all that ever were."""
        self._storage = storage
        self._dropped_before = 0
        self._first = (-1, 0)  # the first body that is kept, and the bytes before it, when it was last looked at

    def table(self, name: str) -> str:
        return f"r{self.slot}_{name}" if self.slot else name

    def translate(self, changes: Iterable[Change]) -> list[Change]:
        """What has to be stored for these changes of the broker."""
        changes = list(changes)
        for change in changes:
            if type(change) is Append:
                self.last_body = max(self.last_body, change.number)
            elif type(change) is AppendMany:
                self.last_body = max(self.last_body, change.last)
        return [self._translate(change) for change in one_by_one(changes)] if self.slot else changes

    def _translate(self, change: SingleChange) -> Change:
        match change:
            case Put(table, key, value):
                return Put(self.table(table), key, value)
            case Append(number, body):
                before, self.body_end = self.body_end, self.body_end + len(body)
                return Put(self.table(BODIES), number, before.to_bytes(_SIZE_BYTES, "big") + body)
            case Delete(table, key):
                return Delete(self.table(table), key)
            case DeleteBefore(table, before):
                return DeleteBefore(self.table(table), before)
            case DropBefore(number):
                self._dropped_before = max(number, self._dropped_before)
                return DeleteBefore(self.table(BODIES), number)
            case _:
                assert_never(change)

    # --- a storage ----------------------------------------------------------------------------------------------------

    def write(self, changes: Sequence[Change]) -> None:
        self._storage.write(self.translate(changes))

    def get(self, table: str, key: int | str) -> bytes | None:
        return self._storage.get(self.table(table), key)

    def get_many(self, table: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        return self._storage.get_many(self.table(table), keys)

    def scan(self, table: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        return self._storage.scan(self.table(table), after, count_max)

    def count(self, table: str) -> int:
        return self._storage.count(self.table(table))

    def body(self, number: int) -> bytes:
        if not self.slot:
            return self._storage.body(number)
        row = self._storage.get(self.table(BODIES), number)
        if row is None:
            raise BodyGoneError(number)
        return row[_SIZE_BYTES:]

    def body_bytes(self) -> int:
        if not self.slot:
            return self._storage.body_bytes()
        if self._first[0] < self._dropped_before or self._first[0] < 0:
            rows = self._storage.scan(self.table(BODIES), -1, 1)
            self._first = (rows[0][0], int.from_bytes(rows[0][1][:_SIZE_BYTES], "big")) if rows else (-1, self.body_end)
        return self.body_end - self._first[1]

    def first_body(self) -> int | None:
        if not self.slot:
            return self._storage.first_body()
        rows = self._storage.scan(self.table(BODIES), -1, 1)
        return rows[0][0] if rows else None

    def bodies(self, after: int) -> Iterator[tuple[int, bytes]]:
        """All bodies with higher numbers, ascending. Those that are gone or damaged are left out."""
        number = max(after + 1, self.first_body() or 0)
        while number <= self.last_body:
            if (body := body_or_none(self, number)) is not None:
                yield number, body
            number += 1
