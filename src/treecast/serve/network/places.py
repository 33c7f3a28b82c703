"""Where the sources and subscriptions of a network are: the registry says so, and what it has said is remembered."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, TypeVar

from treecast.overlay.messages import PlaceSubscription, RegisterSource, RemovePlace, RemoveSource
from treecast.overlay.onyx.control_messages import Thing
from treecast.serve.client import Connection
from treecast.serve.doors.problems import DoorError

Result = TypeVar("Result")
NAME = "front door"


class Places:
    """A client of the registry."""

    def __init__(self, address: str, answer_ms: int, places_max: int) -> None:
        self._connection = Connection(address, NAME)
        self._answer_s = answer_ms / 1000
        self._places_max = places_max
        self._known: OrderedDict[tuple[Thing, str], str] = OrderedDict()

    async def open(self) -> None:
        await self._connection.__aenter__()

    async def close(self) -> None:
        await self._connection.close()

    async def find(self, thing: Thing, name: str) -> str:
        """The broker of a source or a subscription; empty if there is no such thing. Raises DoorError TC436."""
        known = self._known.get((thing, name))
        if known:
            self._known.move_to_end((thing, name))
            return known
        broker = (await self._in_time(self._connection.where(thing, name))).broker
        self._remember(thing, name, broker)
        return broker

    def forget(self, thing: Thing, name: str) -> None:
        self._known.pop((thing, name), None)

    def _remember(self, thing: Thing, name: str, broker: str) -> None:
        if broker:
            self._known[thing, name] = broker
            if len(self._known) > self._places_max:
                self._known.popitem(last=False)

    async def place_subscription(self, id: str, query: str, namespaces: dict[str, str]) -> str:
        """The host of a new subscription. Raises RefusedError, DoorError."""
        answer = await self._in_time(self._connection.request(PlaceSubscription(id, query, namespaces)))
        self._remember("subscription", id, answer.places[0].broker)
        return answer.places[0].broker

    async def remove_subscription(self, id: str) -> None:
        self.forget("subscription", id)
        await self._in_time(self._connection.request(RemovePlace(id)))

    async def register_source(self, source: str, schema: str = "", description: str = "") -> str:
        """The root of a source. Sources count as equal, so that roots get about as many of them. Raises as above."""
        command = RegisterSource(source, schema, description, messages_per_second=1, message_bytes=1)
        answer = await self._in_time(self._connection.request(command))
        self._remember("source", source, answer.places[0].broker)
        return answer.places[0].broker

    async def remove_source(self, source: str) -> None:
        self.forget("source", source)
        await self._in_time(self._connection.request(RemoveSource(source)))

    async def brokers(self) -> dict[str, dict[str, str | int]]:
        """What the registry knows of each broker that takes part."""
        rows = await self._in_time(self._connection.inspect("brokers", count_max=1_000))
        return {str(row["key"]): row for row in rows}

    async def trees(self) -> list[dict[str, str | int]]:
        return await self._in_time(self._connection.inspect("trees", count_max=1_000))

    async def catalog_version(self) -> int:
        rows = await self._in_time(self._connection.inspect("stats"))
        return next(int(row["value"]) for row in rows if row["key"] == "catalog")

    async def _in_time(self, answer: Coroutine[Any, Any, Result]) -> Result:
        try:
            async with asyncio.timeout(self._answer_s):
                return await answer
        except TimeoutError:
            raise DoorError("the registry does not answer", code="TC436", hint="try again soon") from None
