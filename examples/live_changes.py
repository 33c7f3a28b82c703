"""Subscriptions come and go in one thread while another matches documents.

    python examples/live_changes.py

No lock is needed. Each match sees the set of subscriptions as it was when the match began; the next
match sees the change.
"""

from __future__ import annotations

import threading

import treecast

DOCUMENT = b"<order><item sku='A1'/><item sku='B2'/><note>fragile</note></order>"
QUERIES = ["/order", "//item", "//item/@sku", "//note/text()", "/order/*", "/invoice", "//refund"]


def come_and_go(index: treecast.Index, done: threading.Event) -> None:
    """Add one guest after the other; each leaves when ten more have come."""
    number = 0
    while not done.is_set() or number < 100:
        index.add(f"guest-{number}", QUERIES[number % len(QUERIES)])
        if number >= 10:
            index.remove(f"guest-{number - 10}")
        number += 1


def main(matches: int = 2_000) -> None:
    index = treecast.Index()
    index.add("resident", "//item/@sku")
    done = threading.Event()
    changes = threading.Thread(target=come_and_go, args=(index, done))
    changes.start()
    try:
        for _ in range(matches):
            found = index.match(DOCUMENT)
            assert found[0] == "resident"  # it was added first, and it stays
            assert len(found) <= 1 + 11  # there are never more than eleven guests
    finally:
        done.set()
        changes.join()
    print(f"{matches} documents matched while subscriptions changed; {len(index)} subscriptions are left")


if __name__ == "__main__":
    main()
