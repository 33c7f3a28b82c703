"""`treecast match --render`: payloads in three formats, refused deliveries, and transformations from files."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import treecast
from treecast.cli import deliveries, main
from treecast.inputs import document_files
from treecast.names import hashed

NEWS = b"<news><item n='1'><title>One &amp; all</title></item><item n='2'/></news>"
MAIL = '<?xml version="1.0" encoding="ISO-8859-1"?><mail>ü</mail>'.encode("latin-1")
TITLES = """for $i in $msg//item
where $i/title
return <t n="{$i/@n}">{string($i/title)}</t>"""
STEPS = "drop //title;\nrename //item to entry"
REFUSED = "for $i in $msg//item return <r>{$i/title}{$i/@n}</r>"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def treecast_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("news.xml").write_bytes(NEWS)
    Path("mail.xml.gz").write_bytes(gzip.compress(MAIL))

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["match", *arguments])
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    return run


def subscribe(*more: tuple[str, str, str]) -> str:
    rows = [("whole", "/*", "document"), ("titles", TITLES, "document"), ("steps", STEPS, "document"), *more]
    lines = [json.dumps({"id": id, "query": query, "deliver": deliver}) for id, query, deliver in rows]
    Path("s.jsonl").write_text("\n".join(lines) + "\n")
    return "s.jsonl"


def delivered(*documents: str) -> dict[tuple[str, str], bytes]:
    """What the index says in this process."""
    index = treecast.Index()
    for line in Path("s.jsonl").read_text().splitlines():
        row = json.loads(line)
        index.add(row["id"], row["query"], deliver=row["deliver"])
    return {
        (name, delivery.subscription): delivery.payload
        for name in documents
        for delivery in index.render(document_files.read_document(name, document_files.ReadSettings()))
        if delivery.refused is None
    }


def test_json_is_what_one_gets(treecast_match: Run) -> None:
    source = subscribe(("elements", "//item/@n | //title/text()", "elements"))
    status, out, said = treecast_match("--render", "-s", source, "news.xml", "mail.xml.gz")
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["document"], row["subscription"]) for row in rows] == [
        *[("news.xml", id) for id in ("whole", "titles", "steps", "elements")],
        *[("mail.xml.gz", id) for id in ("whole", "steps")],
    ]
    texts = {(row["document"], row["subscription"]): row.get("payload") for row in rows}
    assert texts["news.xml", "titles"] == '<t n="1">One &amp; all</t>'
    assert texts["news.xml", "steps"] == "<news><entry n='1'></entry><entry n='2'/></news>"
    found = {
        (row["document"], row["subscription"]): row["payload"].encode()
        if "payload" in row
        else base64.b64decode(row["payload_base64"])
        for row in rows
    }
    assert found == delivered("news.xml", "mail.xml.gz")
    assert found["mail.xml.gz", "whole"] == MAIL  # as it came, which is not UTF-8
    assert said.startswith("2 documents, 6 deliveries, 0 errors in ")


def test_parquet(treecast_match: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    source = subscribe()
    assert treecast_match("--render", "-s", source, "-o", "out.parquet", "news.xml", "mail.xml.gz")[0] == 0
    table = pq.read_table("out.parquet")
    assert table.schema.field("payload").type == pa.binary()
    found = {(row["document"], row["subscription"]): row["payload"] for row in table.to_pylist()}
    assert found == delivered("news.xml", "mail.xml.gz")
    monkeypatch.setattr(deliveries, "ROW_GROUP_BYTES", 60)
    assert treecast_match("--render", "-s", source, "-o", "small.parquet", "news.xml", "mail.xml.gz")[0] == 0
    assert pq.read_table("small.parquet").equals(table)
    assert pq.ParquetFile("small.parquet").num_row_groups > 2
    assert treecast_match("--render", "-q", "/zebra", "-o", "none.parquet", "news.xml")[0] == 0
    assert pq.read_table("none.parquet").column_names == ["document", "subscription", "payload"]


def test_files(treecast_match: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    source = subscribe(
        ("../escape/..", "/mail", "document"),
        ("x" * 300, "/mail", "elements"),
        (hashed("x" * 300), "/mail", "document"),
    )
    monkeypatch.setattr(document_files, "BATCH_DOCUMENTS_MAX", 1)
    arguments = ("--render", "-s", source, "news.xml", "mail.xml.gz")
    assert treecast_match(*arguments, "--format", "files", "-o", "out")[0] == 0
    made = {str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file()}
    long = hashed("x" * 300)
    assert made == {
        *[f"{id}/0000001-news.xml" for id in ("whole", "titles", "steps")],
        *[f"{id}/0000002-mail.xml" for id in ("whole", "steps", "%2E.%2Fescape%2F.%2E", long, hashed(long))],
    }
    assert long.startswith("sha256-")
    assert Path("out/titles/0000001-news.xml").read_bytes() == delivered("news.xml")["news.xml", "titles"]
    assert Path("out/whole/0000002-mail.xml").read_bytes() == MAIL
    # What is there is not touched, and nothing else is left.
    status, _, said = treecast_match(*arguments, "-o", "out/")
    assert (status, "out" in said) == (1, True)
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []
    Path("empty").mkdir()
    assert treecast_match(*arguments, "-o", "empty")[0] == 0
    assert (Path("empty") / "whole" / "0000001-news.xml").exists()


def test_what_is_refused_is_reported_and_the_rest_goes_on(treecast_match: Run) -> None:
    source = subscribe(("never so", REFUSED, "document"))
    Path("bad.xml").write_bytes(b"<a><b></a>")
    status, out, said = treecast_match("--render", "-s", source, "bad.xml", "news.xml", "gone.xml")
    assert status == 1
    assert [json.loads(line)["subscription"] for line in out.splitlines()] == ["whole", "titles", "steps"]
    assert "treecast: news.xml: never so: TC119 " in said
    assert "treecast: bad.xml: TC202" in said
    assert "treecast: gone.xml: TC710" in said
    assert "2 documents, 3 deliveries, 3 errors" in said
    status, out, said = treecast_match("--render", "--payload-bytes-max", "20", "-s", source, "news.xml")
    # Of a document as it came the limit is that of documents.
    assert (status, [json.loads(line)["subscription"] for line in out.splitlines()]) == (1, ["whole"])
    assert said.count("TC330") == 3
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--render", "--format", "tsv"], "--format json, parquet or files"),
        (["--render", "-o", "out.tsv"], "--format json, parquet or files"),
        (["--format", "files", "-o", "out"], "add --render"),
        (["--render", "--format", "files"], "--output DIRECTORY"),
        (["--render", "--format", "parquet"], "--output FILE"),
        (["--payload-bytes-max", "1K"], "add --render"),
    ],
)
def test_wrong_usage(treecast_match: Run, arguments: list[str], expected: str, capfdbinary: Any) -> None:
    with pytest.raises(SystemExit) as stop:
        treecast_match(*arguments, "-q", "/news", "news.xml")
    assert stop.value.code == 2
    assert expected in capfdbinary.readouterr().err.decode()


def test_threads_and_small_tables_change_nothing(treecast_match: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    source = subscribe()
    names = []
    for number in range(100):
        names.append(f"{number:03}.xml")
        Path(names[-1]).write_text(f"<news><item n='{number}'><title>{number}</title></item></news>")
    arguments = ("--render", "-s", source, *names)
    _, expected, _ = treecast_match(*arguments, "--threads", "1")
    assert len(expected.splitlines()) == 300
    assert treecast_match(*arguments, "--threads", "3")[1] == expected
    monkeypatch.setattr(deliveries, "TABLE_PAYLOAD_BYTES_MAX", 1)
    assert treecast_match(*arguments, "--threads", "2")[1] == expected


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_transformations_come_from_files_and_are_explained(treecast_match: Run, form: str, tmp_path: Path) -> None:
    """Their texts have several lines, quotes and commas."""
    rows = {"id": ["titles", "steps"], "query": [TITLES, STEPS]}
    source = f"s.{form}"
    if form == "csv":
        quoted = ['"' + query.replace('"', '""') + '"' for query in rows["query"]]
        Path(source).write_text("id,query\n" + "".join(f"{id},{q}\n" for id, q in zip(rows["id"], quoted, strict=True)))
    elif form == "jsonl":
        lines = [json.dumps({"id": id, "query": q}) for id, q in zip(rows["id"], rows["query"], strict=True)]
        Path(source).write_text("\n".join(lines))
    else:
        pq.write_table(pa.table(rows), source)
    status, out, _ = treecast_match("--render", "-s", source, "news.xml")
    assert status == 0
    assert [json.loads(line)["payload"] for line in out.splitlines()] == [
        '<t n="1">One &amp; all</t>',
        "<news><entry n='1'></entry><entry n='2'/></news>",
    ]
    command = [sys.executable, "-m", "treecast", "explain", "-s", source, "--id", "titles", "news.xml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("news.xml matches for $i in $msg//item")
    assert "$i/title" in done.stdout
    assert "is true" in done.stdout


def test_explaining_a_transformation_that_does_not_match(
    treecast_match: Run, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    query = 'for $i in $msg//item where $i/title = "Two" return $i'
    assert main(["explain", "-q", query, "news.xml"]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert out.startswith("news.xml does not match for $i")
    assert '$i/title = "Two"' in out
    assert main(["explain", "-q", "from //zebra drop //x", "news.xml"]) == 0
    assert "news.xml does not match from //zebra" in capfdbinary.readouterr().out.decode()
    assert main(["explain", "-q", "for $i in $nothing return $i", "news.xml"]) == 1
    assert "TC113" in capfdbinary.readouterr().err.decode()
