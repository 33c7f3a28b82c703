"""Documents and subscriptions where a table is: Arrow, pandas, polars, DuckDB; and how many threads match them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from treecast import Index, QueryError
from treecast.index import document_batches, matching, rendering
from treecast.index.document_batches import threads_for

pytestmark = pytest.mark.house

DOCUMENTS = [b"<a/>", b"<a><b>\xc3\xa9</b></a>"]
TEXTS = [document.decode() for document in DOCUMENTS]
EXPECTED = [(0, "a"), (1, "a"), (1, "b")]
QUERIES = {"id": ["a", "b"], "query": ["/a", "//b"]}


@pytest.fixture(scope="module")
def index() -> Index:
    index = Index()
    index.add_many(pa.table(QUERIES))
    return index


def rows(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["document"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def forms() -> Iterator[tuple[str, Any]]:
    key = [1, 2]
    arrow = pa.table({"document": DOCUMENTS, "key": key})
    yield "Arrow table", arrow
    yield "Arrow record batch", arrow.to_batches()[0]
    yield "Arrow reader", arrow.to_reader(max_chunksize=1)
    yield "Arrow dataset", pyarrow.dataset.dataset(arrow)
    yield "Arrow views", pa.array(DOCUMENTS, pa.binary_view())
    yield "Arrow views of strings", pa.array(TEXTS, pa.string_view())
    yield "Arrow dictionary", pa.array(TEXTS).dictionary_encode()
    yield "Arrow chunks", pa.chunked_array([DOCUMENTS[:1], DOCUMENTS[1:]])
    yield "one column of another name", pa.table({"xml": DOCUMENTS})
    for values, kind in ((DOCUMENTS, "bytes"), (TEXTS, "str")):
        yield f"pandas, {kind}", pd.DataFrame({"key": key, "document": values})
        yield f"pandas Series, {kind}", pd.Series(values)
        yield f"polars, {kind}", pl.DataFrame({"key": key, "document": values})
        yield f"polars Series, {kind}", pl.Series(values)
    yield "pandas on Arrow", pd.Series(TEXTS, dtype="string[pyarrow]")
    yield "pandas, index from 7", pd.DataFrame({"document": DOCUMENTS}, index=[7, 8])


@pytest.mark.parametrize(("name", "documents"), list(forms()), ids=[name for name, _ in forms()])
def test_documents_come_in_tables(index: Index, name: str, documents: Any) -> None:
    if name != "Arrow reader":  # it can be read once
        assert rows(index.match_many(documents)) == EXPECTED
        assert rows(index.render_many(documents)) == EXPECTED
        assert rows(next(index.render_batches(documents))) == EXPECTED
    assert [row for table in index.match_batches(documents) for row in rows(table)] == EXPECTED


def test_documents_come_from_duckdb(index: Index) -> None:
    relation = duckdb.sql("select '<a/>'::blob as document, 1 as key union all select '<b/>'::blob, 2 order by key")
    assert rows(index.match_many(relation)) == [(0, "a"), (1, "b")]


@pytest.mark.parametrize("column", [pa.array, pd.Series, pl.Series])
def test_a_null_is_a_bad_document(index: Index, column: Callable[[list[bytes | None]], Any]) -> None:
    matches, errors = index.match_many(column([None, *DOCUMENTS]), on_error="report")
    assert rows(matches) == [(number + 1, name) for number, name in EXPECTED]
    assert errors["document"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (pa.table({"a": [1], "b": [2]}), "takes a table with a column named document; this one has a, b"),
        (pl.DataFrame({"a": [1], "b": [2]}), "takes a table with a column named document; this one has a, b"),
        (pd.DataFrame({"a": [1], "b": [2]}), "takes a table with a column named document; this one has a, b"),
        (pa.array([1, 2]), "documents are a column of binary or string, not of int64"),
        (pd.Series([1.5, 2]), "documents are a column of binary or string, not of double"),
        (pd.Series([b"<a/>", 3]), "cannot read documents in this Series"),
        (pl.DataFrame({"document": DOCUMENTS}).lazy(), "a LazyFrame has none yet: call its collect() first"),
    ],
)
def test_other_tables_are_refused_with_what_they_have(index: Index, wrong: Any, message: str) -> None:
    for call in (index.match_many, lambda documents: list(index.match_batches(documents)), index.render_many):
        with pytest.raises(TypeError) as caught:
            call(wrong)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        pl.DataFrame(QUERIES),
        pl.DataFrame(QUERIES).with_columns(pl.col("id").cast(pl.Categorical)),
        pd.DataFrame(QUERIES),
        pd.DataFrame(QUERIES).astype("string"),
        pa.table(QUERIES).to_reader(),
        pyarrow.dataset.dataset(pa.table(QUERIES)),
        duckdb.from_arrow(pa.table(QUERIES)),
    ],
    ids=["polars", "polars categories", "pandas", "pandas strings", "Arrow reader", "Arrow dataset", "DuckDB"],
)
def test_subscriptions_come_in_tables(table: Any) -> None:
    index = Index()
    index.add_many(table)
    assert [(one, index[one].query) for one in index] == [("a", "/a"), ("b", "//b")]


def test_a_lazy_frame_says_how_it_becomes_rows() -> None:
    frame: Any = pl.DataFrame(QUERIES).lazy()
    with pytest.raises(QueryError, match=r"call its collect\(\) first"):
        Index().add_many(frame)


# --- threads by default ----------------------------------------------------------------------------------------------


@pytest.fixture
def cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_batches, "usable_cpus", lambda: 4)


@pytest.mark.parametrize(
    ("size", "count", "threads"),
    [(4, 1, 1), (4, 1000, 1), (1000, 500, 1), (1000, 1000, 2), (1000, 10_000, 4), (5_000_000, 2, 2), (5_000_000, 1, 1)],
)
def test_threads_are_used_where_there_is_enough_to_do(
    index: Index, cpus: None, size: int, count: int, threads: int
) -> None:
    assert threads_for(index._native, [bytes(size)] * count, None) == threads


def test_subscriptions_count_as_work(cpus: None) -> None:
    index = Index()
    index.add_many((f"q{number}", f"/a/b{number}") for number in range(40_000))
    assert threads_for(index._native, [b"<a/>"] * 10, None) == 1
    assert threads_for(index._native, [b"<a/>"] * 200, None) == 4


def test_the_caller_decides_if_he_wants(index: Index, cpus: None) -> None:
    assert threads_for(index._native, [b"<a/>"], 7) == 7


def test_many_cores_are_not_all_taken(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_batches, "usable_cpus", lambda: 96)
    assert threads_for(index._native, [bytes(1_000_000)] * 1000, None) == document_batches.DEFAULT_THREADS_MAX


def test_the_default_has_the_same_answer(index: Index, cpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_batches, "THREAD_WORK_NS_MIN", 10)
    used: list[int] = []

    def recorded(*arguments: Any) -> int:
        used.append(threads_for(*arguments))
        return used[-1]

    for module in (matching, rendering):
        monkeypatch.setattr(module, "threads_for", recorded)
    documents = [DOCUMENTS[number % 2] for number in range(101)]
    expected = [(number, name) for number in range(101) for name in ["a", "b"][: 1 + number % 2]]
    assert sorted(rows(index.match_many(documents))) == expected
    assert sorted(rows(index.render_many(documents))) == expected
    assert sorted(rows(next(index.match_batches(documents)))) == expected
    assert sorted(rows(next(index.render_batches(documents)))) == expected
    assert used == [4, 4, 4, 4]
    assert sorted(rows(index.match_many(documents, threads=1))) == expected
