"""Digests of elements and views: what a signature of the publisher covers.

The digest of an element binds the document, the element's token, its parent's token, the version of the view in which
it last changed, its own content, and the digests of the children that are seen, in order. The digest of a view binds
the document, the group, the version and the digests of its fragments. One signature of that covers everything below: an
element that is altered, moved, left out, put elsewhere or taken from an older version gives another digest.

    >>> from treecast.selective.digests import element_digest, record_of, view_digest
    >>> from treecast.selective.folded import fold
    >>> record = record_of(fold(b"<a x='1'>text</a>").elements[0])
    >>> record
    b'["a",[["x","1"]],[["",""]],["text"]]'
    >>> element_digest("paper", b"token", b"", 1, record, []).hex()[:16]
    'b9ddd5b1e0ce2ac3'

Everything is SHA-256 over fields, each behind its length as eight bytes, big-endian; numbers are decimal. The guide
page `selective-security` states this again, so that a verifier can be written from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from treecast.selective.folded import Element
from treecast.selective.keys import join


def record_of(form: Element) -> bytes:
    """The content of an element in one form, without its children: JSON."""
    fields = (form.name, form.attributes, form.bindings, form.gaps)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def form_from(record: bytes) -> Element:
    """The form again."""
    name, attributes, bindings, gaps = json.loads(record)
    return Element(name, tuple(map(tuple, attributes)), (), tuple(map(tuple, bindings)), tuple(gaps))


def element_digest(
    document: str, token: bytes, parent: bytes, version: int, record: bytes, children: Sequence[bytes]
) -> bytes:
    """The digest of an element; `children` are the digests of those that are seen, `parent` is empty in a fragment."""
    return sha256(join(("treecast element 1", document, token, parent, version, record, *children))).digest()


def view_digest(document: str, group: str, version: int, fragments: Sequence[bytes]) -> bytes:
    """The digest of a view: what is signed."""
    return sha256(join(("treecast view 1", document, group, version, *fragments))).digest()
