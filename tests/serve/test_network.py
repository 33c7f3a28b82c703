"""A network of real processes on loopback: documents reach subscribers of other brokers, also after a kill."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.served_network import REGISTRY, NetworkProcesses

from treecast.index import Index
from treecast.overlay.messages import RegisterSource
from treecast.serve.client import Connection, RefusedError

pytestmark = pytest.mark.house

WAIT_SECONDS = 60


async def receive(connection: Connection, id: str, seen: dict[str, bytes], *payloads: bytes) -> None:
    """Until these have come. What comes again has the same id: whoever remembers ids sees everything once."""
    deliveries = connection.deliveries([id])
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not set(payloads) <= set(seen.values()):
                delivery = await anext(deliveries)
                seen[delivery.id] = delivery.payload
                await delivery.acknowledge()
    finally:
        await deliveries.aclose()
    assert len(set(seen.values())) == len(seen)


def test_documents_travel_and_survive_a_kill(tmp_path: Path) -> None:
    async def run(network: NetworkProcesses) -> None:
        b1, b2, b3 = network.brokers
        async with network.connect(network.registry, "owner") as owner:
            await until_all_are_there(owner, len(network.brokers))
            # The registry chooses the nearest broker as the root of a source.
            await owner.request(RegisterSource("east", location=(0.0, 0.0)))
            await owner.request(RegisterSource("west", location=(2.0, 0.0)))
        async with (
            network.connect(b1, "publisher-1") as east,
            network.connect(b3, "publisher-3") as west,
            network.connect(b2, "reader") as reader,
        ):
            await publish(east, "east", [b"<early/>"])  # waits until the root knows of its source
            await publish(west, "west", [b"<early/>"])
            await reader.subscribe("x", "/x")
            await publish(east, "east", [b"<x>e1</x>", b"<y/>"])
            await publish(west, "west", [b"<x>w1</x>"])
            seen: dict[str, bytes] = {}
            await receive(reader, "x", seen, b"<x>e1</x>", b"<x>w1</x>")
            await asyncio.to_thread(b2.kill)
            await publish(east, "east", [b"<x>e2</x>"])
            await publish(west, "west", [b"<x>w2</x>"])
            await asyncio.to_thread(b2.start)
            await receive(reader, "x", seen, b"<x>e2</x>", b"<x>w2</x>")
            # A root that was killed keeps what it has acknowledged.
            await asyncio.to_thread(b1.kill)
            await asyncio.to_thread(b1.start)
            await publish(east, "east", [b"<x>e3</x>"])
            await receive(reader, "x", seen, b"<x>e3</x>")
            assert len(seen) == 5
        await under_load(network)

    with NetworkProcesses(tmp_path, 3) as network:
        asyncio.run(run(network))
        assert all(process.end() == 0 for process in [*network.brokers, network.registry])
    for name in ("b1", "b2", "b3", REGISTRY):
        assert "made anew" not in (tmp_path / f"{name}.log").read_text()


async def under_load(network: NetworkProcesses) -> None:
    """Every broker has subscribers; a host and a root are killed while documents come. What is delivered is what one
    index matches."""
    b1, b2, b3 = network.brokers
    queries = {f"q{n}": f"/load/item[@n > {n * 10}]" if n % 2 else f"//item[k{n}]" for n in range(12)}
    documents = [f"<load><item n='{n}'><k{n % 12}/></item></load>".encode() for n in range(120)]
    index = Index()
    for id, query in queries.items():
        index.add(id, query)
    expected = {(id, document) for document in documents for id in index.match(document)}
    assert expected
    async with AsyncExitStack() as stack:
        readers = [
            await stack.enter_async_context(network.connect(broker, f"reader-{broker.name}"))
            for broker in network.brokers
        ]
        for place, (id, query) in enumerate(queries.items()):
            await readers[place % 3].subscribe(id, query)
        east = await stack.enter_async_context(network.connect(b1, "load-east"))
        west = await stack.enter_async_context(network.connect(b3, "load-west"))

        async def publish_all(connection: Connection, source: str, mine: list[bytes]) -> None:
            for begin in range(0, len(mine), 5):
                await publish(connection, source, mine[begin : begin + 5])

        async def kill_some() -> None:
            for process in (b2, b1):
                await asyncio.to_thread(process.kill)
                await asyncio.to_thread(process.start)

        got: set[tuple[str, bytes]] = set()
        async with asyncio.timeout(WAIT_SECONDS), asyncio.TaskGroup() as group:
            group.create_task(publish_all(east, "east", documents[::2]))
            group.create_task(publish_all(west, "west", documents[1::2]))
            group.create_task(kill_some())
            for place, reader in enumerate(readers):
                mine = list(queries)[place::3]
                group.create_task(collect(reader, mine, got, {pair for pair in expected if pair[0] in mine}))
        assert got == expected


async def collect(
    reader: Connection, ids: list[str], got: set[tuple[str, bytes]], expected: set[tuple[str, bytes]]
) -> None:
    deliveries = reader.deliveries(ids)
    try:
        while not expected <= got:
            delivery = await anext(deliveries)
            got.add((delivery.subscription, delivery.payload))
            await delivery.acknowledge()
    finally:
        await deliveries.aclose()


async def publish(connection: Connection, source: str, documents: list[bytes]) -> None:
    """Until the broker knows that the source is its own."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                await connection.publish(source, documents)
            except RefusedError as error:
                assert error.code == "TC410"
                await asyncio.sleep(0.05)
            else:
                return


def test_a_registry_without_its_disk_learns_from_brokers(tmp_path: Path) -> None:
    async def run(network: NetworkProcesses) -> None:
        b1, b2, _ = network.brokers
        async with network.connect(network.registry, "owner") as owner:
            await until_all_are_there(owner, len(network.brokers))
            await owner.request(RegisterSource("east", location=(0.0, 0.0)))
        async with network.connect(b1, "publisher") as publisher, network.connect(b2, "reader") as reader:
            await publish(publisher, "east", [b"<early/>"])
            await reader.subscribe("x", "/x")
            await asyncio.to_thread(network.registry.kill)
            shutil.rmtree(tmp_path / REGISTRY)
            await asyncio.to_thread(network.registry.start)
            await publish(publisher, "east", [b"<x>meanwhile</x>"])
            async with network.connect(network.registry, "owner") as owner, asyncio.timeout(WAIT_SECONDS):
                await until_all_are_there(owner, len(network.brokers))
                assert [(row["key"], row["root"]) for row in await owner.inspect("sources")] == [("east", "b1")]
                assert (await owner.where("subscription", "x")).broker == "b2"
                await owner.request(RegisterSource("west", location=(0.0, 0.0)))
            await publish(publisher, "west", [b"<x>new</x>"])
            seen: dict[str, bytes] = {}
            await receive(reader, "x", seen, b"<x>meanwhile</x>", b"<x>new</x>")

    with NetworkProcesses(tmp_path, 3) as network:
        asyncio.run(run(network))
    assert "what was lost is learnt from brokers" in (tmp_path / f"{REGISTRY}.log").read_text()


async def until_all_are_there(owner: Connection, count: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while len(await owner.inspect("brokers")) < count:
            await asyncio.sleep(0.05)
