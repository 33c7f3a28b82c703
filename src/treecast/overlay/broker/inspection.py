"""Rows for whoever looks at a broker: dead letters, queues, sources, subscriptions, counts."""

from __future__ import annotations

from collections.abc import Iterator

from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.depths import depths
from treecast.overlay.broker.rows import LETTERS, SUBSCRIPTIONS, LetterRow, SubscriptionRow, decode
from treecast.overlay.broker.subscriptions import Subscriptions
from treecast.overlay.messages import Inspect
from treecast.overlay.shadow import Shadow

Row = dict[str, str | int]
ROWS_MAX = 1_000


def inspect(
    message: Inspect, shadow: Shadow, backlog: Backlog, subscriptions: Subscriptions, stats: dict[str, int]
) -> list[Row]:
    """The rows that were asked for, at most `ROWS_MAX`."""
    count = min(message.count_max, ROWS_MAX)
    match message.kind:
        case "letters":
            return list(_letters(shadow, int(message.after) if message.after.isdecimal() else 0, count))
        case "subscriptions":
            return list(_subscriptions(shadow, message.after, count))
        case "queues":
            rows = sorted((id, depth) for id, depth in depths(backlog) if id > message.after)
            return [{"key": id, **depth} for id, depth in rows[:count]]
        case "sources":
            names = sorted(name for name in subscriptions.sources if name > message.after)
            return [{"key": name, "description": subscriptions.sources[name].description} for name in names[:count]]
        case "stats":
            return [{"key": name, "value": value} for name, value in sorted(stats.items()) if name > message.after]
        case _:
            return []  # what only a registry has


def _letters(shadow: Shadow, after: int, count: int) -> Iterator[Row]:
    for number, data in shadow.scan(LETTERS, after, count):
        yield letter_fields(number, decode(data, LetterRow))


def letter_fields(number: int, row: LetterRow) -> Row:
    return {
        "key": str(number),
        "subscription": row.subscription,
        "document": row.document,
        "reason": row.reason,
        "attempts": row.attempts,
        "bytes": len(row.payload),
        "died_ms": row.died_ms,
    }


def _subscriptions(shadow: Shadow, after: str, count: int) -> Iterator[Row]:
    for id, data in shadow.scan(SUBSCRIPTIONS, after, count):
        row = decode(data, SubscriptionRow)
        yield {"key": id, "query": row.query, "deliver": row.deliver, "paused": int(row.paused)}
