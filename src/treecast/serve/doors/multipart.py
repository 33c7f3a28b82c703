r"""Batches of documents as `multipart/mixed` (RFC 2046) or `multipart/form-data` (RFC 7578): each part is a document.

A strict reader of what programs send: lines end with CRLF, there is nothing before the first boundary and nothing but
white space after the last one, headers are not folded, and parts are not encoded by themselves. What is wrong with the
whole is a DoorError; what is wrong with one part is said of that part. Nothing here takes more than linear time.

The id of a document is the part's `Treecast-Document-Id`, else its `Content-ID`. The name of a file is no id: it is
common to send a file again that has changed, and that would be dropped as a copy.

>>> body = b'--x\r\nContent-ID: <1>\r\n\r\n<a/>\r\n--x\r\n\r\n<b/>\r\n--x--\r\n'
>>> [(part.body, part.id) for part in split_parts(body, "multipart/mixed; boundary=x", 10, 100)]
[(b'<a/>', '1'), (b'<b/>', '')]
"""

from __future__ import annotations

import re

from treecast.overlay.messages import NAME_CHARS_MAX, Document
from treecast.serve.doors.batches import Unusable, check_size
from treecast.serve.doors.problems import DoorError

TYPES = ("multipart/mixed", "multipart/form-data")
HEADER_BYTES_MAX = 8 << 10
"""Of one part."""
_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_PARAMETER = re.compile(r"""\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))\s*(?:;|$)""")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = (b"", b"7bit", b"8bit", b"binary")


def is_multipart(content_type: str) -> bool:
    return content_type.lstrip().lower().startswith("multipart/")


def split_parts(body: bytes, content_type: str, count_max: int, bytes_max: int) -> list[Document | Unusable]:
    """The documents, each of at most so many bytes. Raises DoorError if the whole cannot be read."""
    delimiter = b"\r\n--" + boundary_of(content_type).encode()
    data = b"\r\n" + body
    if data.count(delimiter) > count_max + 1:
        raise DoorError(f"more than {count_max} documents in one batch", code="TC411", hint=f"at most {count_max}")
    first, *parts = data.split(delimiter)
    if first or not parts:
        raise _broken("it does not begin with its boundary")
    end = parts.pop()
    if not end.startswith(b"--") or end[2:].strip(b" \t\r\n"):
        raise _broken("it does not end with its boundary")
    return [_part(part, bytes_max) for part in parts]


def boundary_of(content_type: str) -> str:
    """Raises DoorError: another type, or a boundary that is missing or wrong."""
    kind, _, rest = content_type.partition(";")
    if kind.strip().lower() not in TYPES:
        raise DoorError(f"a batch of the type {kind[:100]!r}", code="TC435", hint=f"send {' or '.join(TYPES)}")
    boundary, place = None, 0
    while place < len(rest) and rest[place:].strip():
        match = _PARAMETER.match(rest, place)
        if match is None:
            raise _broken("its parameters cannot be read")
        if match[1].lower() == "boundary":
            if boundary is not None:
                raise _broken("it has two boundaries")
            boundary = match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2])
        place = match.end()
    if boundary is None or not _BOUNDARY.fullmatch(boundary):
        raise _broken("it has no boundary of 1 to 70 characters")
    return boundary


def _part(part: bytes, bytes_max: int) -> Document | Unusable:
    """What stands between two boundaries. Raises DoorError if that was no boundary."""
    padding, end, rest = part.partition(b"\r\n")
    if not end or padding.strip(b" \t"):
        raise _broken("a boundary is followed by something else")
    try:
        document = _document(rest)
        check_size(document.body, bytes_max)
    except DoorError as error:
        return Unusable(error, rest)
    return document


def _document(part: bytes) -> Document:
    if part.startswith(b"\r\n"):
        return Document(part[2:], "")
    head, end, body = part.partition(b"\r\n\r\n")
    if not end:
        raise DoorError("the part has no empty line behind its header", code="TC434")
    if len(head) > HEADER_BYTES_MAX:
        raise DoorError("the header of the part is too large", code="TC432")
    return Document(body, _id_of(_headers(head)))


def _headers(head: bytes) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not colon or not _NAME.fullmatch(name):
            raise DoorError("the header of the part cannot be read", code="TC434")
        if name in headers:
            raise DoorError(f"the header {name.decode()} of the part is there twice", code="TC434")
        headers[name] = value.strip(b" \t")
    return headers


def _id_of(headers: dict[bytes, bytes]) -> str:
    encoding = headers.get(b"content-transfer-encoding", b"").lower()
    if encoding not in _PLAIN or headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise DoorError("the part is encoded", code="TC435", hint="send the bytes as they are, or pack the whole")
    id_bytes = headers.get(b"treecast-document-id")
    if id_bytes is None:
        id_bytes = headers.get(b"content-id", b"").removeprefix(b"<").removesuffix(b">")
    try:
        id = id_bytes.decode()
    except UnicodeDecodeError:
        raise DoorError("the id of the part is not UTF-8", code="TC434") from None
    if len(id) > NAME_CHARS_MAX:
        raise DoorError(f"an id has at most {NAME_CHARS_MAX} characters", code="TC414")
    return id


def _broken(message: str) -> DoorError:
    return DoorError(f"the batch is not multipart: {message}", code="TC434")
