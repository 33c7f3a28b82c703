"""Saved indexes among processes and threads: what is written is whole, what is loaded is shared."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest
from support.index_fillings import DOCUMENTS, FILLINGS, fill_predicates, same, saved

from treecast import Index

ASIDE = "*.unfinished"

# --- the same bytes in every process ---------------------------------------------------------------------------------

SEEDED = """
import sys
from treecast import Index
sys.path.insert(0, sys.argv[2])
from support.index_fillings import FILLINGS
seed = int(sys.argv[3]) if sys.argv[3] else None
for number, fill in enumerate(FILLINGS):
    index = Index(seed=seed)
    fill(index)
    index.save(f"{sys.argv[1]}/{number}.tcx")
"""


def saved_by_a_process(directory: Path, seed: str) -> dict[str, bytes]:
    directory.mkdir()
    subprocess.run([sys.executable, "-c", SEEDED, str(directory), str(Path(__file__).parent), seed], check=True)
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_seed_makes_saved_bytes_the_same(tmp_path: Path) -> None:
    one, other = (saved_by_a_process(tmp_path / name, "7") for name in ("one", "other"))
    assert len(one) == len(FILLINGS)
    assert one == other
    loaded = Index.load(tmp_path / "one" / "0.tcx")
    loaded.save(tmp_path / "again.tcx")
    assert (tmp_path / "again.tcx").read_bytes() == one["0.tcx"]
    assert one["0.tcx"] != saved_by_a_process(tmp_path / "8", "8")["0.tcx"]


def test_without_a_seed_nobody_can_foresee_the_tables(tmp_path: Path) -> None:
    one, other = (saved_by_a_process(tmp_path / name, "") for name in ("one", "other"))
    assert all(one[name] != other[name] for name in one)


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
