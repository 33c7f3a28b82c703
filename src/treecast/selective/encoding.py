"""The encoding of the paper: a document whose text, comments and instructions have become attributes, and back.

An encoded document has elements and attributes only. Each element has its label (`pon`, `lb`), its stable identity
(`id`) and, for each gap between its children that is not empty, an attribute `gap-i` with what stood there. `decode` is
the exact inverse of `encode`, up to canonical form.

    >>> from treecast.selective.encoding import decode, encode
    >>> encoded = encode(b"<a>one<b/>two</a>", spacing=1)
    >>> print(encoded.decode())
    <a xmlns:fold="urn:treecast:fold:0" fold:gap-0="one" fold:gap-1="two" fold:id="0" fold:lb="1" fold:pon="2"><b
    fold:id="1" fold:lb="1" fold:pon="1"></b></a>
    >>> decode(encoded)
    b'<a>one<b></b>two</a>'

The attributes have a namespace that the document itself does not use, whatever it contains: the number at its end, and
the prefix, are chosen so. White space that parsers change in attributes (tabs and ends of lines) is written as \\t, \\n
and \\r, so that a serialiser that forgets character references does no harm.

Source: Selective, section IV-A. Use it to hand labelled documents to other XML tools; treecast itself works on
`treecast.selective.folded`.
"""

from __future__ import annotations

import re
from collections import Counter

from treecast.document import Bytes, Limits
from treecast.errors import DocumentError
from treecast.selective.folded import Element, FoldedDocument, fold
from treecast.selective.outline import Label, Outline

NAMESPACE = "urn:treecast:fold:"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {written: plain for plain, written in _ESCAPES.items()}


def encode(data: Bytes, *, spacing: int | None = None, limits: Limits | None = None) -> bytes:
    """The document with everything folded into attributes, and labels. `spacing` as in `Outline`."""
    folded = fold(data, limits=limits)
    return encode_folded(folded, Outline(folded.parents, spacing=spacing), list(range(len(folded.parents))))


def encode_folded(folded: FoldedDocument, outline: Outline, ids: list[int]) -> bytes:
    """As `encode`, with the labels of an outline; `ids` are those of the elements in document order."""
    prefix, uri = _free_names(folded)
    elements = [
        _encode_element(element, prefix, uri, id, outline.label(id), is_root=number == 0)
        for number, (id, element) in enumerate(zip(ids, folded.elements, strict=True))
    ]
    return FoldedDocument(elements, folded.parents, folded.before, folded.after).to_bytes()


def _free_names(folded: FoldedDocument) -> tuple[str, str]:
    """A prefix and a namespace that the document does not use."""
    prefixes = {prefix for element in folded.elements for prefix, _ in element.declarations}
    uris = {uri for element in folded.elements for _, uri in element.declarations}
    numbers = [int(uri.removeprefix(NAMESPACE)) for uri in uris if _is_ours(uri)]
    prefix = "fold"
    while prefix in prefixes:
        prefix += "-"
    return prefix, f"{NAMESPACE}{max(numbers, default=-1) + 1}"


def _is_ours(uri: str) -> bool:
    return re.fullmatch(re.escape(NAMESPACE) + "[0-9]{1,9}", uri) is not None


def _encode_element(element: Element, prefix: str, uri: str, id: int, label: Label, is_root: bool) -> Element:
    fields = [("id", str(id)), ("lb", str(label[1])), ("pon", str(label[0]))]
    fields += [(f"gap-{number}", _escape(gap)) for number, gap in enumerate(element.gaps) if gap]
    own_attributes = sorted((f"{prefix}:{name}", value) for name, value in fields)
    spaces = dict(element.bindings) | dict(element.declarations) | {prefix: uri}

    def canonical_key(pair: tuple[str, str]) -> tuple[str, str]:
        before, _, local = pair[0].rpartition(":")
        return (spaces.get(before, "") if before else "", local)

    attributes = tuple(sorted([*element.attributes, *own_attributes], key=canonical_key))
    declarations = (*element.declarations, (prefix, uri)) if is_root else element.declarations
    return Element(element.name, attributes, declarations, element.bindings, ("",) * len(element.gaps))


def decode(data: Bytes, *, limits: Limits | None = None) -> bytes:
    """The document that was encoded, in canonical form. Raises DocumentError (TC231) if this is no encoded document."""
    document = fold(data, limits=limits)
    own_declarations = [pair for pair in document.elements[0].declarations if _is_ours(pair[1])]
    if not own_declarations:
        raise _refusal("the root element declares no namespace of encoded documents")
    prefix, uri = max(own_declarations, key=lambda pair: int(pair[1].removeprefix(NAMESPACE)))
    children = Counter(document.parents)
    elements = [
        _decode_element(element, prefix, uri, children[number]) for number, element in enumerate(document.elements)
    ]
    return FoldedDocument(elements, document.parents, document.before, document.after).to_bytes()


def _decode_element(element: Element, prefix: str, uri: str, children: int) -> Element:
    fields = {name[len(prefix) + 1 :]: value for name, value in element.attributes if name.startswith(f"{prefix}:")}
    if any(gap.strip() for gap in element.gaps):
        raise _refusal(f"<{element.name}> has content that is not folded")
    if not {"id", "lb", "pon"} <= fields.keys():
        raise _refusal(f"<{element.name}> has no label")
    gaps = [_unescape(fields.pop(f"gap-{number}", "")) for number in range(children + 1)]
    if extra_fields := fields.keys() - {"id", "lb", "pon"}:
        raise _refusal(f"<{element.name}> has no place for {min(extra_fields)}")
    attributes = tuple(pair for pair in element.attributes if not pair[0].startswith(f"{prefix}:"))
    declarations = tuple(pair for pair in element.declarations if pair != (prefix, uri))
    return Element(element.name, attributes, declarations, element.bindings, tuple(gaps))


def _escape(gap: str) -> str:
    return re.sub(r"[\\\t\n\r]", lambda match: _ESCAPES[match[0]], gap)


def _unescape(value: str) -> str:
    return re.sub(r"\\.", lambda match: _UNESCAPES.get(match[0], match[0]), value)


def _refusal(reason: str) -> DocumentError:
    return DocumentError(
        f"not an encoded document: {reason}", code="TC231", hint="treecast.selective.encoding.encode makes one"
    )
