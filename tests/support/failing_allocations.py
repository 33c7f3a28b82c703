"""Lets every allocation of a call fail, one after the other: the program that tests/test_memory_failures.py runs.

    LD_PRELOAD=failing_new.so python tests/support/failing_allocations.py STEP ENGINE,ENGINE ACTION ACTION

After each failure the index has to be as it was, and the same call has to succeed. Prints how many allocations failed.
With STEP 1 each does, with 10 every tenth.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from treecast import Index

SHIM = ctypes.CDLL(None)  # preloaded
DOCUMENTS = [
    b"<a><b x='1'>one</b><c><b/></c></a>",
    b"<r><p7/><p8><q/></p8><new/></r>",
    b"<a xmlns='urn:n'><b>two one</b></a>",
    b"<item lang='en' code='7'>some text of an item</item>",
]
Action = Callable[[Index], Any]
HELD: list[pa.Table] = []


def many(index: Index) -> Index:
    """Plain paths in a machine and in the delta, patterns in two machines, which the first match merges, a path with
    many subscribers, settings."""
    index.add_many((f"p{n}", f"//p{n % 90}/q{n % 7}") for n in range(100))
    index.add_many((f"t{n}", f'//item[@lang="en"][@code="{n}"]') for n in range(40))
    index.add_many((f"s{n}", "//a/b") for n in range(40))
    index.add("text", '//b[contains(., "one")]')
    index.add("either", "/a/b | //q")
    index.add("named", "//n:a", namespaces={"n": "urn:n"})
    index.add("rechecked", "//c[b][position() < 3]")
    for n in range(20):
        index.remove(f"s{n}")
    return index


def hold(index: Index, id: str) -> Index:
    """From now on somebody holds an answer from before the last change, so there is no View to be used again."""
    HELD[:] = [index.match_many(DOCUMENTS)]
    index.remove(id)
    return index


def held(index: Index) -> Index:
    """The same, where a removal needs memory."""
    return hold(many(index), "s20")


def nearly_full(index: Index) -> Index:
    """A delta without room for another path, so that the next one is merged."""
    for n in range(80):
        index.add(f"d{n}", f"//d{n}/e{n}/f/g")
    return index


def nearly_sparse(index: Index) -> Index:
    """One removal before everything is renumbered."""
    index.add_many((f"p{n}", f"//p{n % 90}") for n in range(1100))
    for n in range(1061):
        index.remove(f"p{n}")
    return hold(index, "p1061")


def plain(index: Index) -> Index:
    """What all engines of the papers take."""
    index.add_many((f"p{n}", f"//p{n % 9}/q{n % 7}") for n in range(60))
    index.add_many((f"s{n}", "//a/b") for n in range(10))
    return hold(index, "s9")


def loaded(index: Index) -> Index:
    """The same as `many`, from a file: what is added goes into tables of its own."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "saved.tcx")
        many(index).save(path)
        return Index.load(path, seed=1)


FILLINGS: dict[str, Callable[[Index], Index]] = {
    "many": many,
    "held": held,
    "nearly full": nearly_full,
    "nearly sparse": nearly_sparse,
    "loaded": loaded,
    "plain": plain,
}
ACTIONS: dict[str, tuple[str, Action]] = {
    "add": ("many", lambda index: index.add("x", "//r/new")),
    "add with settings": ("many", lambda index: index.add("x", "//m:a[m:b]", namespaces={"m": "urn:n"}, ordered=True)),
    "add a union": ("many", lambda index: index.add("x", "//r/new | //a/b | //item[@code]")),
    "add a pattern": ("many", lambda index: index.add("x", '//r[new][p8/q]/p7[not(@z = "1")]')),
    "add many": (
        "many",
        lambda index: index.add_many([(f"x{n}", f"//r[new]/p{n}[@z > {n}] | /r/p{n}") for n in range(3)]),
    ),
    "merge": ("nearly full", lambda index: index.add_many((f"x{n}", f"//r/p{n}") for n in range(250))),
    "replace": ("many", lambda index: index.replace("s30", "//r[new]/p7")),
    "remove": ("held", lambda index: index.remove("text")),
    "remove many": ("many", lambda index: index.remove_many(["text", "s30", "t7", "p5"])),
    "catch up": (
        "loaded",
        lambda index: index.catch_up(["text", "p5"], [("x", "//r/new"), ("t7", "//r[new]/p7"), ("s30", "/r | //p7")]),
    ),
    "renumber": ("nearly sparse", lambda index: index.remove("p1062")),
    "compact": ("many", lambda index: index.compact()),
    "match": ("many", lambda index: index.match(DOCUMENTS[0])),
    "match many": ("many", lambda index: index._native.match_many(DOCUMENTS * 8, 1, True, 0, 0)),
    "match in threads": ("many", lambda index: index._native.match_many(DOCUMENTS * 8, 4, True, 0, 0)),
    "engine: add": ("plain", lambda index: index.add("x", "//r/new/p7")),
    "engine: add many": (
        "plain",
        lambda index: index.add_many([("x", "//r/new/p7"), ("y", "/r/*/p7"), ("z", "//a/b")]),
    ),
    "engine: replace": ("plain", lambda index: index.replace("s3", "/r/new")),
    "engine: remove": ("plain", lambda index: index.remove("s3")),
    "engine: catch up": ("plain", lambda index: index.catch_up(["s3"], [("x", "//r/new/p7"), ("p5", "/r/*/p7")])),
    "engine: match": ("plain", lambda index: index.match(DOCUMENTS[0])),
    "render": ("many", lambda index: index.render(DOCUMENTS[0])),
}


def answers(index: Index) -> tuple[list[list[str]], pa.Table]:
    """What the index does, and what it holds."""
    return [index.match(document) for document in DOCUMENTS], index.subscriptions()


def check(step: int, engine: str, filling: str, action: Action) -> int:
    def new_index() -> Index:
        return FILLINGS[filling](Index(engine=engine, seed=1))

    changed_index = new_index()
    action(changed_index)
    before, after = answers(new_index()), answers(changed_index)
    failures = 0
    for number in range(1, 100_000, step):
        index = new_index()
        SHIM.fail_allocation(ctypes.c_long(number))
        try:
            action(index)
            has_raised = False
        except (MemoryError, pa.ArrowMemoryError):
            has_raised = True
        finally:
            was_reached = SHIM.allocations() >= number
            SHIM.fail_allocation(ctypes.c_long(0))
        if has_raised:
            failures += 1
            assert was_reached, number
            assert answers(index) == before, f"allocation {number} left something behind"
            action(index)
        assert answers(index) == after, f"allocation {number}: the call has no effect"
        if not was_reached:
            return failures
    raise AssertionError("too many allocations")


if __name__ == "__main__":
    SHIM.allocations.restype = ctypes.c_long
    for engine in sys.argv[2].split(","):
        for name in sys.argv[3:]:
            print(engine, name, check(int(sys.argv[1]), engine, *ACTIONS[name]), sep="\t", flush=True)
