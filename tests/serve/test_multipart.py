"""Batches as multipart: what programs send is read, and nothing else."""

from __future__ import annotations

from email.generator import BytesGenerator
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from io import BytesIO

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.served_http import Service

from treecast.overlay.messages import Document
from treecast.serve.doors.batches import Unusable
from treecast.serve.doors.multipart import boundary_of, split_parts
from treecast.serve.doors.problems import DoorError

pytestmark = pytest.mark.house

MIXED = "multipart/mixed; boundary=x"


def wrap(*parts: bytes, end: bytes = b"--x--\r\n") -> bytes:
    return b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + end


def test_a_batch_of_parts(service: Service) -> None:
    body = wrap(
        b"Treecast-Document-Id: first of parts\r\n\r\n<a/>",
        b"Content-Type: application/xml\r\nContent-ID: <second of parts>\r\n\r\n<a>\r\n</a>",
        b"\r\n<a>",
        b"Content-Transfer-Encoding: base64\r\n\r\nPGEvPg==",
        b"Treecast-Document-Id: first of parts\r\n\r\n<a/>",
        b"Treecast-Document-Id: \xff\r\n\r\n<a/>",
        b"no header\r\n\r\n<a/>",
    )
    answer = service.ask("POST", "/v1/documents:batch", body, Content_Type=MIXED)
    items = answer.json["documents"]
    assert [item["status"] for item in items] == [201, 201, 422, 415, 200, 400, 400]
    assert items[0]["document"] == items[4]["document"]
    assert [item["problem"]["code"] for item in items if "problem" in item] == ["TC209", "TC435", "TC434", "TC434"]


def test_forms_of_a_client_that_nobody_here_wrote(service: Service) -> None:
    service.subscribe("forms", "/form", deliver="elements")
    files = [("file", (f"{n}.xml", f"<form>{n}</form>".encode(), "application/xml")) for n in range(3)]
    for _ in range(2):  # names of files are no ids
        answer = httpx.post(f"http://127.0.0.1:{service.port}/v1/documents:batch", files=files, timeout=30)
        assert [item["status"] for item in answer.json()["documents"]] == [201] * 3
    pulled = service.ask("POST", "/v1/subscriptions/forms:pull", {"wait_ms": 10_000}).json["deliveries"]
    assert [each["payload"] for each in pulled][:3] == [f"<form>{n}</form>" for n in range(3)]


def test_refused_as_a_whole(service: Service) -> None:
    for kind, body, expected in (
        (MIXED, b"", (400, "TC434")),
        (MIXED, b"preamble\r\n" + wrap(), (400, "TC434")),
        (MIXED, wrap(b"\r\n<a/>", end=b""), (400, "TC434")),
        (MIXED, wrap(b"\r\n<a/>", end=b"--x--\r\nmore"), (400, "TC434")),
        (MIXED, wrap(b"\r\n<a/>\r\n--xyz\r\n\r\n"), (400, "TC434")),
        (MIXED, wrap(*[b"\r\n<a/>"] * 1_001), (413, "TC411")),
        ("multipart/mixed", wrap(), (400, "TC434")),
        ("multipart/mixed; boundary=", wrap(), (400, "TC434")),
        ("multipart/mixed; boundary=x; boundary=y", wrap(), (400, "TC434")),
        (f"multipart/mixed; boundary={'x' * 71}", wrap(), (400, "TC434")),
        ("multipart/digest; boundary=x", wrap(), (415, "TC435")),
    ):
        assert service.problem("POST", "/v1/documents:batch", body, Content_Type=kind) == expected, kind


def test_an_empty_batch() -> None:
    assert split_parts(wrap(), MIXED, 10, 10_000) == []


def test_headers_have_a_limit() -> None:
    (large,) = split_parts(wrap(b"A: " + b"x" * 9_000 + b"\r\n\r\n<a/>"), MIXED, 10, 10_000)
    assert isinstance(large, Unusable) and large.error.code == "TC432"
    (long,) = split_parts(wrap(b"\r\n<long/>"), MIXED, 10, 6)
    assert isinstance(long, Unusable) and long.error.code == "TC432"
    (twice,) = split_parts(wrap(b"Content-ID: a\r\ncontent-id: b\r\n\r\n<a/>"), MIXED, 10, 10_000)
    assert isinstance(twice, Unusable) and twice.error.code == "TC434"


@given(st.lists(st.binary(max_size=40).filter(lambda body: not {10, 13} & {*body}), max_size=5), st.booleans())
def test_what_the_standard_library_writes_is_read(bodies: list[bytes], is_padded: bool) -> None:
    """Bodies without line ends, which it changes."""
    message = EmailMessage(HTTP)
    message.add_header("Content-Type", "multipart/mixed", boundary="frontier 42'x")
    for number, body in enumerate(bodies):
        part = EmailMessage(HTTP)
        part.set_content(body, "application", "xml", cte="binary", cid=f"<{number}>")
        message.attach(part)
    file = BytesIO()
    BytesGenerator(file, policy=HTTP).flatten(message)
    head, _, data = file.getvalue().partition(b"\r\n\r\n")
    if is_padded:
        data = data.replace(b"--frontier 42'x\r\n", b"--frontier 42'x \t\r\n")
    kind = BytesParser(policy=HTTP).parsebytes(head)["Content-Type"]
    if bodies:
        assert split_parts(data, str(kind), 10, 10_000) == [Document(body, str(n)) for n, body in enumerate(bodies)]


@given(st.binary(max_size=200) | st.text("-x\r\n :ab<>", max_size=60).map(str.encode))
def test_any_bytes_are_parts_or_refused(body: bytes) -> None:
    try:
        parts = split_parts(body, MIXED, 3, 100)
    except DoorError as error:
        assert error.code in ("TC434", "TC411")
    else:
        assert len(parts) <= 3 and all(isinstance(part, (Document, Unusable)) for part in parts)


@given(st.text(max_size=60))
def test_any_type_has_a_boundary_or_is_refused(text: str) -> None:
    try:
        boundary = boundary_of(f"multipart/mixed; {text}")
    except DoorError:
        return
    assert 1 <= len(boundary) <= 70 and boundary.isascii()
