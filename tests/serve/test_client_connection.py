"""The Python client: it waits, connects again, and says what became of requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.served_broker import eventually, served, take

from treecast.overlay.client import ClientSettings
from treecast.overlay.messages import SubscriptionOptions
from treecast.serve.client import Connection
from treecast.serve.transport_error import TransportError

pytestmark = pytest.mark.house


def test_more_requests_than_may_wait_take_their_turn(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            served(tmp_path) as box,
            Connection(box.address, "alice", settings=ClientSettings(queue_max=2, window_max=2)) as alice,
        ):
            await alice.register_source("s")
            numbers = await asyncio.gather(*(alice.publish("s", [b"<a/>"]) for _ in range(50)))
            assert sorted(number for (number,) in numbers) == list(range(1, 51))

    asyncio.run(run())


def test_a_request_that_nobody_waits_for_is_done_all_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice:
            await alice.register_source("s")
            box.gate.clear()
            publishing = asyncio.create_task(alice.publish("s", [b"<a/>"]))
            await eventually(lambda: box.metric("messages_received_total", kind="Publish") == 1)
            publishing.cancel()
            box.gate.set()
            assert await alice.publish("s", [b"<a/>"]) == [2]

    asyncio.run(run())


def test_closing_ends_those_who_wait(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box:
            async with box.connect("alice") as alice:
                await alice.register_source("s")
                await alice.subscribe("q", "/a")
                box.gate.clear()
                waiting = [
                    asyncio.create_task(alice.publish("s", [b"<a/>"])),
                    asyncio.create_task(take(alice, ["q"], 1)),
                ]
                await eventually(lambda: box.metric("messages_received_total", kind="Publish") == 1)
            for task in waiting:
                with pytest.raises(TransportError, match="TC407 the connection was closed"):
                    await task
            box.gate.set()

    asyncio.run(run())


def test_a_failed_delivery_comes_again_with_the_same_id(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice:
            await alice.register_source("s")
            await alice.subscribe("q", "/a", options=SubscriptionOptions(attempts_max=3))
            await alice.publish("s", [b"<a/>"])
            stream = alice.deliveries(["q"])
            async with asyncio.timeout(20):
                first = await anext(stream)
                await first.fail()
                second = await anext(stream)
            assert (second.id, first.attempt, second.attempt) == (first.id, 1, 2)
            await second.acknowledge()

    asyncio.run(run())


def test_receivers_may_share_a_subscription(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice, box.connect("bob") as bob:
            await alice.register_source("s")
            await alice.subscribe("q", "/a")
            taken: list[bytes] = []

            async def receive(who: Connection) -> None:
                async for delivery in who.deliveries(["q"], credit=1):
                    taken.append(delivery.payload)
                    await delivery.acknowledge()

            tasks = [asyncio.create_task(receive(who)) for who in (alice, bob)]
            bodies = [b"<a>%d</a>" % number for number in range(20)]
            await alice.publish("s", bodies)
            await eventually(lambda: len(taken) >= 20)
            assert sorted(taken) == sorted(bodies)
            for task in tasks:
                task.cancel()

    asyncio.run(run())


def test_pause_and_resume(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice:
            await alice.register_source("s")
            await alice.subscribe("q", "/a")
            await alice.pause("q")
            taking = asyncio.create_task(take(alice, ["q"], 1))
            await alice.publish("s", [b"<a/>"])
            done, _ = await asyncio.wait([taking], timeout=0.2)
            assert not done
            await alice.resume("q")
            assert await taking == [b"<a/>"]

    asyncio.run(run())
