"""Documents as lines of JSON, in a batch or on a WebSocket. Batches of parts are read by `multipart.py`."""

from __future__ import annotations

import base64
import binascii

import msgspec

from treecast.overlay.messages import Document
from treecast.serve.doors.calls import decode_form
from treecast.serve.doors.forms import BatchLine
from treecast.serve.doors.problems import DoorError


class Unusable(msgspec.Struct, frozen=True):
    """A line or a part that is no document, and why."""

    error: DoorError
    data: bytes


def split_lines(body: bytes, count_max: int, bytes_max: int) -> list[Document | Unusable]:
    """The documents of a batch, each of at most so many bytes. Raises DoorError TC411."""
    lines = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) > count_max:
        raise DoorError(f"{len(lines)} documents in one batch", code="TC411", hint=f"at most {count_max}")
    documents: list[Document | Unusable] = []
    for line in lines:
        try:
            documents.append(document_of(decode_form(line, BatchLine), bytes_max))
        except DoorError as error:
            documents.append(Unusable(error, line))
    return documents


def document_of(line: BatchLine, bytes_max: int) -> Document:
    """Raises DoorError: TC434 no base64, TC432 too large."""
    if line.encoding == "base64":
        try:
            body = base64.b64decode(line.document, validate=True)
        except (binascii.Error, ValueError):
            raise DoorError("the document is not base64", code="TC434") from None
    else:
        body = line.document.encode("utf-8", "surrogatepass")
    check_size(body, bytes_max)
    return Document(body, line.id)


def check_size(body: bytes, bytes_max: int) -> None:
    if len(body) > bytes_max:
        raise DoorError(f"the document has more than {bytes_max} bytes", code="TC432", hint="send a smaller one")
