"""Groups that follow from a seed alone, and a process that stores them until it is killed.

    LD_PRELOAD=recording_disk.so python -m support.stored_groups DIRECTORY SEED COUNT FAILING WITHOUT

It goes on where the store ends, and notes each group when `write` has returned. If FAILING is not empty, all
syncs after so many fail, and the process dies of that. WITHOUT switches a mechanism off, to show that this is found.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from pathlib import Path
from random import Random

from treecast import durable
from treecast.overlay.storage import Append, Change, Delete, DeleteBefore, DropBefore, Put, Storage, StorageError
from treecast.serve.store import Store, StoreSettings, wal

SETTINGS = StoreSettings(
    segment_bytes_max=6000, page_bytes=1024, checkpoint_bytes=12 << 10, wal_bytes_max=20 << 10, cache_bytes_max=1 << 20
)
NUMBERS = 100  # of bodies, at most, in a group


def draw_group(seed: int, group: int) -> list[Change]:
    """Group 1, 2, 3, …: always the same for a seed."""
    random = Random(seed * 1_000_003 + group)
    changes: list[Change] = [Put("letters", 0, str(group).encode())]
    for number in range(random.choice((0, 1, 3, 8))):
        changes.append(Append(group * NUMBERS + number, random.randbytes(random.choice((0, 30, 600, 1500)))))
    for _ in range(random.randint(0, 6)):
        changes.append(Put("queue", random.randint(0, 60), random.randbytes(random.choice((3, 40, 1500)))))
        changes.append(Put("names", random.choice("abcdefgh"), random.randbytes(40)))
        changes.append(Delete("queue", random.randint(0, 60)))
    if random.random() < 0.15:
        changes.append(DeleteBefore("queue", random.randint(0, 30)))
        changes.append(DropBefore((group - 5) * NUMBERS))
    return changes


def last_group(storage: Storage) -> int:
    """The group that a store ends with."""
    return int(storage.get("letters", 0) or 0)


def switch_off(mechanism: str) -> None:
    match mechanism:
        case "sync of the log":
            durable.sync_data = lambda descriptor: None
        case "sync of directories":
            durable.sync = lambda path: None
        case "second writing":
            wal.rewrite = lambda path: None
        case _:
            pass  # nothing, or what SQLite is told


def main(directory: Path, seed: int, count: int, failing: str, without: str) -> None:
    switch_off(without)
    with Store.open(directory, SETTINGS) as store:
        first = last_group(store) + 1
        NOTE(ctypes.c_long(first - 1))  # what is there now counts as stored
        if without == "sync of the tables":
            store._tables._writer.execute("PRAGMA synchronous = OFF")
        if failing:
            FAIL(ctypes.c_char(b"S"), ctypes.c_int(errno.EIO), ctypes.c_long(int(failing)))
        try:
            for group in range(first, first + count):
                store.write(draw_group(seed, group))
                NOTE(ctypes.c_long(group))
        except StorageError:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    NOTE, FAIL = ctypes.CDLL(None).disk_note, ctypes.CDLL(None).disk_fail  # preloaded
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
