r"""The name of a document's root element, read from its beginning: the rest is not looked at.

    >>> root_name(b'<?xml version="1.0"?><!-- news --><n:news xmlns:n="urn:n"><head>')
    'news'

It is the local name, without its namespace: the queries distinguish two roots of one local name. None stands for a
beginning that no well-formed document has; whether the rest is well-formed is not checked here.

Source: XTrie, "Hierarchical Strategy".
"""

from __future__ import annotations

import re

from treecast.document import Bytes

# Every repetition is possessive: a beginning is read once, in linear time. A byte that is no white space, `/` or `>`
# belongs to the name. Of an internal subset only white space, comments and PIs are accepted, as the reader does.
_MISC = rb"(?:[ \t\r\n]++|<!--(?s:.*?)-->|<\?(?s:.*?)\?>)*+"
_DOCTYPE = rb"(?:<!DOCTYPE(?:[^\"'\[>]++|\"[^\"]*+\"|'[^']*+')++(?:\[" + _MISC + rb"\][ \t\r\n]*+)?+>" + _MISC + rb")?+"
_BEGINNING = re.compile(_MISC + _DOCTYPE + rb"<([^ \t\r\n/>!?<]++)")
_ENCODING = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
_CODECS = {"iso88591": "latin-1", "latin1": "latin-1", "windows1252": "cp1252", "cp1252": "cp1252"}


def root_name(document: Bytes) -> str | None:
    """The local name of the root element, or None where the beginning is not that of a document."""
    begin = bytes(document[:4])
    if begin[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in begin:
        return _of_utf16(bytes(document))
    view: Bytes = document[3:] if begin[:3] == b"\xef\xbb\xbf" else document
    start = _BEGINNING.match(view)
    if start is None:
        return None
    name: bytes = start[1]
    if name.isascii():
        return name.decode("ascii").rpartition(":")[2]
    encoding_match = _ENCODING.match(view)
    # As the reader has it: case, hyphens and underscores do not count.
    label = encoding_match[1].decode("ascii").lower().replace("-", "").replace("_", "") if encoding_match else "utf8"
    codec = _CODECS.get(label, "utf-8")
    try:
        return name.decode(codec).rpartition(":")[2]
    except UnicodeDecodeError:
        return None


def _of_utf16(document: bytes) -> str | None:
    codec = (
        "utf-16"
        if document[:2] in (b"\xff\xfe", b"\xfe\xff")
        else "utf-16-be"
        if document[:1] == b"\0"
        else "utf-16-le"
    )
    try:
        text = document.decode(codec)
    except UnicodeDecodeError:
        return None
    start = _BEGINNING.match(text.encode("utf-8"))
    return start[1].decode("utf-8").rpartition(":")[2] if start else None
