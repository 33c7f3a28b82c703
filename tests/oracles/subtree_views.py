"""What somebody may see of a document, decided by lxml: written from the guide, without our labels and gaps."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from typing import Any

from lxml import etree

SPACE = " \t\n"


def read(data: bytes) -> Any:
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, strip_cdata=False))


def elements(root: Any) -> list[Any]:
    """The elements in document order."""
    return [one for one in root.iter() if isinstance(one.tag, str)]


def view(data: bytes, shown: Collection[int]) -> list[bytes]:
    """The fragments of those who see the elements with these positions in document order, and nothing else."""
    root = read(data)
    places = {one: place for place, one in enumerate(elements(root))}
    fragments = []
    for one, place in places.items():
        if place in shown and (one.getparent() is None or places[one.getparent()] not in shown):
            fragments.append(_fragment(one, shown, places))
    return fragments


def _fragment(top: Any, shown: Collection[int], places: dict[Any, int]) -> bytes:
    copy = deepcopy(top)
    copy.tail = None
    originals = elements(top)
    pairs = list(zip(originals, elements(copy), strict=True))
    for original, twin in reversed(pairs):  # backwards, so that the text before an element is as it was
        if places[original] not in shown:
            _remove(twin)
    return bytes(etree.tostring(copy, method="c14n", exclusive=True, with_comments=True))


def _remove(element: Any) -> None:
    """Take an element out, and the white space before it; what is behind it stays."""
    parent = element.getparent()
    before = element.getprevious()
    if before is None or isinstance(before.tag, str):
        text = (parent.text if before is None else before.tail) or ""
        if not text.strip(SPACE):
            text = ""
    else:  # a comment or an instruction: the gap is more than white space
        text = before.tail or ""
    text += element.tail or ""
    element.tail = None
    parent.remove(element)
    if before is None:
        parent.text = text
    else:
        before.tail = text
