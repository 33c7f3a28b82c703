"""A store that has lost what was stored is not opened: the loss is named, no file changes, and its owner decides."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from support.served_http import Service

from treecast.overlay.storage import Append, BodyGoneError, DropBefore, Put, StorageError
from treecast.serve.store import Store, StoreSettings

pytestmark = pytest.mark.house

SMALL = StoreSettings(segment_bytes_max=3000, page_bytes=1024, checkpoint_bytes=64 << 10)
GROUPS = 30
"""With a body of 500 bytes each, five to a segment."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a process that was killed after 30 groups, and beside them its tables after 12."""
    root = tmp_path_factory.mktemp("killed")
    with Store.open(root / "store", SMALL) as store:
        for number in range(1, 13):
            store.write([Append(number, bytes([number]) * 500), Put("t", number, b"value")])
    shutil.copytree(root / "store", root / "older")
    with Store.open(root / "store", SMALL) as store:
        for number in range(13, GROUPS + 1):
            store.write([Append(number, bytes([number]) * 500), Put("t", number, b"value")])
        shutil.copytree(root / "store", root / "crashed")
    return root


@pytest.fixture
def crashed(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed / "crashed", tmp_path / "store"))


def digests(directory: Path) -> dict[str, str]:
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refusal(path: Path) -> StorageError:
    """Why a store is not opened. Nothing of it has changed, however often that is tried."""
    before = digests(path)
    for _ in range(2):
        with pytest.raises(StorageError) as caught:
            Store.open(path, SMALL)
        assert caught.value.code == "TC422"
        assert digests(path) == before
    return caught.value


def expect_whole(path: Path) -> None:
    with Store.open(path, SMALL) as store:
        assert [store.body(number) for number in range(1, GROUPS + 1)] == [
            bytes([number]) * 500 for number in range(1, GROUPS + 1)
        ]
        assert store.count("t") == GROUPS and store.verify() == []


def segment(path: Path, first: int) -> Path:
    return path / "bodies" / f"{first:020}.log"


def test_what_a_killed_process_left_is_whole(crashed: Path) -> None:
    expect_whole(crashed)


def cut_wal(path: Path) -> None:
    wal = path / "tables.sqlite-wal"
    os.truncate(wal, wal.stat().st_size // 2)


def empty_wal(path: Path) -> None:
    os.truncate(path / "tables.sqlite-wal", 0)


def delete_wal(path: Path) -> None:
    (path / "tables.sqlite-wal").unlink()


def delete_files_of_sqlite(path: Path) -> None:
    delete_wal(path)
    (path / "tables.sqlite-shm").unlink()


def cut_wal_and_delete_its_index(path: Path) -> None:
    cut_wal(path)
    (path / "tables.sqlite-shm").unlink()


def damage_head_of_wal(path: Path) -> None:
    wal = path / "tables.sqlite-wal"
    wal.write_bytes(b"?" + wal.read_bytes()[1:])


def put_back_older_tables(path: Path) -> None:
    shutil.copy(path.parent / "older.sqlite", path / "tables.sqlite")
    delete_files_of_sqlite(path)


TABLES_THAT_ARE_OLDER: list[Callable[[Path], None]] = [
    cut_wal,
    empty_wal,
    delete_wal,
    delete_files_of_sqlite,
    cut_wal_and_delete_its_index,
    damage_head_of_wal,
    put_back_older_tables,
]


@pytest.mark.parametrize("lose", TABLES_THAT_ARE_OLDER, ids=lambda function: function.__name__)
def test_tables_that_are_older(killed: Path, crashed: Path, lose: Callable[[Path], None]) -> None:
    """A store that went on from them would cut off the bodies that they do not name, and give their numbers again."""
    shutil.copy(killed / "older" / "tables.sqlite", crashed.parent / "older.sqlite")
    lose(crashed)
    error = refusal(crashed)
    assert "store/tables.sqlite is older than the rest of the store" in str(error)
    assert f"but group {GROUPS} was stored" in str(error)
    assert f"documents, 26 to {GROUPS}" in str(error)
    assert f"bodies/{segment(crashed, 26).name}" in str(error)
    assert "tables.sqlite-wal back" in str(error.hint) and "remove store/last-group" in str(error.hint)
    for name in ("tables.sqlite", "tables.sqlite-wal", "tables.sqlite-shm"):
        shutil.copy(killed / "crashed" / name, crashed / name)
    expect_whole(crashed)


def test_a_log_that_is_cut_anywhere(killed: Path, crashed: Path) -> None:
    """At each byte of its header and first frame, then of some: what was stored is missing, and that is all."""
    wal = (killed / "crashed" / "tables.sqlite-wal").read_bytes()
    lengths = [*range(40), *range(1_000, 1_100, 7), *range(1_100, len(wal), 4_099), len(wal) - 1]
    for length in lengths:
        for has_index in (True, False):
            (crashed / "tables.sqlite-wal").write_bytes(wal[:length])
            shutil.copy(killed / "crashed" / "tables.sqlite-shm", crashed)
            if not has_index:
                (crashed / "tables.sqlite-shm").unlink()
            with pytest.raises(StorageError, match=r"TC422 store/tables\.sqlite is older"):
                Store.open(crashed, SMALL)


def test_a_log_with_nothing_in_it(killed: Path, tmp_path: Path) -> None:
    """A process was killed when it had begun the log, and stored nothing."""
    header = (killed / "crashed" / "tables.sqlite-wal").read_bytes()[:60]
    for length in (0, 31, 32, 33, 56, 60):
        path = Path(shutil.copytree(killed / "older", tmp_path / str(length)))
        (path / "tables.sqlite-wal").write_bytes(header[:length])
        with Store.open(path, SMALL) as store:
            assert store.count("t") == 12


def test_every_document_that_the_tables_lack_is_counted(killed: Path, crashed: Path) -> None:
    shutil.copy(killed / "older" / "tables.sqlite", crashed.parent / "older.sqlite")
    put_back_older_tables(crashed)
    text = str(refusal(crashed))
    assert "it ends with group 12, but group 30 was stored" in text
    assert f"{segment(crashed, 11).name} has more than the tables name: 3 documents, 13 to 15" in text
    assert f"{segment(crashed, 16).name} has more than the tables name: 5 documents, 16 to 20" in text


def test_groups_without_bodies_are_missed_too(tmp_path: Path) -> None:
    """Subscriptions, positions, places: a store that never had a document."""
    with Store.open(tmp_path / "store", SMALL) as store:
        for number in range(5):
            store.write([Put("t", number, b"value")])
        shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    delete_wal(tmp_path / "crashed")
    assert "No documents are lost" in str(refusal(tmp_path / "crashed"))


def test_the_group_that_was_under_way_is_no_loss(tmp_path: Path) -> None:
    """It was in the log, in two segments, and not in the tables yet: nobody was told that it is stored."""
    with Store.open(tmp_path / "store", SMALL) as store:
        store.write([Append(1, b"one")])
        shutil.copytree(tmp_path / "store", tmp_path / "before")
        store.write([Append(number, bytes(900)) for number in range(2, 7)])
        shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    for name in ("tables.sqlite", "tables.sqlite-wal", "tables.sqlite-shm", "last-group"):
        shutil.copy(tmp_path / "before" / name, tmp_path / "crashed" / name)
    with Store.open(tmp_path / "crashed", SMALL) as store:
        assert store.body(1) == b"one"
        with pytest.raises(BodyGoneError):
            store.body(2)
        store.write([Append(2, b"two")])
    with Store.open(tmp_path / "crashed", SMALL) as store:
        assert store.body(2) == b"two" and store.verify() == []


def test_tables_that_are_empty(crashed: Path) -> None:
    os.truncate(crashed / "tables.sqlite", 0)
    delete_files_of_sqlite(crashed)
    assert "store/tables.sqlite has lost its tables" in str(refusal(crashed))


@pytest.mark.parametrize("first", [6, 26], ids=["sealed", "active"])
@pytest.mark.parametrize("is_cut", [False, True], ids=["missing", "cut"])
def test_a_segment_that_is_lost(killed: Path, crashed: Path, first: int, is_cut: bool) -> None:
    path = segment(crashed, first)
    if is_cut:
        os.truncate(path, 1100)
        expected = f"bodies/{path.name} has 1100 of 2620 bytes: 3 documents, {first + 2} to {first + 4}"
    else:
        path.unlink()
        expected = f"bodies/{path.name} is missing: 5 documents, {first} to {first + 4}"
    error = refusal(crashed)
    assert expected in str(error) and "restore a backup" in str(error.hint)
    assert (path.with_suffix(".lost").name in str(error.hint)) == (first == 6), "the last segment is written to"
    shutil.copy(killed / "crashed" / "bodies" / path.name, path)
    expect_whole(crashed)


def test_all_segments_that_are_lost_are_named(crashed: Path) -> None:
    for first in (1, 11, 26):
        segment(crashed, first).unlink()
    text = str(refusal(crashed))
    assert all(segment(crashed, first).name in text for first in (1, 11, 26))


def test_an_owner_may_go_on_without_a_segment(crashed: Path) -> None:
    segment(crashed, 6).unlink()
    segment(crashed, 6).with_suffix(".lost").touch()
    for _ in range(2):
        with Store.open(crashed, SMALL) as store:
            assert store.body(5) == bytes([5]) * 500 and store.body(11) == bytes([11]) * 500
            with pytest.raises(StorageError, match=r"TC422 .* is missing from the log"):
                store.body(8)
    with Store.open(crashed, SMALL) as store:
        store.backup(crashed.parent / "backup")
        store.write([DropBefore(12)])
        assert sorted(path.name[18:] for path in (crashed / "bodies").iterdir() if path.suffix == ".lost") == []
    with Store.open(crashed.parent / "backup", SMALL) as store:
        assert store.body(11) == bytes([11]) * 500


def test_an_owner_may_go_on_with_older_tables(crashed: Path) -> None:
    cut_wal(crashed)
    refusal(crashed)
    (crashed / "last-group").unlink()
    with Store.open(crashed, SMALL) as store:
        last = store.count("t")
        assert last < GROUPS and store.body(last) == bytes([last]) * 500
        store.write([Append(last + 1, b"the number is free"), Put("t", last + 1, b"value")])
    for _ in range(2):
        with Store.open(crashed, SMALL) as store:
            assert store.body(last + 1) == b"the number is free" and store.verify() == []


def test_a_store_of_an_earlier_version_is_opened(crashed: Path) -> None:
    """Its tables do not number groups."""
    with Store.open(crashed, SMALL):
        pass
    connection = sqlite3.connect(crashed / "tables.sqlite")
    connection.execute("DROP TABLE last_group")
    connection.close()
    (crashed / "last-group").unlink()
    expect_whole(crashed)
    expect_whole(crashed)


def test_a_number_that_is_damaged_is_found(crashed: Path) -> None:
    data = (crashed / "last-group").read_bytes()
    for content in (b"", data[:-1], data[:9] + b"?" + data[10:]):
        (crashed / "last-group").write_bytes(content)
        assert "store/last-group is damaged" in str(refusal(crashed))


def test_a_backup_put_over_a_store_is_found(tmp_path: Path) -> None:
    """Its tables are in place of newer ones, whose bodies are there still."""
    with Store.open(tmp_path / "store", SMALL) as store:
        for number in range(1, 6):
            store.write([Append(number, b"<a/>")])
        store.backup(tmp_path / "backup")
        for number in range(6, 12):
            store.write([Append(number, b"<a/>")])
    with Store.open(tmp_path / "backup", SMALL) as store:
        assert store.body(5) == b"<a/>"
    shutil.copy(tmp_path / "backup" / "tables.sqlite", tmp_path / "store" / "tables.sqlite")
    assert "6 documents, 6 to 11" in str(refusal(tmp_path / "store"))


def test_a_service_does_not_start_without_what_it_has_acknowledged(tmp_path: Path) -> None:
    """A real process: documents are acknowledged, it is killed, and SQLite's log is cut short."""
    with Service(tmp_path / "data") as service:
        service.subscribe("all", "/load")
        lines = "".join('{"document": "<load/>"}\n' for _ in range(20))
        for _ in range(20):
            assert service.ask("POST", "/v1/documents:batch", lines).status == 200
        service.end(signal.SIGKILL)
        (store,) = (path.parent for path in (tmp_path / "data").rglob("store.json"))
        wal = (store / "tables.sqlite-wal").read_bytes()
        os.truncate(store / "tables.sqlite-wal", len(wal) // 3)
        before = digests(tmp_path / "data")
        with pytest.raises(AssertionError, match="TC422"):
            service.start()
        assert digests(tmp_path / "data") == before
        (store / "tables.sqlite-wal").write_bytes(wal)
        service.start()
        assert len(service.ask("POST", "/v1/subscriptions/all:pull", {"max": 1_000}).json["deliveries"]) == 400
