"""A storage in memory, for tests of peers: what is written is there, until the test says that it never was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treecast.overlay.storage import (
    Append,
    BodyGoneError,
    Change,
    Delete,
    DeleteBefore,
    DropBefore,
    Key,
    Put,
)


class MemoryStorage:
    """Implements `Storage`."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[int | str, bytes]] = {}
        self.bodies: dict[int, bytes] = {}

    def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            match change:
                case Put(table, key, value):
                    self.tables.setdefault(table, {})[key] = value
                case Delete(table, key):
                    self.tables.get(table, {}).pop(key, None)
                case DeleteBefore(table, before):
                    rows = self.tables.get(table, {})
                    for number in [key for key in rows if isinstance(key, int) and key < before]:
                        del rows[number]
                case Append(number, body):
                    self.bodies[number] = body
                case DropBefore(number):
                    self.bodies = {key: body for key, body in self.bodies.items() if key >= number}

    def get(self, table: str, key: int | str) -> bytes | None:
        return self.tables.get(table, {}).get(key)

    def get_many(self, table: str, keys: Iterable[Key]) -> dict[Key, bytes]:
        rows = self.tables.get(table, {})
        return {key: rows[key] for key in keys if key in rows}

    def scan(self, table: str, after: Key, count_max: int) -> list[tuple[Key, bytes]]:
        rows = self.tables.get(table, {})
        keys = sorted(key for key in rows if key > after)  # type: ignore[operator]
        return [(key, rows[key]) for key in keys[:count_max]]  # type: ignore[misc]

    def count(self, table: str) -> int:
        return len(self.tables.get(table, {}))

    def body(self, number: int) -> bytes:
        if number not in self.bodies:
            raise BodyGoneError(number)
        return self.bodies[number]

    def body_bytes(self) -> int:
        return sum(map(len, self.bodies.values()))

    def first_body(self) -> int | None:
        return min(self.bodies, default=None)
