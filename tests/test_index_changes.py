"""Index: subscriptions come and go. Ids, their order, refusals that change nothing, tables in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from treecast import Index, QueryError, Subscription, TreecastError

DOCUMENT = b"<a><b/></a>"


def filled(*names: str) -> Index:
    """Every subscription matches DOCUMENT."""
    index = Index()
    for name in names:
        index.add(name, "//b")
    return index


# --- ids and their order ---------------------------------------------------------------------------------------------


def test_ids_come_in_the_order_of_addition() -> None:
    index = Index()
    names = [f"n{(place * 7919) % 1000}" for place in range(1000)]
    queries = ("/a", "//b", "/*/b", "//*", "/a/b | /c")
    for place, name in enumerate(names[:500]):
        index.add(name, queries[place % 5])
    index.add_many((name, queries[place % 5]) for place, name in enumerate(names[500:]))
    assert index.match(DOCUMENT) == names


def test_a_readded_id_goes_last() -> None:
    index = filled("x", "y", "z")
    index.remove("x")
    assert index.match(DOCUMENT) == ["y", "z"]
    index.add("x", "/a")
    assert index.match(DOCUMENT) == ["y", "z", "x"]


def test_a_replaced_id_keeps_its_place() -> None:
    index = filled("x", "y", "z")
    index.replace("x", "/a")
    assert index.match(DOCUMENT) == ["x", "y", "z"]
    index.replace("y", "/c")
    assert index.match(DOCUMENT) == ["x", "z"]
    assert index.match(b"<c/>") == ["y"]
    index.replace("y", "/a/b")
    assert index.match(DOCUMENT) == ["x", "y", "z"]


@pytest.mark.parametrize("share", [1, 3, 50, 1999])
def test_replaced_ids_keep_their_places_among_thousands(share: int) -> None:
    """Replacements are sorted apart from the others: few and many of them, neighbours, the first and the last."""
    names = [f"n{place}" for place in range(2000)]
    index = Index()
    index.add_many(pa.table({"id": names, "query": [("//b", "/a", "/a/b", "//*")[place % 4] for place in range(2000)]}))
    for place in [*range(0, 2000, share), 1999]:
        index.replace(names[place], "/a[b]" if place % 2 else "//b")
    assert index.match(DOCUMENT) == names
    assert [delivery.subscription for delivery in index.render(DOCUMENT)] == names
    index.replace(names[0], "/nothing")
    assert index.match(DOCUMENT) == names[1:]


def test_order_survives_many_changes() -> None:
    index = Index()
    expected: list[str] = []
    for place in range(3000):
        name = f"s{place % 700}"
        if name in index:
            index.remove(name)
            expected.remove(name)
        if place % 3:
            index.add(name, ("//b", "/a", "/a/*")[place % 5 % 3])
            expected.append(name)
        if place % 500 == 0:
            assert index.match(DOCUMENT) == expected
    assert index.match(DOCUMENT) == expected
    assert len(index) == len(expected)


def test_len_and_in() -> None:
    index = filled("x", "y")
    assert len(index) == 2
    assert "x" in index
    assert "z" not in index
    assert "" not in index
    index.remove("x")
    assert len(index) == 1
    assert "x" not in index


@pytest.mark.parametrize("name", ["é", "日本", "a b", "\t", "x" * 1024, "é" * 512, "\x00", "'\"<>"])
def test_ids_are_any_text(name: str) -> None:
    index = Index()
    index.add(name, "//b")
    assert index.match(DOCUMENT) == [name]
    assert index.match_many([DOCUMENT])["subscription"].to_pylist() == [name]
    index.remove(name)
    assert len(index) == 0


@pytest.mark.parametrize("name", ["", "x" * 1025, "é" * 513])
def test_empty_and_overlong_ids_are_refused(name: str) -> None:
    index = filled("x")
    with pytest.raises(QueryError):
        index.add(name, "//b")
    with pytest.raises(QueryError):
        index.add_many([("y", "//b"), (name, "//b")])
    assert index.match(DOCUMENT) == ["x"]


@pytest.mark.parametrize("name", ["é" * 300, "x" + "é" * 300])
def test_long_ids_in_messages_are_cut_between_characters(name: str) -> None:
    index = filled(name)
    with pytest.raises(QueryError, match="é"):
        index.add(name, "//b")
    with pytest.raises(QueryError, match="é"):
        index.add_many([(name, "//b")])
    with pytest.raises(KeyError, match="é"):
        index.remove(name + "é")


def test_lone_surrogates_are_refused() -> None:
    index = filled("x")
    with pytest.raises((QueryError, UnicodeEncodeError)):
        index.add("\ud800", "//b")
    with pytest.raises((QueryError, UnicodeEncodeError)):
        index.add("y", "/\ud800")
    assert "\ud800" not in index
    assert index.match(DOCUMENT) == ["x"]


# --- refusals change nothing -----------------------------------------------------------------------------------------


def test_a_duplicate_is_refused_and_changes_nothing() -> None:
    index = filled("x")
    with pytest.raises(QueryError, match="x"):
        index.add("x", "/c")
    assert index.match(DOCUMENT) == ["x"]
    assert index.match(b"<c/>") == []
    assert len(index) == 1


@pytest.mark.parametrize("name", ["y", "", "x" * 2000])
def test_an_unknown_id_is_a_key_error(name: str) -> None:
    index = filled("x")
    with pytest.raises(KeyError) as caught:
        index.remove(name)
    assert isinstance(caught.value, TreecastError)
    with pytest.raises(KeyError) as caught:
        index.replace(name, "/a")
    assert isinstance(caught.value, TreecastError)
    assert index.match(DOCUMENT) == ["x"]


def test_removing_twice_is_an_error() -> None:
    index = filled("x", "y")
    index.remove("x")
    with pytest.raises(KeyError):
        index.remove("x")
    assert index.match(DOCUMENT) == ["y"]


@pytest.mark.parametrize("query", ["", "a/b", "/a[", "//a[1", "/p:a", "/a" * 100_000])
def test_a_refused_query_changes_nothing(query: str) -> None:
    index = filled("x")
    before = index.stats()
    with pytest.raises(QueryError):
        index.add("y", query)
    with pytest.raises(QueryError):
        index.replace("x", query)
    assert index.match(DOCUMENT) == ["x"]
    assert "y" not in index
    index.add("y", "/a")
    assert index.match(DOCUMENT) == ["x", "y"]
    assert before.subscriptions == 1


# --- many at once ----------------------------------------------------------------------------------------------------


def pairs(count: int) -> Iterator[tuple[str, str]]:
    for place in range(count):
        yield f"s{place}", "//b"


def test_add_many_takes_any_iterable() -> None:
    for given in (list(pairs(3)), tuple(pairs(3)), pairs(3), dict(pairs(3)).items()):
        index = Index()
        index.add_many(given)
        assert index.match(DOCUMENT) == ["s0", "s1", "s2"]
    index.add_many([])
    index.add_many(iter(()))
    assert len(index) == 3


def test_add_many_is_all_or_nothing_and_lists_the_refused() -> None:
    index = filled("x")
    wrong = [("p", "/a"), ("q", "/a["), ("x", "/a"), ("r", "//b"), ("s", "relative"), ("p", "/b"), ("", "/a")]
    with pytest.raises(QueryError) as caught:
        index.add_many(wrong)
    refused = dict(caught.value.refused)
    assert set(refused) == {"q", "x", "s", "p", ""}
    assert all(isinstance(reason, str) and reason for reason in refused.values())
    assert len(str(caught.value)) <= 2000
    assert index.match(DOCUMENT) == ["x"]
    assert len(index) == 1
    index.add_many([("p", "/a"), ("r", "//b")])
    assert index.match(DOCUMENT) == ["x", "p", "r"]


def test_many_refused_give_a_short_message() -> None:
    index = Index()
    with pytest.raises(QueryError) as caught:
        index.add_many((f"s{place}", "not a path [") for place in range(5000))
    assert len(str(caught.value)) <= 2000
    assert len(index) == 0


def test_an_iterable_that_fails_half_way_changes_nothing() -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield from pairs(10)
        raise RuntimeError("the source broke")

    index = filled("x")
    with pytest.raises(RuntimeError, match="the source broke"):
        index.add_many(broken())
    assert index.match(DOCUMENT) == ["x"]


@pytest.mark.parametrize("wrong", [[("x",)], [("x", 1)], [1], [("x", None)], 5, ["ab"[:1]], [("x", b"/a")]])
def test_wrong_types_are_refused(wrong: Any) -> None:
    index = Index()
    with pytest.raises((TypeError, ValueError, QueryError)):
        index.add_many(wrong)
    assert len(index) == 0


def test_a_single_refusal_shows_its_hint_once() -> None:
    with pytest.raises(QueryError) as caught:
        Index().add_many([("x", "a/b")])
    assert caught.value.hint and str(caught.value).count(caught.value.hint) == 1


def test_an_index_is_refused_with_a_way_out() -> None:
    given: Any = Index({"x": "/a"})
    with pytest.raises(QueryError, match=r"items\(\)"):
        Index().add_many(given)


# --- tables ----------------------------------------------------------------------------------------------------------

TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_tables_of_every_text_type(kind: pa.DataType) -> None:
    names = pa.array(["x", "é", "z"]).cast(kind)
    queries = pa.array(["//b", "/c", "/a"]).cast(kind)
    index = Index()
    index.add_many(pa.table({"id": names, "query": queries}))
    assert index.match(DOCUMENT) == ["x", "z"]
    assert index.match(b"<c/>") == ["é"]


def test_chunked_and_sliced_tables() -> None:
    part = pa.table({"id": [f"s{place}" for place in range(10)], "query": ["//b"] * 10})
    more = pa.table({"id": [f"t{place}" for place in range(5)], "query": ["/a", "/c", "//b", "/c", "/a"]})
    empty = part.slice(0, 0)
    table = pa.concat_tables([empty, part.slice(3, 4), empty, more.slice(1)])
    index = Index()
    index.add_many(table)
    assert index.match(DOCUMENT) == ["s3", "s4", "s5", "s6", "t2", "t4"]
    # The chunks of the two columns need not agree.
    uneven = pa.table({
        "id": pa.chunked_array([["x"], ["y", "z"]]),
        "query": pa.chunked_array([["/a", "//b"], ["/c"]]),
    })  # fmt: skip
    other = Index()
    other.add_many(uneven)
    assert other.match(DOCUMENT) == ["x", "y"]


def test_tables_with_other_columns_and_orders() -> None:
    table = pa.table({"note": [1, 2], "query": ["/a", "/c"], "id": ["x", "y"]})
    index = Index()
    index.add_many(table)
    assert index.match(DOCUMENT) == ["x"]


def test_empty_tables() -> None:
    index = Index()
    index.add_many(pa.table({"id": pa.array([], pa.string()), "query": pa.array([], pa.string())}))
    assert len(index) == 0


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"id": ["x"]}),
        pa.table({"query": ["/a"]}),
        pa.table({"name": ["x"], "query": ["/a"]}),
        pa.table({"id": [1], "query": ["/a"]}),
        pa.table({"id": ["x"], "query": [b"/a"]}),
    ],
    ids=["no query", "no id", "other name", "numbers", "bytes"],
)
def test_tables_without_the_columns_are_refused(table: pa.Table) -> None:
    index = filled("y")
    with pytest.raises((QueryError, TypeError, ValueError)):
        index.add_many(table)
    assert index.match(DOCUMENT) == ["y"]


@pytest.mark.parametrize("column", ["id", "query"])
def test_nulls_are_refused(column: str) -> None:
    columns = {"id": ["x", "y"], "query": ["/a", "/a"]}
    columns[column] = ["x" if column == "id" else "/a", None]  # type: ignore[list-item]
    index = filled("z")
    with pytest.raises(QueryError):
        index.add_many(pa.table(columns, schema=pa.schema([("id", pa.string()), ("query", pa.string())])))
    assert index.match(DOCUMENT) == ["z"]


def test_tables_are_all_or_nothing() -> None:
    index = filled("x")
    table = pa.table({"id": ["p", "q", "x", "p"], "query": ["/a", "/a[", "//b", "/a"]})
    with pytest.raises(QueryError) as caught:
        index.add_many(table)
    assert {name for name, _ in caught.value.refused} == {"q", "x", "p"}
    assert index.match(DOCUMENT) == ["x"]


# --- namespaces ------------------------------------------------------------------------------------------------------


def test_namespaces_of_the_index_and_of_the_subscription() -> None:
    index = Index(namespaces={"p": "urn:1"})
    index.add("ours", "//p:b")
    index.add("own", "//p:b", namespaces={"p": "urn:2"})
    index.add("default", "/r/b", namespaces={"": "urn:1"})
    index.add("none", "//b")
    index.add_many([("bulk", "//p:b")])
    index.add_many([Subscription("bulk-own", "//p:b", {"p": "urn:2"})])
    assert index.match(b"<r><b xmlns='urn:1'/></r>") == ["ours", "bulk"]
    assert index.match(b"<r xmlns='urn:1'><b/></r>") == ["ours", "default", "bulk"]
    assert index.match(b"<r xmlns:p='urn:2'><p:b/></r>") == ["own", "bulk-own"]
    assert index.match(b"<r><b/></r>") == ["none"]
    with pytest.raises(QueryError):
        index.add("unbound", "//z:b")


def test_any_name_of_a_namespace_and_any_namespace_of_a_name() -> None:
    index = Index(namespaces={"p": "urn:1"})
    index.add_many([("all", "//p:*"), ("at", "//@p:*"), ("local", "//*[local-name()='b']")])
    assert index.match(b"<r xmlns:q='urn:1'><q:z/></r>") == ["all"]
    assert index.match(b"<r xmlns:q='urn:1' q:z='1'/>") == ["at"]
    assert index.match(b"<r><b xmlns='urn:2'/></r>") == ["local"]
    assert index.match(b"<b/>") == ["local"]
    assert index.match(b"<r xmlns='urn:2' z='1'/>") == []


def test_xml_is_predefined() -> None:
    index = Index()
    index.add("x", "//@xml:lang")
    assert index.match(b"<a xml:lang='en'/>") == ["x"]
    assert index.match(b"<a lang='en'/>") == []
