"""What a store should hold, as dicts, and groups of changes drawn for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from treecast.overlay.storage import (
    Append,
    AppendMany,
    BodyGoneError,
    Change,
    Delete,
    DeleteBefore,
    DropBefore,
    Put,
    PutMany,
    Storage,
)

TABLES: dict[str, type] = {"queue": int, "letters": int, "names": str}
NAMES = ["", "a", "b", "ä", "\x00", "z" * 50, "\U0001f600", "￿", "aa", "'"]


@dataclass
class Model:
    """The content of a store after some groups."""

    rows: dict[str, dict[int | str, bytes]] = field(default_factory=lambda: {name: {} for name in TABLES})
    bodies: dict[int, bytes] = field(default_factory=dict)
    drop_before: int = 0
    last_body: int = 0

    def copy(self) -> Model:
        rows = {name: dict(table) for name, table in self.rows.items()}
        return Model(rows, dict(self.bodies), self.drop_before, self.last_body)

    def apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            match change:
                case Put(table, key, value):
                    self.rows[table][key] = value
                case Delete(table, key):
                    self.rows[table].pop(key, None)
                case DeleteBefore(table, before):
                    remaining_rows = {key: value for key, value in self.rows[table].items() if key >= before}  # type: ignore[operator]
                    self.rows[table] = remaining_rows
                case Append(number, body):
                    self.bodies[number] = body
                    self.last_body = number
                case DropBefore(number):
                    self.drop_before = max(self.drop_before, number)
                case PutMany() | AppendMany():
                    raise AssertionError("none is drawn")
        self.bodies = {number: body for number, body in self.bodies.items() if number >= self.drop_before}

    def draw(self, random: Random, changes_max: int = 12) -> list[Change]:
        """A group that could come next."""
        changes: list[Change] = []
        number = self.last_body
        for _ in range(random.randint(1, changes_max)):
            table = random.choice(list(TABLES))
            key = random.randint(-3, 60) if TABLES[table] is int else random.choice(NAMES)
            kind = random.random()
            if kind < 0.35:
                number += random.choice((1, 1, 1, 5))
                changes.append(Append(number, random.randbytes(random.choice((0, 1, 80, 700)))))
            elif kind < 0.75:
                changes.append(Put(table, key, random.randbytes(random.choice((0, 3, 40, 900)))))
            elif kind < 0.92:
                changes.append(Delete(table, key))
            elif kind < 0.97 and isinstance(key, int):
                changes.append(DeleteBefore(table, key))
            else:
                changes.append(DropBefore(max(0, number - random.randint(0, 20))))
        return changes

    def difference(self, store: Storage) -> str:
        """What the store holds that it should not, or the other way round; empty if it is as it should be."""
        for name, rows in self.rows.items():
            expected = sorted(rows.items(), key=lambda row: row[0])
            lowest: int | str = -(1 << 63) if TABLES[name] is int else ""
            stored_rows: list[tuple[int | str, bytes]] = []
            if lowest == "" and (empty := store.get(name, "")) is not None:
                stored_rows.append(("", empty))
            while page := store.scan(name, stored_rows[-1][0] if stored_rows else lowest, 7):  # type: ignore[type-var]
                stored_rows += page
            if stored_rows != expected:
                return f"{name} differs: {sorted({key for key, _ in set(stored_rows) ^ set(expected)}, key=repr)}"
            if store.count(name) != len(rows):
                return f"{name} has {store.count(name)} rows instead of {len(rows)}"
            for key, value in expected[:3]:
                if store.get(name, key) != value:
                    return f"{name}[{key!r}]"
        for number, body in self.bodies.items():
            if store.body(number) != body:
                return f"body {number}"
        for number in range(self.last_body + 6):
            if number not in self.bodies:
                try:
                    store.body(number)
                except BodyGoneError:
                    continue
                if number >= self.drop_before:
                    return f"body {number} should not be there"
        return ""
