"""What a query would do, before it is registered: whether it is valid, what it covers, and what it would have matched.

All of it is bounded: a number of subscriptions to compare with, a number and size of recent documents. It runs in a
thread, on copies of what the broker has.
"""

from __future__ import annotations

import asyncio
import base64

from treecast.errors import QueryError, TreecastError
from treecast.index import Index
from treecast.overlay.broker import Broker
from treecast.overlay.broker.rows import SubscriptionRow
from treecast.query import Query, Transformation, parse
from treecast.serve.access.access import Access
from treecast.serve.doors.envelopes import timestamp
from treecast.serve.doors.forms import TryAnswer, TryForm, TryMatch
from treecast.serve.doors.problems import problem_of_error
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import visible_subscriptions

PAYLOAD_CHARS_MAX = 10_000
"""Of a payload that is shown; longer ones are cut."""

Recent = list[tuple[int, int, bytes]]  # number, time, body


async def try_query(form: TryForm, broker: Broker, settings: DoorSettings, access: Access) -> TryAnswer:
    index = Index(limits=broker.index.limits)
    try:
        index.add("tried", form.query, namespaces=form.namespaces, ordered=form.ordered, deliver=form.deliver)
    except TreecastError as error:
        return TryAnswer(False, problem_of_error(error))
    count = settings.try_subscriptions_max
    rows = visible_subscriptions(broker.tail, access, "", count + 1)
    documents: Recent = []
    size = 0
    for number, row, body in broker.tail.recent(settings.try_documents_max):
        size += len(body)
        if size > settings.try_bytes_max:
            break
        documents.append((number, row.published_ms, body))
    return await asyncio.to_thread(_try, form, index, rows, count, documents)


def _try(
    form: TryForm, index: Index, rows: list[tuple[str, SubscriptionRow]], count: int, documents: Recent
) -> TryAnswer:
    covers, covered_by = _compare(parse(form.query, namespaces=form.namespaces), rows[:count])
    matches: list[TryMatch] = []
    for number, published_ms, body in documents:
        for delivery in index.render(body):
            if delivery.refused is None:
                matches.append(_match(number, published_ms, delivery.payload))
    compared_count = min(len(rows), count)
    return TryAnswer(True, None, covers, covered_by, compared_count, len(rows) <= count, len(documents), matches)


def _compare(query: Query | Transformation, rows: list[tuple[str, SubscriptionRow]]) -> tuple[list[str], list[str]]:
    covers: list[str] = []
    covered_by: list[str] = []
    for id, row in rows:
        try:
            other = parse(row.query, namespaces=row.namespaces)
        except QueryError:  # cannot be: it was accepted
            continue
        if query.covers(other):
            covers.append(id)
        if other.covers(query):
            covered_by.append(id)
    return covers, covered_by


def _match(number: int, published_ms: int, payload: bytes) -> TryMatch:
    is_cut = len(payload) > PAYLOAD_CHARS_MAX
    try:
        text, encoding = payload.decode()[:PAYLOAD_CHARS_MAX], ""
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(payload[:PAYLOAD_CHARS_MAX]).decode(), "base64"
    return TryMatch(number, timestamp(published_ms), text, encoding, is_cut)
