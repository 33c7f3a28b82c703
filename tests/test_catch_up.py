"""Many changes at once: `remove_many`, `missing`, and `catch_up`, which brings a loaded index up to date."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from treecast import Index, QueryError, Subscription, engines

ENGINES = engines.names()


def private_bytes() -> int:
    """Memory of this process that it shares with no file."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not say")


@pytest.mark.parametrize("engine", ENGINES)
def test_remove_many_is_all_or_nothing(engine: str) -> None:
    index = Index(engine=engine)
    index.add_many([("a", "/x"), ("b", "//y"), ("c", "/x/y"), ("d", "/x")])
    with pytest.raises(KeyError) as error:
        index.remove_many(["a", "nobody", "b"])
    assert error.value.code == "TC143" and "nobody" in str(error.value)  # type: ignore[attr-defined]
    assert index.match(b"<x><y/></x>") == ["a", "b", "c", "d"]
    assert index.remove_many(["b", "a", "a"]) == 2
    assert index.match(b"<x><y/></x>") == ["c", "d"]
    assert index.remove_many([]) == 0
    assert index.missing(["a", "c", "b", "d", "\u00fc"]) == ["a", "b", "\u00fc"]
    assert index.remove_many(id for id in ("c", "d")) == 2
    assert len(index) == 0 and index.match(b"<x><y/></x>") == []


@pytest.mark.parametrize("engine", ENGINES)
def test_catching_up_is_one_change(engine: str, tmp_path: Path) -> None:
    index = Index(engine=engine, namespaces={"n": "urn:n"})
    index.add_many([("a", "/x"), ("b", "//y"), ("c", "/x/y")])
    index.save(tmp_path / "saved.tcx")
    loaded = Index.load(tmp_path / "saved.tcx")
    loaded.catch_up(
        ["b", "never there"], [("a", "/x/y"), Subscription("d", "/x", {}, False, "elements"), ("e", "//n:z")]
    )
    assert loaded.match(b"<x><y/></x>") == ["c", "a", "d"]
    assert loaded.match(b"<z xmlns='urn:n'/>") == ["e"]
    assert loaded["d"].deliver == "elements" and loaded.missing(["a", "b", "c", "d", "e"]) == ["b"]
    loaded.catch_up(["a", "a"], [])
    loaded.catch_up([], [])
    assert loaded.match(b"<x><y/></x>") == ["c", "d"]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_refused_changes_nothing(engine: str) -> None:
    index = Index(engine=engine)
    index.add_many([("a", "/x"), ("b", "//y")])
    for added in ([("c", "/x"), ("d", "//y[")], [("c", "/x"), ("c", "/y")], [("c", "/x"), ("", "/y")]):
        with pytest.raises(QueryError):
            index.catch_up(["a"], added)
        assert index.match(b"<x><y/></x>") == ["a", "b"] and len(index) == 2
    index.catch_up(["a"], [("c", "/x")])
    assert index.match(b"<x><y/></x>") == ["b", "c"]


def queries(random: Random, count: int) -> list[str]:
    kinds = ["//a[@k = '{}']", "/r/a[@k = '{}']/b", "/r/e{}", "//a[@k = '{}' or b]"]
    return [random.choice(kinds).format(random.randrange(50)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_a_loaded_index_that_caught_up_is_like_a_new_one(seed: int, tmp_path: Path) -> None:
    """However much has changed: tables and arrays of a file are added to in another way than those of a new index."""
    random = Random(seed)
    size = random.choice([0, 3, 100, 1_000])
    subscriptions = {f"s{number}": query for number, query in enumerate(queries(random, size))}
    index = Index()
    index.add_many(list(subscriptions.items()))
    path = tmp_path / "saved.tcx"
    index.save(path)
    index = Index.load(path)
    for _ in range(4):
        gone = random.sample(sorted(subscriptions), min(len(subscriptions), random.randrange(1 + size)))
        changed = random.sample(sorted(subscriptions), len(subscriptions) // 4)
        names = [*changed, *(f"n{random.getrandbits(40)}" for _ in range(random.choice([1, 40, size])))]
        added = dict(zip(names, queries(random, len(names)), strict=True))
        subscriptions = {id: query for id, query in subscriptions.items() if id not in gone} | added
        index.catch_up(gone, list(added.items()))
        fresh = Index()
        fresh.add_many(list(subscriptions.items()))
        for key in range(0, 50, 7):
            document = f"<r><a k='{key}'><b/></a><a k='{key + 1}'/><e{key}/></r>".encode()
            assert sorted(index.match(document)) == sorted(fresh.match(document))
        assert index.missing(subscriptions) == [] and len(index) == len(subscriptions)
        if random.random() < 0.5:
            index.save(path)
            index = Index.load(path)


def test_catching_up_merges_nothing() -> None:
    """What is there already stays as it is, so that the time depends on what has changed."""
    index = Index()
    index.add_many([(f"a{number}", f"//a[@k = '{number}']") for number in range(600)])
    assert index.stats().machines == 1
    index.catch_up([], [(f"b{number}", f"//b[@k = '{number}']") for number in range(300)])
    assert index.stats().machines == 2
    other = Index()
    other.add_many([(f"a{number}", f"//a[@k = '{number}']") for number in range(600)])
    other.add_many([(f"b{number}", f"//b[@k = '{number}']") for number in range(300)])
    assert other.stats().machines == 1, "add_many would merge"
    assert index.match(b"<b k='7'/>") == other.match(b"<b k='7'/>") == ["b7"]


@pytest.mark.house
def test_the_first_change_of_a_loaded_index_copies_no_array(tmp_path: Path) -> None:
    path = tmp_path / "saved.tcx"
    index = Index()
    index.add_many([(f"subscription-{number}", f"//a[@k = '{number}']") for number in range(30_000)])
    index.save(path)
    loaded = Index.load(path)
    before = private_bytes()
    loaded.add("new", "//b")
    loaded.replace("subscription-7", "/c")
    grown = private_bytes() - before
    assert grown < path.stat().st_size // 5, f"{grown} bytes of {path.stat().st_size}"
    assert loaded.match(b"<a k='29999'/>") == ["subscription-29999"]
    assert loaded.match(b"<b/>") == ["new"] and loaded.match(b"<c/>") == ["subscription-7"]
    assert abs(loaded.stats().bytes - index.stats().bytes) < index.stats().bytes // 3
