"""The Python client: it waits, connects again, and says what became of requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from support.served_broker import eventually, served, take

from treecast.overlay.client import ClientSettings
from treecast.overlay.messages import SubscriptionOptions
from treecast.serve.blocking_client import BlockingConnection
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


def test_connecting_that_is_given_up_leaves_nothing_behind() -> None:
    """Also when its caller is cancelled: nobody else could close the connection, and it would be made for ever."""

    async def run() -> None:
        accepted: list[asyncio.StreamWriter] = []
        silent = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        before = asyncio.all_tasks()
        for given in (address, "127.0.0.1:1"):
            connecting = asyncio.create_task(Connection(given, "alice").__aenter__())
            await asyncio.sleep(0.1)
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
        with pytest.raises(TransportError, match="TC407"):
            await Connection(address, "alice", connect_s=0.1).__aenter__()
        assert asyncio.all_tasks() == before and len(accepted) == 2
        silent.close()

    asyncio.run(run())


def test_nothing_is_asked_of_a_closed_connection(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box:
            async with Connection(box.address, "alice", settings=ClientSettings(queue_max=1, window_max=1)) as alice:
                await alice.register_source("s")
                box.gate.clear()
                # The third waits for room, and a broker is no registry: it does not say where anything is.
                waiting = [asyncio.create_task(alice.publish("s", [b"<a/>"])) for _ in range(3)]
                waiting.append(asyncio.create_task(alice.where("source", "s")))  # type: ignore[arg-type]
                await eventually(lambda: box.metric("messages_received_total", kind="Publish") == 1)
            async with asyncio.timeout(20):
                for task in waiting:
                    with pytest.raises(TransportError, match="TC407 the connection was closed"):
                        await task
                for later in (alice.publish("s", [b"<a/>"]), alice.inspect("stats"), take(alice, ["q"], 1)):
                    with pytest.raises(TransportError, match="TC407 the connection was closed"):
                        await later
            box.gate.set()

    asyncio.run(run())


def test_threads_that_wait_hear_that_their_connection_was_closed(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box:
            await asyncio.to_thread(use, box.address)

    def use(address: str) -> None:
        with ThreadPoolExecutor(4) as threads:
            with BlockingConnection(address, "alice") as alice:
                alice.register_source("s")
                alice.subscribe("q", "/a")
                calls: list[Callable[[], Any]] = [lambda: next(alice.deliveries(["q"]))] * 3
                calls.append(lambda: alice.wait_for(alice._connection.where("source", "s")))
                waiting = [threads.submit(call) for call in calls]
                time.sleep(0.2)
            for future in waiting:
                with pytest.raises(TransportError, match="TC407 the connection was closed"):
                    future.result(20)

    asyncio.run(run())


def test_threads_that_ask_while_the_loop_ends_hear_that_their_connection_was_closed(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box:
            await asyncio.to_thread(use, box.address)

    def use(address: str) -> None:
        with ThreadPoolExecutor(1) as threads:
            late: list[Future[Any]] = []
            with BlockingConnection(address, "alice") as alice:
                alice.register_source("s")
                stop = alice._loop.stop

                def stop_late() -> None:
                    late.append(threads.submit(alice.publish, "s", [b"<a/>"]))
                    wait(late, 0.5)
                    stop()

                alice._loop.stop = stop_late  # type: ignore[method-assign]
            with pytest.raises(TransportError, match="TC407 the connection was closed"):
                late[0].result(5)
            for later in (lambda: alice.publish("s", [b"<a/>"]), lambda: alice.settle([])):
                with pytest.raises(TransportError, match="TC407 the connection was closed"):
                    later()

    asyncio.run(run())
