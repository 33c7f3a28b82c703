"""The runtime: group commit, order, failures, back-pressure and its end, with a real broker, store and sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.served_broker import OpeningError, documents, eventually, served, take

from treecast.overlay.broker import BrokerSettings
from treecast.overlay.messages import Detach, Document, Request
from treecast.overlay.packets import packet_of
from treecast.overlay.storage import StorageError
from treecast.serve.client import Connection, RefusedError
from treecast.serve.settings import RuntimeSettings
from treecast.serve.store import Store
from treecast.serve.transport_error import TransportError

pytestmark = pytest.mark.house


async def prepared(connection: Connection) -> None:
    await connection.register_source("s")
    await connection.subscribe("q", "/a")


def test_what_is_published_is_delivered(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice, box.connect("bob") as bob:
            await prepared(alice)
            assert await bob.publish("s", [b"<a>1</a>", b"<b/>", Document(b"<a>2</a>", "x")]) == [1, 2, 3]
            assert await bob.publish("s", [Document(b"<a>2</a>", "x")]) == [3]  # published before
            assert await take(alice, ["q"], 2) == [b"<a>1</a>", b"<a>2</a>"]
            assert await alice.replay("q", from_document=3) == 3
            assert await take(alice, ["q"], 1) == [b"<a>2</a>"]
            assert box.metric("documents_total") == 4
            assert box.metric("deliveries_total") >= 3
            assert box.metric("messages_received_total", kind="Publish") == 2
            assert box.metric("peer_subscriptions") == 1
            assert box.metric("connections") == 2

    asyncio.run(run())


def test_refusals_are_errors_with_their_codes(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice:
            await prepared(alice)
            with pytest.raises(RefusedError) as caught:
                await alice.publish("s", [b"<a/>", b"<a>", b"<a/>"])
            assert caught.value.code == "TC209" and caught.value.documents == [1, 0, 2]
            with pytest.raises(RefusedError, match="TC104"):
                await alice.subscribe("bad", "a/b")
            with pytest.raises(RefusedError, match="TC412 there is no subscription 'unknown'"):
                await take(alice, ["q", "unknown"], 1)

    asyncio.run(run())


def test_an_answer_waits_for_the_disk_and_what_comes_meanwhile_forms_one_group(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice:
            await prepared(alice)
            groups = len(box.groups)
            box.gate.clear()
            first = asyncio.create_task(alice.publish("s", [b"<a/>"]))
            await eventually(lambda: box.metric("messages_received_total", kind="Publish") == 1)
            others = [asyncio.create_task(alice.publish("s", [b"<a/>"])) for _ in range(10)]
            await eventually(lambda: box.metric("messages_received_total", kind="Publish") == 11)
            done, _ = await asyncio.wait([first, *others], timeout=0.2)
            assert not done  # nothing is acknowledged that is not on disk
            box.gate.set()
            assert await first == [1]
            assert sorted(await asyncio.gather(*others)) == [[number] for number in range(2, 12)]
            assert len(box.groups) - groups <= 4  # and not eleven

    asyncio.run(run())


@pytest.mark.parametrize("gathered_bytes_max", [0, 256 << 10])
def test_messages_that_come_together_are_handled_together(tmp_path: Path, gathered_bytes_max: int) -> None:
    async def run() -> None:
        settings = RuntimeSettings(gathered_bytes_max=gathered_bytes_max)
        async with served(tmp_path, settings) as box, box.connect("alice") as alice:
            await prepared(alice)
            peer: Any = box.peers[0]
            receive_all, counts = peer.receive_all, []

            def count(sender: str, messages: list[Any], now_ms: int) -> Any:
                counts.append(sum(isinstance(message, Request) for message in messages))
                return receive_all(sender, messages, now_ms)

            peer.receive_all = count
            published = await asyncio.gather(*(alice.publish("s", [b"<a/>"]) for _ in range(10)))
            assert published == [[number] for number in range(1, 11)]
            assert len(await take(alice, ["q"], 10)) == 10
            assert (max(counts, default=0) > 1) == (gathered_bytes_max > 0)

    asyncio.run(run())


def test_no_more_is_gathered_than_stays_in_caches(tmp_path: Path) -> None:
    async def run() -> None:
        settings = RuntimeSettings(gathered_bytes_max=1_000)
        async with served(tmp_path, settings) as box, box.connect("alice") as alice:
            await prepared(alice)
            peer: Any = box.peers[0]
            runtime: Any = box.runtime
            connection = next(iter(runtime._connections))
            turns: list[Any] = []

            def record(sender: str, what: Any, now_ms: int) -> list[Any]:
                turns.append(what)
                return []

            peer.receive = peer.receive_all = record
            one, other = Detach("one"), Detach("other")
            runtime.received(connection, [packet_of(one)], 999)
            assert turns == []  # more may come in this turn of the event loop
            runtime.received(connection, [packet_of(other)], 1)
            assert turns == [[one, other]]
            runtime.received(connection, [packet_of(one)], 10)
            await eventually(lambda: turns[1:] == [one])

    asyncio.run(run())


@pytest.mark.parametrize("lazy_ms", [0, 3_600_000])
def test_acknowledgements_are_stored_with_what_comes_next_or_in_the_end(tmp_path: Path, lazy_ms: int) -> None:
    """Nobody waits for them, so they need no groups of their own."""

    async def run() -> None:
        settings = RuntimeSettings(lazy_ms=lazy_ms)
        async with served(tmp_path, settings) as box, box.connect("alice") as alice, box.connect("bob") as bob:
            await prepared(alice)
            for _ in range(2):
                await bob.publish("s", list(documents(5)))
                before = len(box.groups)
                assert len(await take(alice, ["q"], 5)) == 5
                await eventually(lambda: box.peers[0].stats()["queued"] == 0)
                if lazy_ms:
                    assert len(box.groups) == before and box.peers[0].stats()["groups_waiting"] > 0
                    continue
                await eventually(lambda: box.peers[0].stats()["groups_waiting"] == 0)
                assert len(box.groups) > before
        async with served(tmp_path) as box:
            stats = box.peers[0].stats()
            assert (stats["documents"], stats["waiting"], stats["queued"]) == (10, 0, 0)

    asyncio.run(run())


def test_a_failed_write_is_not_acknowledged_and_the_peer_is_made_anew(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(reopen_ms=20)) as box, box.connect("alice") as alice:
            await prepared(alice)
            box.errors += [
                OpeningError("still broken", code="TC420"),
                OpeningError("still broken", code="TC420"),
                StorageError("the disk failed", code="TC420"),
            ]
            assert await alice.publish("s", [b"<a>1</a>"]) == [1]  # sent again, to the second peer
            assert box.errors == [] and len(box.peers) == 2
            assert box.metric("failures_total") == 1
            assert await take(alice, ["q"], 1) == [b"<a>1</a>"]

    asyncio.run(run())


def test_it_is_not_ready_while_the_store_cannot_be_opened(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            served(tmp_path, RuntimeSettings(reopen_ms=20, reopen_ms_max=20)) as box,
            box.connect("alice") as alice,
        ):
            await prepared(alice)
            assert box.runtime.is_ready()
            box.errors += [OpeningError("broken", code="TC420")] * 1_000 + [StorageError("full", code="TC421")]
            publishing = asyncio.create_task(alice.publish("s", [b"<a/>"]))
            await eventually(lambda: not box.runtime.is_ready())
            with pytest.raises(TransportError, match="TC407"):
                async with box.connect("bob", connect_s=0.3):
                    pass
            box.errors.clear()
            assert await publishing == [1]
            assert box.runtime.is_ready()

    asyncio.run(run())


def test_a_bug_in_the_peer_does_not_end_the_process(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(reopen_ms=20)) as box, box.connect("alice") as alice:
            await prepared(alice)

            def broken(*_: Any) -> Any:
                raise ZeroDivisionError

            first: Any = box.peers[0]
            first.receive = broken
            assert await alice.publish("s", [b"<a/>"]) == [1]
            second: Any = box.peers[1]
            second.tick = broken
            await eventually(lambda: len(box.peers) == 3)
            assert await alice.publish("s", [b"<a/>"]) == [2]

    asyncio.run(run())


def test_nothing_more_is_read_when_too_much_waits_for_the_disk(tmp_path: Path) -> None:
    """A flood beyond the bounds stays in the network, and in the clients."""

    async def run() -> None:
        settings = RuntimeSettings(waiting_bytes_max=1 << 20)
        async with served(tmp_path, settings) as box, box.connect("alice") as alice, box.connect("bob") as bob:
            await prepared(alice)
            box.gate.clear()
            before = box.metric("received_bytes_total")
            batch = [b"<b>%s</b>" % (b"x" * 100_000)] * 10
            flood = [asyncio.create_task(who.publish("s", batch)) for _ in range(16) for who in (alice, bob)]
            await eventually(lambda: box.metric("holds_total") > 0)
            await asyncio.sleep(0.3)
            received = box.metric("received_bytes_total") - before
            assert 1 << 20 < received < 8 << 20  # of 32 MB; one message may be large
            box.gate.set()
            assert sum(len(numbers) for numbers in await asyncio.gather(*flood)) == 320

    asyncio.run(run())


def test_deliveries_that_wait_for_the_disk_count_too(tmp_path: Path) -> None:
    """A few large documents for many receivers are small when they come, and large when they leave."""

    async def run() -> None:
        settings = RuntimeSettings(waiting_bytes_max=2 << 20)
        async with served(tmp_path, settings) as box, box.connect("alice") as alice, box.connect("bob") as bob:
            await alice.register_source("s")
            tasks = []
            for number in range(20):
                await alice.subscribe(f"q{number}", "/a")
                tasks.append(asyncio.create_task(take(bob, [f"q{number}"], 1)))
            await eventually(lambda: box.metric("peer_sessions") == 20)
            box.gate.clear()
            publishing = asyncio.create_task(alice.publish("s", [b"<a>%s</a>" % (b"x" * 200_000)]))
            await eventually(lambda: box.metric("holds_total") > 0)
            box.gate.set()
            assert await publishing == [1]
            assert {len(payloads) for payloads in await asyncio.gather(*tasks)} == {1}

    asyncio.run(run())


def test_at_the_end_what_arrived_is_stored_and_answered_and_the_index_is_saved(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice:
            await prepared(alice)
            box.gate.clear()
            publishing = asyncio.create_task(alice.publish("s", list(documents(5))))
            await eventually(lambda: box.metric("messages_received_total", kind="Publish") == 1)
            box.runtime.stop()
            box.gate.set()
            assert await publishing == [1, 2, 3, 4, 5]
            assert not box.runtime.is_ready()

    asyncio.run(run())
    with Store.open(tmp_path) as store:
        loaded = store.load_index()
        assert loaded is not None and list(loaded[0].match(b"<a/>")) == ["q"]


def test_the_index_is_saved_while_it_serves(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, broker=BrokerSettings(save_index_changes=5)) as box, box.connect("alice") as alice:
            for number in range(6):
                await alice.subscribe(f"q{number}", "/a")
            await eventually(lambda: any(tmp_path.glob("index-*.tcx")))

    asyncio.run(run())


def test_a_saved_index_counts_when_the_changes_in_it_are_durable(tmp_path: Path) -> None:
    """Else a crash could leave subscriptions in the index that the tables do not have."""

    async def run() -> None:
        async with served(tmp_path, broker=BrokerSettings(save_index_changes=1)) as box, box.connect("alice") as alice:
            await alice.subscribe("q0", "/a")
            await eventually(lambda: any(tmp_path.glob("index-*.tcx")))
            box.gate.clear()
            task = asyncio.create_task(alice.subscribe("q1", "/a"))
            await eventually(lambda: "q1" in box.peers[0].index)
            (life,) = [box.runtime._life]
            assert life is not None
            box.runtime._begin_save(life, 2)
            await eventually(lambda: any(tmp_path.glob("index-*.unfinished")))
            await asyncio.sleep(0.1)
            assert [path.name for path in tmp_path.glob("index-*.tcx")] == [f"index-{1:020}.tcx"]
            box.gate.set()
            await task
            await eventually(lambda: [path.name for path in tmp_path.glob("index-*.tcx")] == [f"index-{2:020}.tcx"])

    asyncio.run(run())


def test_clients_go_on_after_a_restart(tmp_path: Path) -> None:
    """The broker is another one, at the same address, with the same data."""

    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice, box.connect("bob") as bob:
            await prepared(alice)
            await bob.publish("s", [b"<a>1</a>"])
            stream = alice.deliveries(["q"])
            first = await anext(stream)  # and not acknowledged
            box.peers[0].tick = lambda now_ms: 1 / 0  # type: ignore[assignment,return-value]
            await eventually(lambda: len(box.peers) == 2)
            again = await anext(stream)
            assert (again.id, again.payload) == (first.id, first.payload)
            await again.acknowledge()
            await bob.publish("s", [b"<a>2</a>"])
            assert (await anext(stream)).payload == b"<a>2</a>"
            await stream.aclose()

    asyncio.run(run())
