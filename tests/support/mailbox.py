"""Two small peers that lose nothing, and a scenario of them: the simulated world is tested with these.

A `Writer` sends letters until each is confirmed. A `Mailbox` stores a letter before it confirms it. So in the end every
confirmed letter is in the mailbox, and once the world has healed, all are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

import msgspec

from treecast.errors import PeerError
from treecast.overlay.peer import Deliver, Effect, Send, Store
from treecast.overlay.storage import Append, Put
from treecast.sim import Fault, FaultRates, SimulatedStorage, World, draw_faults
from treecast.sim.host import Host
from treecast.sim.scenario import Outcome, outcome_of

RETRY_MS = 150
DURATION_MS = 3_000


class Letter(msgspec.Struct, frozen=True, tag="letter"):
    id: int
    text: str


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed"):
    id: int


class LetterCodec:
    """MessagePack with a checksum in front."""

    _decoder = msgspec.msgpack.Decoder(list[Letter | Confirmed])

    def encode(self, messages: Sequence[Any]) -> list[bytes]:
        body = msgspec.msgpack.encode(messages)
        return [crc32(body).to_bytes(4, "big") + body]

    def decode(self, frame: bytes) -> list[Any]:
        if crc32(frame[4:]) != int.from_bytes(frame[:4], "big"):
            raise PeerError("TC403 wrong checksum", code="TC403")
        return list(self._decoder.decode(frame[4:]))


class TrustingCodec(LetterCodec):
    """Does not look at the checksum."""

    def decode(self, frame: bytes) -> list[Any]:
        try:
            return list(self._decoder.decode(frame[4:]))
        except (msgspec.MsgspecError, ValueError):
            raise PeerError("TC404 no letter", code="TC404") from None


class Mailbox:
    """Stores letters, each once, and confirms them."""

    name = "mailbox"

    def __init__(self, storage: SimulatedStorage, random: Random) -> None:
        self._known_ids = {key for key, _ in storage.scan("letters", -1, 1_000)}
        self._next_body = storage.count("letters")

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        assert isinstance(message, Letter)
        if message.id in self._known_ids:
            # It may still be on its way to the disk: the empty Store is there to show that order is kept anyway.
            return [Store(()), Send(sender, Confirmed(message.id))]
        self._known_ids.add(message.id)
        self._next_body += 1
        body = message.text.encode()
        changes = (Put("letters", message.id, body), Append(self._next_body, body))
        return [Store(changes), Send(sender, Confirmed(message.id))]

    def tick(self, now_ms: int) -> list[Effect]:
        return []


class Writer:
    """Sends letters again and again until they are confirmed. It forgets which were when it crashes."""

    def __init__(self, name: str, ids: range) -> None:
        self.name = name
        self._open = dict.fromkeys(ids, 0)

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        assert isinstance(message, Confirmed)
        self._open.pop(message.id, None)
        return [Deliver(message)]

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for id, sent_ms in self._open.items():
            if abs(now_ms - sent_ms) >= RETRY_MS:
                self._open[id] = now_ms
                effects.append(Send("mailbox", Letter(id, f"letter {id}")))
        return effects


def make_writer(name: str, ids: range, storage: SimulatedStorage, random: Random) -> Writer:
    return Writer(name, ids)


class EarlyHost(Host):
    """A planted bug: what follows a `Store` does not wait for it."""

    def _go_on(self) -> None:
        super()._go_on()
        for effect in self._outbox._waiting:
            if isinstance(effect[1], Send):
                self._world.network.send(self.name, effect[1].to, [effect[1].message])
        self._outbox._waiting.clear()


class Letters:
    """The scenario: two writers, one mailbox."""

    name = "letters"
    hosts = ("mailbox", "ann", "ben")

    def __init__(self, *, codec: LetterCodec | None = None, rates: FaultRates | None = None) -> None:
        self._codec = codec or LetterCodec()
        self._rates = rates or FaultRates(crashing=self.hosts, storing=("mailbox",))

    def faults(self, seed: int) -> list[Fault]:
        return draw_faults(Random(f"{seed}/faults"), self.hosts, DURATION_MS, self._rates)

    def make_host(self, world: World, name: str, *arguments: Any) -> Host:
        return world.add_host(name, *arguments)

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        world = World(seed, self._codec)
        confirmed_ids: set[int] = set()
        mailbox = self.make_host(world, "mailbox", Mailbox)
        for place, name in enumerate(("ann", "ben")):
            ids = range(100 * place, 100 * place + 5)
            world.add_host(
                name,
                partial(make_writer, name, ids),
                lambda event: confirmed_ids.add(event.id),
            )
        world.schedule(faults)
        world.run(DURATION_MS)
        world.heal()
        world.run(DURATION_MS * 3)
        self._check(world, mailbox, confirmed_ids)
        return outcome_of(self.name, world, faults, with_trace, {"confirmed": len(confirmed_ids)})

    def _check(self, world: World, mailbox: Host, confirmed_ids: set[int]) -> None:
        stored_ids = {key for key, _ in mailbox.storage.scan("letters", -1, 1_000)}
        if lost_ids := sorted(confirmed_ids - stored_ids):
            world.fail(f"letters {lost_ids} were confirmed and are lost")
        elif len(confirmed_ids) < 10:
            world.fail(f"only {len(confirmed_ids)} of 10 letters were confirmed after healing")
        elif mailbox.storage.body_bytes() != sum(len(f"letter {id}") for id in stored_ids):
            world.fail("bodies and rows do not belong together")


class EarlyLetters(Letters):
    """The scenario with the planted bug of `EarlyHost`."""

    def make_host(self, world: World, name: str, *arguments: Any) -> Host:
        host = world.hosts[name] = EarlyHost(world, name, *arguments)
        host.start()
        return host
