"""Entries by key, in the order of the ring, with digests of ranges: what one peer stores.

An entry has a version; of two with the same key and id the higher version wins, whatever arrives first. So entries may
be copied by anybody, in any order and as often as one likes, and all who hold them agree in the end.

    >>> from treecast.sim.storage import SimulatedStorage
    >>> shelf = Shelf(SimulatedStorage())
    >>> _ = shelf.merge([Entry("/a", "q1", 2, b"new"), Entry("/a", "q1", 1, b"old")], now_ms=0)
    >>> [entry.value for entry in shelf.entries("/a")]
    [b'new']
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from treecast.overlay.chord.chord_messages import Entry
from treecast.overlay.chord.identifiers import place_of_key
from treecast.overlay.storage import Change, Delete, Put, Storage

TABLE = "entries"
READ_ROWS = 1_000
_LAST = "\U0010ffff"


def _digest_of(entry: Entry) -> int:
    text = f"{entry.version} {entry.is_removed} {len(entry.key)} {entry.key}{entry.id}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1


def row_key(entry: Entry) -> str:
    return f"{len(entry.key)} {entry.key}{entry.id}"  # no two entries have the same


class Shelf:
    """What is stored, in memory. Methods that change it return what has to be made durable."""

    def __init__(self, storage: Storage, forget_ms: int = 86_400_000) -> None:
        self._keys: dict[str, dict[str, Entry]] = {}
        self._order: list[tuple[int, str]] = []
        self._digests: dict[str, int] = {}
        self._forget_ms = forget_ms
        after = ""
        while rows := storage.scan(TABLE, after, READ_ROWS):
            for _, value in rows:
                self._set(msgspec.msgpack.decode(value, type=Entry))
            after = rows[-1][0]

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def key_list(self) -> list[str]:
        """In the order of the ring."""
        return [key for _, key in self._order]

    def entries(self, key: str) -> list[Entry]:
        """All of them, those that are removed among them."""
        return list(self._keys.get(key, {}).values())

    def entry(self, key: str, id: str) -> Entry | None:
        return self._keys.get(key, {}).get(id)

    def _set(self, entry: Entry) -> bool:
        """False: what is there is as new."""
        ids = self._keys.get(entry.key)
        if ids is None:
            ids = self._keys[entry.key] = {}
            self._digests[entry.key] = 0
            insort(self._order, (place_of_key(entry.key), entry.key))
        present = ids.get(entry.id)
        if present is not None:
            if present.version >= entry.version:
                return False
            self._digests[entry.key] ^= _digest_of(present)
        ids[entry.id] = entry
        self._digests[entry.key] ^= _digest_of(entry)
        return True

    def merge(self, entries: Iterable[Entry], now_ms: int) -> tuple[list[Change], list[Entry]]:
        """Take what is new among these. Versions are times: what was removed long ago is not heard of again."""
        fresh = [
            entry
            for entry in entries
            if not (entry.is_removed and entry.version + self._forget_ms < now_ms) and self._set(entry)
        ]
        return [Put(TABLE, row_key(entry), msgspec.msgpack.encode(entry)) for entry in fresh], fresh

    def drop(self, key: str) -> list[Change]:
        """Another peer has this key now."""
        if key not in self._keys:
            return []
        entries = self._keys.pop(key)
        del self._digests[key]
        self._order.remove((place_of_key(key), key))
        return [Delete(TABLE, row_key(entry)) for entry in entries.values()]

    def forget_removed(self, now_ms: int) -> list[Change]:
        """Drop what was removed long ago."""
        changes: list[Change] = []
        for key in self.key_list():
            ids = self._keys[key]
            for entry in [e for e in ids.values() if e.is_removed and e.version + self._forget_ms < now_ms]:
                del ids[entry.id]
                self._digests[key] ^= _digest_of(entry)
                changes.append(Delete(TABLE, row_key(entry)))
            if not ids:
                self.drop(key)
        return changes

    # -- ranges, from behind `begin` up to and with `end`, going clockwise

    def keys_within(self, begin: int, end: int) -> Iterator[str]:
        first, last = bisect_right(self._order, (begin, _LAST)), bisect_right(self._order, (end, _LAST))
        places = self._order[first:last] if begin < end else self._order[first:] + self._order[:last]
        return (key for _, key in places)

    def digest(self, begin: int, end: int) -> tuple[int, int, int]:
        """A digest of all entries in the range, how many there are, and of how many keys."""
        total = count = keys = 0
        for key in self.keys_within(begin, end):
            total ^= self._digests[key]
            count += len(self._keys[key])
            keys += 1
        return total, count, keys

    def entries_within(self, begin: int, end: int) -> list[Entry]:
        return [entry for key in self.keys_within(begin, end) for entry in self._keys[key].values()]
