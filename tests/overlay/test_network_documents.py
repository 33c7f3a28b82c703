"""Documents of other brokers: stored where somebody wants them, and delivered under ids that all brokers agree on."""

from __future__ import annotations

from random import Random

import pytest

from treecast.catalog.delivery_ids import delivery_id
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.rows import DOCUMENTS, DocumentRow, decode
from treecast.overlay.broker.tail import Published
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Attach, Deliveries, Request, Subscribe, opened
from treecast.overlay.onyx.link_formats import Arrival
from treecast.overlay.onyx.network_messages import Parcel
from treecast.overlay.peer import Deliver, Effect, Send, Store
from treecast.overlay.receiver import Delivery
from treecast.serve.doors.envelopes import envelope, envelope_of
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house

X = Arrival(Parcel(7, "s", "mine", 99, "text", b"<x/>"), None)
Y = Arrival(Parcel(8, "s", "", 99, "text", b"<y/>"), None)


def take(name: str, *arrivals: Arrival) -> tuple[Broker, list[Effect], SimulatedStorage]:
    """A broker with one subscription to x, which takes these from another one."""
    storage = SimulatedStorage()
    broker = Broker(name, storage, Random(name), BrokerSettings(announces=True))
    broker.receive("client", Request(1, Subscribe("q", "/x")), 0)
    broker.receive("client", Attach("session", ["q"], 10), 0)
    turn = Turn(100)
    broker.take("5f1c", arrivals, turn)
    effects = broker.finish(turn)
    storage.write([change for effect in effects if isinstance(effect, Store) for change in effect.changes])
    return broker, effects, storage


def test_only_what_somebody_wants_is_stored() -> None:
    broker, _, storage = take("b1", X, Y)
    ((number, data),) = storage.scan(DOCUMENTS, 0, 10)
    row = decode(data, DocumentRow)
    assert number == 1 and (row.origin, row.origin_number, row.published_ms) == ("5f1c", 7, 99)
    assert broker.last_document == 1, "the other one has no number here"


def test_ids_do_not_depend_on_the_broker() -> None:
    wanted = delivery_id("5f1c", 7, "q")
    for name in ("b1", "b2"):
        broker, effects, _ = take(name, X)
        (message,) = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Deliveries)]
        (item,) = opened(message).items
        fields = (item.subscription, item.document, item.published_ms, item.attempt, b"<x/>", broker.store_id)
        delivery = Delivery(*fields, "session", 1, 0, item.origin, item.origin_number)
        assert delivery.id == envelope_of(delivery).delivery == wanted
        (event,) = [e.event for e in effects if isinstance(e, Deliver) and isinstance(e.event, Published)]
        made = envelope(broker.store_id, event.document, 0, "q", b"", origin=event.origin)
        (read,), _ = broker.tail.read(["q"], 0, 1, 1_000)
        assert made.delivery == wanted and read.origin == event.origin == ("5f1c", 7)


def test_a_dead_letter_keeps_the_id() -> None:
    broker, _, _ = take("b1", X)
    turn = Turn(100)
    (queue,) = broker._backlog.queues.values()
    broker._backlog.give_up(queue, 1, "given up", turn)
    broker.finish(turn)
    letter = broker._archive.payload(queue, -1)
    assert letter is not None and (letter.origin, letter.origin_number) == ("5f1c", 7)
