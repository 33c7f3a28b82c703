"""Bugs for the simulator to find: hosts and brokers that are wrong in one place each.

They change objects, not files: what is planted here is nowhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from treecast.index import Index
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.archive import Payload
from treecast.overlay.broker.queue import Queue
from treecast.overlay.broker.rows import SubscriptionRow
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Publish, Refusal
from treecast.overlay.peer import Send
from treecast.sim import SimulatedStorage
from treecast.sim.broker.scenario import BrokerScenario
from treecast.sim.host import Host


class EarlyHost(Host):
    """Acknowledges before the write: what follows a `Store` leaves at once."""

    def _go_on(self) -> None:
        waiting: deque[Any] = deque()
        for group, effect in self._outbox._waiting:
            if isinstance(effect, Send) and effect.to != self.name:
                self._world.network.send(self.name, effect.to, [effect.message])
            else:
                waiting.append((group, effect))
        self._outbox._waiting = waiting
        super()._go_on()


Plant = Callable[[Broker], None]


def brokers(plant: Plant) -> Callable[..., Broker]:
    """Makes brokers with a bug in them."""

    def make(
        name: str, storage: SimulatedStorage, random: Random, settings: BrokerSettings, index: Index, version: int
    ) -> Broker:
        broker = Broker(name, storage, random, settings, index, version)
        plant(broker)
        return broker

    return make


def forget_failed(broker: Broker) -> None:
    """Lost redelivery: what its subscriber has refused is not tried again."""

    def fail(queue: Queue, key: int, reason: str, turn: Turn) -> None:
        queue.sent.pop(key, None)

    broker._backlog.fail = fail  # type: ignore[method-assign]


class _LastFirst(Queue):
    """Reordering: the newest delivery is sent first."""

    __slots__ = ()

    def next_ready(self) -> int | None:
        self.ready.rotate(1)
        return super().next_ready()


class _PutBackLast(Queue):
    """Reordering, seldom: what a session could not deliver comes after what is newer."""

    __slots__ = ()

    def put_back(self, keys: Iterable[int]) -> None:
        self.ready.extend(keys)


def queues(kind: type[Queue]) -> Plant:
    """Let all queues of a broker be of this kind."""

    def plant(broker: Broker) -> None:
        make_queue = broker._backlog.queue_of

        def queue_of(id: str, row: SubscriptionRow) -> Queue:
            queue = make_queue(id, row)
            queue.__class__ = kind
            return queue

        broker._backlog.queue_of = queue_of  # type: ignore[method-assign]

    return plant


def forget_copies(broker: Broker) -> None:
    """Duplicates: nobody looks for documents that were published before."""

    def fresh(command: Publish, numbers: list[int], refusals: list[Refusal], copies: Any) -> list[int]:
        return list(range(len(command.documents)))

    broker._intake._fresh = fresh  # type: ignore[method-assign]


def swap_payloads(broker: Broker) -> None:
    """A wrong delivery, now and then: the payload of the document before it."""
    payload_of = broker._archive.payload
    last: list[Payload] = []

    def payload(queue: Queue, key: int) -> Payload | None:
        payload = payload_of(queue, key)
        if payload is None:
            return None
        last[:] = [*last[-1:], payload]
        if key % 5:
            return payload
        return Payload(payload.document, payload.published_ms, ("swapped", key), last[0].body)

    broker._archive.payload = payload  # type: ignore[method-assign]


def hurry_cursors(broker: Broker) -> None:
    """Loss at a restart: the stored cursor is one document too far."""
    store_cursor = broker._backlog.store_cursor

    def store(queue: Queue, turn: Turn) -> None:
        order = queue._order
        queue._order = order[1:] if len(order) > 1 else order
        store_cursor(queue, turn)
        queue._order = order

    broker._backlog.store_cursor = store  # type: ignore[method-assign]


PLANTED: dict[str, BrokerScenario] = {
    "acknowledgement before the write": BrokerScenario(make_host=EarlyHost),
    "lost redelivery": BrokerScenario(brokers(forget_failed)),
    "reordering": BrokerScenario(brokers(queues(_LastFirst))),
    "duplicates": BrokerScenario(brokers(forget_copies)),
    "wrong payload": BrokerScenario(brokers(swap_payloads)),
}
"""Each is found within a few dozen seeds."""

RARE: dict[str, BrokerScenario] = {
    "reordering at the end of a session": BrokerScenario(brokers(queues(_PutBackLast))),
    "cursor too far": BrokerScenario(brokers(hurry_cursors)),
}
"""These need several things to go wrong together."""
