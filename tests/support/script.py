"""Brokers or peers in the simulated world, their clients, and faults when a test says so. Two kinds of systems are
scripted like this: `scripted_network.py` and `scripted_ring.py`.

What a test says is what operators and clients can do or see: it publishes, subscribes, cuts cables, kills hosts, takes
disks away or puts older ones back, and looks at the status. So it stays when the parts of a broker are replaced.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import msgspec

from treecast.overlay.client import Answered, Client, ClientSettings
from treecast.overlay.messages import Command, Document, Partial, Publish, Subscribe
from treecast.overlay.peer import Effect
from treecast.overlay.receiver import Delivered
from treecast.sim.replica.routed_world import RoutedWorld
from treecast.sim.storage import SimulatedStorage

SOURCE = "s"
WAIT_MS_MAX = 60_000
STEP_MS = 5
QUICK = ClientSettings(request_ms=200, request_ms_max=400)


class Publication(msgspec.Struct):
    """A document. `sent_us` is when it was published, `answered_us` when it was acknowledged; 0: not yet."""

    text: str
    topic: str
    sent_us: int
    answered_us: int = 0
    partial: list[Partial] | None = None
    """From a ring: what could not be reached."""

    @property
    def body(self) -> bytes:
        return f"<n><{self.topic or 'any'}>{self.text}</{self.topic or 'any'}></n>".encode()


class Reader:
    """A subscription, and what it was delivered. `since_us` is when it was acknowledged; 0: not yet."""

    def __init__(self, broker: str, id: str, topic: str) -> None:
        self.broker = broker
        self.id = id
        self.topic = topic
        self.query = f"/n/{topic}" if topic else "/n"
        self.since_us = 0
        self.bodies: set[bytes] = set()

    def wants(self, publication: Publication) -> bool:
        """It was acknowledged before the document was published, so it gets the document."""
        return 0 < self.since_us <= publication.sent_us and self.topic in ("", publication.topic)


class Script(ABC):
    """A run. A subclass adds the hosts of the brokers to the world."""

    def __init__(self, seed: int) -> None:
        self.world = RoutedWorld(seed)
        self.world.may_lose_disk = lambda host: True
        self.publications: list[Publication] = []
        self.readers: dict[str, Reader] = {}
        self._sent: dict[tuple[str, int], Publication | Reader | None] = {}
        """By client and ticket: what has no answer yet."""

    @abstractmethod
    def host_of(self, broker: str) -> str:
        """The name of a broker's own host."""

    # --- time, and faults ---------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.world.now_us // 1000

    def run(self, ms: int) -> None:
        self.world.run(self.now_ms + ms)
        assert self.world.failure is None, self.world.failure

    def wait(self, what: str, is_reached: Callable[[], bool], step_ms: int = STEP_MS) -> None:
        end_ms = self.now_ms + WAIT_MS_MAX
        while not is_reached():
            assert self.now_ms < end_ms, f"no {what}"
            self.run(step_ms)

    def crash(self, broker: str, down_ms: int = 1, *, loses_disk: bool = False) -> None:
        """Kill a broker's own host, which comes back after a while."""
        self.world.hosts[self.host_of(broker)].crash(down_ms * 1000, loses_disk)

    def copy_disk(self, broker: str) -> SimulatedStorage:
        """As it is now: for `put_back`."""
        return deepcopy(self.world.hosts[self.host_of(broker)].storage)

    def put_back(self, broker: str, older: SimulatedStorage, down_ms: int = 1) -> None:
        """Kill a broker's own host, which comes back with an older disk."""
        self.crash(broker, down_ms)
        self.world.hosts[self.host_of(broker)].storage = older

    # --- clients ------------------------------------------------------------------------------------------------------

    def _client(self, broker: str) -> str:
        """The name of the client of a broker."""
        name = f"client of {broker}"
        if name not in self.world.hosts:
            self.world.add_host(name, lambda _, random: Client(name, broker, random, QUICK), partial(self._take, name))
        return name

    def ask(self, broker: str, command: Command, sent: Publication | Reader | None = None) -> None:
        """It is on its way then, and answered later."""
        client = self._client(broker)

        def request(peer: Client, now_ms: int) -> list[Effect]:
            ticket, effects = peer.request(command, now_ms)
            self._sent[client, ticket] = sent
            return effects

        self.world.hosts[client].call(request)

    def wait_for_answers(self, step_ms: int = STEP_MS) -> None:
        self.wait("answers", lambda: not self._sent, step_ms)

    def publish(self, *texts: str, topic: str = "", broker: str = "") -> list[Publication]:
        """Each document by itself, at the first broker if no other one is named."""
        publications = [Publication(text, topic, self.world.now_us) for text in texts]
        self.publications += publications
        for publication in publications:
            document = Document(publication.body, f"{publication.topic}/{publication.text}")
            self.ask(broker or self.root, Publish(SOURCE, [document]), publication)
        return publications

    @property
    @abstractmethod
    def root(self) -> str:
        """The broker to publish at."""

    def publish_and_wait(self, *texts: str, topic: str = "") -> list[Publication]:
        sent = self.publish(*texts, topic=topic)
        self.wait("an acknowledgement", lambda: all(publication.answered_us for publication in sent))
        return sent

    def subscribe(self, broker: str, id: str, topic: str = "") -> Reader:
        reader = self.readers[id] = Reader(broker, id, topic)
        self.ask(broker, Subscribe(id, reader.query), reader)
        return reader

    def subscribe_and_wait(self, broker: str, id: str, topic: str = "", step_ms: int = STEP_MS) -> Reader:
        reader = self.subscribe(broker, id, topic)
        self.wait("a subscription", lambda: reader.since_us > 0, step_ms)
        return reader

    def _take(self, client: str, event: Any) -> None:
        """What a client hears."""
        if isinstance(event, Answered):
            assert not event.refusals, event.refusals
            sent = self._sent.pop((client, event.ticket))
            if isinstance(sent, Publication):
                sent.answered_us, sent.partial = self.world.now_us, event.partial
            elif isinstance(sent, Reader):
                sent.since_us = self.world.now_us
        elif isinstance(event, Delivered):
            for delivery in event.deliveries:
                self.readers[delivery.subscription].bodies.add(delivery.payload)
            self.world.hosts[client].call(lambda peer, now_ms: peer.acknowledge(event.deliveries, now_ms))

    def attach(self, reader: Reader) -> None:
        """It takes what is delivered from now on."""
        self.world.hosts[self._client(reader.broker)].call(lambda peer, now_ms: peer.attach([reader.id], now_ms)[1])

    def missing(self) -> list[str]:
        """What was acknowledged, and has not reached a subscription that wants it."""
        return [
            f"{publication.text} for {reader.id}"
            for reader in self.readers.values()
            for publication in self.publications
            if publication.answered_us and reader.wants(publication) and publication.body not in reader.bodies
        ]

    def expect_all_delivered(self) -> None:
        """All faults end. Whatever was asked for is acknowledged, and what was acknowledged is delivered: readers take
        what is theirs only now, so nothing has reached them before it could be lost."""
        self.world.heal()
        self.wait_for_answers(50)
        for reader in self.readers.values():
            self.attach(reader)
        end_ms = self.now_ms + WAIT_MS_MAX
        while (missing := self.missing()) and self.now_ms < end_ms:
            self.run(100)
        assert not missing, f"acknowledged and never delivered: {missing[:5]}"
