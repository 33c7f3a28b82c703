"""The content type of a payload: feeds have one of their own.

>>> content_type(b'<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"/>')
'application/atom+xml'
>>> content_type(b'<!-- news --><rss version="2.0"/>'), content_type(b"<feed/>")
('application/rss+xml', 'application/xml')
"""

from __future__ import annotations

import re

_BEGINNING_BYTES = 2_048
_ROOT = re.compile(rb"(?:\s|<\?.*?\?>|<!--.*?-->|\xef\xbb\xbf)*<(?:[\w.-]+:)?(feed|rss|RDF)\b([^>]*)", re.DOTALL)
ATOM, RSS, XML = "application/atom+xml", "application/rss+xml", "application/xml"


def content_type(payload: bytes) -> str:
    """By its root element."""
    root = _ROOT.match(payload[:_BEGINNING_BYTES])
    if root is None:
        return XML
    if root[1] == b"rss":
        return RSS
    return ATOM if root[1] == b"feed" and b"http://www.w3.org/2005/Atom" in root[2] else XML
