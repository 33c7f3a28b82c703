"""Two registries in real processes, killed in turn: brokers go on, and so do their clients, which know of neither."""

from __future__ import annotations

import asyncio
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.quick_process import PIPE, QuickProcess
from support.replica_hosts import free_address

from treecast.overlay.messages import RegisterSource
from treecast.serve.client import Connection, RefusedError
from treecast.serve.transport_error import TransportError

pytestmark = pytest.mark.house

WAIT_SECONDS = 60
ANSWER_SECONDS = 1


class Command:
    """A command of the network in a process. It keeps its directory and its address when it is started again."""

    def __init__(self, path: Path, name: str, address: str, verb: str, *arguments: str) -> None:
        self.address, self.status = address, free_address()
        self._log = path / f"{name}.log"
        self._arguments = ["-m", "treecast", verb, "--name", name, "--data", str(path / name), *arguments]
        self._arguments += ["--listen", self.address, "--status", self.status]
        self._process: QuickProcess | None = None

    def start(self) -> None:
        with self._log.open("a") as log:
            self._process = process = QuickProcess(self._arguments, stdout=PIPE, stderr=log)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on "), self._log.read_text()

    def end(self, number: int = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(20)

    def metric(self, name: str) -> int:
        """As its status page has it; -1: there is none."""
        try:
            with urllib.request.urlopen(f"http://{self.status}/metrics", timeout=WAIT_SECONDS) as answer:
                lines = answer.read().decode().splitlines()
        except (urllib.error.URLError, ConnectionError):
            return -1
        return next((int(float(line.split()[1])) for line in lines if line.startswith(f"treecast_peer_{name} ")), -1)


async def until(is_reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not await asyncio.to_thread(is_reached):
            await asyncio.sleep(0.05)


def is_in_charge(registry: Command, *, paired: bool) -> bool:
    return registry.metric("in_charge") == 1 and registry.metric("paired") == int(paired)


async def add_source(registry: Command, source: str) -> None:
    """At the registry in charge, which may not have noticed yet that it is."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                async with Connection(registry.address, f"owner-of-{source}") as owner:
                    async with asyncio.timeout(ANSWER_SECONDS):
                        await owner.request(RegisterSource(source, location=(5.0, 0.0)))
                    return
            except (TimeoutError, TransportError):
                await asyncio.sleep(0.05)


class Clients:
    """One that publishes at b2, and one that receives at b1, over connections that nobody has to make again."""

    def __init__(self, publisher: Connection, reader: Connection) -> None:
        self._publisher = publisher
        self._deliveries = reader.deliveries(["all"])

    async def pass_one(self, source: str, text: str) -> None:
        document = f"<item>{text}</item>".encode()
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                try:
                    await self._publisher.publish(source, [document])
                    break
                except RefusedError as error:
                    assert error.code == "TC410", error  # the broker has not heard of the source yet
                    await asyncio.sleep(0.05)
            delivery = await anext(self._deliveries)
            await delivery.acknowledge()
        assert delivery.payload == document


def test_each_registry_is_killed_while_brokers_and_clients_go_on(tmp_path: Path) -> None:
    places = [free_address(), free_address()]
    first = Command(tmp_path, "r1", places[0], "registry", "--partner", f"r2={places[1]}")
    second = Command(tmp_path, "r2", places[1], "registry", "--partner", f"r1={places[0]}")
    both = ("--registry", f"r1={places[0]}", "--registry", f"r2={places[1]}")
    brokers = [Command(tmp_path, f"b{n}", free_address(), "broker", *both, "--location", f"{n * 2},0") for n in (1, 2)]

    async def run() -> None:
        await until(lambda: is_in_charge(first, paired=True) and first.metric("brokers") == 2)
        await add_source(first, "one")
        async with (
            Connection(brokers[0].address, "reader") as reader,
            Connection(brokers[1].address, "publisher") as publisher,
        ):
            await reader.subscribe("all", "/item")
            clients = Clients(publisher, reader)
            await clients.pass_one("one", "with both registries")
            first.end(signal.SIGKILL)
            await clients.pass_one("one", "while nobody is in charge")
            await until(lambda: is_in_charge(second, paired=False))
            await add_source(second, "two")
            await clients.pass_one("two", "a source that the first registry has never heard of")
            first.start()
            await until(lambda: is_in_charge(second, paired=True))
            second.end(signal.SIGKILL)
            await clients.pass_one("two", "while nobody is in charge again")
            await until(lambda: is_in_charge(first, paired=False) and first.metric("brokers") == 2)
            assert first.metric("sources") == 2, "what the other one had acknowledged is known"
            await add_source(first, "three")
            await clients.pass_one("three", "and it goes on")
            second.start()
            await until(lambda: is_in_charge(first, paired=True))

    with ExitStack() as stack:
        for command in (first, second, *brokers):
            stack.callback(command.end)
            command.start()
        asyncio.run(run())
