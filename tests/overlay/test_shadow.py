"""Reading through a shadow is reading a storage that has all changes, whichever of them are durable."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest

from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import (
    Append,
    AppendMany,
    BodyGoneError,
    Change,
    Delete,
    Put,
    PutMany,
    packed_body,
)
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house


def draw_changes(draw: Random, last_body: int) -> list[Change]:
    changes: list[Change] = []
    for _ in range(draw.randrange(4)):
        table = draw.choice(["numbers", "names"])
        keys: list[Any] = list(range(60)) if table == "numbers" else [f"n{key:02}" for key in range(60)]
        some = draw.sample(keys, draw.choice([1, 3, 20, 40]))
        match draw.randrange(4):
            case 0:
                changes.append(Put(table, some[0], draw.randbytes(3)))
            case 1:
                changes.append(Delete(table, some[0]))
            case _:
                changes.append(PutMany(table, some, [draw.randbytes(3) for _ in some]))
    if draw.random() < 0.5:
        bodies = [draw.randbytes(draw.randrange(5)) for _ in range(draw.randrange(1, 5))]
        changes.append(AppendMany.of(last_body + 1, bodies))
        last_body += len(bodies)
    if draw.random() < 0.5:
        changes.append(Append(last_body + 1, draw.randbytes(4)))
    return changes


@pytest.mark.parametrize("seed", range(12))
def test_as_a_storage_that_has_everything(seed: int) -> None:
    draw = Random(seed)
    storage, all_of_it = SimulatedStorage(), SimulatedStorage()
    shadow = Shadow(storage)
    waiting: deque[tuple[int, list[Change]]] = deque()
    last_body = 0
    for _ in range(120):
        changes = draw_changes(draw, last_body)
        last_body = max([last_body, *(c.last for c in changes if isinstance(c, AppendMany))])
        last_body = max([last_body, *(c.number for c in changes if isinstance(c, Append))])
        all_of_it.write(changes)
        waiting.append((shadow.apply(changes), changes))
        while waiting and draw.random() < 0.5:
            group, stored = waiting.popleft()
            storage.write(stored)
            shadow.durable(group)
        assert shadow.waiting() == len(waiting)
        for table in ("numbers", "names"):
            keys: list[Any] = list(range(60)) if table == "numbers" else [f"n{key:02}" for key in range(60)]
            after = draw.choice(keys)
            expected = all_of_it.scan(table, after, 1000)
            count = draw.choice([3, 1000])
            found = shadow.scan(table, after, count)
            assert found == expected[: len(found)] and (len(found) >= min(count, len(expected)) or found)
            assert bool(found) == bool(expected)
            some = draw.sample(keys, 5)
            assert [shadow.get(table, key) for key in some] == [all_of_it.get(table, key) for key in some]
            assert shadow.get_many(table, some) == all_of_it.get_many(table, some)
        numbers = draw.choices(range(1, last_body + 1), k=6) if last_body else []
        assert [all_of_it.body(n) for n in numbers] == [shadow.body(n) for n in numbers]
        ranges = [(n, n) for n in numbers] + [(max(1, last_body - 12), last_body), (max(1, last_body - 3), last_body)]
        expected_bodies = [packed_body(all_of_it.body(n)) for first, last in ranges for n in range(first, last + 1)]
        assert b"".join(shadow.packed(ranges)) == b"".join(expected_bodies)
    with pytest.raises(BodyGoneError):
        shadow.packed([(last_body, last_body + 1)])
