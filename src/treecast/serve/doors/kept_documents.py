"""Documents that are kept: the last ones, their bytes, and who got what of each, with the reasons.

A document is a stranger's: its bytes leave with headers that make a browser run nothing of it.
"""

from __future__ import annotations

import asyncio
import re

from treecast.overlay.broker import Broker
from treecast.overlay.broker.rows import DocumentRow
from treecast.overlay.storage import StorageError
from treecast.serve.doors.calls import INERT, NUMBER_MAX, Call, Reply, json_reply
from treecast.serve.doors.envelopes import CONTENT_TYPE, timestamp
from treecast.serve.doors.events import Feed
from treecast.serve.doors.explaining import EXCERPT_CHARS_MAX, KeptMatch, encoding_of, explain_all
from treecast.serve.doors.forms import DocumentsAnswer, DocumentSummary, MatchesAnswer
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings

NAMES_MAX = 10
"""Subscriptions that a list of documents names for each."""
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_HEADERS = (
    *((name.decode(), value.decode()) for name, value in INERT),
    ("accept-ranges", "bytes"),
    ("cache-control", "no-store"),
)


class KeptDocumentPages:
    """What was published and is still there. Only what is durable is shown."""

    def __init__(self, client: LocalClient, feed: Feed, settings: DoorSettings) -> None:
        self._client = client
        self._feed = feed
        self._settings = settings

    async def list_documents(self, call: Call) -> Reply:
        count = call.number_parameter("count", 25, self._settings.page_rows_max)
        before = call.number_parameter("before", 0, NUMBER_MAX) or NUMBER_MAX
        broker = await self._client.current_broker()
        before = min(before, self._feed.last_document + 1)
        rows = list(broker.tail.documents_before(before, count + 1))
        more = rows[count - 1][0] if len(rows) > count else 0
        return json_reply(200, DocumentsAnswer([self._summary(broker, *row) for row in rows[:count]], more))

    def _summary(self, broker: Broker, number: int, row: DocumentRow) -> DocumentSummary:
        excerpt = ""
        if row.bytes <= self._settings.excerpt_bytes_max:
            try:
                body = broker.tail.body(row.body)
                excerpt = body[: 4 * EXCERPT_CHARS_MAX].decode(encoding_of(body), "replace")[:EXCERPT_CHARS_MAX]
            except StorageError:
                pass  # dropped just now, or damaged
        return DocumentSummary(
            *(number, row.source, timestamp(row.published_ms), row.bytes, len(row.subscriptions)),
            *(row.subscriptions[:NAMES_MAX], row.id, excerpt, row.early.steps or "unknown" if row.early else ""),
        )

    def _row(self, broker: Broker, call: Call) -> tuple[int, DocumentRow]:
        text = call.parameter
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise DoorError("a document has a number", code="TC434")
        number, last = int(text), self._feed.last_document
        row = broker.tail.document(number) if number <= last else None
        if row is None:
            is_gone = 1 <= number <= last
            reason = "is no longer kept" if is_gone else "does not exist"
            raise DoorError(f"document {number} {reason}", code="TC424", status=410 if is_gone else 404)
        return number, row

    async def get_document(self, call: Call) -> Reply:
        """The bytes as they were published, or, in a network, as they came to this broker; or a range of them."""
        broker = await self._client.current_broker()
        _, row = self._row(broker, call)
        body = broker.tail.body(row.body)
        range_match = _RANGE.fullmatch(call.header(b"range"))
        if range_match is None:  # none, or several, or one that is not known here: all of it is a right answer
            return Reply(200, body, CONTENT_TYPE, _HEADERS)
        begin, end = int(range_match[1]), min(int(range_match[2] or len(body)) + 1, len(body))
        if begin >= end:
            detail = f"the document has {len(body)} bytes"
            raise DoorError(detail, code="TC434", status=416)
        place = ("content-range", f"bytes {begin}-{end - 1}/{len(body)}")
        return Reply(206, body[begin:end], CONTENT_TYPE, (*_HEADERS, place))

    async def list_matches(self, call: Call) -> Reply:
        broker = await self._client.current_broker()
        number, row = self._row(broker, call)
        count = call.number_parameter("count", self._settings.explained_max, self._settings.explained_max)
        ids = row.subscriptions
        after = call.text_parameter("after")
        begin = ids.index(after) + 1 if after in ids else 0
        body = broker.tail.body(row.body)
        selection = self._select_matches(broker, number, row, range(begin, min(begin + count, len(ids))))
        matches = await asyncio.to_thread(explain_all, body, selection, broker.index)
        more = ids[begin + count - 1] if len(ids) > begin + count else ""
        return json_reply(200, MatchesAnswer(number, encoding_of(body), row.bytes, len(ids), matches, more))

    def _select_matches(self, broker: Broker, number: int, row: DocumentRow, places: range) -> list[KeptMatch]:
        """Some of its matches, with their payloads, as far as the budget goes."""
        budget = self._settings.explain_bytes_max
        selection = []
        for place in places:
            id = row.subscriptions[place]
            subscription = broker.tail.subscription(id)
            is_waiting = False
            if subscription is not None:
                is_waiting = not broker.tail.progress(id).is_done(number)
            payload = None
            if row.payloads[place] != row.body and budget > 0:
                payload = broker.tail.body(row.payloads[place])
                budget -= len(payload)
            budget -= row.bytes
            selection.append(KeptMatch(id, subscription, is_waiting, payload, budget >= 0))
        return selection
