"""Groups that follow from a seed alone, and a process that stores them until it is killed.

    LD_PRELOAD=recording_disk.so python tests/support/stored_groups.py DIRECTORY SEED COUNT [WITHOUT]

It goes on where the store ends, and notes each group when `write` has returned. WITHOUT switches a mechanism off, to
show that its absence is found.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from random import Random

from treecast import durable
from treecast.overlay.storage import Append, Change, Delete, DeleteBefore, DropBefore, Put, Storage
from treecast.serve.store import Store, StoreSettings

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


def main(directory: Path, seed: int, count: int, without: str = "") -> None:
    note = ctypes.CDLL(None).disk_note
    if without == "sync of the log":
        durable.sync_data = lambda descriptor: None
    if without == "sync of directories":
        durable.sync = lambda path: None
    with Store.open(directory, SETTINGS) as store:
        if without == "sync of the tables":
            store._tables._writer.execute("PRAGMA synchronous = OFF")
        first = last_group(store) + 1
        note(ctypes.c_long(first - 1))
        for group in range(first, first + count):
            store.write(draw_group(seed, group))
            note(ctypes.c_long(group))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
