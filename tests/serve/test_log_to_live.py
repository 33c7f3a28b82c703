"""Event streams where reading the log ends and live events begin: nothing is missed, repeated, or sent too early.

The broker and the door are real; the test decides when a group of changes is durable, and when a crash takes it back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest

from treecast.overlay.broker import Broker
from treecast.overlay.broker.progress import Progress
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.tail import Published
from treecast.overlay.messages import Command, Document, Publish, RegisterSource, Request, Subscribe
from treecast.overlay.peer import Deliver, Outbox, Send
from treecast.overlay.storage import Change
from treecast.serve.doors.events import Feed, Place, Stream, parse_event_id
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.local_peers import LocalPeer
from treecast.serve.metrics import Metrics
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house

QUERIES = {"a": "//a", "b": "//b", "ab": "//a | //b"}
BODIES = [b"<a/>", b"<b/>", b"<x><a/><b/></x>", b"<z/>", b"<a>" + b"y" * 300 + b"</a>"]
SEEDS = range(40)


class HeldRuntime:
    """Runs a broker. A group is durable when `write` is called for it, and what follows it happens with `release`."""

    def __init__(self) -> None:
        self.storage = SimulatedStorage()
        self.metrics = Metrics()
        self.broker = self._make()
        self.durable_document = 0
        self._publishers = 0
        self._outbox = Outbox()
        self._group: list[Change] | None = None
        self._is_written = False
        self._locals: list[LocalPeer] = []

    def _make(self) -> Broker:
        return Broker("b", self.storage, Random(1), BrokerSettings(announces=True))

    def register(self, local: LocalPeer) -> None:
        self._locals.append(local)

    def is_ready(self) -> bool:
        return True

    def tell(self, local: LocalPeer, message: Any, size: int = 0) -> None:
        self._hand_over(local.name, message)

    def _hand_over(self, sender: str, message: Any) -> None:
        self._outbox.add(self.broker.receive(sender, message, 1_000))

    def publish(self, command: Publish) -> None:
        self._publishers += 1
        self._hand_over(f"publisher {self._publishers}", Request(1, command))

    def is_idle(self) -> bool:
        return self._group is None and not len(self._outbox) and not self._outbox.has_changes()

    def step(self) -> None:
        """Take the next group, write it, or do what follows it."""
        if self._group is None:
            if self._outbox.has_changes():
                self._group, self._is_written = self._outbox.take_changes(), False
            else:
                self._release()
        elif not self._is_written:
            self.storage.write(self._group)
            self._is_written = True
        else:
            self._group = None
            self._outbox.stored()
            self._release()

    def _release(self) -> None:
        effects = self._outbox.take_ready()
        sends = [effect for effect in effects if isinstance(effect, Send)]
        for send in sends:
            for local in self._locals:
                if send.to == local.name:
                    local.received([send.message])
        for effect in effects:
            if isinstance(effect, Deliver):
                if isinstance(effect.event, Published):
                    self.durable_document = effect.event.document
                for local in self._locals:
                    local.announced(effect.event)
        for send in sends:
            if send.to == self.broker.name:
                self._hand_over(send.to, send.message)

    def open(self) -> None:
        """Clients are told of the broker, whatever it has accepted already."""
        for local in self._locals:
            local.closed()
            local.opened(self.broker)

    def crash(self) -> None:
        """What is not durable is lost, and the broker is made anew."""
        self._outbox, self._group = Outbox(), None
        for local in self._locals:
            local.closed()
        self.broker = self._make()
        self.durable_document = self.broker.tail.last_document()
        self.open()


class Reader:
    """Of one stream."""

    def __init__(self, door: Door, subscriptions: Sequence[str], last_event_id: str = "") -> None:
        self.last_event_id = last_event_id
        self.stream: Stream = door.feed.open(subscriptions, last_event_id)
        self.stream.connection = self
        self.subscriptions = subscriptions
        self.starts: dict[str, Progress] = {id: door.runtime.broker.tail.progress(id) for id in subscriptions}
        self.durable_at_begin = door.runtime.durable_document
        self.data = b""
        self.is_slow = False
        self.early: list[Place] = []
        self._door = door
        self._task = asyncio.create_task(door.feed.run(self.stream, self._write))

    def write_now(self, data: bytes) -> bool:
        if not self.is_slow:
            self._take(data.partition(b"\r\n")[2].removesuffix(b"\r\n"))
        return not self.is_slow

    async def _write(self, data: bytes) -> None:
        for _ in range(self._door.random.choice([0, 0, 1, 10])):
            await asyncio.sleep(0)
        self._take(data)
        await asyncio.sleep(0)

    def _take(self, data: bytes) -> None:
        self.data += data
        self.early += [place for place in places(data) if place[0] > self._door.runtime.durable_document]

    @property
    def places(self) -> list[Place]:
        return places(self.data)

    def expected(self, log: list[Place]) -> list[Place]:
        wanted = [place for place in log if place[1] in self.subscriptions]
        if self.last_event_id:
            return [place for place in wanted if place > parse_event_id(self.last_event_id)[1]]
        # What was done when it began is left out. What was not durable then may have been taken back.
        return [
            (number, id)
            for number, id in wanted
            if number > self.durable_at_begin or not self.starts[id].is_done(number)
        ]

    async def close(self) -> str:
        """Returns where it got."""
        self._door.feed.close(self.stream)
        await self._task
        ids = re.findall(rb"id: (\S+)", self.data)
        return ids[-1].decode() if ids else self.last_event_id


def places(data: bytes) -> list[Place]:
    blocks = [block for block in data.split(b"\n\n") if b"event: delivery" in block]
    return [parse_event_id(block.partition(b"id: ")[2].split()[0].decode())[1] for block in blocks]


class Door:
    """A door with event streams, over a broker with some subscriptions."""

    def __init__(self, seed: int = 0, **settings: Any) -> None:
        self.random = Random(seed)
        self.runtime = HeldRuntime()
        self.client = LocalClient(self.runtime, Random(1), 1_000)
        self.feed = Feed(self.client, DoorSettings(**settings))
        self.readers: list[Reader] = []

    async def start(self) -> None:
        self.runtime.open()
        self.client.stop()  # its ticks are left to the test
        await self.do(RegisterSource("s"))
        for id, query in QUERIES.items():
            await self.do(Subscribe(id, query))

    async def do(self, command: Command) -> None:
        answer = self.client.send(command)
        await self.settle()
        assert not answer.result().refusals

    async def settle(self) -> None:
        """Until there is nothing left to do."""
        for _ in range(1_000):
            await turns(1)
            if self.runtime.is_idle():
                await turns(3)
                if self.runtime.is_idle():
                    break
            self.runtime.step()
        await turns(100)

    async def accept(self, *bodies: bytes) -> None:
        """The broker has these from a publisher of its own, who does not repeat them. They are not durable."""
        self.runtime.publish(Publish("s", [Document(body) for body in bodies]))
        await turns(2)

    def log(self) -> list[Place]:
        """What subscriptions get of all documents, as it is stored."""
        tail, read_to, found = self.runtime.broker.tail, 0, []
        while read_to < tail.last_document():
            items, read_to = tail.read(QUERIES, read_to, tail.last_document(), 1 << 30)
            found += [(item.document, item.subscription) for item in items]
        return sorted(found)

    def check(self, reader: Reader) -> None:
        assert not reader.early, "sent before it was durable"
        expected = reader.expected(self.log())
        assert reader.places == expected[: len(reader.places)], (reader.last_event_id, reader.starts)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def run(play: Callable[[Door], Awaitable[None]], **settings: Any) -> None:
    async def begin() -> None:
        door = Door(**settings)
        await door.start()
        await play(door)

    asyncio.run(begin())


def test_a_document_that_is_being_written_when_a_stream_opens_comes_when_it_is_durable() -> None:
    async def play(door: Door) -> None:
        await door.accept(b"<a/>")
        door.runtime.step()
        reader = Reader(door, ["a"])
        await turns(10)
        assert reader.places == []
        await door.settle()
        assert reader.places == [(1, "a")]
        await reader.close()

    run(play)


def test_a_door_that_opens_over_documents_on_their_way_to_disk_waits_for_them() -> None:
    """A crash may take them back, and give their numbers to others."""

    async def play(door: Door) -> None:
        await door.accept(b"<b/>")
        await door.settle()
        first = Reader(door, ["a"])
        await turns(10)
        await door.accept(b"<a/>")
        door.runtime.open()
        await turns(20)
        assert first.places == []
        with pytest.raises(Exception, match="TC436"):
            Reader(door, ["a"])
        door.runtime.crash()
        await door.settle()
        await door.accept(b"<x><a/><b/></x>")
        await door.settle()
        assert first.places == [(2, "a")] and not first.early
        await first.close()

    run(play)


def test_a_stream_that_waits_for_nothing_gets_what_takes_the_numbers_of_lost_documents() -> None:
    async def play(door: Door) -> None:
        await door.accept(b"<b/>", b"<b/>")
        reader = Reader(door, ["a"])
        await turns(10)
        door.runtime.crash()
        await door.settle()
        await door.accept(b"<a/>", b"<a/>")
        await door.settle()
        assert reader.places == [(1, "a"), (2, "a")]
        last = await reader.close()
        again = Reader(door, ["a"], last)
        await door.accept(b"<a/>")
        await door.settle()
        assert again.places == [(3, "a")]
        await again.close()

    run(play)


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_that_come_and_go_at_any_moment(seed: int) -> None:
    """Groups are written step by step, readers are slow, doors open again and brokers crash, in between."""

    async def play(door: Door) -> None:
        random, closed = door.random, 0
        for _ in range(random.choice([60, 200])):
            open_readers = door.readers[closed:]
            match random.choices(
                ["publish", "step", "open", "close", "slow", "settle", "reopen", "crash", "beat"],
                [35, 25, 10, 5, 3, 5, 3, 2, 2],
            )[0]:
                case "publish":
                    await door.accept(*random.choices(BODIES, k=random.choice([1, 1, 2, 5])))
                case "step":
                    door.runtime.step()
                case "open" if len(open_readers) < 5 and door.client.is_current():
                    door.readers.append(Reader(door, random.sample(list(QUERIES), random.choice([1, 1, 2, 3]))))
                case "close" if open_readers:
                    reader = open_readers[0]
                    closed += 1
                    last = await reader.close()
                    if door.client.is_current() and random.random() < 0.8:
                        door.readers.append(Reader(door, reader.subscriptions, last))
                case "slow" if open_readers:
                    reader = random.choice(open_readers)
                    reader.is_slow = not reader.is_slow
                case "settle":
                    door.feed._tick(1_000)
                case "reopen":
                    door.runtime.open()
                case "crash":
                    door.runtime.crash()
                case "beat":
                    await asyncio.sleep(0.002)
                case _:
                    pass  # there is no reader to do it with, or there are enough
            await turns(random.choice([0, 0, 1, 2, 5]))
        await door.settle()
        await asyncio.sleep(0.005)  # heartbeats, if they are that frequent
        await door.settle()
        log = door.log()
        for reader in door.readers:
            door.check(reader)
        for reader in door.readers[closed:]:
            assert reader.places == reader.expected(log), "something is missing"
            await reader.close()

    choose = Random(seed)
    run(
        play,
        seed=seed,
        heartbeat_ms=choose.choice([1, 5, 1_000_000]),
        stream_bytes_max=choose.choice([200, 1 << 20]),
        advance_ms=choose.choice([0, 50]),
    )
