"""Many subscriptions at once: tables with settings, and refused rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import treecast
from treecast.document import arrow_views

MAP = pa.map_(pa.string(), pa.string())


def table(rows: list[dict[str, Any]]) -> pa.Table:
    schema = [
        ("id", pa.string()),
        ("query", pa.string()),
        ("namespaces", MAP),
        ("ordered", pa.bool_()),
        ("deliver", pa.string()),
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def test_every_row_keeps_its_own_settings() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "query": "/x:a", "namespaces": [("x", "urn:one")]},
        {"id": "b", "query": "/x:a", "namespaces": [("x", "urn:two")]},
        {"id": "c", "query": "/*[b][c]", "ordered": True, "deliver": "elements"},
        {"id": "d", "query": "/*[c][b]", "ordered": True},
        {"id": "e", "query": "/*[c][b]"},
        {"id": "f", "query": "/x:a", "namespaces": [("y", "urn:three"), ("x", "urn:one")]},
    ]
    whole = table(rows)
    pieces = pa.concat_tables([whole.slice(0, 2), whole.slice(2, 1), whole.slice(3)])
    for given in (whole, pieces, whole.slice(0, 6)):
        index = treecast.Index()
        index.add_many(given)
        assert index.match(b'<a xmlns="urn:one"><b xmlns=""/><c xmlns=""/></a>') == ["a", "c", "e", "f"]
        assert index.match(b'<a xmlns="urn:two"/>') == ["b"]
        assert index["c"].deliver == "elements" and index["d"].deliver == "document"
        assert index["f"].namespaces == {"x": "urn:one", "y": "urn:three"}


def test_a_slice_of_a_table_is_that_slice() -> None:
    whole = table([{"id": str(n), "query": "/p:a", "namespaces": [("p", f"urn:{n % 3}")]} for n in range(12)])
    index = treecast.Index()
    index.add_many(whole.slice(4, 5))
    assert index.match(b'<a xmlns="urn:1"/>') == ["4", "7"]


@pytest.mark.parametrize(
    "namespaces",
    [pa.array(["x=urn:one", None]), pa.array(['{"x": "urn:one"}', ""]), pa.array([{"x": "urn:one"}, None])],
)
def test_namespaces_in_every_spelling(namespaces: pa.Array) -> None:
    index = treecast.Index()
    index.add_many(pa.table({"id": ["a", "b"], "query": ["/x:a", "/a"], "namespaces": namespaces}))
    assert index.match(b'<a xmlns="urn:one"/>') == ["a"]
    assert index.match(b"<a/>") == ["b"]


def test_report_adds_the_valid_and_lists_the_others() -> None:
    given = table(
        [
            {"id": "a", "query": "/a"},
            {"id": None, "query": "/a"},
            {"id": "b", "query": "a b"},
            {"id": "a", "query": "//c"},
            {"id": "c", "query": None},
            {"id": "d", "query": "//c"},
        ]
    )
    index = treecast.Index()
    refused = index.add_many(given, on_refused="report")
    assert index.match(b"<a><c/></a>") == ["a", "d"]
    assert refused.column("row").to_pylist() == [1, 2, 3, 4]
    assert refused.column("id").to_pylist() == [None, "b", "a", "c"]
    assert refused.column("code").to_pylist()[2] == "TC141"
    assert refused.column("query").to_pylist() == ["/a", "a b", "//c", None]


def test_report_of_only_invalid_ones() -> None:
    index = treecast.Index()
    refusals = index.add_many(pa.table({"id": ["a"], "query": ["/a["]}), on_refused="report")
    assert refusals.column("row").to_pylist() == [0]
    assert len(index) == 0


def test_report_takes_pairs_and_subscriptions_too() -> None:
    index = treecast.Index()
    refused = index.add_many([("a", "/a"), ("b", "]"), treecast.Subscription("c", "/a[")], on_refused="report")
    assert index.match(b"<a/>") == ["a"]
    assert refused.select(["row", "id", "query"]).to_pylist() == [
        {"row": 1, "id": "b", "query": "]"},
        {"row": 2, "id": "c", "query": "/a["},
    ]
    assert index.add_many([("z", "/z")], on_refused="report").num_rows == 0


def test_nulls_are_counted_and_listed() -> None:
    index = treecast.Index()
    with pytest.raises(treecast.QueryError, match="30 subscriptions were refused") as caught:
        index.add_many(pa.table({"id": pa.nulls(30, pa.string()), "query": ["/a"] * 30}))
    assert [name for name, _ in caught.value.refused] == [f"row {row}" for row in range(20)]


def unreadable() -> pa.Table:
    """One good row, and seven that are wrong in as many ways."""
    return pa.table(
        {
            "id": ["good", "wide", "word", None, "typo", "bound to nothing", "unread", "good"],
            "query": ["/a[b][c]", "/a", "/a", "/a", "/a[", "/a", "/a", "/b"],
            "namespaces": [None, None, None, None, None, "x=", "x", None],
            "ordered": ["FALSE", None, "perhaps", None, None, None, None, ""],
            "deliver": ["elements", "everything", None, None, None, None, None, None],
        }
    )


def test_rows_with_unreadable_settings_are_refused_with_all_others() -> None:
    index = treecast.Index()
    with pytest.raises(treecast.QueryError, match="7 subscriptions were refused") as caught:
        index.add_many(unreadable())
    assert [name for name, _ in caught.value.refused] == [
        *("wide", "word", "row 3", "typo", "bound to nothing", "unread", "good"),
    ]
    assert len(index) == 0


def test_rows_with_unreadable_settings_are_reported() -> None:
    index = treecast.Index()
    refused = index.add_many(unreadable(), on_refused="report").to_pylist()
    assert [(row["row"], row["code"]) for row in refused] == [
        *((1, "TC144"), (2, "TC144"), (3, "TC144"), (4, "TC101"), (5, "TC109"), (6, "TC144"), (7, "TC141")),
    ]
    assert index["good"] == treecast.Subscription("good", "/a[b][c]", {}, False, "elements")


def test_subscriptions_with_wrong_bindings_are_reported() -> None:
    index = treecast.Index()
    given = [treecast.Subscription("a", "/a", {"x": ""}), ("b", "/a")]
    assert index.add_many(given, on_refused="report").column("id").to_pylist() == ["a"]
    with pytest.raises(treecast.QueryError, match="TC109 nothing was added: the subscription 'a' was refused"):
        index.add_many([treecast.Subscription("a", "/a", {"x": ""}), ("c", "/a")])
    assert index.match(b"<a/>") == ["b"]


@pytest.mark.parametrize(
    ("name", "values"),
    [("namespaces", [7]), ("namespaces", [{"x": 1}]), ("namespaces", [b"x=u"]), ("ordered", [0.5]), ("deliver", [7])],
)
def test_settings_of_other_kinds_are_refused(name: str, values: list[object]) -> None:
    table = pa.table({"id": ["a"], "query": ["/a"], name: values})
    with pytest.raises(treecast.QueryError, match="TC144"):
        treecast.Index().add_many(table)


def test_documents_as_arrow_arrays() -> None:
    index = treecast.Index()
    index.add("a", "/a")
    documents = [b"<a/>", b"<b/>", b"<a><b/></a>"]
    for kind in (pa.binary(), pa.large_binary(), pa.string(), pa.large_string()):
        whole = pa.array(documents, pa.binary()).cast(kind)
        assert index.match_many(whole).column("document").to_pylist() == [0, 2]
        assert index.match_many(whole.slice(1)).column("document").to_pylist() == [1]
        assert index.match_many(pa.chunked_array([whole, whole])).column("document").to_pylist() == [0, 2, 3, 5]
    with pytest.raises(TypeError, match="not of int64"):
        index.match_many(pa.array([1, 2]))


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ('<?xml version="1.0" encoding="UTF-8"?><a>ü</a>', None),
        ("<?xml version='1.0'  encoding = 'utf8' standalone='yes'?><a>ü</a>", None),
        ('<?xml version="1.0"?><a x="encoding">ü</a>', None),
        ('<?xml-style encoding="latin1"?><a>ü</a>', None),
        (
            '<?xml version="1.0" encoding="ISO-8859-1" standalone="no"?><a>ü</a>',
            '<?xml version="1.0" encoding="UTF-8"      standalone="no"?><a>ü</a>',
        ),
        (
            '\ufeff<?xml version="1.0" encoding="utf-16"?><a>ü</a>',
            '\ufeff<?xml version="1.0" encoding="UTF-8" ?><a>ü</a>',
        ),
        (
            '<?xml version="1.0" encoding="UT-F-8"?><a>ü</a>',
            '<?xml version="1.0" encoding="UTF-8" ?><a>ü</a>',
        ),
        ('<?xml version="1.0" encoding="Big5"?><a>ü</a>', " " * 37 + "<a>ü</a>"),
    ],
)
def test_text_is_utf8_whatever_it_declares(text: str, read_as: str | None) -> None:
    (view,) = arrow_views(pa.array([text]))
    assert bytes(view).decode() == (read_as or text)
    index = treecast.Index()
    index.add("umlaut", '/a[. = "ü"]')
    assert index.match_many(pa.array([text])).num_rows == 1


def test_a_null_namespace_is_reported() -> None:
    """As Spark gives it: a map whose value is null. It is not taken for the row without namespaces, either."""
    bindings = pa.array([[("p", None)], [("p", "urn:p")], None], MAP)
    rows = pa.table({"id": ["a", "b", "c"], "query": ["//p:x", "//p:x", "/x"], "namespaces": bindings})
    index = treecast.Index()
    with pytest.raises(treecast.QueryError, match="prefixes and namespaces are strings, not null"):
        index.add_many(rows)
    refused = index.add_many(rows, on_refused="report").to_pylist()
    assert [(row["id"], row["code"]) for row in refused] == [("a", "TC144")]
    assert sorted(index.match(b'<x xmlns:p="urn:p"><p:x/></x>')) == ["b", "c"]
