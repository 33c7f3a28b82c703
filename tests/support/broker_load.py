"""The clients of a broker that is killed: publishers that also change subscriptions, and receivers, in processes.

    python -m support.broker_load publish ADDRESS DIRECTORY SEED
    python -m support.broker_load receive ADDRESS DIRECTORY SEED

Both run until the file `stop-publish` or `stop-receive` is in the directory. Publishers then write `published.json`;
receivers add lines to `received.jsonl` all the while.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from random import Random
from typing import TextIO

from support.delivery_record import Changed, Published, Query, Received
from treecast.overlay.client import ClientSettings
from treecast.overlay.messages import Document, SubscriptionOptions
from treecast.serve.client import Connection, RefusedError

PUBLISHERS = 3
IDS = 8
"""Subscriptions that one publisher adds, changes and removes."""
SETTINGS = ClientSettings(request_ms=2_000, request_ms_max=5_000)
OPTIONS = SubscriptionOptions(attempts_max=1_000_000)  # no delivery is given up
CONNECT_S = 60.0
QUERIES: tuple[Query, ...] = (
    ("/d", "document"),
    ("//b", "elements"),
    ("/d[b]", "document"),
    ("//c[@n>3]", "elements"),
    ("/d/c", "document"),
    ("//b | //c", "elements"),
    ("/d[@n=2]", "document"),
    ("//e", "document"),
    ("for $c in /d/c return <c>{ $c/@n }</c>", "document"),
)
REFUSED = b"<d><not closed></d>"


def subscription_ids(publisher: int) -> list[str]:
    return [f"p{publisher}-s{number}" for number in range(IDS)]


def draw_document(random: Random, name: str) -> bytes:
    parts = ("<b>text</b>", "<c n='5'/>", "<c n='1'/>", "<e/>", "text")
    inner = "".join(random.choice(parts) for _ in range(3))
    return f"<d n='{random.randrange(4)}' name='{name}'>{inner}{'x' * random.choice((0, 300, 5_000))}</d>".encode()


class Publisher:
    """Publishes and changes subscriptions, many requests at once; now and then it dies and is born again."""

    def __init__(self, number: int, address: str, seed: int, is_over: Callable[[], bool]) -> None:
        self._number = number
        self._address = address
        self._random = Random(f"{seed}-{number}")
        self._is_over = is_over
        self._queries: dict[str, Query | None] = dict.fromkeys(subscription_ids(number))
        self._documents = self._changes = 0
        self.refusals: list[str] = []
        """Changes of subscriptions: all of them should be accepted."""
        self.entries: list[Published | Changed] = []
        self.lives = 0

    async def run(self) -> None:
        while not self._is_over():
            async with Connection(
                self._address, f"publisher-{self._number}", settings=SETTINGS, connect_s=CONNECT_S
            ) as connection:
                self.lives += 1
                await connection.register_source("load")
                if self.lives == 1:
                    await asyncio.gather(*(self._change(connection) for _ in range(IDS)))
                for _ in range(self._random.randrange(20, 120)):
                    await asyncio.gather(*self._step(connection))
                    await asyncio.sleep(self._random.uniform(0, 0.02))
                    if self._is_over():
                        return
                batch = self._draw_batch()
                await self._die(connection, batch)
            async with Connection(
                self._address, f"publisher-{self._number}", settings=SETTINGS, connect_s=CONNECT_S
            ) as connection:
                # In its next life the publisher does not know whether the batch was published: its ids tell the broker.
                await self._publish(connection, batch)

    async def _die(self, connection: Connection, batch: list[Document]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._random.choice((0, 0.002, 0.05))):
                await connection.publish("load", batch)

    def _step(self, connection: Connection) -> list[asyncio.Task[None]]:
        """Requests that are under way at the same time, in this order."""
        actions = [asyncio.create_task(self._publish(connection, self._draw_batch()))]
        if self._random.random() < 0.5:
            actions.append(asyncio.create_task(self._change(connection)))
            actions.append(asyncio.create_task(self._publish(connection, self._draw_batch())))
        return actions

    def _draw_batch(self) -> list[Document]:
        batch = []
        for _ in range(self._random.randrange(1, 12)):
            self._documents += 1
            name = f"{self._number}-{self._documents}"
            body = REFUSED if self._random.random() < 0.01 else draw_document(self._random, name)
            batch.append(Document(body, name))
        return batch

    async def _publish(self, connection: Connection, batch: list[Document]) -> None:
        place = len(self.entries)
        self.entries.append(Published([], []))  # in the order of the requests, not of the answers
        try:
            numbers = await connection.publish("load", batch)
        except RefusedError as error:
            numbers = error.documents
        self.entries[place] = Published(numbers, [document.body for document in batch])

    async def _change(self, connection: Connection) -> None:
        removed_ids = [id for id, query in self._queries.items() if query is None]
        id = self._random.choice(removed_ids or list(self._queries))
        self._changes += 1
        is_removal = self._queries[id] is not None and self._changes % 3 == 0
        query = None if is_removal else self._random.choice(QUERIES)
        self._queries[id] = query
        place = len(self.entries)
        self.entries.append(Changed(id, query))
        try:
            if query is None:
                await connection.unsubscribe(id)
            else:
                await connection.subscribe(id, query[0], deliver=query[1], options=OPTIONS)
        except RefusedError as error:
            self.entries[place] = Published([], [])
            self.refusals.append(f"a change of {id} was refused: {error}")


async def publish(address: str, directory: Path, seed: int) -> None:
    is_over = (directory / "stop-publish").exists
    publishers = [Publisher(number, address, seed, is_over) for number in range(PUBLISHERS)]
    await asyncio.gather(*(publisher.run() for publisher in publishers))
    entries = [[_to_json(entry) for entry in publisher.entries] for publisher in publishers]
    part = directory / "published.part"
    part.write_text(json.dumps([entries, [text for publisher in publishers for text in publisher.refusals]]))
    part.rename(directory / "published.json")


def _to_json(entry: Published | Changed) -> list[object]:
    if isinstance(entry, Published):
        return [entry.numbers, [body.decode() for body in entry.bodies]]
    return [entry.subscription, entry.query]


def read_published(directory: Path) -> tuple[list[list[Published | Changed]], list[str]]:
    """What the publishers did, and what they were refused."""

    def entry(first: list[int] | str, second: list[str] | None) -> Published | Changed:
        if isinstance(first, str):
            return Changed(first, (second[0], second[1]) if second else None)
        return Published(first, [body.encode() for body in second or []])

    all_entries, refusals = json.loads((directory / "published.json").read_text())
    return [[entry(*pair) for pair in entries] for entries in all_entries], refusals


async def receive(address: str, directory: Path, seed: int) -> None:
    """One client for the subscriptions of each publisher; each attaches again and again, to what there is."""
    is_over = (directory / "stop-receive").exists
    with (directory / "received.jsonl").open("w") as file:
        tasks = [
            asyncio.create_task(_receive(number, address, Random(f"{seed}-receiver-{number}"), file))
            for number in range(PUBLISHERS)
        ]
        while not is_over():
            await asyncio.sleep(0.02)
            for task in tasks:
                if task.done():
                    task.result()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _receive(number: int, address: str, random: Random, file: TextIO) -> None:
    async with Connection(address, f"receiver-{number}", settings=SETTINGS, connect_s=CONNECT_S) as connection:

        async def follow(id: str) -> None:
            while True:
                with suppress(TimeoutError, RefusedError):  # there may be no such subscription at the moment
                    async with asyncio.timeout(random.uniform(0.2, 2)):
                        await _take(connection, id, random, file)
                await asyncio.sleep(0.05)

        await asyncio.gather(*(follow(id) for id in subscription_ids(number)))


async def _take(connection: Connection, id: str, random: Random, file: TextIO) -> None:
    async with aclosing(connection.deliveries([id], credit=random.choice((10, 100, 1_000)))) as deliveries:
        async for delivery in deliveries:
            line = [delivery.subscription, delivery.document, delivery.id, delivery.payload.decode()]
            file.write(json.dumps(line) + "\n")
            file.flush()
            await delivery.acknowledge()


def read_received(directory: Path) -> list[Received]:
    with (directory / "received.jsonl").open() as file:
        lines = [json.loads(line) for line in file if line.endswith("\n")]
    return [Received(id, document, delivery, payload.encode()) for id, document, delivery, payload in lines]


if __name__ == "__main__":
    what = {"publish": publish, "receive": receive}[sys.argv[1]]
    asyncio.run(what(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
