"""An Index as a Python value: iteration, pickles, copies, tables of documents, and helpful TypeErrors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import treecast

DOCUMENT = b"<news><sport/></news>"


def news_index() -> treecast.Index:
    index = treecast.Index(namespaces={"x": "urn:x"}, limits=treecast.Limits(depth_max=3), cache_bytes_max=1 << 20)
    index.add("sport", "/news/sport")
    index.add("x", "//x:item", deliver="elements")
    return index


def test_iteration_gives_the_ids_in_the_order_of_addition() -> None:
    index = news_index()
    index.add("last", "/a")
    index.replace("sport", "/news")
    assert list(index) == ["sport", "x", "last"]


def test_changes_during_an_iteration_do_not_show() -> None:
    index = news_index()
    for id in index:
        index.remove(id)
    assert list(index) == []


@pytest.mark.parametrize("twin_of", [lambda index: pickle.loads(pickle.dumps(index)), copy.deepcopy, copy.copy])
def test_a_copy_has_the_subscriptions_and_settings_and_a_life_of_its_own(twin_of: Any) -> None:
    index = news_index()
    twin = twin_of(index)
    index.remove("sport")
    assert twin.match(DOCUMENT) == ["sport"]
    assert twin.subscriptions() != index.subscriptions()
    assert twin["x"].deliver == "elements"
    twin.add("more", "//x:more")  # the namespaces are there
    with pytest.raises(treecast.LimitError):
        twin.match(b"<a><b><c><d/></c></b></a>")


def test_errors_survive_a_pickle() -> None:
    with pytest.raises(treecast.QueryError) as refused:
        news_index().add("bad", "/a[")
    twin = pickle.loads(pickle.dumps(refused.value))
    assert (twin.code, twin.position, str(twin)) == (refused.value.code, refused.value.position, str(refused.value))


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"name": ["n"], "document": [DOCUMENT]}),
        pa.table({"xml": [DOCUMENT]}),
        pa.record_batch({"document": [DOCUMENT]}),
        pd.DataFrame({"name": ["n"], "document": [DOCUMENT]}),
    ],
)
def test_match_many_takes_a_table_with_a_column_of_documents(table: Any) -> None:
    assert news_index().match_many(table).to_pylist() == [{"document": 0, "subscription": "sport"}]


def test_a_table_without_such_a_column_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a table with a column named document; this one has a, b"):
        news_index().match_many(pa.table({"a": [DOCUMENT], "b": [DOCUMENT]}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limits": {"depth_max": 3}}, "limits must be treecast.Limits(…), got dict"),
        ({"delivery_limits": 3}, "delivery_limits must be treecast.DeliveryLimits(…), got int"),
        ({"namespaces": ["x"]}, "namespaces must be a mapping of prefixes to URIs, got list"),
    ],
)
def test_settings_of_another_type_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as refused:
        treecast.Index(**arguments)
    assert str(refused.value) == message


def test_none_is_neither_an_id_nor_a_query() -> None:
    index: Any = news_index()
    for arguments, message in (((None, "/a"), "an id is a str, not None"), (("q", None), "a query is a str, not None")):
        for change in (index.add, index.replace):
            with pytest.raises(TypeError, match=message):
                change(*arguments)
    assert len(index) == 2


def test_repr_counts_in_good_english() -> None:
    index = treecast.Index()
    assert repr(index) == "<Index of 0 subscriptions>"
    index.add("a", "/a")
    assert repr(index) == "<Index of 1 subscription>"
