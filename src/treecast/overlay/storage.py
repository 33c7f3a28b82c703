"""What a peer keeps on disk: tables of small values, and a log of bodies. The interface only.

A `Storage` writes groups of changes, each all or nothing and durable when `write` returns. `treecast.serve.store` has
the real one (SQLite and a segment log); `treecast.sim` has one that loses what was not synced, and fails now and then.

Tables have integer or text keys, and values of bytes. Rows with ascending integer keys are cheap to add. A body is a
document or a payload: large, written once, read seldom, dropped in the order in which it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeVar

import msgspec

from treecast.errors import PeerError

Key = TypeVar("Key", int, str)


class Put(msgspec.Struct, frozen=True):
    """Set the value of a key. A table has keys of one type, for ever."""

    table: str
    key: int | str
    value: bytes


class PutMany(msgspec.Struct, frozen=True):
    """The same for many keys of one table, without an object for each.

    >>> list(one_by_one([PutMany("t", ["a", "b"], [b"1", b"2"])]))
    [Put(table='t', key='a', value=b'1'), Put(table='t', key='b', value=b'2')]
    """

    table: str
    keys: Sequence[int | str]
    values: Sequence[bytes]


class Delete(msgspec.Struct, frozen=True):
    """Remove a key; no error if there is none."""

    table: str
    key: int | str


class DeleteBefore(msgspec.Struct, frozen=True):
    """Remove all integer keys less than `key`."""

    table: str
    key: int


class Append(msgspec.Struct, frozen=True):
    """Add a body to the log. Numbers ascend, with gaps allowed, and are never used twice."""

    number: int
    body: bytes


BODY_HEAD_BYTES = 5
"""Before each body of `AppendMany`."""


def packed_body(body: bytes) -> bytes:
    """As it stands in `AppendMany.data`: bytes of MessagePack whose length has always four bytes.

    >>> packed_body(b"<a/>")
    b'\\xc6\\x00\\x00\\x00\\x04<a/>'
    """
    return b"\xc6" + len(body).to_bytes(4, "big") + body


class AppendMany(msgspec.Struct, frozen=True):
    """Add bodies with consecutive numbers, one behind the other in `data`, without an object for each.

    Each stands there as it travels in MessagePack, with `BODY_HEAD_BYTES` before it, so that deliveries need no copies.
    `native/bindings/bindings_lanes.cpp` writes them; PERF: bench/network_cpu.py.

    >>> list(one_by_one([AppendMany.of(7, [b"<a/>", b"<b/>"])]))
    [Append(number=7, body=b'<a/>'), Append(number=8, body=b'<b/>')]
    """

    first: int
    data: bytes
    ends: Sequence[int]

    @classmethod
    def of(cls, first: int, bodies: Iterable[bytes]) -> AppendMany:
        packed = [packed_body(body) for body in bodies]
        return cls(first, b"".join(packed), list(accumulate(map(len, packed))))

    @property
    def last(self) -> int:
        return self.first + len(self.ends) - 1

    def body(self, number: int) -> bytes:
        """One of them."""
        return self.data[self._begin(number) + BODY_HEAD_BYTES : self.ends[number - self.first]]

    def packed(self, first: int, last: int) -> memoryview:
        """Some of them, as they travel."""
        return memoryview(self.data)[self._begin(first) : self.ends[last - self.first]]

    def _begin(self, number: int) -> int:
        place = number - self.first
        return self.ends[place - 1] if place else 0


class DropBefore(msgspec.Struct, frozen=True):
    """Bodies with numbers less than this one are needed no more. Some may still be there for a while."""

    number: int


SingleChange = Put | Delete | DeleteBefore | Append | DropBefore
Change = SingleChange | PutMany | AppendMany


def one_by_one(changes: Iterable[Change]) -> Iterator[SingleChange]:
    """For whoever does not care: each row by itself."""
    for change in changes:
        if type(change) is PutMany:
            for key, value in zip(change.keys, change.values, strict=True):
                yield Put(change.table, key, value)
        elif type(change) is AppendMany:
            for number in range(change.first, change.last + 1):
                yield Append(number, change.body(number))
        else:
            yield change  # type: ignore[misc]


class Storage(Protocol):
    """Where a peer's state survives."""

    def write(self, changes: Sequence[Change]) -> None:
        """Make the changes durable, in order, all or none. Raises `StorageError`, and then none of them is visible."""

    def get(self, table: str, key: int | str) -> bytes | None: ...

    def get_many(self, table: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        """The values of those keys that exist: much faster than asking for each."""

    def scan(self, table: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        """Up to `count_max` rows with keys greater than `after`, ascending. Text is compared by code points."""

    def count(self, table: str) -> int:
        """How many rows a table has; 0 if nothing was ever put there."""

    def body(self, number: int) -> bytes:
        """Raises `BodyGoneError` if it was dropped, or never written, and `StorageError` if it is damaged."""

    def body_bytes(self) -> int:
        """The size of all bodies that are kept."""

    def first_body(self) -> int | None:
        """The lowest number that is kept."""


class StorageError(PeerError):
    """The disk failed, is full, or holds something else than was written.

    TC420 storing failed, TC421 the disk is full, TC422 what is stored is damaged, TC423 not a store of ours, or in use,
    TC426 a store with replicas, for a broker without, TC427 the store of another peer or ring, or of more brokers,
    TC428 an older state of a broker's store than others have heard of
    """

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)


class BodyGoneError(StorageError):
    """TC424: retention dropped this body."""

    def __init__(self, number: int) -> None:
        super().__init__(f"document {number} is no longer kept", code="TC424", hint="retention dropped it")
