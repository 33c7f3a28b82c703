"""The parts of a worker, in this process: what is acknowledged when, what is dropped, what happens if NATS is full."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.fleet import LEFT_OUT, SMALL, FleetWorker, NatsServer
from support.nats_server import program
from support.served_http import eventually

from treecast.serve.fleet.backbone import Outgoing, StoreReceipt
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.fleet_process import Worker, WorkerOptions
from treecast.serve.fleet.records import CATALOG, DELIVERIES, DOCUMENTS, DocumentRecord, SubscriptionRecord, encode
from treecast.serve.fleet.settings import FleetSettings
from treecast.serve.logs import make_log

pytestmark = pytest.mark.house
SECONDS = 60


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer | None]:
    if program() is None:
        yield None
        return
    with NatsServer(tmp_path_factory.mktemp("worker")) as server:
        yield server


@pytest.fixture
def server(running: NatsServer | None, leave_out: Callable[[str], None]) -> NatsServer:
    if running is None:
        leave_out(LEFT_OUT)
        pytest.skip(LEFT_OUT)
    return running


@asynccontextmanager
async def worker(
    server: NatsServer, fleet: str, change: Callable[[Worker], None] | None = None, **settings: Any
) -> AsyncIterator[Worker]:
    """One that is open, and was changed before."""
    options = WorkerOptions(
        servers=(server.address,),
        fleet=fleet,
        listen=("127.0.0.1", 0),
        settings=FleetSettings(**{"document_ack_ms": 400, **SMALL, **settings}),
    )
    made = Worker(options, make_log("json", "error"))
    if change is not None:
        change(made)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, SECONDS))


async def publish(made: Worker, text: str, id: str = "one") -> StoreReceipt:
    record = DocumentRecord("default", "", 0, text.encode())
    (stored,) = await made.backbone.store([Outgoing(made.backbone.names.document, encode(record), id)])
    return stored


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


async def count(made: Worker, kind: str) -> int:
    return int((await made.backbone.stream_info(kind))["state"]["messages"])


def test_documents_are_acknowledged_after_their_deliveries_are_stored(server: NatsServer) -> None:
    """A worker that cannot store deliveries gives nothing away: another one stores them."""

    def never_stores(made: Worker) -> None:
        store = made.backbone.store

        async def fail(messages: Any, **given: Any) -> list[StoreReceipt]:
            if any(".delivery." in message.subject for message in messages):
                tried.set()
                raise BackboneError("as the test wants it")
            return await store(messages, **given)

        made.backbone.store = fail  # type: ignore[method-assign]

    async def test() -> None:
        async with worker(server, "after", never_stores) as one:
            await one.catalog.subscribe(SubscriptionRecord("a", "/a"))
            await publish(one, "<a/>")
            await tried.wait()
        async with worker(server, "after") as two:
            await until(lambda: two.matcher.deliveries == 1)
            assert await count(two, DELIVERIES) == 1

    tried = asyncio.Event()
    run(test())


def test_deliveries_that_are_stored_again_are_copies(server: NatsServer) -> None:
    """A worker that dies before it acknowledges leaves its documents to others: their deliveries have the same ids."""

    def never_acknowledges(made: Worker) -> None:
        async def answer(messages: Any, text: bytes) -> None:
            pass

        made.matcher._answer = answer  # type: ignore[method-assign]

    async def test() -> None:
        async with worker(server, "copies", never_acknowledges) as one:
            await one.catalog.subscribe(SubscriptionRecord("a", "/a"))
            await publish(one, "<a/>")
            await until(lambda: one.matcher.deliveries == 1)
        async with worker(server, "copies") as two:
            await until(lambda: two.matcher.copies == 1)
            assert await count(two, DELIVERIES) == 1

    run(test())


def test_a_worker_waits_for_the_subscriptions_that_a_document_follows(server: NatsServer) -> None:
    """Its own are late; the document is matched by one that another worker has acknowledged."""

    def reads_late(made: Worker) -> None:
        apply = made.catalog._apply

        async def apply_late(messages: Any) -> None:
            await may_read.wait()
            await apply(messages)

        made.catalog._apply = apply_late  # type: ignore[method-assign]

    async def test() -> None:
        async with worker(server, "late", reads_late) as one, worker(server, "late") as two:
            await two.matcher.close()
            await two.catalog.subscribe(SubscriptionRecord("a", "/a"))
            await publish(two, "<a/>")
            for _ in range(50):  # in which a worker that does not wait has matched it, with what it has
                if not one.matcher.documents:
                    await asyncio.sleep(0.01)
            may_read.set()
            await until(lambda: one.matcher.documents > 0)
            assert one.matcher.deliveries == 1

    may_read = asyncio.Event()
    run(test())


def test_a_worker_whose_subscriptions_are_old_gives_documents_back(server: NatsServer) -> None:
    def never_reaches(made: Worker) -> None:
        async def reach(version: int, wait_ms: int) -> bool:
            return False

        made.matcher._catalog = made.catalog
        opened.append(lambda: setattr(made.catalog, "reach", reach))

    async def test() -> None:
        async with worker(server, "old", never_reaches) as one:
            await one.catalog.subscribe(SubscriptionRecord("a", "/a"))
            opened[0]()
            await publish(one, "<a/>")
            await until(lambda: one.matcher.returned > 0)
            assert one.matcher.documents == 0
        async with worker(server, "old") as two:
            await until(lambda: two.matcher.deliveries == 1)

    opened: list[Callable[[], None]] = []
    run(test())


def test_what_was_removed_is_forgotten_after_a_while(server: NatsServer) -> None:
    async def test() -> None:
        async with worker(server, "removed") as one:
            for id in ("a", "b", "c"):
                await one.catalog.subscribe(SubscriptionRecord(id, "/a"))
            await one.catalog.unsubscribe("a")
            await one.catalog.unsubscribe("b")
            assert await count(one, CATALOG) == 3
        async with worker(server, "removed") as two:
            assert set(two.catalog.subscriptions) == {"c"} and len(two.catalog.index) == 1
            assert await count(two, CATALOG) == 3  # it is too early
        async with worker(server, "removed", removed_ms=0) as three:
            assert await count(three, CATALOG) == 2  # the last message stays, as it has the version
            await three.catalog.subscribe(SubscriptionRecord("d", "/a"))
            assert set(three.catalog.subscriptions) == {"c", "d"}

    run(test())


def test_a_worker_that_was_cut_off_for_long_reads_all_again(server: NatsServer) -> None:
    async def test() -> None:
        async with worker(server, "cut", removed_ms=100) as one, worker(server, "cut") as two:
            await one.catalog.subscribe(SubscriptionRecord("a", "/a"))
            before = one.catalog.index
            await asyncio.sleep(0.2)  # nothing is heard for longer than half of removed_ms
            await two.catalog.subscribe(SubscriptionRecord("b", "/b"))
            await one.catalog.catch_up()
            assert one.catalog.index is not before
            assert set(one.catalog.subscriptions) == {"a", "b"} and len(one.catalog.index) == 2

    run(test())


def test_a_subscription_that_the_index_does_not_take_is_refused(server: NatsServer) -> None:
    """The door tries it alone; if it does not fit in with the others, that is said, and it is removed again."""
    from treecast import QueryError

    async def test() -> None:
        async with worker(server, "refused") as one:
            one.catalog.index.add("taken", "/x")  # so that an id is there that the catalog does not know
            remove = one.catalog.index.remove
            one.catalog.index.remove = lambda id: None  # type: ignore[method-assign]
            with pytest.raises(QueryError):
                await one.catalog.subscribe(SubscriptionRecord("taken", "/a"))
            one.catalog.index.remove = remove  # type: ignore[method-assign]
            assert "taken" not in one.catalog.subscriptions

    run(test())


def test_publishers_wait_while_a_fleet_is_full(server: NatsServer, tmp_path: Path) -> None:
    """Documents that were matched are dropped when there is no room; what still waits is not."""
    settings = {"documents_bytes_max": 30_000, "documents_keep_bytes": 5_000, "sweep_ms": 50}
    body = "<a>" + "x" * 1_000 + "</a>"
    with FleetWorker(server, "full", {**settings, "sweep_ms": 600_000}) as one:
        one.subscribe("all", "/a", deliver="elements")
        accepted = 0
        while (answer := one.ask("POST", "/v1/documents", body.encode())).status == 201:
            accepted += 1
        assert (answer.status, answer.json["code"]) == (507, "TC415") and 10 < accepted < 40
        with FleetWorker(server, "full", settings) as two:  # which sweeps

            def is_accepted() -> bool:
                return two.ask("POST", "/v1/documents", body.encode()).status == 201

            for _ in range(40):
                eventually(is_accepted)
                accepted += 1
            with one.events("all") as events:
                assert len({event["document"] for event in events.take(accepted)}) == accepted


def test_old_deliveries_are_said_to_be_gone(server: NatsServer) -> None:
    with FleetWorker(server, "gone", {"deliveries_bytes_max": 20_000}) as one:
        one.subscribe("all", "/a")
        with one.events("all") as events:
            for _ in range(5):
                one.publish("<a/>")
            events.take(2)
            last = events.last
        for _ in range(40):
            one.publish("<a>" + "x" * 1_000 + "</a>")
        with one.events("all", last=last) as events:
            name, gone = next(iter(events))
            (event,) = events.take(1)
        assert name == "gone" and gone["first"] == 3 and event["document"] > gone["last"] - 5


def test_documents_of_strangers_harm_nobody(server: NatsServer) -> None:
    async def test() -> None:
        async with worker(server, "strangers") as one:
            await one.catalog.subscribe(SubscriptionRecord("a", "/a"))
            await one.backbone.store([Outgoing(one.backbone.names.document, b"what is this", "x")])
            await publish(one, "<a>", "broken")
            await publish(one, "<a/>", "good")
            await until(lambda: one.matcher.documents == 3)
            assert (one.matcher.deliveries, one.matcher.refused) == (1, 2)
            assert await count(one, DOCUMENTS) == 3

    run(test())
