"""The directory of a store: one process at a time, nothing else in it, and copies of it; readers beside a writer."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest
from support.store_model import Model

from treecast import Index, durable
from treecast.overlay.storage import Append, Delete, DropBefore, Put, StorageError
from treecast.serve.store import Store, StoreSettings, backup, directory

pytestmark = pytest.mark.house

SMALL = StoreSettings(segment_bytes_max=3000, page_bytes=1024, checkpoint_bytes=16 << 10)


def refusal(path: Path) -> str:
    with pytest.raises(StorageError) as caught:
        Store.open(path)
    assert caught.value.hint
    return caught.value.code


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store"):
        assert refusal(tmp_path / "store") == "TC423"
        program = "import sys; from treecast.serve.store import Store; Store.open(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "store")], capture_output=True, text=True)
        assert "TC423" in done.stderr and "in use" in done.stderr
    store = Store.open(tmp_path / "store")
    store.close()
    store.close()


def test_what_is_not_a_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert refusal(tmp_path / "file") == "TC423"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_bytes(b"")
    assert refusal(tmp_path / "full") == "TC423"
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(directory, "VERSION", 99)
        Store.open(tmp_path / "store").close()
    with pytest.raises(StorageError, match="version 99, and this treecast reads version 1"):
        Store.open(tmp_path / "store")
    assert refusal(tmp_path / "store") == "TC423"


def test_an_id_is_drawn_once(tmp_path: Path) -> None:
    ids = set()
    for name in ("a", "b", "a"):
        with Store.open(tmp_path / name) as store:
            ids.add((name, store.id))
    assert len(ids) == 2 and len({of for _, of in ids}) == 2


def test_making_a_store_may_be_interrupted_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sync fails once. The next opening goes on; nothing counts as missing that never was."""
    calls: list[int] = []

    def failing(path: Path) -> None:
        calls.append(1)
        if len(calls) == attempt:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(durable, "sync", failing)
    for attempt in range(1, 8):
        path = tmp_path / str(attempt)
        calls.clear()
        try:
            Store.open(path).close()
        except StorageError as error:
            assert error.code == "TC420"
            with Store.open(path) as store:
                store.write([Append(1, b"one")])
                assert store.body(1) == b"one"
            continue
        break
    assert 4 < attempt < 8


@pytest.mark.parametrize("name", ["tables.sqlite", "bodies"])
def test_a_part_that_is_missing_is_damage(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path / "store") as store:
        store.write([Put("t", 1, b"")])
    (tmp_path / "store" / name).rename(tmp_path / "elsewhere")
    assert refusal(tmp_path / "store") == "TC422"
    (tmp_path / "elsewhere").rename(tmp_path / "store" / name)
    Store.open(tmp_path / "store").close()


def test_a_backup_is_the_store_after_one_of_its_groups(tmp_path: Path) -> None:
    """Taken while another thread writes and drops."""
    random = Random(3)
    models = [Model()]
    with Store.open(tmp_path / "store", SMALL) as store:
        index = Index()
        index.add("s", "//a")
        store.save_index(index, 1)
        is_over = threading.Event()

        def write() -> None:
            while not is_over.is_set():
                model = models[-1].copy()
                changes = [*model.draw(random), Put("letters", 7, str(len(models)).encode())]
                model.apply(changes)
                models.append(model)
                store.write(changes)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for name in "abcd":
                store.backup(tmp_path / name)
        finally:
            is_over.set()
            writer.join()
        for name in "abcd":
            with Store.open(tmp_path / name) as copy:
                stored = copy.get("letters", 7)
                model = models[int(stored or 0)].copy()
                assert model.difference(copy) == ""
                assert copy.verify() == []
                assert copy.id == store.id
                assert copy.load_index() is not None
                copy.write([Append(10_000, b"the copy goes its own way"), DropBefore(10_000)])
        # What was done to the copies did nothing to the original.
        assert models[-1].difference(store) == ""
        assert store.verify() == []
        assert len(models) > 4


def test_files_that_are_copied_are_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store drops segments between the copy of the tables and that of the log."""
    with Store.open(tmp_path / "store", SMALL) as store:
        for number in range(1, 41):
            store.write([Append(number, bytes([number]) * 500)])
        copy_tables = backup._copy_tables

        def then_drop(source: Path, target: Path) -> None:
            copy_tables(source, target)
            store.write([DropBefore(1000)])

        monkeypatch.setattr(backup, "_copy_tables", then_drop)
        store.backup(tmp_path / "copy")
        assert store.first_body() == 36
        assert len(list((tmp_path / "store" / "bodies").glob("*.log"))) == 1, "deleted afterwards"
    with Store.open(tmp_path / "copy") as copy:
        assert [copy.body(number)[0] for number in range(1, 41)] == list(range(1, 41))


def test_an_unfinished_backup_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = durable.rename

    def full(source: Path, target: Path) -> None:
        if target.name == "store.json":
            raise OSError(28, "full")
        rename(source, target)

    with Store.open(tmp_path / "store") as store:
        store.write([Append(1, b"one")])
        with monkeypatch.context() as patched:
            patched.setattr(durable, "rename", full)
            with pytest.raises(StorageError, match="TC421"):
                store.backup(tmp_path / "copy")
        assert refusal(tmp_path / "copy") == "TC423"
        with pytest.raises(StorageError, match="not empty"):
            store.backup(tmp_path / "copy")


def test_readers_beside_a_writer(tmp_path: Path) -> None:
    """A row that is there names a body that is there, and both are of one group."""
    failures: list[BaseException] = []
    with Store.open(tmp_path / "store", SMALL) as store:
        is_over = threading.Event()

        def read() -> None:
            try:
                last = 0
                while not is_over.is_set():
                    for number, value in store.scan("queue", last, 5):
                        assert store.body(number) == value * 30
                        last = number
                    if (newest := store.get("names", "newest")) is not None:
                        assert store.body(int(newest)) == newest * 30
                        assert store.body_bytes() >= 0 and store.first_body() is not None
            except BaseException as error:
                failures.append(error)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(1, 250):
            value = str(number).encode()
            store.write([Append(number, value * 30), Put("queue", number, value), Put("names", "newest", value)])
        is_over.set()
        for reader in readers:
            reader.join()
    assert failures == []


def test_a_body_is_there_as_soon_as_its_row_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the commit and what comes after it, and not before it."""
    with Store.open(tmp_path / "store", SMALL) as store:
        seen: list[object] = []
        commit, publish = store._tables.commit, store._log.publish

        def look() -> None:
            row = store.get("queue", 5)
            try:
                seen.append((row, store.body(5)))
            except StorageError as error:
                seen.append((row, error.code))

        def looking_commit(made: dict[str, object]) -> None:
            look()
            commit(made)  # type: ignore[arg-type]

        def looking_publish() -> None:
            look()
            publish()

        monkeypatch.setattr(store._tables, "commit", looking_commit)
        monkeypatch.setattr(store._log, "publish", looking_publish)
        store.write([Append(4, b"four"), Append(5, b"five"), Put("queue", 5, b"5")])
        assert seen == [(None, "TC424"), (b"5", b"five")]


def test_a_reader_does_not_wait_for_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer stands still in a sync until the reader has read."""
    with Store.open(tmp_path / "store") as store:
        store.write([Append(1, b"one"), Put("t", 1, b"one")])
        syncing, has_read = threading.Event(), threading.Event()

        def slow(descriptor: int) -> None:
            syncing.set()
            assert has_read.wait(60)

        monkeypatch.setattr(durable, "sync_data", slow)
        writer = threading.Thread(target=store.write, args=([Append(2, b"two"), Put("t", 1, b"two")],))
        writer.start()
        assert syncing.wait(60)
        assert (store.get("t", 1), store.body(1), store.count("t")) == (b"one", b"one", 1)
        assert store.scan("t", 0, 10) == [(1, b"one")]
        has_read.set()
        writer.join()
        assert (store.get("t", 1), store.body(2)) == (b"two", b"two")


def test_a_segment_that_is_dropped_while_it_is_read(tmp_path: Path) -> None:
    """A reader has the body or is told that it is gone; it never reads from a file that took the descriptor's place."""
    answers: set[str] = set()
    with Store.open(tmp_path / "store", SMALL) as store:
        is_over = threading.Event()

        def read() -> None:
            random = Random(1)
            while not is_over.is_set():
                first = store.first_body() or 1
                number = random.randint(max(1, first - 3), first + 6)
                try:
                    answers.add("right" if store.body(number) == bytes([number % 251]) * 400 else "wrong")
                except StorageError as error:
                    answers.add(error.code)

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(1, 250):
            store.write([Append(number, bytes([number % 251]) * 400), DropBefore(number - 10), Delete("t", 1)])
            time.sleep(0)
        is_over.set()
        reader.join()
    assert answers == {"right", "TC424"}
