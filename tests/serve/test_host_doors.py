"""The doors of a host, when a broker is served elsewhere from now on: nobody waits for it, and nobody speaks for it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.served_broker import eventually

from treecast.overlay.broker import Broker
from treecast.overlay.messages import Hello
from treecast.overlay.onyx.network_host import NetworkHost, Served
from treecast.overlay.peer import Deliver, Effect, Peer, Send, Store
from treecast.overlay.replica import ReplicaHost
from treecast.overlay.replica.messages import Fenced, Role
from treecast.overlay.storage import Storage
from treecast.serve.doors.calls import Scope
from treecast.serve.doors.http import HttpDoor
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.local_peers import LocalRuntime
from treecast.serve.logs import make_log
from treecast.serve.network.host_doors import BROKER_HEADER, HostDoors
from treecast.serve.network_process import NetworkLog
from treecast.serve.peer_life import PeerStore
from treecast.serve.peer_links import PeerLinks
from treecast.serve.runtime import Runtime
from treecast.serve.store import Store as DiskStore
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house
REGISTRY, BACKUP = "registry", "host:b9"


class Elsewhere:
    """A `LocalPeer` that stands for a peer on another machine. `heard` is what it was sent."""

    def __init__(self, name: str, runtime: Runtime) -> None:
        self.name = name
        self.heard: list[Any] = []
        self._runtime = runtime
        runtime.register(self)

    def say(self, message: Any) -> None:
        self._runtime.tell(self, message)

    def opened(self, peer: Peer) -> None: ...

    def closed(self) -> None: ...

    def removed(self) -> None: ...

    def announced(self, event: Any) -> None: ...

    def received(self, messages: list[Any]) -> None:
        self.heard += messages


class Backup(Elsewhere):
    """The host of the backup, until it is silent."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(BACKUP, runtime)
        self.is_silent = False
        self._storage = SimulatedStorage()
        self._host = ReplicaHost(BACKUP, self._storage, Random(9), lambda *_: None, ["host:b1"], REGISTRY)  # type: ignore[arg-type]

    def received(self, messages: list[Any]) -> None:
        super().received(messages)
        for message in messages if not self.is_silent else ():
            self._do(self._host.receive("host:b1", message, 0))

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self._storage.write(effect.changes)
            elif isinstance(effect, Send) and effect.to == "host:b1":
                asyncio.get_running_loop().call_soon(self.say, effect.message)


class Host:
    """A host in this process, with the doors of the brokers that it serves. The registry is the test."""

    def __init__(self, runtime: Runtime, doors: HostDoors) -> None:
        self.runtime = runtime
        self.doors = doors
        self.registry = Elsewhere(REGISTRY, runtime)
        self.backup = Backup(runtime)

    async def ask(self, method: str, path: str, body: bytes = b"", broker: str = "b2") -> tuple[int, Any]:
        headers = [(b"content-length", b"%d" % len(body)), (BROKER_HEADER.encode(), broker.encode())]
        scope: Scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.doors(scope, receive, send)
        return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent) or b"null")


def make_broker(broker: str, storage: Storage, random: Random, is_own: bool) -> Broker:
    return Broker(broker, storage, random)


@asynccontextmanager
async def host(directory: Path) -> AsyncIterator[Host]:
    def open_peer() -> tuple[Peer, PeerStore]:
        store = DiskStore.open(directory)
        return NetworkHost("b1", store, Random(1), make_broker, (REGISTRY,)), store

    with Path(os.devnull).open("w") as quiet:
        log = make_log("json", "error", quiet)
        runtime = Runtime(open_peer, Random(2), log)

        def make(serving: LocalRuntime) -> HttpDoor:
            return HttpDoor(serving, Random(3), log, "test", DoorSettings(publishes_max=1))

        box = Host(runtime, HostDoors(runtime, "b1", make))
        await runtime.open()
        running = asyncio.create_task(runtime.run())
        try:
            yield box
        finally:
            box.doors.stop()
            await box.doors.close()
            runtime.stop()
            await running


async def is_serving(box: Host, broker: str = "b2") -> None:
    async with asyncio.timeout(20):
        while (await box.ask("GET", "/v1/sources/default", broker=broker))[0] != 200:
            await asyncio.sleep(0.01)


def test_whoever_waits_for_a_broker_that_is_served_elsewhere_is_answered(tmp_path: Path) -> None:
    """Its documents may be in the new primary's hands, or not: publishers are told to ask again, and at once."""

    async def run() -> None:
        async with host(tmp_path) as box:
            box.registry.say(Role("b2", 1, "host:b1", BACKUP, is_new=True))
            await is_serving(box)
            assert (await box.ask("POST", "/v1/documents", b"<a/>"))[0] == 201
            box.backup.is_silent = True
            heard = len(box.backup.heard)
            asked = [
                asyncio.create_task(box.ask("POST", "/v1/documents", b"<b/>")),
                asyncio.create_task(box.ask("PUT", "/v1/subscriptions/q", b'{"query": "/a"}')),
            ]
            await eventually(lambda: len(box.backup.heard) > heard)
            # Only one group may be under way: this one has not even left the door.
            asked.append(asyncio.create_task(box.ask("POST", "/v1/documents", b"<c/>")))
            await asyncio.sleep(0.05)
            assert not any(task.done() for task in asked), "what the backup does not have is not acknowledged"
            box.backup.say(Fenced("b2", 5))
            async with asyncio.timeout(20):  # the door's own limit is longer
                answers = await asyncio.gather(*asked)
            assert [status for status, _ in answers] == [503] * 3
            assert {problem["code"] for _, problem in answers} == {"TC436"}
            assert (await box.ask("POST", "/v1/documents", b"<d/>"))[0] == 503

    asyncio.run(run())


def test_doors_of_a_broker_that_has_left_say_nothing_to_the_host_s_own(tmp_path: Path) -> None:
    """Doors of all brokers have the same names: two that speak to one broker would end each other's sessions."""

    async def run() -> None:
        async with host(tmp_path) as box:
            for broker in ("b1", "b2"):
                box.registry.say(Role(broker, 1, "host:b1", is_new=True))
                await is_serving(box, broker)
            assert (await box.ask("PUT", "/v1/subscriptions/q", b'{"query": "/a"}'))[0] == 201
            pulling = asyncio.create_task(box.ask("POST", "/v1/subscriptions/q:pull", b'{"wait_ms": 500}'))
            await asyncio.sleep(0.1)
            own: Any = box.runtime._life.peer.served("b1")  # type: ignore[union-attr]
            heard: list[tuple[str, Any]] = []
            receive = own.receive

            def record(sender: str, message: Any, now_ms: int) -> Any:
                heard.append((sender, message))
                return receive(sender, message, now_ms)

            own.receive = record
            box.backup.say(Fenced("b2", 5))
            assert await pulling == (200, {"deliveries": []})  # and then it would say that it wants no more
            await asyncio.sleep(0.05)
            assert heard == []

    asyncio.run(run())


class Mover:
    """A peer that serves `b1` until it is told that another host does; it says something to `b9` each time."""

    name = "host:b1"

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        said = Send("b9", Hello("b1"), sender="b1")
        return [said, Deliver(Served([]))] if message == "move" else [said]

    def tick(self, now_ms: int) -> list[Effect]:
        return []


class NoStore(SimulatedStorage):
    def save_index(self, *_: Any) -> None: ...

    def close(self) -> None: ...


def test_a_broker_that_is_served_elsewhere_has_no_link_here_any_more(tmp_path: Path) -> None:
    """Also not when its last message leaves together with the news: two hosts would speak as one broker, for ever."""

    async def run() -> None:
        connections: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with Path(os.devnull).open("w") as quiet:
            log = make_log("json", "error", quiet)
            links = PeerLinks("host:b1", lambda name: address if name == "b9" else None, Random(1), log)
            runtime = Runtime(lambda: (Mover(), NoStore()), Random(2), log, links=links)
            runtime.register(NetworkLog(log, runtime))
            news = Elsewhere("news", runtime)
            await runtime.open()
            running = asyncio.create_task(runtime.run())
            await asyncio.sleep(0)
            news.say("speak")
            await eventually(lambda: links.stats() == {"links": 1, "connected": 1})
            announced: list[Any] = []
            news.announced = announced.append  # type: ignore[assignment,method-assign]
            news.say("move")
            await eventually(lambda: announced == [Served([])])
            assert links.stats() == {"links": 0, "connected": 0}
            runtime.stop()
            await running
        assert len(connections) == 1
        server.close()

    asyncio.run(run())


def test_a_host_that_is_made_anew_says_whom_it_serves_although_it_serves_nobody() -> None:
    """The last life may have ended before it could say so: whatever was opened in its brokers' names has to end."""
    first = NetworkHost("b1", SimulatedStorage(), Random(1), make_broker, (REGISTRY,))
    events = [effect.event for effect in first.tick(0) if isinstance(effect, Deliver)]
    assert events == [Served([])]
    assert not [effect for effect in first.tick(1) if isinstance(effect, Deliver)]
