"""The HTTP door of a whole ring: it passes each request on to the door of a peer.

A subscription has its host among the peers that the ring was made with; which one follows from its id. So does the peer
that a source is published at, and a document that has an id: one that is sent again comes to the same peer, which knows
it. All other documents go round.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import cycle

import msgspec
import structlog

from treecast.overlay.onyx.control_messages import Thing
from treecast.serve.access.gate import Gate
from treecast.serve.doors.calls import Call, Reply
from treecast.serve.doors.console_pages import ConsolePages
from treecast.serve.doors.document_pages import DEFAULT_SOURCE
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.routes import ROUTES, Route
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.network.front_door import HTTP_OK, FrontDoor, FrontDoorSettings
from treecast.serve.network.places import Places
from treecast.serve.network.supervisor import Supervised
from treecast.serve.ring import pages


class RingPlaces(Places):
    """Chosen by hashes: nobody has to be asked."""

    def __init__(self, hosts: list[str]) -> None:
        self._hosts = hosts

    def choose(self, thing: str, name: str) -> str:
        """The same for the same name, and about as many names for each host.

        >>> places = RingPlaces(["peer-1", "peer-2", "peer-3"])
        >>> sorted({places.choose("subscription", f"s{number}") for number in range(30)})
        ['peer-1', 'peer-2', 'peer-3']
        """
        return max(self._hosts, key=lambda host: blake2b(f"{thing} {host} {name}".encode(errors="replace")).digest())

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def find(self, thing: Thing, name: str) -> str:
        return self.choose(thing, name)

    def forget(self, thing: Thing, name: str) -> None: ...

    async def place_subscription(self, id: str, query: str, namespaces: dict[str, str]) -> str:
        return self.choose("subscription", id)

    async def remove_subscription(self, id: str) -> None: ...

    async def register_source(self, source: str, schema: str = "", description: str = "") -> str:
        return self.choose("source", source)

    async def remove_source(self, source: str) -> None: ...


class RingDoor(FrontDoor):
    """An ASGI application. `open` once the peers serve."""

    def __init__(
        self,
        peers: dict[str, Supervised],
        places: RingPlaces,
        log: structlog.typing.FilteringBoundLogger,
        version: str,
        settings: DoorSettings,
        gate: Gate,
        front: FrontDoorSettings | None = None,
    ) -> None:
        super().__init__(peers, places, log, version, settings, gate, front)
        self._by_name = places
        self._round = cycle(peers)

    def _make_pages(self) -> tuple[tuple[object, ...], tuple[Route, ...]]:
        return (ConsolePages("ring"),), (*ROUTES, *pages.ROUTES)

    def _not_offered(self, route: Route) -> Exception:
        hint = "ask the door of a peer: treecast peer --http HOST:PORT has all pages"
        return DoorError(f"a ring does not offer {route.method} {route.path}", code="TC490", hint=hint)

    async def ring(self, call: Call) -> Reply:
        """Any peer knows the others."""
        return await self._pass_on(call, self._any())

    ring_svg = ring

    async def publish(self, call: Call) -> Reply:
        source = call.text_parameter("source") or call.header(b"treecast-source") or DEFAULT_SOURCE
        id = call.header(b"treecast-document-id")
        if source != DEFAULT_SOURCE:
            return await self._pass_on(call, self._by_name.choose("source", source))
        return await self._pass_on(call, self._by_name.choose("document", id) if id else self._next())

    async def publish_batch(self, call: Call) -> Reply:
        """Lines have ids of their own: all batches of a source go to one peer."""
        source = call.text_parameter("source") or call.header(b"treecast-source") or DEFAULT_SOURCE
        return await self._pass_on(call, self._by_name.choose("source", source))

    def _next(self) -> str:
        """The next peer that is up."""
        for _ in self._brokers:
            name = next(self._round)
            if self._brokers[name].is_up.is_set():
                return name
        return self._any()

    async def _to_host(self, call: Call, body: bytes | None = None) -> Reply:
        return await self._pass_on(call, await self._broker_of("subscription", call.parameter), body)

    async def list_sources(self, call: Call) -> Reply:
        """Each peer has the default source: it is shown once."""
        reply = await self._lists(call, "sources")
        if reply.status != HTTP_OK:
            return reply
        answer = msgspec.json.decode(reply.body)
        answer["sources"] = list({row["id"]: row for row in answer["sources"]}.values())
        return Reply(HTTP_OK, msgspec.json.encode(answer))
