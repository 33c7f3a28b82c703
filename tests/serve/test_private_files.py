"""Files of a service: only its owner may read them. There are documents in them, and secrets of hooks."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.served_http import Service

from treecast import Index
from treecast.overlay.storage import Append, Put, StorageError
from treecast.serve.access.tokens import TokenStore
from treecast.serve.store import Store, StoreSettings

pytestmark = pytest.mark.house

SMALL = StoreSettings(segment_bytes_max=3_000, page_bytes=1024)


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """Nothing is private by the umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def public(directory: Path) -> list[str]:
    """What others than the owner may read, write or enter."""
    paths = [directory, *directory.rglob("*")]
    return [f"{path.name} {path.stat().st_mode & 0o777:o}" for path in paths if path.stat().st_mode & 0o077]


def publish_to_all(directory: Path) -> None:
    """As another program, or an older one, may have left it."""
    directory.chmod(0o755)
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_service(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir(mode=0o755)
    _, token = TokenStore(directory).create(["admin"])
    for is_old in (False, True):
        if is_old:
            publish_to_all(directory)
        with Service(directory, hooks={"allow": ["127.0.0.0/8"]}) as service:
            service.token = token
            hook = {"url": "http://127.0.0.1:9/", "subscriptions": ["a"], "secret": "whsec_" + "c2VjcmV0" * 5}
            service.ask("PUT", "/v1/subscriptions/a", {"query": "/a"})
            assert service.ask("PUT", "/v1/hooks/hook", hook).status in (200, 201)
            assert service.ask("PUT", "/v1/selective/tree", "<tree/>").status in (200, 201)
            service.publish("<a/>")
            names = {path.name for path in directory.iterdir()}
            assert {"tables.sqlite", "tables.sqlite-wal", "tables.sqlite-shm", "tokens.json"} <= names
            assert public(directory) == []
            status, logs = service.end()
            assert (status, logs) == (0, "")
        assert public(directory) == []


def test_a_store_and_its_backup(tmp_path: Path) -> None:
    """Also segments that are sealed, their offsets, and a saved index."""
    (tmp_path / "backup").mkdir(mode=0o777)
    with Store.open(tmp_path / "deep" / "store", SMALL) as store:
        for number in range(1, 11):
            store.write([Append(number, b"x" * 1_000), Put("rows", number, b"secret")])
        store.save_index(Index(), 1)
        store.backup(tmp_path / "backup")
        store.backup(tmp_path / "other" / "backup")
    for copied in (tmp_path / "backup", tmp_path / "other" / "backup", tmp_path / "deep" / "store"):
        assert len(list(copied.rglob("*.offsets"))) > 1 and len(list(copied.glob("*.tcx"))) == 1
        assert public(copied) == []
        with Store.open(copied, SMALL) as store:
            assert store.get("rows", 10) == b"secret"
        assert public(copied) == []


def test_what_is_no_store_keeps_its_modes(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch(0o644)
    tmp_path.chmod(0o755)
    with pytest.raises(StorageError):
        Store.open(tmp_path)
    assert len(public(tmp_path)) == 2


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch(0o644)
    Store.open(tmp_path / "store").close()
    (tmp_path / "store" / "link").symlink_to(outside)
    Store.open(tmp_path / "store").close()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644


def test_a_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everybody may put files of their own, a store is not opened."""
    directory = tmp_path / "store"
    directory.mkdir(mode=0o777)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(StorageError, match="everybody may write to it") as caught:
            Store.open(directory)
        assert caught.value.code == "TC423" and "chown" in caught.value.hint
        directory.chmod(0o750)
        Store.open(directory).close()
    assert public(directory) == ["store 750"]
    Store.open(directory).close()
    assert public(directory) == []
