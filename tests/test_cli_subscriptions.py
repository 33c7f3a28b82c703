"""Subscriptions from files: four formats, what is broken is named with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from treecast import QueryError
from treecast.inputs import subscription_files
from treecast.inputs.subscription_files import parse_namespaces
from treecast.inputs.subscriptions import from_queries, infer_format, read_subscriptions


def read(path: Path, form: str | None = None) -> list[dict[str, Any]]:
    """The rows as `Index.add_many` gets them, without fields that are not set."""
    table = read_subscriptions(path, format=form)
    rows = []
    for row in table.to_pylist(maps_as_pydicts="strict"):
        rows.append({key: value for key, value in row.items() if value is not None})
    return rows


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(
        "\ufeffid,query,namespaces,ordered,deliver\r\n"
        "q1,/a/b,,,\r\n"
        '"q,2","//x:i",x=urn:x =urn:d,true,elements\r\n'
        "\r\n"
        '"q""3","/a\n/b",,false,\r\n',
        encoding="utf-8",
        newline="",
    )
    assert read(path) == [
        {"id": "q1", "query": "/a/b"},
        {
            "id": "q,2",
            "query": "//x:i",
            "namespaces": {"x": "urn:x", "": "urn:d"},
            "ordered": True,
            "deliver": "elements",
        },
        {"id": 'q"3', "query": "/a\n/b", "ordered": False},
    ]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    rows = [
        {"id": "q1", "query": "/a"},
        {"id": 17, "query": "//x:i", "namespaces": {"x": "urn:x"}, "ordered": True, "deliver": "document"},
        {"id": "line\u2028end", "query": "/b", "namespaces": "y=urn:y"},
        {"id": "q4", "query": "/c", "namespaces": None},
    ]
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n", encoding="utf-8")
    assert read(path) == [
        {"id": "q1", "query": "/a"},
        {"id": "17", "query": "//x:i", "namespaces": {"x": "urn:x"}, "ordered": True, "deliver": "document"},
        {"id": "line\u2028end", "query": "/b", "namespaces": {"y": "urn:y"}},
        {"id": "q4", "query": "/c"},
    ]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    maps = pa.array([{"x": "urn:x"}, None], pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"id": [1, 2], "query": ["//x:a", "/b"], "namespaces": maps, "owner": ["me", "you"]}), path)
    assert read(path) == [{"id": "1", "query": "//x:a", "namespaces": {"x": "urn:x"}}, {"id": "2", "query": "/b"}]
    pq.write_table(pa.table({"id": ["1"], "query": ["//x:a"], "namespaces": ["x=urn:x"]}), path)
    assert read(path) == [{"id": "1", "query": "//x:a", "namespaces": {"x": "urn:x"}}]


def test_one_query_a_line(tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text("/a\r\n\n# a remark\n  //b  \n/a", encoding="utf-8")
    assert read(path) == [{"id": "1", "query": "/a"}, {"id": "4", "query": "//b"}, {"id": "5", "query": "/a"}]


def test_queries_of_the_command_line_are_their_own_ids() -> None:
    assert from_queries(["/a", "//b", "/a"]).select(["id", "query"]).to_pylist() == [
        {"id": "/a", "query": "/a"},
        {"id": "//b", "query": "//b"},
    ]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("s.csv", b"", "no column id"),
        ("s.csv", b"name,path\na,/a\n", "no column id and no column query"),
        ("s.csv", b"id,query,id\na,/a,b\n", "twice"),
        ("s.csv", b"id,query\na\n", "line 2: 1 fields where the header has 2"),
        ("s.csv", b"id,query\na,/a\nb,/b,/c\n", "line 3: 3 fields"),
        ("s.csv", b'id,query\na,"/a\n', "line"),
        ("s.csv", b'id,query\na,"/a"x\n', "line 2"),
        ("s.csv", b"id,query\na,/\xe4\n", "byte 12 is not UTF-8"),
        ("s.csv", b"id,query,ordered\na,/a,maybe\n", "write true or false"),
        ("s.csv", b"id,query,namespaces\na,/a,urn:x\n", "line 2"),
        ("s.csv", b"id,query,namespaces\na,/a,p=urn:x p=urn:y\n", "twice"),
        ("s.jsonl", b'{"id": "a", "query": "/a"}\n{"id": \n', "line 2"),
        ("s.jsonl", b'["a", "/a"]\n', "line 1"),
        ("s.jsonl", b'{"id": "a"}\n', "id and query"),
        ("s.jsonl", b'{"id": null, "query": "/a"}\n', "id is not a string"),
        ("s.jsonl", b'{"id": true, "query": "/a"}\n', "id is not a string"),
        ("s.jsonl", b'{"id": "a", "query": 7}\n', "query is not a string"),
        ("s.jsonl", b'{"id": "a", "query": "/a", "ordered": "yes"}\n', "true or false"),
        ("s.jsonl", b'{"id": "a", "query": "/a", "namespaces": {"p": 1}}\n', "namespaces"),
        ("s.jsonl", b'{"id": "\\ud800", "query": "/a"}\n', "surrogate"),
        ("s.jsonl", b"[" * 200_000, "line 1"),
        ("s.parquet", b"", "s.parquet"),
        ("s.parquet", b"PAR1 nonsense PAR1", "s.parquet"),
        ("s.parquet", bytes(range(256)) * 40, "s.parquet"),
        ("s.txt", b"/a\n\xff\n", "byte 3 is not UTF-8"),
    ],
)
def test_a_broken_file_is_named_with_its_place(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(QueryError) as caught:
        read(path)
    assert caught.value.code == "TC191"
    assert str(path) in str(caught.value)
    assert expected in str(caught.value)
    assert "hint:" in str(caught.value)


def test_a_parquet_file_with_a_null(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"id": ["a", None], "query": ["/a", "/b"]}), path)
    with pytest.raises(QueryError, match="row 1: id is null"):
        read(path)


@pytest.mark.parametrize("form", subscription_files.FORMATS)
def test_a_missing_file(tmp_path: Path, form: str) -> None:
    with pytest.raises(QueryError, match="TC190") as caught:
        read(tmp_path / "gone", form)
    assert "hint:" in str(caught.value)


def test_ignored_columns_are_named(tmp_path: Path) -> None:
    notes: list[str] = []
    path = tmp_path / "s.csv"
    path.write_text("id,query,owner\na,/a,me\n")
    subscription_files.read(str(path), "csv", notes.append)
    assert notes == [f"{path}: columns ignored: owner"]


@pytest.mark.parametrize(
    ("path", "form"),
    [("a.csv", "csv"), ("a.JSONL", "jsonl"), ("a.ndjson", "jsonl"), ("a.parquet", "parquet"), ("a.txt", "lines"),
     ("a.xpath", "lines"), ("a.json", "json"), ("a.tcx", "tcx")],
)  # fmt: skip
def test_format_by_suffix(path: str, form: str) -> None:
    assert infer_format(path) == form


@pytest.mark.parametrize("path", ["a.xml", "-"])
def test_a_format_that_cannot_be_inferred(path: str) -> None:
    with pytest.raises(QueryError, match="TC194 cannot infer the format of"):
        infer_format(path)


def test_parse_namespaces() -> None:
    assert parse_namespaces("") == {}
    assert parse_namespaces('{"p": "urn:a", "": "urn:d"}') == {"p": "urn:a", "": "urn:d"}
    assert parse_namespaces(" p=urn:a=b  =urn:d ") == {"p": "urn:a=b", "": "urn:d"}
    with pytest.raises(ValueError, match="prefix=uri"):
        parse_namespaces("p=")
