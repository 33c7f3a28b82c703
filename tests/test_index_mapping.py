"""An index as a mapping of ids to queries, and parsed queries wherever their texts may stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from treecast import Index, QueryError, Subscription, parse

PLAIN, BOUND = b"<a/>", b'<a xmlns="urn:y"/>'


def queries(index: Index) -> dict[str, str]:
    return {id: subscription.query for id, subscription in index.items()}


def test_an_index_begins_with_a_mapping() -> None:
    index = Index({"q1": "/a", "q2": "//b"}, engine="yfilter")
    assert queries(index) == {"q1": "/a", "q2": "//b"}
    assert index.engine == "yfilter"
    assert index.keys() == list(index) == ["q1", "q2"]


def test_assignment_adds_at_the_end_and_replaces_in_place() -> None:
    index = Index({"q1": "/a", "q2": "/b"})
    index["q3"] = "/c"
    index["q1"] = "/d"
    assert queries(index) == {"q1": "/d", "q2": "/b", "q3": "/c"}
    assert list(index) == ["q1", "q2", "q3"]
    del index["q2"]
    assert list(index) == ["q1", "q3"]


def test_what_is_read_can_be_assigned_under_another_id() -> None:
    index = Index()
    index.add("q1", "/x:a[b][c]", namespaces={"x": "urn:x"}, ordered=True, deliver="elements")
    index["q2"] = index["q1"]
    assert index["q2"] == Subscription("q2", "/x:a[b][c]", {"x": "urn:x"}, True, "elements")
    assert index.get("q2") == index["q2"]
    assert index.get("q9") is None


def test_one_index_is_made_of_the_items_of_another() -> None:
    index = Index({"q1": "/a"}, namespaces={"": "urn:y"})
    index.add("q2", "/a", namespaces={"": ""})
    other = Index(index.items())
    for document in (PLAIN, BOUND):
        assert other.match(document) == index.match(document) != []
    assert dict(index) == dict(index.items())


def test_unknown_ids_are_key_errors() -> None:
    index = Index({"q1": "/a"})
    calls: list[Callable[[], Any]] = [lambda: index["q9"], lambda: index.__delitem__("q9")]
    for call in calls:
        with pytest.raises(KeyError, match="TC143"):
            call()
    assert "q9" not in index and len(index) == 1


def test_update_adds_and_replaces_all() -> None:
    index = Index({"q1": "/a", "q2": "/b"})
    index.update({"q1": "/c", "q3": "/d"})
    assert queries(index) == {"q2": "/b", "q1": "/c", "q3": "/d"}
    assert list(index) == ["q2", "q1", "q3"]
    index.update([("q4", "/e"), ("q5", parse("/f"))])
    assert index.match(b"<f/>") == ["q5"]


@pytest.mark.parametrize("changes", [{"q1": "/c", "q3": "/["}, {"q3": "/c", "q4": "preceding"}, [("q1", "/b")] * 2])
def test_update_changes_nothing_if_one_is_refused(changes: Any) -> None:
    index = Index({"q1": "/a", "q2": "/b"})
    with pytest.raises(QueryError):
        index.update(changes)
    assert queries(index) == {"q1": "/a", "q2": "/b"}


def test_a_refused_assignment_changes_nothing() -> None:
    index = Index({"q1": "/a"})
    for id in ("q1", "q2"):
        with pytest.raises(QueryError):
            index[id] = "/["
    assert queries(index) == {"q1": "/a"}


def test_clear_leaves_an_index_that_can_be_used() -> None:
    index = Index({"q1": "/a", "q2": "/b"})
    index.clear()
    assert len(index) == 0 and index.match(PLAIN) == []
    index["q1"] = "/a"
    assert index.match(PLAIN) == ["q1"]


# --- parsed queries --------------------------------------------------------------------------------------------------


def replace_in(index: Index, query: Any) -> None:
    index.add("q", "/z")
    index.replace("q", query)


ADDING: dict[str, Callable[[Index, Any], object]] = {
    "add": lambda index, query: index.add("q", query),
    "add_many, a pair": lambda index, query: index.add_many([("q", query)]),
    "add_many, a list": lambda index, query: index.add_many([["q", query]]),
    "add_many, a mapping": lambda index, query: index.add_many([{"id": "q", "query": query}]),
    "add_many, a report": lambda index, query: index.add_many({"q": query}, on_refused="report"),
    "replace": lambda index, query: replace_in(index, query),
    "[]": lambda index, query: index.__setitem__("q", query),
    "update": lambda index, query: index.update({"q": query}),
    "catch_up": lambda index, query: index.catch_up((), [("q", query)]),
}


@pytest.mark.parametrize("add", ADDING.values(), ids=ADDING.keys())
def test_a_parsed_query_stands_where_its_text_may(add: Callable[[Index, Any], object]) -> None:
    for query, document in [
        (parse("/a"), PLAIN),
        (parse("/a", namespaces={"": "urn:y"}), BOUND),
        (parse("/p:a", namespaces={"p": "urn:y"}), BOUND),
        (parse("for $n in $msg/a return <c>{$n}</c>"), PLAIN),
    ]:
        index = Index()
        add(index, query)
        assert [one for one in (PLAIN, BOUND) if index.match(one)] == [document]
        assert parse(index["q"].query, namespaces=index["q"].namespaces) == query


@pytest.mark.parametrize("add", ADDING.values(), ids=ADDING.keys())
def test_a_parsed_query_means_the_same_in_every_index(add: Callable[[Index, Any], object]) -> None:
    index = Index(namespaces={"": "urn:y", "p": "urn:other"})
    add(index, parse("/a | /p:b", namespaces={"p": "urn:p"}))
    assert index.match(PLAIN) == index.match(b'<b xmlns="urn:p"/>') == ["q"]
    assert index.match(BOUND) == index.match(b'<b xmlns="urn:other"/>') == []


def test_a_parsed_query_takes_no_other_namespaces() -> None:
    index, query = Index(), parse("/a")
    with pytest.raises(ValueError, match=r"give them to treecast\.parse\(\)"):
        index.add("q", query, namespaces={"p": "urn:p"})
    with pytest.raises(QueryError, match=r"give them to treecast\.parse\(\)"):
        index.add_many([{"id": "q", "query": query, "namespaces": {"p": "urn:p"}}])
    assert len(index) == 0


# --- lxml's nsmap ----------------------------------------------------------------------------------------------------


def test_the_prefix_none_binds_unprefixed_names() -> None:
    nsmap: Any = {None: "urn:y", "p": "urn:p"}
    index = Index(namespaces=nsmap)
    index.add("index", "/a")
    other = Index()
    other.add("subscription", "/a", namespaces=nsmap)
    other.add_many([{"id": "row", "query": "/a", "namespaces": nsmap}, Subscription("value", "/a", nsmap)])
    other["parsed"] = parse("/a", namespaces=nsmap)
    assert index.match(BOUND) == ["index"] and index.match(PLAIN) == []
    assert other.match(BOUND) == ["subscription", "row", "value", "parsed"] and other.match(PLAIN) == []


def test_unprefixed_names_are_bound_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        Index(namespaces={None: "urn:y", "": "urn:z"})
