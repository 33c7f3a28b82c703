"""A full disk and failed syncs are answers: a code, nothing of the group visible, and the store goes on when it can."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.crashing_disk import compile_shim

from treecast import Index, durable
from treecast.overlay.storage import Append, Put, StorageError
from treecast.serve.store import Store

pytestmark = pytest.mark.house

TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_shim(tmp_path_factory.mktemp("shim"))


def counts_of_failures(shim: Path, directory: Path, operation: str, error: int, step: int = 1) -> dict[str, int]:
    root = directory / "root"
    root.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "support.failing_disk", str(root), operation, str(error), str(step)],
        cwd=TESTS,
        env={
            **os.environ,
            "LD_PRELOAD": f"{shim} {os.environ.get('LD_PRELOAD', '')}",
            "DISK_ROOT": str(root),
            "DISK_RECORDING": str(directory / "recording"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: int(count) for name, _, count in (item.partition("=") for item in done.stdout.split())}


def test_a_full_disk(tmp_path: Path, shim: Path) -> None:
    """Every write in turn, those of the log, of SQLite's log and of its tables."""
    counts = counts_of_failures(shim, tmp_path, "W", errno.ENOSPC, step=3)
    assert counts["TC421"] > 30
    assert counts.keys() <= {"TC421", "broken"}
    assert 0 < counts["broken"] < counts["TC421"], "a full disk is no failed sync, as long as nothing was committed"


def test_a_disk_that_fails_to_write(tmp_path: Path, shim: Path) -> None:
    assert counts_of_failures(shim, tmp_path, "W", errno.EIO, step=7)["TC420"] > 10


def test_a_failed_sync(tmp_path: Path, shim: Path) -> None:
    counts = counts_of_failures(shim, tmp_path, "S", errno.EIO, step=2)
    assert counts["TC420"] == counts["broken"] > 8


def test_no_room_for_a_new_segment(tmp_path: Path, shim: Path) -> None:
    counts = counts_of_failures(shim, tmp_path, "O", errno.ENOSPC)
    assert counts["TC421"] > 0 and counts["broken"] == 0


def test_a_failed_sync_breaks_the_store_until_it_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with Store.open(tmp_path / "store") as store:
        store.write([Append(1, b"one"), Put("t", 1, b"one")])
        with monkeypatch.context() as patched:
            patched.setattr(durable, "sync_data", failing)
            with pytest.raises(StorageError, match="TC420 could not write a group: Input/output error"):
                store.write([Append(2, b"two"), Put("t", 1, b"two")])
        for _ in range(2):
            with pytest.raises(StorageError, match=r"TC420 .* an earlier sync failed"):
                store.write([Put("t", 2, b"two")])
        assert (store.get("t", 1), store.body(1), store.count("t"), store.is_broken) == (b"one", b"one", 1, True)
    with Store.open(tmp_path / "store") as store:
        store.write([Append(2, b"zwei")])
        assert (store.body(2), store.get("t", 1)) == (b"zwei", b"one")


def test_an_index_that_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Index, path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Store.open(tmp_path / "store") as store:
        monkeypatch.setattr(Index, "save", failing)
        with pytest.raises(StorageError, match="TC421 could not save the index"):
            store.save_index(Index(), 1)
        store.write([Put("t", 1, b"")])
