"""Index: what is refused leaves nothing behind, and what is removed does not either."""

from __future__ import annotations

from pathlib import Path

import pytest

from treecast import Index, QueryError, Subscription, engines


def content(index: Index, path: Path) -> bytes:
    """Everything that the index holds; with a seed, equal indexes have equal bytes."""
    index.save(path)
    return path.read_bytes()


def some() -> Index:
    index = Index(seed=1)
    index.add_many([("one", "//a/b"), ("two", "//a[b = 1]"), ("three", "/a | //c")])
    index.add("named", "//n:a", namespaces={"n": "urn:n"})
    return index


def test_refused_subscriptions_leave_nothing_behind(tmp_path: Path) -> None:
    index = some()
    before, size = content(index, tmp_path / "before.tcx"), index.stats().bytes
    for number in range(50):
        refused: list[tuple[str, str]] = [
            (f"x{number}", f"//name{number}/b["),
            ("one", f"//name{number}[@x{number}]"),
            ("", f"//name{number}"),
            ("y" * 1025, f"//name{number}"),
            (f"x{number}", f"//unbound:name{number}"),
        ]
        for id, query in refused:
            with pytest.raises(QueryError):
                index.add(id, query, namespaces={"p": f"urn:{number}"})
        with pytest.raises(QueryError):
            index.replace("one", f"//name{number}[", namespaces={"p": f"urn:{number}"})
        good = [Subscription(f"g{row}", f"//good{number}", namespaces={"p": f"urn:{number}"}) for row in range(3)]
        with pytest.raises(QueryError):
            index.add_many([*good, ("one", "//again")])
        with pytest.raises(QueryError):
            index.add_many([*good, ("bad", "//a[")])
    assert content(index, tmp_path / "after.tcx") == before
    assert index.stats().bytes == size


def test_names_of_refused_queries_are_free_again() -> None:
    """A label that was taken back is given to another name; who matched meanwhile must not mix them up."""
    index = some()
    for number in range(20):
        with pytest.raises(QueryError):
            index.add("one", f"//old{number}")
        assert index.match(f"<old{number}/>".encode()) == []
        index.add(f"new{number}", f"//new{number}")
        assert index.match(f"<r><old{number}/></r>".encode()) == []
        assert index.match(f"<r><new{number}/></r>".encode()) == [f"new{number}"]


@pytest.mark.parametrize("engine", engines.names())
def test_refused_batches_do_not_grow_an_engine(engine: str) -> None:
    index = Index(engine=engine)
    index.add("one", "//a/b")
    sizes = []
    for number in range(6_000):
        with pytest.raises(QueryError):
            index.add_many([(f"x{number}", f"//name{number}/b"), ("one", "//c")])
        sizes.append(index.stats().bytes)
    assert max(sizes[3_000:]) <= max(sizes[:3_000])
    assert index.match(b"<a><b/></a>") == ["one"]


def test_settings_go_with_their_subscriptions() -> None:
    index = Index()
    sizes = []
    for turn in range(6):
        ids = [f"{turn}/{number}" for number in range(3_000)]
        index.add_many(Subscription(id, "//p:a", {"p": f"urn:{id}"}) for id in ids)
        assert index.match(f"<a xmlns='urn:{ids[7]}'/>".encode()) == [ids[7]]
        assert index[ids[7]].namespaces == {"p": f"urn:{ids[7]}"}
        for id in ids:
            index.remove(id)
        sizes.append(index.stats().bytes)
    assert max(sizes) < 1.5 * sizes[0]


@pytest.mark.parametrize("engine", engines.names())
@pytest.mark.parametrize("order", ["first", "last", "middle"])
def test_removing_subscriptions_of_one_query(engine: str, order: str) -> None:
    """From a long list, in any order, with and without results that keep the old list alive."""
    index = Index(engine=engine)
    ids = [str(number) for number in range(600)]
    index.add_many((id, "//a/b" if int(id) % 3 else "//a/b | //c") for id in ids)
    document, kept = b"<a><b/></a>", []
    left = list(ids)
    for turn in range(450):
        place = {"first": 0, "last": -1, "middle": len(left) // 2}[order]
        index.remove(left.pop(place))
        if turn % 50 == 0:
            assert index.match(document) == left
            kept = [index.match_many([document])] if turn % 100 else []
        if turn % 90 == 0:
            index.add(f"late {turn}", "//a/b")
            left.append(f"late {turn}")
    assert index.match(document) == left
    assert not kept or kept[0].num_rows
