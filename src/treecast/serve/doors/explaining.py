"""Why a document was delivered: each of its matches with the elements that made it, as spans of bytes.

`explain` decides one query on one document at a time, and reads the document for each. So whoever asks has a budget of
bytes for one answer: what is beyond it is listed, with a note instead of an explanation.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from treecast.errors import TreecastError
from treecast.index import Index
from treecast.index.explain import Explanation, Place, explain
from treecast.overlay.broker.rows import SubscriptionRow
from treecast.serve.doors.forms import DocumentMatch, ExplainedStep, Span

EXCERPT_CHARS_MAX = 240
"""Of the beginning of a document in a list."""
PAYLOAD_CHARS_MAX = 10_000
"""Of a payload that is shown; longer ones are cut."""
TEXT_CHARS_MAX = 1_000
"""Of a path, a query or a reason that is shown."""
SPANS_MAX = 200
_DECLARATION = re.compile(rb"\A<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")
_NAMES = {"us-ascii": "windows-1252", "ascii": "windows-1252", "iso-8859-1": "windows-1252", "latin1": "windows-1252"}


@dataclass(frozen=True, slots=True)
class KeptMatch:
    """A match that is to be explained. Without `payload`, the document was delivered as it is."""

    id: str
    row: SubscriptionRow | None
    is_waiting: bool
    payload: bytes | None
    is_explained: bool
    """There is room for it in the answer."""


def encoding_of(body: bytes) -> str:
    """The encoding of a document that was accepted, by the name that browsers and Python know it by.

    >>> encoding_of(b"<a/>"), encoding_of("<a/>".encode("utf-16-le")), encoding_of("<a/>".encode("utf-16"))
    ('utf-8', 'utf-16le', 'utf-16le')
    >>> encoding_of(b"<?xml version='1.0' encoding='ISO-8859-1'?><a/>")
    'windows-1252'
    """
    if body[:2] == b"\xff\xfe" or body[1:2] == b"\0":
        return "utf-16le"
    if body[:2] == b"\xfe\xff" or body[:1] == b"\0":
        return "utf-16be"
    declaration = _DECLARATION.match(body[:300])
    if declaration is None:
        return "utf-8"
    name = declaration[1].decode().lower()
    return _NAMES.get(name, name) if name in (*_NAMES, "windows-1252") else "utf-8"


def explain_all(body: bytes, matches: Sequence[KeptMatch], like: Index) -> list[DocumentMatch]:
    """To be called in a thread. Documents are read with the limits of the index `like`."""
    return [_match(body, match, like) for match in matches]


def _match(body: bytes, match: KeptMatch, like: Index) -> DocumentMatch:
    text, encoding, is_cut = _to_text(match.payload) if match.payload is not None else (None, "", False)
    if match.row is None:
        note = "The subscription was removed since."
        return DocumentMatch(match.id, "gone", "", text, encoding, is_cut, note=note)
    state: Literal["waiting", "done"] = "waiting" if match.is_waiting else "done"
    query = match.row.query[:TEXT_CHARS_MAX]
    if not match.is_explained:
        note = "Not explained: together with the others it is too large."
        return DocumentMatch(match.id, state, query, text, encoding, is_cut, note=note)
    note, steps, spans = _explain(body, match.row, like)
    return DocumentMatch(match.id, state, query, text, encoding, is_cut, steps, spans, note)


def _explain(body: bytes, row: SubscriptionRow, like: Index) -> tuple[str, list[ExplainedStep], list[Span]]:
    try:
        explanation = explain(body, row.query, namespaces=row.namespaces, ordered=row.ordered, limits=like.limits)
    except TreecastError as error:
        return f"Not explained: {str(error)[:TEXT_CHARS_MAX]}", [], []
    if explanation.matched is None:
        return f"Not explained: {explanation.undecided[:TEXT_CHARS_MAX]}", [], []
    if not explanation.matched:
        return "The subscription has changed since: it does not match this document any more.", [], []
    steps = [
        ExplainedStep(
            step.text[:TEXT_CHARS_MAX],
            step.place.path[:TEXT_CHARS_MAX],
            step.place.line,
            [one.sentence[:TEXT_CHARS_MAX] for one in step.conditions],
        )
        for step in explanation.steps
    ]
    note = f"Not all of it is explained: {explanation.undecided[:TEXT_CHARS_MAX]}" if explanation.undecided else ""
    return note, steps, list(_spans(explanation))


def _spans(explanation: Explanation) -> Iterator[Span]:
    """What the last step selected, then what the conditions looked at."""
    if explanation.steps:
        yield _span(explanation.steps[-1].place, is_result=True)
    places = [place for step in explanation.steps for one in step.conditions for place in one.places()]
    for place in places[: SPANS_MAX - 1]:
        yield _span(place, is_result=False)


def _span(place: Place, *, is_result: bool) -> Span:
    kind = "result" if is_result else "evidence"
    return Span(place.start, place.end, kind, place.path[:TEXT_CHARS_MAX], place.line)  # type: ignore[arg-type]


def _to_text(payload: bytes) -> tuple[str, str, bool]:
    """Text, or base64, and whether it was cut."""
    is_cut = len(payload) > PAYLOAD_CHARS_MAX
    try:
        return payload[: 4 * PAYLOAD_CHARS_MAX].decode()[:PAYLOAD_CHARS_MAX], "", is_cut
    except UnicodeDecodeError as error:
        if error.start > 4 * PAYLOAD_CHARS_MAX - 4:  # a character was cut in two
            return payload[: error.start].decode()[:PAYLOAD_CHARS_MAX], "", is_cut
        return base64.b64encode(payload[:PAYLOAD_CHARS_MAX]).decode(), "base64", is_cut
