"""The HTTP doors of a host with replicas: one for each broker that it serves, behind one address.

A request names its broker in a header, or is for the host's own. What is for a broker that is not served here is
answered with 503 and a header that says so: nothing was done, and whoever passes requests on looks for the broker
elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from treecast.overlay.onyx.network_host import Served
from treecast.overlay.peer import Peer
from treecast.serve.doors.calls import Receive, Scope, Send
from treecast.serve.doors.http import HttpDoor
from treecast.serve.local_peers import LocalPeer
from treecast.serve.metrics import Metrics
from treecast.serve.runtime import Runtime

BROKER_HEADER = "treecast-broker"
ELSEWHERE_HEADER = "treecast-elsewhere"
HTTP_BUSY = 503


class BrokerRuntime:
    """A runtime as the clients of one of its brokers see it."""

    def __init__(self, runtime: Runtime, broker: str) -> None:
        self.metrics = Metrics()
        self._runtime = runtime
        self._broker = broker

    def register(self, local: LocalPeer) -> None:
        self._runtime.register(local, self._broker)

    def tell(self, local: LocalPeer, message: Any, size: int = 0) -> None:
        self._runtime.tell(local, message, size)

    def is_ready(self) -> bool:
        return self._runtime.is_ready()


class HostDoors:
    """An ASGI application, and a `LocalPeer` that hears who is served. `make` makes the door of a broker."""

    name = "doors of a host"

    def __init__(self, runtime: Runtime, own: str, make: Callable[[BrokerRuntime], HttpDoor]) -> None:
        self._runtime = runtime
        self._own = own
        self._make = make
        self._doors: dict[str, HttpDoor] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        runtime.register(self)

    # --- what the runtime calls ---------------------------------------------------------------------------------------

    def opened(self, peer: Peer) -> None: ...

    def closed(self) -> None: ...

    def removed(self) -> None: ...

    def received(self, messages: list[Any]) -> None: ...

    def announced(self, event: Any) -> None:
        if not isinstance(event, Served):
            return
        for broker in [broker for broker in self._doors if broker not in event.brokers]:
            door = self._doors.pop(broker)
            door.stop()
            self._runtime.forget(broker)
            self._do(door.close())
        for broker in event.brokers:
            if broker not in self._doors:
                door = self._doors[broker] = self._make(BrokerRuntime(self._runtime, broker))
                self._do(door.start())

    def _do(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def start(self) -> None:
        """Each door is started when its broker is served."""

    def stop(self) -> None:
        for door in self._doors.values():
            door.stop()

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, *(door.close() for door in self._doors.values()))

    # --- requests -----------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = next((value for key, value in scope["headers"] if key == BROKER_HEADER.encode()), b"")
        door = self._doors.get(named.decode("latin-1") or self._own)
        if door is not None:
            await door(scope, receive, send)
            return
        headers = [(b"content-length", b"0"), (b"retry-after", b"1"), (ELSEWHERE_HEADER.encode(), b"1")]
        await send({"type": "http.response.start", "status": HTTP_BUSY, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
