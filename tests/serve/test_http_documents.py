"""The HTTP door for publishers: documents, batches, sources, and what is refused."""

from __future__ import annotations

import base64
import gzip
import json
import threading

import pyarrow
import pytest
from support.served_http import Service

pytestmark = pytest.mark.house


def lines(*items: object) -> bytes:
    return b"\n".join(item if isinstance(item, bytes) else json.dumps(item).encode() for item in items)


def test_a_document_is_published_once(service: Service) -> None:
    first = service.ask("POST", "/v1/documents", b"<a/>", Treecast_Document_Id="once")
    again = service.ask("POST", "/v1/documents", b"<a/>", Treecast_Document_Id="once")
    other = service.ask("POST", "/v1/documents", b"<a/>")
    assert (first.status, again.status, other.status) == (201, 200, 201)
    assert first.json == again.json and other.json["document"] > first.json["document"]


def test_what_is_no_document_is_refused(service: Service) -> None:
    assert service.problem("POST", "/v1/documents", b"<a>") == (422, "TC209")
    assert service.problem("POST", "/v1/documents", b"") == (422, "TC209")
    assert service.problem("POST", "/v1/documents?source=nobody", b"<a/>") == (404, "TC410")
    assert service.problem("POST", "/v1/documents", b"<a/>", Treecast_Source="nobody") == (404, "TC410")
    assert service.problem("POST", "/v1/documents", b"<a/>", Treecast_Document_Id="x" * 1_001) == (400, "TC414")


def test_a_batch_has_an_answer_for_each_line(service: Service) -> None:
    encoded = base64.b64encode("<ä/>".encode("utf-16")).decode()
    body = lines(
        {"document": "<a/>", "id": "in a batch"},
        {"document": "<a>"},
        b"",
        {"document": "<a/>", "id": "in a batch"},
        b"no json",
        {"document": encoded, "encoding": "base64"},
        {"document": "&", "encoding": "base64"},
        {"document": "<a/>", "colour": "red"},
    )
    answer = service.ask("POST", "/v1/documents:batch", body)
    assert answer.status == 200
    items = answer.json["documents"]
    assert [item["status"] for item in items] == [201, 422, 200, 400, 201, 400, 400]
    assert items[0]["document"] == items[2]["document"]
    assert [item["problem"]["code"] for item in items if "problem" in item] == ["TC209", "TC434", "TC434", "TC434"]
    assert service.ask("POST", "/v1/documents:batch", b"").json == {"documents": []}
    assert service.problem("POST", "/v1/documents:batch", lines(*[{"document": "<a/>"}] * 1_001)) == (413, "TC411")


def test_documents_that_arrive_together_share_syncs(service: Service) -> None:
    """Each is answered when it is durable, and each gets a number of its own."""
    numbers: list[int] = []

    def publish() -> None:
        connection = service.connect()
        for _ in range(25):
            connection.request("POST", "/v1/documents", b"<together/>")
            numbers.append(json.loads(connection.getresponse().read())["document"])
        connection.close()

    threads = [threading.Thread(target=publish) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(numbers)) == 200


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_packed_documents(service: Service, encoding: str) -> None:
    def pack(data: bytes) -> bytes:
        return gzip.compress(data) if encoding == "gzip" else pyarrow.compress(data, encoding, asbytes=True)

    plain = b"<a>" + b" " * 5_000 + b"</a>"
    packed = pack(plain)
    assert service.ask("POST", "/v1/documents", packed, Content_Encoding=encoding).status == 201
    assert service.problem("POST", "/v1/documents", packed[:-5], Content_Encoding=encoding) == (400, "TC434")
    assert service.problem("POST", "/v1/documents", plain, Content_Encoding=encoding) == (400, "TC434")
    bomb = pack(bytes(20 << 20))
    assert len(bomb) < 50_000
    assert service.problem("POST", "/v1/documents", bomb, Content_Encoding=encoding) == (413, "TC432")


def test_encodings_that_are_not_known(service: Service) -> None:
    for encoding in ("br", "gzip, gzip", "gzip;q=1"):
        assert service.problem("POST", "/v1/documents", b"<a/>", Content_Encoding=encoding) == (415, "TC435")


def test_sources(service: Service) -> None:
    path = "/v1/sources/wire%2Feurope"
    assert service.ask("PUT", path, {"description": "agencies"}).status == 201
    assert service.ask("PUT", path, {"description": "all of them"}).status == 200
    expected = {"id": "wire/europe", "schema": "", "description": "all of them"}
    assert service.ask("GET", path).json == expected
    assert service.ask("GET", "/v1/sources?count=1").json["next"] == "default"
    listed = service.ask("GET", "/v1/sources?after=default").json["sources"]  # others use this service as well
    assert [source for source in listed if source["id"].startswith("wire/")] == [expected]
    service.publish("<a/>", Treecast_Source="wire/europe")
    assert service.ask("DELETE", path).status == 204
    assert service.problem("DELETE", path) == (404, "TC410")
    assert service.problem("GET", path) == (404, "TC410")
    assert service.problem("POST", "/v1/documents?source=wire/europe", b"<a/>") == (404, "TC410")
