"""What many subscriptions of one shape cost on a document: counted, not timed.

`looked_at` says how many entries were tested one by one, and counts the steps of rechecks. A recheck takes at least a
step for each item, so whoever stays at `2 * COUNT` rechecks nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from treecast import Index, _native

COUNT, ITEMS = 300, 40


def count_work(query: Callable[[int], str], item: Callable[[int], str]) -> tuple[int, int]:
    """What COUNT subscriptions looked at on a list of ITEMS items, and how many of them match."""
    index = Index()
    index.add_many((str(place), query(place)) for place in range(COUNT))
    matched = index.match(f"<list>{''.join(map(item, range(ITEMS)))}</list>".encode())
    return _native.testing.looked_at(index._native), len(matched)
