"""Bugs for the simulator to find: hosts and brokers that are wrong in one place each.

They change objects, not files: what is planted here is nowhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import msgspec

from treecast.errors import TreecastError
from treecast.index import Index
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.archive import Payload
from treecast.overlay.broker.lanes import LaneMessage
from treecast.overlay.broker.progress import Progress
from treecast.overlay.broker.queue import Queue
from treecast.overlay.broker.rows import SubscriptionRow
from treecast.overlay.broker.sessions import Session
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Acknowledge, Confirmation, Publish, Refusal, Request
from treecast.overlay.peer import Send
from treecast.sim import SimulatedStorage
from treecast.sim.broker.scenario import BrokerScenario, DoorsScenario, FailingSubscribersScenario
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


def one_by_one(broker: Broker) -> None:
    """No bug: all deliveries take the slow way, for bugs that are there."""
    broker._backlog.lanes.join = lambda queue: None  # type: ignore[method-assign]


def queues(kind: type[Queue]) -> Plant:
    """Let all queues of a broker be of this kind."""

    def plant(broker: Broker) -> None:
        one_by_one(broker)
        make_queue = broker._backlog.queue_of

        def queue_of(id: str, row: SubscriptionRow, progress: Progress | None = None) -> Queue:
            queue = make_queue(id, row, progress)
            queue.__class__ = kind
            return queue

        broker._backlog.queue_of = queue_of  # type: ignore[method-assign]

    return plant


def forget_copies(broker: Broker) -> None:
    """Duplicates: nobody looks for documents that were published before."""

    def fresh(
        command: Publish, sources: list[str], numbers: list[int], refusals: list[Refusal], copies: Any
    ) -> list[int]:
        return list(range(len(command.documents)))

    broker._intake._fresh = fresh  # type: ignore[method-assign]


def swap_payloads(broker: Broker) -> None:
    """A wrong delivery, now and then: the payload of the document before it."""
    one_by_one(broker)
    payload_of = broker._archive.payload
    last: list[Payload] = []

    def payload(queue: Queue, key: int) -> Payload | None:
        payload = payload_of(queue, key)
        if payload is None:
            return None
        last[:] = [*last[-1:], payload]
        if key % 5 == 0:
            payload.place, payload.body = ("swapped", key), last[0].body
        return payload

    broker._archive.payload = payload  # type: ignore[method-assign]


def hurry_cursors(broker: Broker) -> None:
    """Loss at a restart: the stored cursor is one document too far."""
    one_by_one(broker)
    store_cursor = broker._backlog.store_cursor

    def store(queue: Queue, turn: Turn) -> None:
        order = queue._order
        queue._order = order[1:] if len(order) > 1 else order
        store_cursor(queue, turn)
        queue._order = order

    broker._backlog.store_cursor = store  # type: ignore[method-assign]


def mix_bodies_on_lanes(broker: Broker) -> None:
    """A wrong delivery on the fast way: two payloads of a message change places."""
    take = broker._backlog.lanes.take

    def take_mixed(session: Session, number: int) -> LaneMessage | None:
        message = take(session, number)
        if message is None:
            return None
        items, count, ranges, *others = message
        mixed = [(n, n) for first, last in ranges for n in range(first, last + 1)][::-1]
        return (items, count, mixed, *others)  # type: ignore[return-value]

    broker._backlog.lanes.take = take_mixed  # type: ignore[method-assign]


def count_messages_on_lanes_as_one(broker: Broker) -> None:
    """Loss: whoever acknowledges a message of the fast way acknowledges the next one, too."""
    acknowledge = broker._backlog.lanes.acknowledge

    def both(session: Session, numbers: Sequence[int]) -> Any:
        later = [number for number in list(session.messages) if number - 1 in numbers]
        for number in later:
            if session.messages[number].is_whole:
                del session.messages[number]
        return acknowledge(session, [*numbers, *later])

    broker._backlog.lanes.acknowledge = both  # type: ignore[method-assign]


def accept_any_lease(broker: Broker) -> None:
    """What an earlier life of a client has sent counts, however late it arrives."""
    handle = broker._request

    def request(sender: str, request: Request, turn: Turn, objection: TreecastError | None = None) -> None:
        lease = broker._clients.row(sender, turn).lease
        handle(sender, msgspec.structs.replace(request, lease=lease), turn, objection)

    broker._request = request  # type: ignore[method-assign]


def keep_unnamed(broker: Broker) -> None:
    """A session whose `Detach` is late or lost shares the subscriptions with the next one of its client."""
    broker._end_unnamed = lambda client, message, turn: None  # type: ignore[method-assign]


def advance_too_far(broker: Broker) -> None:
    """One document more than was said counts as delivered."""
    one_by_one(broker)
    advance = broker._backlog.advance

    def further(id: str, row: SubscriptionRow, document: int, turn: Turn) -> None:
        advance(id, row, document + 1, turn)

    broker._backlog.advance = further  # type: ignore[method-assign]


def keep_sources(broker: Broker) -> None:
    """A source that was removed is still there."""
    broker._subscriptions.remove_source = lambda command, turn: None  # type: ignore[method-assign]


def settle_whole_messages(broker: Broker) -> None:
    """One delivery of a message that is done settles all of them."""
    acknowledge = broker._dispatch.acknowledge

    def all_of_it(session: Session, acknowledged: Acknowledge, turn: Turn) -> tuple[list[int], list[tuple[int, int]]]:
        messages = [*acknowledged.messages, *(number for number, _ in acknowledged.done)]
        return acknowledge(session, msgspec.structs.replace(acknowledged, messages=messages), turn)

    broker._dispatch.acknowledge = all_of_it  # type: ignore[method-assign]


def confirm_at_once(broker: Broker) -> None:
    """What was acknowledged is confirmed before it is stored."""
    handle = broker.handle

    def hurry(sender: str, message: Any, turn: Turn) -> None:
        handle(sender, message, turn)
        for effect in turn.sends:
            if isinstance(effect, Send) and isinstance(effect.message, Confirmation):
                turn.send_at_once(effect.to, effect.message)

    broker.handle = hurry  # type: ignore[method-assign]


def lose_records(broker: Broker) -> None:
    """Records are acknowledged and counted, and not stored."""
    broker._records.set = lambda command, turn: None  # type: ignore[method-assign]


def count_removed_records(broker: Broker) -> None:
    """Records that were removed still take the place of others."""
    count = broker._records._count
    broker._records._count = lambda kind, more, turn: count(kind, max(more, 0), turn)  # type: ignore[method-assign]


def never_hasten(broker: Broker) -> None:
    """What was postponed stays so, whoever wants it at once."""
    broker._backlog.hasten = lambda id, turn: None  # type: ignore[method-assign]


def postpone_briefly(broker: Broker) -> None:
    """What was postponed comes again at once."""
    postpone = broker._backlog.postpone

    def briefly(queue: Queue, key: int, wait_ms: int, reason: str, turn: Turn) -> None:
        postpone(queue, key, min(wait_ms, 1), reason, turn)

    broker._backlog.postpone = briefly  # type: ignore[method-assign]


def forget_postponed(broker: Broker) -> None:
    """What its receiver gives up is gone, instead of a dead letter."""
    postpone, settle = broker._backlog.postpone, broker._backlog.settle

    def forget(queue: Queue, key: int, wait_ms: int, reason: str, turn: Turn) -> None:
        if wait_ms:
            postpone(queue, key, wait_ms, reason, turn)
        else:
            settle(queue, key, turn)

    broker._backlog.postpone = forget  # type: ignore[method-assign]


PLANTED: dict[str, BrokerScenario] = {
    "acknowledgement before the write": BrokerScenario(make_host=EarlyHost),
    "a confirmation before the write": BrokerScenario(brokers(confirm_at_once)),
    "lost redelivery": BrokerScenario(brokers(forget_failed)),
    "reordering": BrokerScenario(brokers(queues(_LastFirst))),
    "duplicates": BrokerScenario(brokers(forget_copies)),
    "wrong payload": BrokerScenario(brokers(swap_payloads)),
    "wrong payload on a lane": BrokerScenario(brokers(mix_bodies_on_lanes)),
    "two messages of a lane acknowledged as one": BrokerScenario(brokers(count_messages_on_lanes_as_one)),
    "stale lease": BrokerScenario(brokers(accept_any_lease)),
    "advanced too far": BrokerScenario(brokers(advance_too_far)),
    "a removed source": BrokerScenario(brokers(keep_sources)),
    "lost records": DoorsScenario(brokers(lose_records)),
    "removed records that count": DoorsScenario(brokers(count_removed_records)),
    "nothing is hastened": DoorsScenario(brokers(never_hasten)),
    "postponed too briefly": DoorsScenario(brokers(postpone_briefly)),
    "given up without a letter": DoorsScenario(brokers(forget_postponed)),
}
"""Each is found within a few dozen seeds."""

RARE: dict[str, BrokerScenario] = {
    "reordering at the end of a session": BrokerScenario(brokers(queues(_PutBackLast))),
    "cursor too far": BrokerScenario(brokers(hurry_cursors)),
    "an end of a session that is lost": BrokerScenario(brokers(keep_unnamed)),
    "a whole message settled": FailingSubscribersScenario(brokers(settle_whole_messages)),
}
"""These need several things to go wrong together."""
