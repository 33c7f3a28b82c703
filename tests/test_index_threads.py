"""Index under threads, forks and imports: a match sees one consistent set, and nothing outlives a call."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.sanitized import fewer

from treecast import Index, QueryError

DOCUMENT = b"<a><b/><c x='1'>text</c></a>"


class Matching:
    """Calls `look` in two threads until it is left; the body runs only once both have looked at least once."""

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look
        self.stop = threading.Event()
        self.looked = [threading.Event(), threading.Event()]
        self.pool = ThreadPoolExecutor(2)

    def run(self, worker: int) -> None:
        while not self.stop.is_set():
            self.look()
            self.looked[worker].set()

    def __enter__(self) -> Self:
        self.futures = [self.pool.submit(self.run, worker) for worker in range(2)]
        for looked, future in zip(self.looked, self.futures, strict=True):
            while not looked.wait(0.01) and not future.done():
                pass
        return self

    def __exit__(self, *error: object) -> None:
        self.stop.set()
        self.pool.shutdown()
        for future in self.futures:
            future.result()


def test_add_many_is_seen_at_once() -> None:
    """Two subscriptions of one add_many: never one without the other, while thousands come and go."""
    index = Index()
    index.add("steady", "/a")

    def look() -> None:
        found = set(index.match(DOCUMENT))
        assert "steady" in found
        assert all(("r" if name[0] == "l" else "l") + name[1:] in found for name in found if name != "steady")

    with Matching(look):
        for number in range(fewer(3000)):
            index.add_many([(f"l{number}", "//b"), (f"r{number}", "/a/c/text()")])
    assert len(index) == 2 * fewer(3000) + 1


def test_machines_are_merged_while_others_match() -> None:
    """By those who match, and by compact(): every answer is what had been added by then, in its order."""
    index = Index()
    index.add_many((f"other {number}", f"//z[@n = {number}]") for number in range(1000))
    names: list[str] = []

    def look() -> None:
        found = index.match(DOCUMENT)
        assert found == names[: len(found)]

    with Matching(look):
        for number in range(fewer(1500)):
            names.append(f"n{number}")
            index.add(names[-1], f"/a[b][not(@n{number})]")
            if number % fewer(300) == fewer(300) - 1:
                index.compact()
    index.compact()
    assert index.match(DOCUMENT) == names
    assert index.stats().machines == 1


def test_one_call_sees_one_set() -> None:
    """All documents of one match_many see the same subscriptions, on all its threads."""
    index = Index()
    index.add("steady", "/a")

    def look() -> None:
        table = index.match_many([DOCUMENT] * 40, threads=2)
        found: dict[int, set[str]] = {}
        for document, name in zip(table["document"].to_pylist(), table["subscription"].to_pylist(), strict=True):
            found.setdefault(document, set()).add(name)
        assert len(found) == 40
        assert all(names == found[0] for names in found.values())

    with Matching(look):
        for number in range(1500):
            index.add(f"s{number}", ("//b", "/a/*", "//c/@x")[number % 3])
            if number >= 5:
                index.remove(f"s{number - 5}")
    assert len(index) == 6


def add_and_remove(index: Index, place: int) -> None:
    index.add(f"n{place}", "//b")
    index.remove(f"n{place}")


CHANGES: dict[str, Callable[[Index, int], None]] = {
    "remove": lambda index, place: index.remove(f"s{place}"),
    "replace": lambda index, place: index.replace(f"s{place}", "/nothing"),
    "add": lambda index, place: index.add(f"n{place}", f"//b | //n{place}"),
    "add and remove": add_and_remove,
    "drop caches": lambda index, _: index.drop_caches(),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_long_call_sees_the_set_it_began_with(change: str, threads: int) -> None:
    """Hundreds of changes while one call works through thousands of documents: all of them see the same set."""
    document = b"<a>" + b"<b/>" * 40 + b"</a>"
    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            index = Index()
            index.add("steady", "/a")
            index.add_many((f"s{place}", ("//b", "/a/b", "/a")[place % 3]) for place in range(300))
            started = threading.Event()

            def call(index: Index = index, started: threading.Event = started) -> pa.Table:
                started.set()
                return index.match_many([document] * 3000, threads=threads)

            future = pool.submit(call)
            started.wait()
            for place in range(300):
                CHANGES[change](index, place)
            counts = pc.value_counts(future.result()["document"]).field("counts").unique().to_pylist()
            assert len(counts) == 1, f"documents of one call saw {counts} subscriptions"


def test_replace_leaves_no_gap() -> None:
    """An id whose query changes, both matching, is found by every match in between, once."""
    index = Index()
    index.add_many([("x", "//b"), ("y", "//b")])

    def look() -> None:
        assert index.match(DOCUMENT) == ["x", "y"]

    with Matching(look):
        for number in range(3000):
            index.replace("x", ("//b", "/a/c", "//@x", "/a | //b")[number % 4])


def test_a_removed_subscription_does_not_match_again() -> None:
    """After remove() returns, no later match delivers the id, though others match at the same time."""
    index = Index()
    index.add_many((f"s{place}", "//b") for place in range(200))

    def look() -> None:
        index.match_many([DOCUMENT] * 5, threads=2)

    with Matching(look):
        for place in range(200):
            index.remove(f"s{place}")
            assert index.match(DOCUMENT) == [f"s{later}" for later in range(place + 1, 200)]


def test_changes_from_several_threads_are_all_kept() -> None:
    index = Index()

    def change(worker: int) -> None:
        for place in range(300):
            index.add(f"w{worker}-{place}", ("//b", "/a", "//c/@x")[place % 3])
            if place % 10 == 0:
                index.match(DOCUMENT)
            if place % 3 == 0:
                index.remove(f"w{worker}-{place}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(change, range(4)))
    expected = {f"w{worker}-{place}" for worker in range(4) for place in range(300) if place % 3}
    assert set(index.match(DOCUMENT)) == expected
    assert len(index) == len(expected)


def test_one_id_is_added_once_however_many_threads_try() -> None:
    index = Index()
    barrier = threading.Barrier(4)

    def add() -> int:
        added = 0
        for place in range(200):
            barrier.wait()
            with suppress(QueryError):
                index.add(f"s{place}", "//b")
                added += 1
        return added

    with ThreadPoolExecutor(4) as pool:
        added = [future.result() for future in [pool.submit(add) for _ in range(4)]]
    assert sum(added) == 200
    assert len(index) == 200


def run(program: str) -> str:
    """What a fresh interpreter prints; other tests leave threads of their own behind."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    ).stdout


COUNT = "len(os.listdir('/proc/self/task'))"


def test_no_thread_outlives_a_call() -> None:
    program = f"""
import os
from treecast import Index
index = Index()
index.add_many((f"s{{place}}", "//b") for place in range(1000))
index.match_many([b"<a><b/></a>"])
before = {COUNT}
index.match_many([b"<a><b/></a>"] * 500, threads=4)
list(index.match_batches([b"<a><b/></a>"] * 500, threads=2))
print({COUNT} - before)
"""
    assert run(program) == "0\n"


def test_import_starts_no_thread() -> None:
    assert run(f"import os, treecast; treecast.Index(); print({COUNT})") == "1\n"


@pytest.mark.parametrize("threads", [1, 2])
def test_an_index_works_on_both_sides_of_a_fork(threads: int) -> None:
    """Spark forks its workers; no thread is alive then, so a child may match, change and match again."""
    program = f"""
import os, sys
from treecast import Index
index = Index()
index.add_many((f"s{{place}}", "//b") for place in range(1000))
documents = [b"<a><b/></a>", b"<c/>"] * 20
index.match_many(documents, threads={threads})
child = os.fork()
index.add("late", "/c")
index.remove("s0")
rows = index.match_many(documents, threads={threads}).num_rows
if child == 0:
    os._exit(0 if rows == 20 * 999 + 20 else 1)
_, status = os.waitpid(child, 0)
sys.exit(0 if status == 0 and rows == 20 * 999 + 20 else 1)
"""
    assert run(program) == ""
