"""treecast.durable: whatever fails on the way, the old file is there and nothing beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from treecast import durable
from treecast.catalog.delivery_ids import file_id, message_id

pytestmark = pytest.mark.house


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the operating system, in order; files and directories apart."""
    made: list[str] = []
    fsync, replace, link = os.fsync, os.replace, os.link

    def is_directory(descriptor: int) -> bool:
        return Path(f"/proc/self/fd/{descriptor}").is_dir()

    def noting(name: Callable[..., str], call: Callable[..., None]) -> Callable[..., None]:
        def noted(*arguments: object) -> None:
            made.append(name(*arguments))
            call(*arguments)

        return noted

    monkeypatch.setattr(os, "fsync", noting(lambda one: "sync directory" if is_directory(one) else "sync", fsync))
    monkeypatch.setattr(os, "replace", noting(lambda *_: "rename", replace))
    monkeypatch.setattr(os, "link", noting(lambda *_: "link", link))
    return made


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_file_is_synced_before_it_has_its_name_and_its_directory_after(tmp_path: Path, calls: list[str]) -> None:
    durable.write(tmp_path / "file", b"old")
    assert calls == ["sync", "rename", "sync directory"]
    with durable.replacing(tmp_path / "file") as file:
        file.write(b"new")
        assert (tmp_path / "file").read_bytes() == b"old"
    assert contents(tmp_path) == {"file": b"new"}
    calls.clear()
    assert durable.write_new(tmp_path / "other", b"1") and calls == ["sync", "link", "sync directory"]
    assert not durable.write_new(tmp_path / "other", b"2")
    assert contents(tmp_path) == {"file": b"new", "other": b"1"}


@pytest.mark.parametrize("call", ["fsync", "replace", "link"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="the disk is gone"):
        if call == "link":
            durable.write_new(tmp_path / "new", b"new")
        else:
            durable.write(tmp_path / "file", b"new")
    assert contents(tmp_path) == {"file": b"old"}


def test_what_the_writer_raises_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), durable.replacing(tmp_path / "file") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert contents(tmp_path) == {"file": b"old"}
    with pytest.raises(FileNotFoundError) as caught:
        durable.write(tmp_path / "absent" / "file", b"")
    assert caught.value.filename == str(tmp_path / "absent" / "file")  # not the name beside it, which nobody knows


def test_file_systems_that_lack_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links a rename does; without a sync of directories the files are synced all the same."""
    fsync = os.fsync

    def no_directories(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(errno.EINVAL, "no sync here")
        fsync(descriptor)

    def no_links(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "fsync", no_directories)
    monkeypatch.setattr(os, "link", no_links)
    assert durable.write_new(tmp_path / "file", b"content")
    assert contents(tmp_path) == {"file": b"content"}


def test_ids_of_deliveries_stay() -> None:
    """Files that were written, and messages that were published, are known again by them."""
    assert file_id("sport", ["a.xml", 0]) == "8d058ce966d79b5eb588479847cdfa351b473ceb"
    assert file_id("ü", ["stream", 7, None, "\ud800"]) == "38f4851080ceb9d06559f1f32f2c4d68c1e642c6"
    key = '{"stream":"stream","batch":7,"file":"a.xml","offset":0,"ordinal":0,"subscription":"sport"}'
    assert message_id(key) == "8d12aec2da9ff7f97b798cc6eca620f89d2a72103f07084a57f6190d1ed1c82f"
