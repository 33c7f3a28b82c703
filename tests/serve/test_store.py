"""The store: what was written is there, in this process and in the next, and nothing else."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from random import Random

import pytest
from support.store_model import Model

from treecast import Index, durable
from treecast.overlay.storage import Append, BodyGoneError, Change, Delete, DeleteBefore, DropBefore, Put, StorageError
from treecast.serve.store import Store, StoreSettings, log, segment, tables
from treecast.serve.store.group import Group

pytestmark = pytest.mark.house

SMALL = StoreSettings(
    segment_bytes_max=3000,
    segment_files_max=2,
    segment_offsets_max=2,
    page_bytes=1024,
    cache_bytes_max=1 << 20,
    checkpoint_bytes=16 << 10,
)


@pytest.mark.parametrize("seed", range(4))
def test_a_store_is_what_was_written_to_it(tmp_path: Path, seed: int) -> None:
    random, model = Random(seed), Model()
    store = Store.open(tmp_path / "store", SMALL)
    for turn in range(60):
        changes = model.draw(random)
        store.write(changes)
        model.apply(changes)
        if random.random() < 0.2:
            store.close()
            store = Store.open(tmp_path / "store", SMALL)
        if random.random() < 0.3 or turn > 57:
            assert model.difference(store) == ""
    assert store.verify() == []
    store.close()


def test_the_last_change_of_a_key_counts() -> None:
    changes: list[Change] = [
        Put("t", 1, b"a"),
        Put("t", 9, b"b"),
        DeleteBefore("t", 5),
        Put("t", 2, b"c"),
        Delete("t", 9),
    ]
    group = Group.of(changes)
    assert (group.tables["t"].before, group.tables["t"].values) == (5, {9: None, 2: b"c"})


def test_integers_and_texts_are_sorted(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        names = ["", "\x00", "a", "aa", "ä", "￿", "\U0001f600"]
        store.write([Put("names", name, name.encode()) for name in reversed(names)])
        assert [key for key, _ in store.scan("names", "", 100)] == names[1:]
        numbers = [-(1 << 63), -1, 0, 1, (1 << 63) - 1]
        store.write([Put("numbers", number, b"") for number in reversed(numbers)])
        assert [key for key, _ in store.scan("numbers", -(1 << 63), 100)] == numbers[1:]
        assert store.scan("nothing", 0, 10) == [] and store.get("nothing", "") is None and store.count("nothing") == 0


def test_what_is_no_change_changes_nothing(tmp_path: Path) -> None:
    wrong: list[Change] = [
        Put("names", 1, b"a number where texts are"),
        Put("numbers", 1 << 63, b"too large for SQLite"),
        Put("x; DROP TABLE t_names", 1, b""),
        Append(1, b"a number that was used"),
        DeleteBefore("names", 5),
    ]
    with Store.open(tmp_path / "store") as store:
        store.write([Put("names", "a", b"1"), Put("numbers", 1, b"1"), Append(1, b"one")])
        for change in wrong:
            with pytest.raises((TypeError, ValueError, OverflowError)):
                store.write([Append(2, b"two"), Put("names", "b", b"2"), Put("fresh", 1, b""), change])
            assert (store.count("names"), store.count("fresh"), store.body_bytes()) == (1, 0, 3)
            with pytest.raises(BodyGoneError):
                store.body(2)
        store.write([])
        store.write([Append(2, b"zwei"), Put("fresh", "text", b"")])
        assert (store.body(2), store.count("fresh")) == (b"zwei", 1)


def test_bodies_are_dropped_by_segments(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", SMALL) as store:
        for number in range(1, 41):
            store.write([Append(number, bytes(500))])
        files = len(list((tmp_path / "store" / "bodies").glob("*.log")))
        assert (store.first_body(), store.body_bytes(), files) == (1, 40 * 500, 8)
        store.write([DropBefore(18)])
        assert (store.first_body(), store.body_bytes()) == (16, 25 * 500)
        assert len(list((tmp_path / "store" / "bodies").iterdir())) == 2 * 5 - 1, (
            "the active segment has no offsets yet"
        )
        assert len(store.body(16)) == 500
        with pytest.raises(BodyGoneError, match="TC424"):
            store.body(15)
        store.write([DropBefore(1000)])
        assert store.first_body() == 36, "the active segment stays"
    with Store.open(tmp_path / "store", SMALL) as store:
        assert (store.first_body(), store.body_bytes()) == (36, 2500)
        with pytest.raises(ValueError):
            store.write([Append(40, b"")])


def test_one_group_may_fill_several_segments(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", SMALL) as store:
        store.write([Append(number, bytes([number]) * 1000) for number in range(1, 20)])
        store.write([Append(20, bytes(9000)), Append(21, b"")])
        assert len(list((tmp_path / "store" / "bodies").glob("*.log"))) > 8
        assert [store.body(number)[:1] for number in range(1, 20)] == [bytes([number]) for number in range(1, 20)]
    with Store.open(tmp_path / "store", SMALL) as store:
        assert (len(store.body(20)), store.body(21), store.body(19)[:2]) == (9000, b"", bytes([19, 19]))


def test_many_bodies_are_written_with_few_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def some_of(descriptor: int, buffers: list[bytes], offset: int) -> int:
        """Takes a part at first, as a disk may."""
        calls.append(len(buffers))
        data = b"".join(buffers)
        return os.pwrite(descriptor, data[: len(data) // 3] if len(calls) in (1, 3) else data, offset)

    monkeypatch.setattr(os, "pwritev", some_of)
    with Store.open(tmp_path / "store") as store:
        store.write([Append(number, bytes([number % 251]) * 100) for number in range(1, 1001)])
        assert len(calls) == 4
        assert all(store.body(number) == bytes([number % 251]) * 100 for number in range(1, 1001))
        assert store.verify() == []


def test_opening_reads_the_active_segment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(tmp_path / "store", SMALL) as store:
        for number in range(1, 41):
            store.write([Append(number, bytes(500))])
    read: list[int] = []

    def scan(data: bytes, mark: bytes, *, first: int, last: int) -> segment.Offsets:
        read.append(first)
        return segment.scan(data, mark, first=first, last=last)

    monkeypatch.setattr(log, "scan", scan)
    with Store.open(tmp_path / "store", SMALL) as store:
        assert len(store.body(1)) == len(store.body(17)) == 500
        assert read == [36]
    # What is missing or damaged beside a segment is made again.
    first, second = sorted((tmp_path / "store" / "bodies").glob("*.offsets"))[:2]
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1] + b"?")
    for expected in ([36, 1, 6], [36]):
        read.clear()
        with Store.open(tmp_path / "store", SMALL) as store:
            assert len(store.body(1)) == len(store.body(7)) == 500
        assert read == expected
    assert "made again" in caplog.text


def test_files_that_are_open_are_bounded(tmp_path: Path) -> None:
    def open_files() -> int:
        return sum("bodies" in str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())

    with Store.open(tmp_path / "store", SMALL) as store:
        for number in range(1, 61):
            store.write([Append(number, bytes(500))])
        for number in range(1, 61):
            store.body(number)
        assert open_files() == SMALL.segment_files_max + 1
    assert open_files() == 0


def test_a_group_is_one_sync_of_the_log_and_one_of_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(durable, "sync_data", syncs.append)
    with Store.open(tmp_path / "store") as store:
        store.write([Append(number, b"x") for number in range(1, 101)])
        assert len(syncs) == 1
        store.write([Put("t", 1, b"")])
        assert len(syncs) == 1, "nothing for the log"
        writer = store._tables._writer
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_log_of_sqlite_is_bounded(tmp_path: Path) -> None:
    """It grows as long as somebody reads one state of the tables, and is cut afterwards."""
    settings = StoreSettings(page_bytes=1024, checkpoint_bytes=16 << 10, wal_bytes_max=64 << 10)
    wal = tmp_path / "store" / "tables.sqlite-wal"
    with Store.open(tmp_path / "store", settings) as store:
        for key in range(40):
            store.write([Put("t", key % 10, bytes(5000))])
        assert wal.stat().st_size < settings.wal_bytes_max
        reader = tables.connect(tmp_path / "store" / "tables.sqlite")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t_t").fetchall()
        for key in range(40):
            store.write([Put("t", key % 10, bytes(5000))])
        assert wal.stat().st_size > 2 * settings.wal_bytes_max
        reader.close()
        for key in range(10):
            store.write([Put("t", key, bytes(5000))])
        assert wal.stat().st_size <= settings.wal_bytes_max


def test_an_index_is_saved_and_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store"
    with Store.open(path) as store:
        assert store.load_index() is None
        index = Index()
        for version in (5, 7):
            index.add(f"s{version}", "//a")
            store.save_index(index, version)
    with Store.open(path) as store:
        (file,) = path.glob("*.tcx")
        loaded = store.load_index()
        assert loaded is not None
        assert (loaded[0].match(b"<a/>"), loaded[1]) == (["s5", "s7"], 7)
        # A damaged one is passed over, for an older one if there is any.
        (path / f"index-{3:020}.tcx").write_bytes(file.read_bytes())
        data = file.read_bytes()
        file.unlink()
        file.write_bytes(data[:-100])
        assert [damage.file for damage in store.verify() if damage.is_repairable] == [file.name]
        loaded = store.load_index()
        assert loaded is not None and loaded[1] == 3
        assert "passed over" in caplog.text


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store.open(path) as store:
        store.write([Append(1, b"one")])
    strays = [".treecast-1.part", "index-1.tcx.12.1.unfinished", f"bodies/{99:020}.log", f"bodies/{99:020}.offsets"]
    for name in strays:
        (path / name).write_bytes(b"left")
    (path / "notes").write_bytes(b"somebody's")
    with Store.open(path) as store:
        assert store.body(1) == b"one"
    assert [name for name in strays if (path / name).exists()] == []
    assert (path / "notes").exists()


def test_warnings_name_no_content(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with Store.open(tmp_path / "store", SMALL) as store:
        for number in range(1, 10):
            store.write([Append(number, b"secret" * 100), Put("t", number, b"secret")])
    (path, *_) = sorted((tmp_path / "store" / "bodies").glob("*.log"))[-1:]
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)
    with Store.open(tmp_path / "store", SMALL) as store, pytest.raises(StorageError) as caught:
        for number in range(1, 10):
            store.body(number)
    assert "damaged" in caplog.text
    assert "secret" not in caplog.text + str(caught.value)
