"""A subscriber that stalls is parked, bounded and visible, in nobody's way: the twin of bench/broker_stalled.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.served_broker import Served, eventually, served

from treecast.overlay.broker import BrokerSettings
from treecast.overlay.messages import Subscribe
from treecast.serve.client import Connection

pytestmark = pytest.mark.house

OTHERS = 30
DOCUMENTS = 300
QUEUE_MAX = 20
CREDIT = 5


class Others:
    """Receivers that keep up."""

    def __init__(self) -> None:
        self.received: dict[str, list[int]] = {f"s{number}": [] for number in range(OTHERS)}

    async def receive(self, connection: Connection, id: str) -> None:
        async for delivery in connection.deliveries([id]):
            self.received[id].append(delivery.document)
            await delivery.acknowledge()

    def have(self, count: int) -> bool:
        return all(len(numbers) >= count for numbers in self.received.values())


async def depths(connection: Connection) -> dict[str, dict[str, int | str]]:
    rows = await connection.inspect("queues", count_max=1_000)
    return {str(row.pop("key")): row for row in rows}


async def prepared(box: Served, connection: Connection) -> None:
    await connection.register_source("s")
    names = [*(f"s{number}" for number in range(OTHERS)), "stalled"]
    await connection.subscribe_many([Subscribe(name, "/a") for name in names])


def test_a_stalled_subscriber_is_bounded_and_visible_and_the_others_get_everything(tmp_path: Path) -> None:
    async def run() -> None:
        settings = BrokerSettings(queue_memory_max=QUEUE_MAX)
        async with (
            served(tmp_path, broker=settings) as box,
            box.connect("others") as receiver,
            box.connect("stalled") as stalled,
            box.connect("publisher") as publisher,
        ):
            await prepared(box, publisher)
            others = Others()
            tasks = [asyncio.create_task(others.receive(receiver, id)) for id in others.received]
            deliveries = stalled.deliveries(["stalled"], credit=CREDIT)
            for first in range(0, DOCUMENTS, 10):
                assert len(await publisher.publish("s", [b"<a/>"] * 10)) == 10
                await eventually(lambda wanted=first + 10: others.have(wanted))  # type: ignore[misc]
                if not first:
                    kept = [await anext(deliveries)]  # it has a session, holds this one, and acknowledges nothing
            everything = list(range(1, DOCUMENTS + 1))
            assert all(numbers == everything for numbers in others.received.values())

            # It is there to be seen, in memory it is bounded, and only its own queue has anything in it.
            seen = await depths(publisher)
            while len(seen) > 1:  # acknowledgements are on their way
                seen = await depths(publisher)
            row = seen["stalled"]
            assert row["parked"] == 1 and row["receivers"] == 1 and row["sent"] == CREDIT
            assert int(row["waiting"]) + int(row["sent"]) == QUEUE_MAX
            stats = box.peers[-1].stats()
            assert stats["parked"] == 1 and stats["queued"] == QUEUE_MAX
            assert stats["unfinished_documents"] == 0, "what is parked is found on disk"

            # It goes on, and gets everything in order.
            got = [kept[0].document]
            await kept[0].acknowledge()
            while len(got) < DOCUMENTS:
                delivery = await anext(deliveries)
                got.append(delivery.document)
                await delivery.acknowledge()
            assert got == everything
            while await depths(publisher):
                await asyncio.sleep(0.01)
            assert box.peers[-1].stats()["parked"] == 0
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def test_without_a_bound_its_queue_would_grow(tmp_path: Path) -> None:
    async def run() -> None:
        settings = BrokerSettings(queue_memory_max=10 * DOCUMENTS)
        async with served(tmp_path, broker=settings) as box, box.connect("stalled") as stalled:
            await prepared(box, stalled)
            deliveries = stalled.deliveries(["stalled"], credit=CREDIT)
            await stalled.publish("s", [b"<a/>"] * DOCUMENTS)
            await anext(deliveries)
            stats = box.peers[-1].stats()
            assert stats["queued_most"] == DOCUMENTS and stats["parked"] == 0

    asyncio.run(run())
