"""Load on a fleet whose workers and server are killed meanwhile, and what has to be true of it afterwards.

Publishers and readers do what clients should: they repeat what got no answer, with the same id, at any worker; and they
come back with the id of their last event.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from http.client import HTTPException

from support.fleet import FleetWorker
from support.served_http import EventReader


def subscription_ids(count: int) -> list[str]:
    return [f"s{number}" for number in range(count)]


def matching(number: int, count: int) -> list[str]:
    """The subscriptions that document `number` is for: three of them."""
    return [f"s{(number + step) % count}" for step in (0, 1, 7)]


class Publisher(threading.Thread):
    """Publishes documents, each until it is acknowledged."""

    def __init__(self, workers: Sequence[FleetWorker], numbers: range, subscriptions: int) -> None:
        super().__init__(daemon=True)
        self.workers = workers
        self.numbers = numbers
        self.accepted: dict[int, int] = {}
        """By our number: that of the fleet."""
        self._subscriptions = subscriptions

    def run(self) -> None:
        attempt = 0
        for number in self.numbers:
            marks = " ".join(f"{id}=''" for id in matching(number, self._subscriptions))
            while True:
                attempt += 1
                worker = self.workers[attempt % len(self.workers)]
                try:
                    id = f"d{number}"
                    answer = worker.ask("POST", "/v1/documents", f"<d {marks}/>".encode(), Treecast_Document_Id=id)
                except (OSError, HTTPException):
                    time.sleep(0.02)
                    continue
                if answer.status in (200, 201):
                    self.accepted[number] = answer.json["document"]
                    break
                assert answer.status == 503, answer
                time.sleep(0.02)


class Reader(threading.Thread):
    """Reads events of all subscriptions until it has all deliveries; goes to the next worker if one is gone."""

    def __init__(self, workers: Sequence[FleetWorker], ids: list[str], deliveries: int) -> None:
        super().__init__(daemon=True)
        self.events: list[tuple[str, int, str]] = []
        """Id of the delivery, document, subscription."""
        self.connections = 0
        self._workers = workers
        self._ids = ids
        self._deliveries = deliveries

    def run(self) -> None:
        last = ""
        seen: set[str] = set()
        while len(seen) < self._deliveries:
            self.connections += 1
            try:
                reader = EventReader(self._workers[self.connections % len(self._workers)], tuple(self._ids), last)
            except (OSError, HTTPException, AssertionError):
                time.sleep(0.05)
                continue
            with reader:
                for name, event in reader:
                    assert name == "delivery", (name, event)
                    self.events.append((event["delivery"], event["document"], event["subscription"]))
                    seen.add(event["delivery"])
                    last = reader.last
                    if len(seen) == self._deliveries:
                        return
                last = reader.last


def run_load(
    workers: Sequence[FleetWorker],
    documents: int,
    subscriptions: int,
    faults: Sequence[Callable[[], None]],
    *,
    patience_seconds: float = 120,
) -> dict[str, int]:
    """Publish from three publishers, with faults in between; returns counts. Asserts that nothing is lost or new."""
    ids = subscription_ids(subscriptions)
    for id in ids:
        workers[0].subscribe(id, f"/d[@{id}]")
    step = documents // 3
    deliveries = 3 * step * len(matching(0, subscriptions))
    # They know when they have all: a reader that had to be told could have read the last event before.
    readers = [Reader(workers, ids, deliveries), Reader(workers[::-1], ids, deliveries)]
    publishers = [Publisher(workers, range(at * step, (at + 1) * step), subscriptions) for at in range(3)]
    for thread in (*readers, *publishers):
        thread.start()

    def accepted_count() -> int:
        return sum(len(publisher.accepted) for publisher in publishers)

    end = time.monotonic() + patience_seconds
    for place, fault in enumerate(faults, 1):
        while accepted_count() < 3 * step * place // (len(faults) + 1):
            assert time.monotonic() < end, accepted_count()
            time.sleep(0.01)
        fault()
    for publisher in publishers:
        publisher.join(max(end - time.monotonic(), 0))
    numbers = {
        own_number: fleet_number for publisher in publishers for own_number, fleet_number in publisher.accepted.items()
    }
    assert len(numbers) == 3 * step == len(set(numbers.values()))
    expected = {
        (fleet_number, id) for own_number, fleet_number in numbers.items() for id in matching(own_number, subscriptions)
    }
    assert len(expected) == deliveries
    # Every delivery is stored: a reader that begins now gets all of them.
    late = Reader(workers, ids, deliveries)
    late.start()
    for reader in (*readers, late):
        reader.join(max(end - time.monotonic(), 0))
        by_id = {id: (document, subscription) for id, document, subscription in reader.events}
        missing = expected - set(by_id.values())
        assert not missing, (len(missing), sorted(missing)[:5], reader.connections)
        assert set(by_id.values()) == expected and len(by_id) == len(expected)
    copies = Counter(id for id, _, _ in late.events)
    return {
        "documents": len(numbers),
        "deliveries": len(expected),
        "stored": len(late.events),
        "stored twice": sum(count > 1 for count in copies.values()),
        "connections": max(reader.connections for reader in readers),
    }
