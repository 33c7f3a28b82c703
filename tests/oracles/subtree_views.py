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
    return bytes(etree.tostring(_visible_copy(top, shown, places), method="c14n", exclusive=True, with_comments=True))


def _visible_copy(top: Any, shown: Collection[int], places: dict[Any, int]) -> Any:
    """A copy of a subtree with the elements that are shown. It is pruned, not built, so that prefixes stay."""
    copy = deepcopy(top)
    copy.tail = None
    for original, twin in list(zip(elements(top), elements(copy), strict=True)):
        if places[original] in shown:
            _prune(original, twin, shown, places)
    return copy


def _prune(original: Any, twin: Any, shown: Collection[int], places: dict[Any, int]) -> None:
    """Take out what is hidden among the children. A gap is a list of texts, comments and instructions."""
    anchor: Any = None  # the last child that is shown; its tail takes the text
    gaps: list[list[Any]] = [[twin.text or ""]]
    for one, other in list(zip(original, twin, strict=True)):
        if not isinstance(one.tag, str):
            gaps[-1] += [other, other.tail or ""]
        elif places[one] in shown:
            _write(twin, anchor, gaps)
            anchor, gaps = other, [[other.tail or ""]]
        else:
            gaps.append([other.tail or ""])
            twin.remove(other)
    _write(twin, anchor, gaps)


def _write(parent: Any, anchor: Any, gaps: list[list[Any]]) -> None:
    """Of white space on both sides of what is taken out, that behind it is left. In an empty parent there is none."""
    remaining: list[Any] = []
    for gap in gaps:
        if remaining and gap[0][:1] and gap[0][:1] in SPACE:
            remaining[-1] = remaining[-1].rstrip(SPACE)
        remaining = [*remaining[:-1], remaining[-1] + gap[0], *gap[1:]] if remaining else gap
    is_empty = not any(isinstance(child.tag, str) for child in parent)
    if len(gaps) > 1 and is_empty and len(remaining) == 1 and not remaining[0].strip(SPACE):
        remaining = [""]
    text = ""
    for piece in [*remaining, None]:
        if isinstance(piece, str):
            text += piece
            continue
        if anchor is None:
            parent.text = text
        else:
            anchor.tail = text
        anchor, text = piece, ""
