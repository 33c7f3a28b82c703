"""How much subscriptions wait for, for whoever looks at a broker."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treecast.overlay.broker.backlog import Backlog


def depths(backlog: Backlog) -> Iterator[tuple[str, dict[str, int]]]:
    """By subscription that waits for something: how much of it is in memory, and whether there is more on disk."""
    for id, numbers in backlog.idle.items():
        yield id, {"waiting": len(numbers), "sent": 0, "receivers": 0, "parked": 0}
    for id, queue in backlog.queues.items():
        waiting, sent = backlog.counts_of(queue)
        if waiting or queue.behind:
            counts = {"waiting": waiting - sent, "sent": sent, "receivers": len(queue.sessions)}
            yield id, {**counts, "parked": int(queue.behind)}
    for id in backlog.parked:
        if id not in backlog.queues:
            yield id, {"waiting": 0, "sent": 0, "receivers": 0, "parked": 1}


def longest(backlog: Backlog, count: int) -> list[tuple[str, int, int, int, bool, int]]:
    """Of the subscriptions that wait for most: id, waiting, sent, receivers, parked, first document."""
    # PERF: there may be a million of them, so rows are made only of those that are returned.
    rows = []
    for id, numbers in heapq.nlargest(count, backlog.idle.items(), key=lambda item: len(item[1])):
        rows.append((id, len(numbers), 0, 0, False, numbers[0]))
    for queue in heapq.nlargest(count, backlog.queues.values(), key=lambda queue: backlog.counts_of(queue)[0]):
        waiting, sent = backlog.counts_of(queue)
        if waiting or queue.behind:
            floor = backlog.floor_of(queue)
            rows.append((queue.id, waiting - sent, sent, len(queue.sessions), queue.behind, floor + 1))
    away = ((id, floor) for id, floor in backlog.parked.items() if id not in backlog.queues)
    for id, floor in heapq.nsmallest(count, away, key=lambda item: item[1]):
        rows.append((id, 0, 0, 0, True, floor + 1))
    return sorted(rows, key=lambda row: (not row[4], -row[1] - row[2], row[5], row[0]))[:count]
