"""The directory of a store: what it is, to whom it belongs, and that only one process has it open.

    store.json          format, version, the store's id and its mark, with a checksum
    lock                locked while the store is open
    tables.sqlite       and SQLite's own files beside it
    last-group          the number of the group that was stored last
    bodies/             the segments of the log, and their offsets
    index-….tcx         a saved index, named after its version
    ring.json           which ring its peer belongs to (`treecast.serve.ring`); it may be there before the store
    tokens.json         who may use the service over HTTP (`treecast.serve.access`); it may be there before the store

A directory that is not empty and not a store is left alone. Only its owner may read a store: there are documents in it,
and secrets of hooks. So its directories have the mode 0700 and its files 0600, also where they were made with others.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from treecast import durable
from treecast.serve.store import failures
from treecast.serve.store.segment import MARK_BYTES

FORMAT = "treecast store"
VERSION = 1
IDENTITY, LOCK, TABLES, BODIES = "store.json", "lock", "tables.sqlite", "bodies"
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
_NOT_OURS_BUT_FINE = {LOCK, "tokens.json", "ring.json", "lost+found"}


@dataclass(frozen=True)
class Identity:
    """What a store is called: `id` for ids of deliveries, `mark` in its log. `is_complete` once everything was made."""

    id: str
    mark: bytes
    is_complete: bool = True

    def to_bytes(self) -> bytes:
        """
        >>> Identity.from_bytes(Identity("i", b"12345678").to_bytes(), "it")
        Identity(id='i', mark=b'12345678', is_complete=True)
        """
        fields = {"format": FORMAT, "version": VERSION, "id": self.id, "mark": self.mark.hex()}
        return _with_checksum({**fields, "complete": self.is_complete})

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Identity:
        try:
            fields = json.loads(data)
        except ValueError:
            raise failures.damaged(f"{name}/{IDENTITY} cannot be read") from None
        if not isinstance(fields, dict) or _with_checksum(fields) != data:
            raise failures.damaged(f"{name}/{IDENTITY} is damaged")
        if fields["format"] != FORMAT or fields["version"] != VERSION:
            raise failures.refused(
                f"{name} is a store of version {fields['version']}, and this treecast reads version {VERSION}",
                "open it with the treecast that wrote it",
            )
        return cls(fields["id"], bytes.fromhex(fields["mark"]), fields["complete"])


def _with_checksum(fields: dict[str, object]) -> bytes:
    """The fields as JSON, the last one a checksum of the others."""
    fields = {name: value for name, value in fields.items() if name != "checksum"}
    fields["checksum"] = f"{crc32(json.dumps(fields).encode()):08x}"
    return json.dumps(fields, indent=1).encode() + b"\n"


class Lock:
    """Held as long as the store is open. It ends with the process, too, however that ends."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise failures.refused(
                f"{directory} is in use by another process", "stop that one, or choose another directory"
            ) from None

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def prepare(directory: Path) -> None:
    """Make the directory, unless it is there. Refuse one that holds something else."""
    if directory.exists() and not directory.is_dir():
        raise failures.refused(f"{directory} is not a directory", "name a directory, or one that does not exist yet")
    if not directory.exists():
        directory.mkdir(parents=True, mode=DIRECTORY_MODE)
        durable.sync(directory.absolute().parent)
    if not (directory / IDENTITY).exists():
        strange = {path.name for path in directory.iterdir() if not path.name.endswith(".part")} - _NOT_OURS_BUT_FINE
        if strange:
            raise failures.refused(
                f"{directory} is not empty and not a store: it contains {min(strange)!r}",
                "name a directory that is empty, or does not exist yet",
            )
    make_private(directory)


def make_private(directory: Path) -> None:
    """Let nobody but the owner read what is in a directory, or change it. What belongs to others stays as it is.

    Raises StorageError if others could put files of their own in the place of ours.
    """
    _make_private(directory, directory.stat())
    if directory.stat().st_mode & stat.S_IWOTH:
        raise failures.refused(
            f"{directory} belongs to somebody else, and everybody may write to it",
            f"chown it to the user of the service, or name another directory: {directory / 'store'}",
        )
    for place, names, files in os.walk(directory):
        for name in (*names, *files):
            path = Path(place, name)
            with suppress(FileNotFoundError):
                _make_private(path, path.lstat())


def _make_private(path: Path, status: os.stat_result) -> None:
    is_ours = os.geteuid() in (0, status.st_uid)
    if is_ours and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) and not stat.S_ISLNK(status.st_mode):
        path.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IRWXG | stat.S_IRWXO))


def identify(directory: Path) -> Identity:
    """The identity of the store, which is drawn for a new one. The caller holds the lock."""
    path = directory / IDENTITY
    if path.exists():
        identity = Identity.from_bytes(path.read_bytes(), directory.name)
    else:
        identity = Identity(durable.unused_name(), bytes.fromhex(durable.unused_name())[:MARK_BYTES], is_complete=False)
        durable.write(path, identity.to_bytes(), mode=FILE_MODE)
    if identity.is_complete:
        for name in (TABLES, BODIES):
            if not (directory / name).exists():
                raise failures.damaged(f"{directory.name}/{name} is missing")
    else:
        (directory / BODIES).mkdir(exist_ok=True, mode=DIRECTORY_MODE)
    return identity


def remove_strays(directory: Path) -> None:
    """What a process that was killed had not finished."""
    for stray in (*directory.glob(".treecast-*.part"), *directory.glob("index-*.unfinished")):
        stray.unlink()


def complete(directory: Path, identity: Identity) -> Identity:
    """Everything was made. From now on something that is missing is damage."""
    durable.sync(directory / BODIES)
    durable.sync(directory)
    if not identity.is_complete:
        identity = Identity(identity.id, identity.mark)
        durable.write(directory / IDENTITY, identity.to_bytes(), mode=FILE_MODE)
    return identity
