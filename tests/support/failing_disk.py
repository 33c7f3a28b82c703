"""Lets operations of a disk fail under a store, one place after the other; see tests/serve/test_store_failures.py.

    LD_PRELOAD=recording_disk.so python -m support.failing_disk DIRECTORY OPERATION ERROR STEP

OPERATION is W (write), S (sync) or O (make a file). With STEP 1 each fails in turn, with 3 every third. After each
failure the store has to be as it was before that group, for readers at once and for writers after it was reopened.
Prints how often each code was raised, and how often the store was broken by it.
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from pathlib import Path

from support.store_model import Model
from support.stored_groups import SETTINGS, draw_group, last_group
from treecast.overlay.storage import StorageError
from treecast.serve.store import Store

GROUPS = 12
PLACES = 150


def let_fail(operation: str, error: int, count: int) -> None:
    """Every such operation fails, after `count` more that succeed. Error 0: none fails."""
    letter = operation.encode() if error else b"\0"
    ctypes.CDLL(None).disk_fail(ctypes.c_char(letter), ctypes.c_int(error), ctypes.c_long(count))


def write_until_failure(store: Store, model: Model, seed: int) -> StorageError | None:
    for group in range(last_group(store) + 1, GROUPS + 1):
        changes = draw_group(seed, group)
        try:
            store.write(changes)
        except StorageError as error:
            return error
        model.apply(changes)
    return None


def check_place(directory: Path, operation: str, error: int, place: int, counts: Counter[str]) -> bool:
    """One failure, at this place; False if there was none any more."""
    model = Model()
    store = Store.open(directory, SETTINGS)
    let_fail(operation, error, place)
    failure = write_until_failure(store, model, place)
    if failure is None:
        let_fail("", 0, 0)
        store.close()
        return False
    counts[failure.code] += 1
    counts["broken"] += store.is_broken
    assert model.difference(store) == "", "readers go on, and see nothing of the group"
    if store.is_broken:
        # A store that does not know what is on disk does not write, even if the disk works again.
        let_fail("", 0, 0)
        try:
            store.write(draw_group(place, GROUPS + 1))
        except StorageError as refusal:
            assert refusal.code == "TC420", refusal
        else:
            raise AssertionError("a store that is broken has written")
        assert model.difference(store) == ""
        store.close()
        store = Store.open(directory, SETTINGS)
        former, model = model, Model()
        for group in range(1, last_group(store) + 1):
            model.apply(draw_group(place, group))
        assert last_group(store) - last_group_of(former) in (0, 1)
    let_fail("", 0, 0)
    assert model.difference(store) == "", "the store is as it was before the group, or after it"
    assert write_until_failure(store, model, place) is None
    assert model.difference(store) == ""
    assert store.verify() == []
    store.close()
    return True


def last_group_of(model: Model) -> int:
    return int(model.rows["letters"].get(0, b"0"))


def main(directory: Path, operation: str, error: int, step: int) -> None:
    counts: Counter[str] = Counter()
    for place in range(0, PLACES, step):
        if not check_place(directory / str(place), operation, error, place, counts):
            break
    print(" ".join(f"{name}={count}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
