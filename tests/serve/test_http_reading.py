"""All documents in their order, by number: what is there, what is gone, what is damaged, and where to go on."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from support.served_http import Service, eventually

pytestmark = pytest.mark.house


def read(service: Service, **parameters: int) -> list[dict[str, Any]]:
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    answer = service.ask("GET", f"/v1/documents:read?{query}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson"), answer
    return [json.loads(line) for line in answer.body.splitlines()]


def test_documents_by_range(service: Service) -> None:
    service.ask("PUT", "/v1/sources/read", {})
    wide = "<wide>ä</wide>".encode("utf-16")
    first = service.publish("<one>ä</one>", Treecast_Document_Id="own", Treecast_Source="read")
    second: int = service.ask("POST", "/v1/documents", wide).json["document"]
    third = service.publish("<three/>")
    one, two, end = read(service, from_document=first, until_document=second)
    assert one.pop("published") and two.pop("published")
    assert one == {"document": first, "source": "read", "body": "<one>ä</one>", "id": "own"}
    assert (two["encoding"], base64.b64decode(two["body"])) == ("base64", wide)
    assert (end["last"], end["next"]) == (third, second + 1) and end["first"] <= first
    assert [line.get("document") for line in read(service, from_document=first, count=1)] == [first, None]
    (end,) = read(service, from_document=third + 6)
    assert end["next"] == third + 6
    for wrong in ("from_document=x", "count=0", "count=100000", "until_document=-1"):
        assert service.problem("GET", f"/v1/documents:read?{wrong}") == (400, "TC434")


def test_an_answer_has_a_limited_size(tmp_path: Path) -> None:
    with Service(tmp_path / "data", read_bytes_max=1_000) as service:
        for size in (400, 400, 400, 3_000, 10):
            service.publish("<a>" + "x" * size + "</a>")
        next = 1
        groups = []
        while next <= 5:
            *documents, end = read(service, from_document=next)
            groups.append([line["document"] for line in documents])
            next = end["next"]
        assert groups == [[1, 2], [3], [4], [5]]


def test_what_is_not_kept_is_gone(tmp_path: Path) -> None:
    broker = {"keep_ms": 1, "retention_step_ms": 50, "keep_bytes": 0}
    with Service(tmp_path / "data", broker=broker) as service:
        service.subscribe("waits", "/kept")
        for name in ("a", "kept", "a", "a"):
            service.publish(f"<{name}/>")
        eventually(lambda: "document" not in read(service)[0])
        lines = read(service)
        kept = [line["document"] for line in lines if "document" in line]
        gone = [number for line in lines if "gone" in line for number in range(line["gone"][0], line["gone"][1] + 1)]
        assert sorted(kept + gone) == [1, 2, 3, 4] and 1 in gone
        assert lines[-1]["next"] == 5 and lines[-1]["last"] == 4


def test_damaged_documents_are_said(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as service:
        service.publish("<first>0123456789</first>")
        service.publish("<second/>")
        service.end()
        (file,) = (tmp_path / "data" / "bodies").iterdir()
        content = bytearray(file.read_bytes())
        content[content.index(b"0123456789")] ^= 1
        file.write_bytes(content)
        service.start()
        damaged, good, _ = read(service)
        assert (damaged["document"], damaged["problem"]) == (1, "TC422") and "body" not in damaged
        assert good["body"] == "<second/>"
