"""Saved indexes among processes and threads: what is written is whole, what is loaded is shared."""

from __future__ import annotations

import hashlib
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from support.index_fillings import DOCUMENTS, FILLINGS, fill_predicates, same, saved

from treecast import Index, _native, engines

pytestmark = pytest.mark.house

ASIDE = "*.unfinished"
HEADER_BYTES = 48  # native/base/snapshot.cpp; the table of sections follows, 16 bytes each

# --- the same bytes in every process ---------------------------------------------------------------------------------

SAVING = """
import sys
from treecast import Index, _native, engines
sys.path.insert(0, sys.argv[2])
from support.index_fillings import FILLINGS
for number, fill in enumerate(FILLINGS):
    index = Index(seed=int(sys.argv[3]) if sys.argv[3] else None)
    fill(index)
    index.save(f"{sys.argv[1]}/{number}.tcx")
    index.match(b"<a/>")  # may merge
    index.save(f"{sys.argv[1]}/{number} matched.tcx")
for engine in engines.names():
    index = Index(engine=engine, namespaces={"p": "urn:p"})
    index.add_many((f"q{number}", f"/a/p:b{number % 40}//c") for number in range(300))
    for number in range(0, 300, 3):
        index.remove(f"q{number}")
    index.save(f"{sys.argv[1]}/{engine}.tcx")
"""


def saved_by_a_process(directory: Path, seed: str = "", hash_seed: str = "0") -> dict[str, bytes]:
    directory.mkdir()
    command = [sys.executable, "-c", SAVING, str(directory), str(Path(__file__).parent), seed]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_saved_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever seeds the processes have, and whether the index was loaded in between."""
    one = saved_by_a_process(tmp_path / "one", hash_seed="1")
    assert len(one) == 2 * len(FILLINGS) + len(engines.names())
    assert one == saved_by_a_process(tmp_path / "other", seed="7", hash_seed="2")
    for name in ("0.tcx", "2.tcx", "auto.tcx"):
        again = tmp_path / name
        Index.load(tmp_path / "one" / name).save(again)
        assert again.read_bytes() == one[name]


def seeds_of(data: bytes) -> tuple[int, ...]:
    """The seeds of the tables of a saved index: the plain values begin with three numbers, then they come."""
    offset, _ = struct.unpack_from("<QQ", data, HEADER_BYTES)
    found: tuple[int, ...] = struct.unpack_from("<3Q", data, offset + 12)
    return found


def test_seeds_of_saved_tables_follow_from_all_that_is_in_them(tmp_path: Path) -> None:
    """A BLAKE2b digest, so nobody can choose them: any id, query or removal gives others."""
    path = tmp_path / "saved.tcx"

    def seeds(*subscriptions: tuple[str, str], gone: str = "") -> tuple[int, ...]:
        index = Index()
        index.add_many(subscriptions)
        if gone:
            index.remove(gone)
        index.save(path)
        return seeds_of(path.read_bytes())

    one, two = ("ab", "/a"), ("c", "/b[@x = 1]")
    different = [
        seeds(one, two),
        seeds(two, one),
        seeds(one),
        seeds(("a", "/a"), ("bc", "/b[@x = 1]")),
        seeds(one, ("c", "/b[@x = 2]")),
        seeds(one, two, gone="c"),
        seeds(),
    ]
    assert len(set(different)) == len(different)

    seeds(one, two)
    data = path.read_bytes()
    digest = hashlib.blake2b(digest_size=32)
    item_bytes = {2: 1, 3: 4, 4: 1, 5: 1, 6: 8, 7: 1, 8: 4, 9: 4, 10: 4, 11: 1, 19: 1, 20: 8}
    for section, width in item_bytes.items():
        offset, size = struct.unpack_from("<QQ", data, HEADER_BYTES + 16 * section)
        digest.update(struct.pack("<Q", size // width) + data[offset : offset + size])
    assert tuple(word | 1 for word in struct.unpack("<4Q", digest.digest())[:3]) == seeds_of(data)


def test_a_loaded_index_takes_nothing_into_tables_that_can_be_foreseen(tmp_path: Path) -> None:
    """Reading uses the tables of the file; what is added is kept in others, whose seeds strangers do not know."""
    path = tmp_path / "saved.tcx"
    ids = [f"q{number}" for number in range(200)]
    index = Index()
    index.add_many((id, f"//a[@x = '{id}']") for id in ids)
    index.save(path)
    changes: list[Callable[[Index], None]] = [
        lambda loaded: loaded.add("new", "//b"),
        lambda loaded: loaded.replace("q7", "//b"),
        lambda loaded: loaded.add_many([("new", "//b"), ("newer", "//a[@x = 'q1']")]),
    ]
    for change in changes:
        loaded = Index.load(path)
        assert all(id in loaded for id in ids)
        loaded.remove("q5")
        assert loaded.match(b"<a x='q9'/>") == ["q9"]
        assert _native.testing.saved_tables(loaded._native) == (True, 0)
        change(loaded)
        assert _native.testing.saved_tables(loaded._native) == (True, 0)
        assert sum(id in loaded for id in ids) == 199
        assert loaded.match(b"<a x='q9'/>") == ["q9"]
        assert loaded.match(b"<b/>") in (["q7"], ["new"])
        loaded.remove("q9")
        loaded.save(tmp_path / "changed.tcx")
        assert Index.load(tmp_path / "changed.tcx").subscriptions() == loaded.subscriptions()
        # Once there is much of it, everything goes into one table.
        loaded.add_many((f"many{number}", f"//c[@x = '{number}']") for number in range(150))
        assert _native.testing.saved_tables(loaded._native) == (False, 0)
        assert len(loaded.missing([*ids, *(f"many{number}" for number in range(150))])) == 2
        assert loaded.match(b"<c x='7'/>") == ["many7"]
    assert _native.testing.saved_tables(index._native) == (False, 0)


@pytest.mark.parametrize("seed", [-1, 1 << 64, "7", 1.5])
def test_a_wrong_seed_is_refused(seed: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Index(seed=seed)  # type: ignore[arg-type]


# --- what is written is whole ----------------------------------------------------------------------------------------

SAVER = """
import sys
from treecast import Index
index = Index()
index.add_many((f"new {n}", f"//a[@x = {n}]/b{n % 50}") for n in range(20_000))
print("ready", flush=True)
while True:
    index.save(sys.argv[1])
"""


def test_killed_while_saving(tmp_path: Path) -> None:
    """Whenever the saving process dies, the file is the old one or the new one; an unfinished one may stay beside."""
    path = tmp_path / "saved.tcx"
    old = Index()
    old.add("old", "//a")
    random = Random("kill")
    for _ in range(5):
        old.save(path)
        with subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            threading.Event().wait(random.random() * 0.05)
            child.send_signal(signal.SIGKILL)
        found = Index.load(path)
        assert len(found) in (1, 20_000)
        assert {*tmp_path.iterdir()} - {path} <= {*tmp_path.glob(ASIDE)}


def test_two_indexes_saved_to_one_place_at_once(tmp_path: Path) -> None:
    path = tmp_path / "saved.tcx"
    indexes = [Index(), Index()]
    for number, index in enumerate(indexes):
        index.add_many((f"{number}/{place}", f"//a{place}") for place in range(500 * (number + 1)))
    problems: list[Exception] = []

    def save(index: Index) -> None:
        try:
            for _ in range(30):
                index.save(path)
        except Exception as error:
            problems.append(error)

    indexes[0].save(path)
    threads = [threading.Thread(target=save, args=(index,)) for index in indexes]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert len(Index.load(path)) in (500, 1000)
    for thread in threads:
        thread.join()
    assert problems == []
    assert list(tmp_path.iterdir()) == [path]


def test_saving_while_others_add_and_match(tmp_path: Path) -> None:
    """A saved file holds one moment: the ids of one writer form a row without a gap."""
    path = tmp_path / "saved.tcx"
    index = Index()
    fill_predicates(index)
    before = len(index)
    done = threading.Event()
    problems: list[Exception] = []

    def write() -> None:
        try:
            for number in range(1500):
                index.add(f"w{number}", f"//a[@x = {number % 40}]" if number % 2 else f"//c/d{number}")
        except Exception as error:
            problems.append(error)
        done.set()

    def ask() -> None:
        try:
            while not done.is_set():
                for document in DOCUMENTS:
                    index.match(document)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=write), threading.Thread(target=ask)]
    for thread in threads:
        thread.start()
    count = before
    while not done.is_set():
        loaded = saved(index, path)
        assert len(loaded) >= count
        count = len(loaded)
        assert all(f"w{number}" in loaded for number in range(count - before))
        assert f"w{count - before}" not in loaded
        loaded.match(DOCUMENTS[0])
    for thread in threads:
        thread.join()
    assert problems == []
    same(index, saved(index, path), ["w0", "w1499", "w1500"])


# --- shared memory ---------------------------------------------------------------------------------------------------

READER = """
import re, sys
from pathlib import Path
from treecast import Index

def private() -> int:
    return int(re.search(r"Private_Dirty:\\s+(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())[1]) * 1024

document = ("<r>" + "".join(f"<a x='{n * 998}'><b{n}><c{n}>{n}</c{n}></b{n}></a>" for n in range(50)) + "</r>").encode()
warm = Index()
warm.add_many([("1", "//a[@x = 1]"), ("2", "/r//b"), ("3", "//a[b1]")])
warm.match(document)
warm.match_many([document])
before = private()
index = Index.load(sys.argv[1], cache_bytes_max=0)
found = index.match(document)
index.match(document)
print(len(found), private() - before, flush=True)
sys.stdin.read()
"""


def test_processes_share_a_loaded_index(tmp_path: Path) -> None:
    """Two processes that match at the same time add little memory of their own."""
    path = tmp_path / "saved.tcx"
    index = Index()
    index.add_many((f"subscription {n}", f"//a[@x = {n}]/b{n % 997}") for n in range(50_000))
    index.add_many((f"pattern {n}", f"/r/a[b{n % 300}[c{n % 700} > {n % 90}]][@x < {n}]") for n in range(25_000))
    index.add_many((f"path {n}", f"/r/*/b{n % 1000}//c{n // 1000}") for n in range(25_000))
    index.save(path)
    size = path.stat().st_size
    children = [
        subprocess.Popen([sys.executable, "-c", READER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None
        found, private = map(int, child.stdout.readline().split())
        assert found >= 50
        assert private < 0.2 * size, f"{private:,} of {size:,} bytes"
    for child in children:
        child.communicate()
        assert child.returncode == 0
