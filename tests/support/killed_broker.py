"""A broker under load is killed again and again, while subscriptions come and go; then everything is counted.

What must hold: every document that was acknowledged reaches every subscription that was acknowledged before the
document was sent, once for each delivery id; and nothing else arrives.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

from support.served_broker import BrokerProcess
from treecast.serve.client import Connection

KINDS = 4
SUBSCRIPTIONS_MAX = 12
BATCH = 5
HEALED_S = 60


class KilledBroker:
    """One run. After `run`, `problems` says what is wrong."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._random = Random(seed)
        self._broker = BrokerProcess(directory, "--log-level", "error")
        self._subscribed: dict[str, int] = {}  # acknowledged subscriptions, and the kind of document that each wants
        self._required: set[tuple[str, bytes]] = set()
        self._possible: dict[str, int] = {}
        self._bodies: set[bytes] = set()
        self._received: dict[str, tuple[str, int, bytes]] = {}  # by delivery id
        self._receiving: list[asyncio.Task[None]] = []
        self._is_over = False
        self.acknowledged = 0
        self.kills = 0
        self.repeated = 0

    async def run(self, kills: int) -> None:
        with self._broker as broker:
            async with (
                Connection(broker.address, "left") as left,
                Connection(broker.address, "right") as right,
                Connection(broker.address, "reader") as reader,
            ):
                await left.register_source("s")
                working = [
                    asyncio.create_task(self._publish(left, "left")),
                    asyncio.create_task(self._publish(right, "right")),
                    asyncio.create_task(self._subscribe(reader)),
                ]
                await self._kill(kills)
                self._is_over = True
                async with asyncio.timeout(HEALED_S):
                    await asyncio.gather(*working)
                await self._until(lambda: self._required <= self._pairs())
                for task in self._receiving:
                    task.cancel()
                await asyncio.gather(*self._receiving, return_exceptions=True)

    async def _kill(self, kills: int) -> None:
        for _ in range(kills):
            before = self.acknowledged
            await self._until(lambda before=before: self.acknowledged > before)  # type: ignore[misc]
            await asyncio.sleep(self._random.random())
            await asyncio.to_thread(self._broker.end, signal.SIGKILL)
            await asyncio.to_thread(self._broker.start, self._broker.address)
            self.kills += 1

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(HEALED_S):
            while not is_so():
                await asyncio.sleep(0.02)

    async def _publish(self, connection: Connection, name: str) -> None:
        count = 0
        while not self._is_over:
            kinds = [self._random.randrange(KINDS) for _ in range(BATCH)]
            bodies = [b'<d k="%d" by="%s" n="%d"/>' % (kind, name.encode(), count + i) for i, kind in enumerate(kinds)]
            count += BATCH
            self._bodies.update(bodies)
            before = list(self._subscribed.items())
            numbers = await connection.publish("s", bodies)
            assert len(numbers) == BATCH and all(numbers)
            self.acknowledged += BATCH
            for kind, body in zip(kinds, bodies, strict=True):
                self._required.update((id, body) for id, wanted in before if wanted == kind)
            await asyncio.sleep(0.005)

    async def _subscribe(self, connection: Connection) -> None:
        """Some stay, and are received from; others go at once."""
        number = 0
        while not self._is_over:
            kind, id = number % KINDS, f"q{number}"
            if number < SUBSCRIPTIONS_MAX:
                self._possible[id] = kind
                await connection.subscribe(id, f"/d[@k={kind}]")
                self._subscribed[id] = kind
                self._receiving.append(asyncio.create_task(self._receive(connection, id)))
            else:
                await connection.subscribe(id, "/d")
                await connection.unsubscribe(id)
            number += 1
            await asyncio.sleep(0.05)

    async def _receive(self, connection: Connection, subscription: str) -> None:
        async for delivery in connection.deliveries([subscription]):
            known = (delivery.subscription, delivery.document, delivery.payload)
            self.repeated += delivery.id in self._received
            assert self._received.setdefault(delivery.id, known) == known
            await delivery.acknowledge()

    def _pairs(self) -> set[tuple[str, bytes]]:
        return {(subscription, payload) for subscription, _, payload in self._received.values()}

    def problems(self) -> list[str]:
        problems = [f"{pair} is missing" for pair in sorted(self._required - self._pairs())]
        if len(self._pairs()) != len(self._received):
            problems.append("a document was accepted twice")
        for subscription, _, payload in self._received.values():
            if payload not in self._bodies or b'k="%d"' % self._possible[subscription] not in payload:
                problems.append(f"{subscription} got {payload!r}")
        problems += [str(task.exception()) for task in self._receiving if not task.cancelled() and task.exception()]
        return problems
