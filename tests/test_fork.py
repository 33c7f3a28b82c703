"""Indexes in a process that forks: they work in the child, unless a thread was just changing one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.sanitized import SANITIZED

# gcc 12's libasan holds locks of its own across a fork (later ones do not): a child may then wait for them forever.
pytestmark = pytest.mark.skipif(SANITIZED, reason="the sanitizer's allocator must not fork")

BEGIN = """
import os, signal, sys, threading, time
import treecast

def in_child(work):
    '''The exit status of work() in a forked child, which does not wait forever.'''
    child = os.fork()
    if not child:
        signal.alarm(20)
        status = 1
        try:
            status = work() or 0
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
WRITING = """
index = treecast.Index(engine=ENGINE)
index.add("first", "/r")
if ENGINE == "auto":  # a merge is due, which the child must leave alone
    index.add_many((f"t{n}", f"/r[@t={n}]") for n in range(40))
    index.add("late", "/r[@late]")
before = len(index)
many = [(str(n), f"//a{n % 997}/b{n}") for n in range(60_000)]
writer = threading.Thread(target=index.add_many, args=(many,))

def work():
    if ENGINE == "auto":
        assert index.match(b"<r/>") == ["first"]
        assert index.render(b"<r/>")[0].payload == b"<r/>"
    other = treecast.Index()
    other.add("new", "/r")
    assert other.match(b"<r/>") == ["new"]
    status = 0
    uses = lambda: index.add("child", "/c"), lambda: index.remove("first"), lambda: len(index), lambda: index.stats()
    for use in uses:
        try:
            use()
        except RuntimeError as error:
            assert "forked" in str(error), error
            status = 2
    return status

statuses = set()
writer.start()
while writer.is_alive():
    statuses.add(in_child(work))
print(sorted(statuses), flush=True)
assert len(index) == before + 60_000
index.add("parent", "/p")
"""
IDLE = """
index = treecast.Index(engine=ENGINE)
index.add_many((str(n), f"/r/a{n}") for n in range(500))
index.match_many([b"<r/>"])  # imports pyarrow: a fork in the middle of an import is Python's own affair
stop = threading.Event()

def read():
    while not stop.is_set():
        index.match_many([b"<r><a1/><a2/></r>"] * 50, threads=2)
        index.match(b"<r><a1/></r>")
        index._native.drop_caches()

readers = [threading.Thread(target=read) for _ in range(2)]
for reader in readers:
    reader.start()

def work():
    assert index.match(b"<r><a1/></r>") == ["1"]
    index.add("child", "/r/a1")
    index.remove("1")
    assert index.match_many([b"<r><a1/></r>"], threads=2)["subscription"].to_pylist() == ["child"]
    assert len(index) == 500
    assert in_child(lambda: index.match(b"<r><a1/></r>") != ["child"]) == 0

print([in_child(work) for _ in range(10)], flush=True)
stop.set()
for reader in readers:
    reader.join()
assert len(index) == 500
"""


def run(program: str, engine: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program.replace("ENGINE", repr(engine))],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("engine", ["auto", "yfilter"])
def test_a_fork_while_another_thread_writes(engine: str) -> None:
    """A child waited forever for a lock that no thread of it could give back."""
    assert run(WRITING, engine) in ("[0, 2]\n", "[2]\n")


@pytest.mark.parametrize("engine", ["auto", "yfilter"])
def test_a_fork_while_other_threads_match(engine: str) -> None:
    assert run(IDLE, engine) == f"{[0] * 10}\n"
