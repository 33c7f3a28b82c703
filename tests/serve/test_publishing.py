"""How documents of many publishers become requests to the broker, and what becomes of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from treecast.overlay.broker import Broker
from treecast.overlay.client import Answered
from treecast.overlay.messages import Answer, Command, Document, Publish, RegisterSource, Request
from treecast.overlay.peer import Send
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.publishing import Accepted, Outcome, Publisher
from treecast.serve.doors.settings import DoorSettings
from treecast.sim import SimulatedStorage

pytestmark = pytest.mark.house

SOURCES = 64


class DirectClient(LocalClient):
    """Hands each command to a broker at once."""

    def __init__(self) -> None:
        self.on_tick: list[Callable[[int], None]] = []
        self.broker = Broker("b", SimulatedStorage(), Random(1))
        self.commands: list[Command] = []

    def expect_broker(self) -> Broker:
        assert self.broker is not None
        return self.broker

    def send(self, command: Command) -> asyncio.Future[Answered]:
        self.commands.append(command)
        number = len(self.commands)
        effects = self.expect_broker().receive("door", Request(number, command), 1_000)
        (answer,) = (one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Answer))
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        future.set_result(Answered(number, answer.documents, answer.refusals, answer.copies))
        return future

    def published(self) -> list[Publish]:
        return [command for command in self.commands if isinstance(command, Publish)]


async def publish_all(client: DirectClient, documents: list[tuple[str, Document]]) -> list[list[Outcome]]:
    """Each comes with a request of its own, in the same moment."""
    publisher = Publisher(client, DoorSettings())
    tasks = [asyncio.ensure_future(publisher.publish(source, [document])) for source, document in documents]
    return await asyncio.gather(*tasks)


def status(outcome: Outcome) -> Any:
    return (outcome.document, outcome.is_copy) if isinstance(outcome, Accepted) else outcome.code


def test_a_group_holds_many_sources() -> None:
    """Documents that come together are one request, however many sources they have; those of a source stay in order."""

    async def run() -> None:
        client = DirectClient()
        sources = [f"s{number}" for number in range(SOURCES)]
        for source in sources:
            await client.send(RegisterSource(source))
        documents = [(source, Document(f"<{source} n='{n}'/>".encode())) for n in range(3) for source in sources]
        outcomes = await publish_all(client, documents)
        (command,) = client.published()
        assert [(one.source, one.body) for one in command.documents] == [(s, one.body) for s, one in documents]
        assert [status(one) for (one,) in outcomes] == [(n, False) for n in range(1, len(documents) + 1)]

    asyncio.run(run())


def test_each_document_is_judged_by_its_own_source() -> None:
    """Its schema, its ids and whether it exists: what is wrong with one source is not held against another."""

    async def run() -> None:
        client = DirectClient()
        await client.send(RegisterSource("strict", "<!ELEMENT a EMPTY>"))
        await client.send(RegisterSource("free"))
        outcomes = await publish_all(
            client,
            [
                ("strict", Document(b"<a/>", "1")),
                ("free", Document(b"<b/>", "1")),
                ("strict", Document(b"<b/>")),
                ("nobody", Document(b"<a/>", "1")),
                ("free", Document(b"<b>")),
                ("strict", Document(b"<a/>", "1")),
                ("free", Document(b"<a/>", "2")),
            ],
        )
        assert len(client.published()) == 1
        first, second, invalid, unknown, broken, copy, last = (status(one) for (one,) in outcomes)
        assert (first, second, copy, last) == ((1, False), (2, False), (1, True), (3, False))
        assert (unknown, broken) == ("TC410", "TC209")
        assert invalid.startswith("TC2")
        rows = client.expect_broker().tail.sources()
        assert set(rows) == {"strict", "free"}

    asyncio.run(run())
