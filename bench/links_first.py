"""How long a broker takes until what it passes on leaves, with and without its own subscribers in the same turn.

The broker is in this process, without sockets and disk: frames of 64 documents in binary come in, and what is measured
is the CPU time until the message for its child is there. `bench.network_cpu` calls it.
"""

from __future__ import annotations

import time
from random import Random
from typing import Any

from treecast.document import Document, read_many
from treecast.model import Subscription
from treecast.overlay.messages import Request, Subscribe, SubscribeMany
from treecast.overlay.onyx.control_messages import NewView
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import Announce, Covered, Forward, Parcel, Taken
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.path_routing import PathRouting
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.peer import Effect, Send, Store
from treecast.sim import SimulatedStorage
from treecast.wire import Codec

ROOT, PARENT, CHILD = "r", "p", "c"


class Between:
    """A broker between a root and a child, whom the benchmark plays."""

    def __init__(self, settings: NetworkSettings, queries: list[str], wanted: str) -> None:
        self._storage = SimulatedStorage()
        self.broker = NetworkBroker(PARENT, self._storage, Random(1), network=settings)
        names = {name: BrokerInfo() for name in (ROOT, PARENT, CHILD)}
        self._version = 0
        self._tell("registry", NewView(View(1, names, {ROOT: {PARENT: ROOT, CHILD: PARENT}})))
        rows = [Subscribe(str(n), query) for n, query in enumerate(queries)]
        for number, begin in enumerate(range(0, len(rows), 1_000), 1):
            self._tell("client", Request(number, SubscribeMany(rows[begin : begin + 1_000])))
        routing = PathRouting(seed=1)
        query = routing.map(Subscription("", wanted)).encode()
        self._tell(CHILD, Announce(ROOT, 1, 5, 1, 0, [(query, routing.empty().encode())], ["binary"]))
        assert len(self.broker.index) == len(queries), "all subscriptions count"

    def _tell(self, sender: str, message: Any) -> None:
        self.happen(self.broker.receive(sender, message, 0))
        while self._version:
            version, self._version = self._version, 0
            self.happen(self.broker.receive(ROOT, Covered(ROOT, "store", 1, 7, self.broker.life, version, 0), 0))

    def happen(self, effects: list[Effect]) -> int:
        """Store, let the broker hear itself, and play the root; returns how many documents went to the child."""
        passed = 0
        for effect in effects:
            if isinstance(effect, Store):
                self._storage.write(effect.changes)
            elif isinstance(effect, Send) and effect.to == PARENT:
                passed += self.happen(self.broker.receive(PARENT, effect.message, 0))
            elif isinstance(effect, Send) and isinstance(effect.message, Announce):
                self._version = effect.message.version
            elif isinstance(effect, Send) and isinstance(effect.message, Forward):
                passed += len(Parcels.read(effect.message.documents))
        return passed

    def forward(self, after: int, parcels: list[Parcel]) -> tuple[float, float]:
        """CPU seconds until the message for the child is there, and until all is done."""
        version = self.broker.trees[ROOT].version
        message = Forward(ROOT, "store", 1, 7, version, after, after + len(parcels), Parcels.of(parcels).packed)
        begin = time.process_time()
        effects = self.broker.receive(ROOT, message, 0)
        left = time.process_time() - begin
        assert self.happen(effects) == len(parcels)
        done = time.process_time() - begin
        self.happen(self.broker.receive(CHILD, Taken(ROOT, 1, message.upto), 0))
        return left, done


def measure(
    documents: list[bytes], queries: list[str], wanted: str, frame: int, settings: NetworkSettings
) -> tuple[float, float]:
    """Microseconds a document: until it leaves, and until the broker's own subscribers are served too."""
    read = [one for one in read_many(documents) if isinstance(one, Document)]
    bodies = Codec("binary").encode_many(read)
    between = Between(settings, queries, wanted)
    times: list[tuple[float, float]] = []
    for begin in range(0, len(bodies), frame):
        some = enumerate(bodies[begin : begin + frame], begin + 1)
        times.append(between.forward(begin, [Parcel(number, "s", "", 0, "binary", body) for number, body in some]))
    middle = len(times) // 2
    left, done = (sorted(one[place] for one in times)[middle] for place in (0, 1))
    return left / frame * 1e6, done / frame * 1e6
