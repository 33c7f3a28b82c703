"""Golden errors of networks of brokers: how each is brought about."""

from __future__ import annotations

from random import Random

import msgspec

from treecast.overlay.broker.refused import RequestError
from treecast.overlay.broker.rows import encode
from treecast.overlay.messages import Answer, Command, Hello, Request
from treecast.overlay.onyx.control_messages import CatalogDelta, CatalogEntry, NewView
from treecast.overlay.onyx.migration import MOVED, MovedRow
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import BeginAnew, Positions
from treecast.overlay.onyx.registry import Registry
from treecast.overlay.onyx.registry.admission import Admission
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.peer import Send
from treecast.overlay.storage import Put
from treecast.sim import SimulatedStorage


def refuse_network(data: bytes) -> None:
    """Ask a broker of a network whose other broker, which is a root, does not answer."""
    broker = NetworkBroker("golden", SimulatedStorage(), Random(1), registries=("registry",))
    view = View(1, {"golden": BrokerInfo(), "other": BrokerInfo()}, {"other": {"golden": "other"}})
    broker.receive("registry", NewView(view), 0)
    broker.receive("registry", CatalogDelta(0, 1, [CatalogEntry("theirs", "other")]), 0)
    request = Request(1, msgspec.json.decode(data, type=Command))
    effects = [*broker.receive("client", request, 0), *broker.tick(NetworkSettings().cover_ms_max + 1)]
    answers = [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Answer)]
    for refusal in answers[-1].refusals:
        raise RequestError(refusal.message.removeprefix(f"{refusal.code} "), code=refusal.code)


def refuse_move(data: bytes) -> None:
    """Ask a broker of a network for something that it has handed over to another one."""
    storage = SimulatedStorage()
    storage.write([Put(MOVED, "sport", encode(MovedRow("other")))])
    broker = NetworkBroker("golden", storage, Random(1), registries=("registry",))
    request = Request(1, msgspec.json.decode(data, type=Command))
    answers = [effect.message for effect in broker.receive("client", request, 0) if isinstance(effect, Send)]
    for refusal in [refusal for answer in answers if isinstance(answer, Answer) for refusal in answer.refusals]:
        raise RequestError(refusal.message.removeprefix(f"{refusal.code} "), code=refusal.code)


def refuse_older_disk(data: bytes) -> None:
    """Tell a root that somebody has so many of its documents: more than it has itself."""
    broker = NetworkBroker("golden", SimulatedStorage(), Random(1), registries=("registry",))
    brokers = {"golden": BrokerInfo(), "other": BrokerInfo()}
    broker.receive("registry", NewView(View(1, brokers, {"golden": {"other": "golden"}})), 0)
    position = Positions("golden", broker.broker.store_id, 1, int(data))
    for effect in broker.receive("other", position, 0):
        if isinstance(effect, Send) and isinstance(effect.message, BeginAnew):
            broker.receive(effect.to, effect.message, 0)


def refuse_joining(data: bytes) -> None:
    """Join a network whose registry allows other names."""
    refusal = Admission(("b*",)).refusal(data.decode())
    if refusal is not None:
        raise refusal


def refuse_registration(data: bytes) -> None:
    """Ask a registry that has no broker for something."""
    registry = Registry("golden", SimulatedStorage(), Random(1))
    registry.tick(0)
    (*_, welcome) = [effect for effect in registry.receive("client", Hello("client"), 0) if isinstance(effect, Send)]
    request = Request(1, msgspec.json.decode(data, type=Command), welcome.message.lease)
    assert not registry.receive("client", request, 0), "a broker may come"
    effects = registry.receive("client", request, registry.settings.silent_ms)
    answers = [effect.message for effect in effects if isinstance(effect, Send)]
    for refusal in answers[-1].refusals:
        raise RequestError(refusal.message.removeprefix(f"{refusal.code} "), code=refusal.code)
