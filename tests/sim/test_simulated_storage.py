"""The simulated storage keeps what a storage promises, and fails as disks do."""

from __future__ import annotations

from random import Random

import pytest

from treecast.overlay.storage import Append, BodyGoneError, Delete, DeleteBefore, DropBefore, Put, StorageError
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house


def test_rows_are_read_in_order() -> None:
    storage = SimulatedStorage()
    storage.write([Put("t", key, b"%d" % key) for key in (5, 1, 3, 9)])
    storage.write([Put("t", 3, b"new"), Delete("t", 5), Delete("t", 7)])
    assert storage.scan("t", 0, 10) == [(1, b"1"), (3, b"new"), (9, b"9")]
    assert storage.scan("t", 1, 1) == [(3, b"new")]
    storage.write([DeleteBefore("t", 9)])
    assert (storage.count("t"), storage.get("t", 9), storage.get("t", 3)) == (1, b"9", None)
    storage.write([Put("names", name, b"") for name in ("b", "a", "é", "Z")])
    assert [key for key, _ in storage.scan("names", "", 10)] == ["Z", "a", "b", "é"]
    assert storage.count("unknown") == 0 and storage.scan("unknown", 0, 1) == []


def test_bodies_are_dropped_in_order() -> None:
    storage = SimulatedStorage()
    storage.write([Append(1, b"one"), Append(4, b"four")])
    assert (storage.body(4), storage.body_bytes(), storage.first_body()) == (b"four", 7, 1)
    storage.write([DropBefore(4)])
    assert (storage.body_bytes(), storage.first_body()) == (4, 4)
    with pytest.raises(BodyGoneError):
        storage.body(1)


def test_a_crash_keeps_a_prefix_of_what_was_not_synced() -> None:
    prefixes = set()
    for seed in range(40):
        storage = SimulatedStorage()
        storage.write([Put("t", 0, b"")])
        for key in (1, 2, 3):
            storage.append([Put("t", key, b""), Put("u", key, b"")])
        assert storage.count("t") == 1, "not synced, not visible"
        storage.crash(Random(seed))
        keys = tuple(key for key, _ in storage.scan("t", -1, 9))
        assert keys == (0, 1, 2, 3)[: len(keys)] and storage.count("u") == len(keys) - 1, "whole groups, in order"
        prefixes.add(keys)
    assert len(prefixes) == 4


def test_a_failed_sync_breaks_the_store_until_it_is_opened() -> None:
    counts = set()
    for seed in range(20):
        storage = SimulatedStorage()
        storage.failing_syncs = 1
        with pytest.raises(StorageError, match="TC420"):
            storage.write([Put("t", 1, b"")])
        assert storage.count("t") == 0
        with pytest.raises(StorageError, match="TC420"):
            storage.write([Put("t", 2, b"")])
        storage.open(Random(seed))
        counts.add(storage.count("t"))
        storage.write([Put("t", 3, b"")])
    assert counts == {0, 1}, "nobody knows whether the group of a failed sync is there"


def test_a_full_disk_is_an_answer() -> None:
    storage = SimulatedStorage()
    storage.is_full = True
    with pytest.raises(StorageError, match="TC421"):
        storage.write([Put("t", 1, b"")])
    storage.is_full = False
    storage.write([Put("t", 2, b"")])
    assert [key for key, _ in storage.scan("t", 0, 9)] == [2]


def test_damage_and_loss() -> None:
    storage = SimulatedStorage()
    assert storage.damage(Random(1)) is None
    storage.write([Append(1, b"one")])
    assert storage.damage(Random(1)) == 1
    with pytest.raises(StorageError, match="TC422"):
        storage.body(1)
    storage.lose()
    assert storage.first_body() is None and storage.body_bytes() == 0
