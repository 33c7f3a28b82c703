"""Import and export of subscriptions over HTTP: all formats, what is refused, and limits."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.served_http import Service

import treecast
from treecast.overlay.broker.rows import SubscriptionRow
from treecast.overlay.client import Answered
from treecast.overlay.messages import Refusal, SubscriptionOptions
from treecast.serve.access.access import Access
from treecast.serve.access.settings import AccessSettings
from treecast.serve.client import RefusedError
from treecast.serve.doors import transfers
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings

pytestmark = pytest.mark.house

CSV, JSON_LINES, PARQUET, SAVED = (transfers.TYPES[name] for name in ("csv", "jsonl", "parquet", "tcx"))
SUBSCRIPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"query": "/a/b"},
    'with "quotes", commas\nand lines': {"query": '//b[@c="x, y"]'},
    "p:names": {"query": "//p:b[@c]", "namespaces": {"p": "urn:p q", "": "urn:none"}},
    "ordered": {"query": "/a[b][c]", "ordered": True},
    "ünïcode ☃": {"query": "//b/text()", "deliver": "elements"},
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    limits = {"import_bytes_max": 100_000, "import_ms": 300, "refused_rows_max": 2, "transfers_max": 1}
    with Service(tmp_path_factory.mktemp("strict") / "data", **limits) as service:
        yield service


def export(service: Service, format: str) -> bytes:
    answer = service.ask("GET", f"/v1/subscriptions:export?format={format}")
    assert answer.status == 200 and answer.headers["content-type"] == transfers.TYPES[format], answer
    return answer.body


def listed(service: Service) -> dict[str, Any]:
    rows = service.ask("GET", "/v1/subscriptions?count=1000").json["subscriptions"]
    return {row.pop("id"): row for row in rows}


def send(service: Service, body: bytes, type: str, parameters: str = "", **headers: str) -> Any:
    return service.ask("POST", f"/v1/subscriptions:import?{parameters}", body, Content_Type=type, **headers)


@pytest.mark.parametrize("format", list(transfers.TYPES))
def test_a_round_trip_changes_nothing(strict: Service, format: str) -> None:
    pages = [f"/v1/subscriptions/{quote(id, safe='')}" for id in SUBSCRIPTIONS]
    for page, settings in zip(pages, SUBSCRIPTIONS.values(), strict=True):
        assert strict.ask("PUT", page, settings).status == 201
    before, text, data = listed(strict), export(strict, "csv"), export(strict, format)
    for page in pages:
        assert strict.ask("DELETE", page).status == 204
    answer = send(strict, data, transfers.TYPES[format])
    assert (answer.status, answer.json["added"], answer.json["refused"]) == (200, len(pages), [])
    assert listed(strict) == before and export(strict, "csv") == text
    # The second time, all of them exist.
    again = send(strict, data, transfers.TYPES[format])
    assert (again.status, again.json["code"]) == (422, "TC462")
    replaced = send(strict, data, transfers.TYPES[format], "mode=replace")
    assert (replaced.status, replaced.json["added"], replaced.json["changed"]) == (200, 0, len(pages))
    assert listed(strict) == before
    for page in pages:
        assert strict.ask("DELETE", page).status == 204


def test_other_programs_read_what_is_exported(strict: Service, tmp_path: Path) -> None:
    strict.subscribe("read, by others", "/a")
    expected = {"id": "read, by others", "query": "/a", "ordered": False, "deliver": "document"}
    (line,) = export(strict, "jsonl").splitlines()
    assert json.loads(line) == {**expected, "namespaces": {}}
    (row,) = csv.DictReader(io.StringIO(export(strict, "csv").decode()))
    assert row == {**expected, "ordered": "false", "namespaces": ""}
    (record,) = pq.read_table(io.BytesIO(export(strict, "parquet"))).to_pylist()
    assert record == {**expected, "namespaces": []}
    (tmp_path / "saved.tcx").write_bytes(export(strict, "tcx"))
    assert treecast.Index.load(tmp_path / "saved.tcx").match(b"<a/>") == ["read, by others"]
    assert strict.ask("DELETE", "/v1/subscriptions/read%2C%20by%20others").status == 204


def test_what_is_refused_is_listed_and_nothing_is_imported(strict: Service) -> None:
    before = listed(strict)
    body = b"id,query\ngood,/a\nbad,a\nworse,/a[\nbad,/b\n,/c\n"
    dry = send(strict, body, CSV, "dry_run=true")
    assert dry.status == 200 and {**dry.json, "refused": 0} == {
        "rows": 5,
        "added": 1,
        "changed": 0,
        "refused_count": 4,
        "refused": 0,
    }
    answer = send(strict, body, CSV)
    assert (answer.status, answer.json["code"], answer.json["refused_count"]) == (422, "TC462", 4)
    assert answer.headers["content-type"] == "application/problem+json"
    assert [(row["row"], row["id"], row["code"]) for row in answer.json["refused"]] == [
        (1, "bad", "TC104"),
        (2, "worse", "TC101"),
    ]
    assert listed(strict) == before


def test_what_exists_is_changed_only_if_asked(strict: Service) -> None:
    strict.subscribe("kept", "/a", attempts_max=7)
    body = b'{"id": "kept", "query": "/b"}\n{"id": "new", "query": "/c"}\n'
    refused = send(strict, body, JSON_LINES)
    assert [(row["row"], row["code"]) for row in refused.json["refused"]] == [(0, "TC141")]
    answer = send(strict, gzip.compress(body), JSON_LINES, "mode=replace", Content_Encoding="gzip").json
    assert (answer["added"], answer["changed"]) == (1, 1)
    now = listed(strict)
    assert (now["kept"]["query"], now["kept"]["attempts_max"], now["new"]["query"]) == ("/b", 7, "/c")


def test_what_is_no_import(strict: Service, tmp_path: Path) -> None:
    treecast.Index().save(tmp_path / "empty.tcx")
    saved = (tmp_path / "empty.tcx").read_bytes()
    for body, type, expected in (
        (b"", "", (415, "TC435")),
        (b"", "text/plain", (415, "TC435")),
        (b"", CSV, (422, "TC462")),
        (b"id,name\n", CSV, (422, "TC462")),
        (b"\xff", CSV, (422, "TC462")),
        (b"{}", JSON_LINES, (422, "TC462")),
        (b"[" * 50_000, "application/json", (422, "TC462")),
        (b"PAR1", PARQUET, (422, "TC462")),
        (b"PAR1" + bytes(100) + b"PAR1", PARQUET, (422, "TC462")),
        (saved[:-1], SAVED, (422, "TC462")),
        (saved.replace(b"TREECAST", b"TREECASH"), SAVED, (422, "TC462")),
        (b"x" * 100_001, CSV, (413, "TC432")),
    ):
        answer = send(strict, body, type)
        assert (answer.status, answer.json["code"]) == expected, (body[:20], answer)
        assert "/tmp" not in answer.json["detail"] + answer.json["hint"]
    bomb = gzip.compress(bytes(1 << 20))
    assert send(strict, bomb, CSV, Content_Encoding="gzip").json["code"] == "TC432"
    assert send(strict, bomb[:-9], CSV, Content_Encoding="gzip").json["code"] in ("TC432", "TC434")
    assert send(strict, b"id,query\n", CSV, "mode=maybe").json["code"] == "TC434"
    assert strict.problem("GET", "/v1/subscriptions:export?format=pdf") == (400, "TC434")


def test_an_import_that_never_ends_blocks_others_for_a_while_only(strict: Service) -> None:
    head = b"POST /v1/subscriptions:import HTTP/1.1\r\nHost: a\r\nContent-Type: text/csv\r\n"
    assert b"TC433" in strict.raw(head + b"Content-Length: 100\r\n\r\nid,query\n")
    assert send(strict, b"id,query\nafter,/a\n", CSV).status == 200


def test_too_many_at_once(strict: Service) -> None:
    connection = strict.connect()
    connection.putrequest("POST", "/v1/subscriptions:import")
    connection.putheader("Content-Type", "text/csv")
    connection.putheader("Content-Length", "100")
    connection.endheaders(b"id,query\n")
    answer = strict.ask("GET", "/v1/subscriptions:export")
    while answer.status == 200:  # it has not been seen yet
        answer = strict.ask("GET", "/v1/subscriptions:export")
    assert (answer.status, answer.json["code"]) == (503, "TC436")
    connection.close()


@pytest.mark.parametrize("write", [transfers._write_csv, transfers._write_json_lines, transfers._write_parquet])
def test_an_export_holds_few_pages(write: Callable[[Any], AsyncIterator[bytes]], monkeypatch: Any) -> None:
    """It reads a page when the one before it has left."""
    monkeypatch.setattr(transfers, "ROWS_PER_GROUP", 10)
    pages_read = 0
    options = SubscriptionOptions()

    async def pages() -> AsyncIterator[list[tuple[str, SubscriptionRow]]]:
        nonlocal pages_read
        for page in range(5):
            pages_read += 1
            yield [(f"{page}-{n}", SubscriptionRow("/a", {}, False, "document", options, 0, 0)) for n in range(10)]

    async def take() -> list[int]:
        return [pages_read async for piece in write(pages()) if piece]

    assert asyncio.run(take())[:5] == [1, 2, 3, 4, 5]


def test_an_import_that_is_overtaken_says_how_far_it_got() -> None:
    """Somebody adds an id after it was looked for, and before it is added."""
    refusal = Refusal(-1, "TC141", "TC141 the id '1500' exists already")
    answers: list[Any] = [Answered(1, [], []), RefusedError([], [refusal])]
    client = Mock(request=AsyncMock(side_effect=answers))
    client.expect_broker.return_value.index = ()
    pages = transfers.TransferPages(client, DoorSettings(), AccessSettings())
    table = pa.table({"id": [str(n) for n in range(2_500)], "query": ["/a"] * 2_500})
    with pytest.raises(DoorError, match="TC463 the import ended after 1000 rows: the id '1500' exists already"):
        asyncio.run(pages._import(Access(), table, [], "add", is_trial=False))
    assert client.request.call_count == 2


def test_imported_subscriptions_match(strict: Service) -> None:
    rows = "".join(f"many {n},/many[@n={n}]\n" for n in range(2_500))
    answer = send(strict, f"id,query\n{rows}".encode(), CSV)
    assert answer.json["added"] == 2_500
    number = strict.publish("<many n='2400'/>")
    pulled = strict.ask("POST", "/v1/subscriptions/many%202400:pull", {"wait_ms": 10_000}).json["deliveries"]
    assert [each["document"] for each in pulled] == [number]
