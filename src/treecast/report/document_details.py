"""A document -> what a report shows of it: which subscriptions it matched, where, and what each of them gets.

    >>> from treecast import Index
    >>> index = Index()
    >>> index.add("prices", "//price[@currency = 'EUR']", deliver="elements")
    >>> detail = detail_of("a.xml", b'<order><price currency="EUR">7</price></order>', index, rendered=True)
    >>> detail.shown[0].place, detail.shown[0].payload
    ('/order[1]/price[1], line 1', '<price currency="EUR">7</price>')
    >>> [piece.text for piece in detail.pieces if piece.numbers]
    ['<price ', 'currency="EUR"', '>']

It decides its subscriptions one at a time, so it is for the few documents of a report, not for all of a job.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from treecast import _native
from treecast.document import EntityTexts, native_entities
from treecast.errors import TreecastError
from treecast.index import Index
from treecast.index.explain import Explanation, Place
from treecast.report.figures import DocumentDetail, MatchDetail, Piece

MATCHES_SHOWN_MAX = 40
"""Subscriptions of one document."""
TEXT_CHARS_MAX = 6_000
"""Of a document; of a longer one, what is around the marks."""
AROUND_CHARS = 240
PAYLOAD_CHARS_MAX = 500
DOCUMENT_BYTES_MAX = 4 << 20
"""A larger document is not explained: it would be read once for each subscription."""

Span = tuple[int, int, int]
"""Begin, end and the number of the match."""


def detail_of(
    name: str,
    data: bytes,
    index: Index,
    *,
    rendered: bool,
    entities: EntityTexts = None,
    nanoseconds: int = 0,
) -> DocumentDetail:
    """What the report shows of a document; without any text where it cannot be read or is very large."""
    bare = DocumentDetail(name, len(data), nanoseconds, 0)
    if len(data) > DOCUMENT_BYTES_MAX:
        return bare
    try:
        ids, _ = index.match_one(data)
        text = _native.source_text(data, index.limits.native(), native_entities(entities))
    except TreecastError:
        return bare
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    shown_ids = ids[:MATCHES_SHOWN_MAX]
    payloads = _payloads(data, index, shown_ids) if rendered else {}
    starts = _line_starts(text)
    spans: list[Span] = []
    details: list[MatchDetail] = []
    for number, id in enumerate(shown_ids):
        explanation = _explanation(index, data, id)
        places = [] if explanation is None else _places(explanation)
        spans += [(*_range(place, starts, len(text)), number) for place in places]
        where = f"{places[0].path}, line {places[0].line}" if places else ""
        payload = payloads.get(id)
        details.append(
            MatchDetail(
                subscription=id,
                query=index[id].query,
                place=where,
                payload="" if payload in (None, data) else _excerpt(payload or b""),
                payload_bytes=None if payload is None else len(payload),
                is_whole=payload == data,
            )
        )
    return DocumentDetail(name, len(data), nanoseconds, len(ids), tuple(details), tuple(_pieces(text, spans)))


def _payloads(data: bytes, index: Index, ids: list[str]) -> dict[str, bytes]:
    """What these subscriptions get; not there for one that is refused."""
    part = index.part([index[id] for id in ids])
    try:
        return {delivery.subscription: bytes(delivery.payload) for delivery in part.render(data)}
    except TreecastError:
        return {}


def _explanation(index: Index, data: bytes, id: str) -> Explanation | None:
    try:
        explanation = index.explain(data, id)
    except TreecastError:
        return None
    return explanation if explanation.matched else None


def _places(explanation: Explanation) -> list[Place]:
    """What the query selects first, and what made its predicates true."""
    if not explanation.steps:
        return []
    places = [explanation.steps[-1].place]
    for step in explanation.steps:
        places += [place for condition in step.conditions if condition.holds for place in condition.places()]
    return places


def _line_starts(text: str) -> list[int]:
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def _range(place: Place, starts: list[int], size: int) -> tuple[int, int]:
    """The characters of a start tag, an attribute or a text."""
    begin = starts[min(place.line, len(starts)) - 1] + place.column - 1
    end = starts[min(place.tag_line, len(starts)) - 1] + place.tag_column - 1
    begin = min(begin, size)
    return begin, min(max(end, begin), size)


def _excerpt(payload: bytes) -> str:
    text = payload[: 4 * PAYLOAD_CHARS_MAX].decode("utf-8", "replace")
    return text[:PAYLOAD_CHARS_MAX] + ("…" if len(text) > PAYLOAD_CHARS_MAX else "")


def _pieces(text: str, spans: list[Span]) -> Iterator[Piece]:
    """The text in pieces that each have the same marks; gaps where parts of a long text are left out."""
    for number, (begin, end) in enumerate(_windows(len(text), spans)):
        if begin or number:
            yield Piece("", is_gap=True)
        inside = [(max(first, begin), min(last, end), match) for first, last, match in spans]
        inside = [span for span in inside if span[0] < span[1]]
        cuts = sorted({begin, end, *(at for first, last, _ in inside for at in (first, last))})
        for first, last in pairwise(cuts):
            numbers = {match for low, high, match in inside if low <= first and last <= high}
            yield Piece(text[first:last], tuple(sorted(numbers)))


def _windows(size: int, spans: list[Span]) -> list[tuple[int, int]]:
    """The parts that are shown: everything, or of a long text what is around the marks, from its beginning on."""
    if size <= TEXT_CHARS_MAX:
        return [(0, size)]
    windows = [(0, min(size, AROUND_CHARS))]
    chars_left = TEXT_CHARS_MAX - windows[0][1]
    for begin, end, _ in sorted(spans):
        first, last = max(0, begin - AROUND_CHARS), min(size, min(end, begin + AROUND_CHARS) + AROUND_CHARS)
        at = bisect_right(windows, (first, size)) - 1
        low, high = windows[at]
        if first <= high:
            first, chars_added = low, max(0, last - high)
        else:
            chars_added = last - first
        if chars_added > chars_left:
            break
        chars_left -= chars_added
        if first == low:
            windows[at] = (low, max(high, last))
        else:
            windows.append((first, last))
    if windows[-1][1] < size:
        windows.append((size, size))  # nothing, after a gap
    return windows
