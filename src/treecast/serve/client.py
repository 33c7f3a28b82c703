"""A small client of a broker, for programs that use asyncio.

    async with Connection("localhost:7400", "alice") as connection:
        await connection.register_source("news")
        await connection.subscribe("sport", "/news/item[@topic='sport']")
        numbers = await connection.publish("news", [b"<news>…</news>"])
        async for delivery in connection.deliveries(["sport"]):
            print(delivery.payload)
            await delivery.acknowledge()

When the connection breaks, or the broker starts anew, the client connects again and sends again what has no answer.
`publish` returns when the documents are on the broker's disk. A delivery may come more than once, always with the same
`id`, until it is acknowledged. For programs without asyncio there is `blocking_client.py`.

What was asked for is done even if its caller does not wait for the answer: cancelling `publish` takes nothing back.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Any, assert_never

import msgspec

from treecast.durable import unused_name
from treecast.errors import PeerError, TreecastError
from treecast.overlay.client import Answered, Client, ClientSettings
from treecast.overlay.messages import (
    Command,
    Detach,
    Document,
    Hello,
    Inspected,
    Kind,
    Pause,
    Publish,
    Redeliver,
    Refusal,
    RegisterSource,
    RemoveSource,
    Replay,
    Subscribe,
    SubscribeMany,
    SubscriptionOptions,
    Unsubscribe,
    Welcome,
)
from treecast.overlay.onyx.control_messages import Located, Moved, Thing, WhereIs
from treecast.overlay.packets import Packet, packet_of
from treecast.overlay.peer import TICK_MS, Deliver, Effect, SaveIndex, Send, Store
from treecast.overlay.receiver import Delivered, Delivery, Opened, Settled
from treecast.overlay.retry import Retry
from treecast.serve.address import format_address, parse_address
from treecast.serve.connecting import connect
from treecast.serve.connection import FrameConnection, now_ms, steady_ms
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import TlsFiles, client_context
from treecast.serve.transport_error import TransportError, reason_of

BROKER = "broker"  # whatever its name is, there is one
SETTINGS = ClientSettings(request_ms=10_000, request_ms_max=60_000)
"""TCP loses nothing while a connection lives, so a late answer mostly means that the broker is busy."""
INSPECT_SECONDS = 5
CONNECT_MS, CONNECT_MS_MAX = 50, 300
"""A broker that is away is mostly being started again: it is tried after so long, then twice as long, up to so long."""
LIVED_MS = 2_000
"""After a connection that lived so long, another one is tried soon."""
SEND_BYTES_MAX = 256 << 20
"""What waits to be sent is limited by the requests that may be under way."""


class RefusedError(TreecastError):
    """The broker refused a request, or some documents of it. `code` is that of the first refusal."""

    def __init__(self, documents: list[int], refusals: list[Refusal]) -> None:
        first = refusals[0]
        more = f"\n  and {len(refusals) - 1} more" if len(refusals) > 1 else ""
        text = first.message if first.message.startswith(first.code) else f"{first.code} {first.message}"
        super().__init__(text + more, code=first.code)
        self.documents = documents
        """The numbers of those that were accepted; 0 for a refused one."""
        self.refusals = refusals


class ReceivedDelivery:
    """A delivery, and how to say that it is dealt with."""

    __slots__ = ("_connection", "delivery")

    def __init__(self, connection: Connection, delivery: Delivery) -> None:
        self._connection = connection
        self.delivery = delivery

    @property
    def id(self) -> str:
        """The same whenever this delivery comes again."""
        return self.delivery.id

    @property
    def subscription(self) -> str:
        return self.delivery.subscription

    @property
    def document(self) -> int:
        return self.delivery.document

    @property
    def attempt(self) -> int:
        return self.delivery.attempt

    @property
    def published_ms(self) -> int:
        return self.delivery.published_ms

    @property
    def payload(self) -> bytes:
        return self.delivery.payload

    async def acknowledge(self) -> bool:
        """It is dealt with. Returns when the broker has stored that: then it never comes again.

        False: it took too long, or the connection broke meanwhile, so it may come again. That costs a sync of the
        broker's disk, which many clients share: `Connection.settle` waits for nothing.
        """
        return await self._connection.settle_and_confirm(self.delivery, is_failed=False)

    async def fail(self) -> bool:
        """It could not be dealt with, and comes again later; after some attempts it becomes a dead letter. Returns as
        `acknowledge` does."""
        return await self._connection.settle_and_confirm(self.delivery, is_failed=True)


class Connection:
    """A client's connection to its broker. No two clients may have the same name at the same time."""

    def __init__(
        self,
        address: str,
        name: str,
        *,
        tls: TlsFiles | ssl.SSLContext | None = None,
        settings: ClientSettings | None = None,
        connect_s: float = 10.0,
        broker: str = "",
    ) -> None:
        """`address` may be those of several hosts, with commas between them, if one of them serves `broker`: in a
        network with replicas a broker may move. They are tried one after the other."""
        self._addresses = [parse_address(one.strip()) for one in address.split(",")]
        self._place = 0
        self._broker = broker
        self._host, self._port = self._addresses[0]
        self._tls = client_context(tls) if isinstance(tls, TlsFiles) else tls
        self._connect_s = connect_s
        random = Random(unused_name())
        self._client = Client(name, BROKER, random, settings or SETTINGS)
        self._retry = Retry(random, CONNECT_MS, CONNECT_MS_MAX)
        self._settings = RuntimeSettings(send_bytes_max=SEND_BYTES_MAX)
        self._connection: FrameConnection | None = None
        self._lost = asyncio.Event()
        self._welcome = asyncio.Event()
        self._has_room = asyncio.Event()
        self._error: Exception | None = None  # why there is no connection
        self._is_hopeless = False
        self._is_closed = False
        self._inspections: dict[int, asyncio.Future[Inspected]] = {}
        self._places: dict[int, asyncio.Future[Located]] = {}
        self._question = 0
        self._answers: dict[int, asyncio.Future[Answered]] = {}
        self._settling: dict[int, asyncio.Future[Settled]] = {}
        self._queues: dict[int, asyncio.Queue[list[Delivery] | TreecastError]] = {}
        self._outgoing: list[Packet] = []
        self._tasks: list[asyncio.Task[None]] = []

    # --- from start to end --------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Connection:
        """Connect. Raises TransportError TC407 if there is no broker."""
        self._tasks = [asyncio.create_task(self._keep_connected()), asyncio.create_task(self._tick())]
        try:
            await self._wait_for_welcome()
        except BaseException:  # also when nobody waits for it any more: then nobody would close it
            await self.close()
            raise
        return self

    async def _wait_for_welcome(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._connect_s):
                while not self._welcome.is_set() and not self._is_hopeless:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.05):
                            await self._welcome.wait()
        if not self._welcome.is_set():
            raise self._no_connection()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Whatever waits for the broker raises TransportError; whether a request was done is not known."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        waiting: list[asyncio.Future[Any]] = [*self._answers.values(), *self._inspections.values()]
        for future in (*waiting, *self._places.values(), *self._settling.values()):
            if not future.done():
                future.set_exception(connection_closed())
        for queue in self._queues.values():
            queue.put_nowait(connection_closed())
        self._has_room.set()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            self._flush()
            if self._connection is not None:
                self._connection.close()

    def _expect_open(self) -> None:
        """Raises TransportError TC407: nobody is there any more who could answer."""
        if self._is_closed:
            raise connection_closed()

    def _no_connection(self) -> TransportError:
        address = format_address(self._host, self._port)
        error = self._error
        text = reason_of(error) if error is not None else "it does not answer"
        reason, _, hint = text.partition("\n  hint: ")
        if hint:
            pass  # the other side has said what helps
        elif self._tls is not None and not isinstance(error, ConnectionRefusedError):
            hint = "check the certificates of both sides, and whether the broker uses TLS"
        else:
            hint = "check that a broker or registry runs there, and that both sides use TLS or neither does"
        return TransportError(f"no connection to {address}: {reason}", code="TC407", hint=hint)

    async def _keep_connected(self) -> None:
        while True:
            self._lost.clear()
            try:
                connection = FrameConnection(self, self._settings, self._settings.frame_bytes_max)
                await connect(connection, self._host, self._port, self._tls)
                await self._lost.wait()
            except OSError as error:  # and those of TLS
                self._note(error)
            self._place += 1
            self._host, self._port = self._addresses[self._place % len(self._addresses)]
            if self._place % len(self._addresses):
                continue
            self._retry.start(steady_ms())
            await asyncio.sleep(self._retry.due_in_ms(steady_ms()) / 1000)

    def _note(self, error: Exception) -> None:
        """Why there is no connection. Certificates do not become right by trying again."""
        self._error = error
        if isinstance(error, ssl.SSLError):
            self._is_hopeless = True

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            if self._connection is not None:
                self._do(self._client.tick(now_ms()))

    # --- what the connection calls ------------------------------------------------------------------------------------

    def opened(self, connection: FrameConnection) -> None:
        self._connection = connection
        self._outgoing.clear()
        self._do(self._client.connected(now_ms()))

    def received(self, connection: FrameConnection, packets: list[Packet], size: int) -> None:
        for packet in packets:
            message = packet.message
            if isinstance(message, Detach) and not message.session:
                self._error = PeerError(message.reason, code="TC407")  # why it closes the connection
                continue
            if isinstance(message, Moved) and message.thing == "registry":
                # It goes on asking: until one of the two is in charge, both say this.
                reason = f"this registry is not in charge\n  hint: ask {message.to!r}, the other one"
                self._error = PeerError(reason, code="TC407")
                continue
            if isinstance(message, Located):
                if (place := self._places.get(message.question)) is not None and not place.done():
                    place.set_result(message)
                continue
            self._do(self._client.receive(BROKER, message, now_ms()))
            if isinstance(message, Welcome):
                self._welcome.set()

    def closed(self, connection: FrameConnection, error: Exception | None) -> None:
        if error is not None:
            self._note(error)
        elif self._error is None and not self._welcome.is_set():
            self._error = PeerError("it closes the connection", code="TC407")
        if steady_ms() - connection.opened_ms > LIVED_MS:
            self._retry.reset()  # else the broker closes it at once, again and again
        if self._connection is connection:
            self._connection = None
        self._lost.set()

    # --- effects ------------------------------------------------------------------------------------------------------

    def _do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(message=message):
                    if not self._outgoing:
                        asyncio.get_running_loop().call_soon(self._flush)
                    if self._broker and isinstance(message, Hello):
                        message = msgspec.structs.replace(message, to=self._broker)
                    self._outgoing.append(packet_of(message))
                case Deliver():
                    self._take_event(effect.event)
                case Store() | SaveIndex():
                    raise AssertionError("a client stores nothing")
                case _:
                    assert_never(effect)

    def _flush(self) -> None:
        """Send what was collected, in few frames. Without a connection it is lost, and sent again later."""
        packets, self._outgoing = self._outgoing, []
        if self._connection is not None and packets:
            self._connection.send(packets)

    def _take_event(self, event: object) -> None:
        match event:
            case Answered():
                future = self._answers.pop(event.ticket, None)
                if future is not None and not future.done():
                    future.set_result(event)
                self._has_room.set()
            case Settled():
                settling = self._settling.pop(event.number, None)
                if settling is not None and not settling.done():
                    settling.set_result(event)
            case Inspected() if event.question in self._inspections:
                if not self._inspections[event.question].done():
                    self._inspections[event.question].set_result(event)
            case Delivered() if event.receiver in self._queues:
                self._queues[event.receiver].put_nowait(event.deliveries)
            case Opened() if event.unknown and event.receiver in self._queues:
                refusals = [Refusal(0, "TC412", f"TC412 there is no subscription {id!r}") for id in event.unknown]
                self._queues[event.receiver].put_nowait(RefusedError([], refusals))

    # --- requests -----------------------------------------------------------------------------------------------------

    async def register_source(self, source: str, *, schema: str = "", description: str = "") -> None:
        """Add a source of documents, or change it."""
        await self.request(RegisterSource(source, schema, description))

    async def remove_source(self, source: str) -> None:
        await self.request(RemoveSource(source))

    async def publish(self, source: str, documents: Iterable[bytes | Document]) -> list[int]:
        """The numbers of the documents, which are now on the broker's disk.

        Raises RefusedError if some are refused; the others are published all the same.
        """
        batch = [item if isinstance(item, Document) else Document(item) for item in documents]
        return (await self.request(Publish(source, batch))).documents

    async def subscribe(
        self,
        id: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        ordered: bool = False,
        deliver: str = "document",
        options: SubscriptionOptions | None = None,
    ) -> None:
        """Add a subscription, or change the one that has this id."""
        options = options or SubscriptionOptions()
        await self.request(Subscribe(id, query, dict(namespaces or {}), ordered, deliver, options))

    async def subscribe_many(self, subscriptions: Sequence[Subscribe]) -> None:
        """Add new subscriptions: all of them, or none if one is refused or exists already."""
        await self.request(SubscribeMany(list(subscriptions)))

    async def unsubscribe(self, id: str) -> None:
        await self.request(Unsubscribe(id))

    async def pause(self, id: str) -> None:
        """Deliver nothing of a subscription until `resume`; what it matches is kept."""
        await self.request(Pause(id, True))

    async def resume(self, id: str) -> None:
        await self.request(Pause(id, False))

    async def replay(self, id: str, *, from_document: int = 0, from_ms: int = 0) -> int:
        """Deliver again what is kept, from a document or time on; returns the number of the first document."""
        return (await self.request(Replay(id, from_document, from_ms))).documents[0]

    async def redeliver(self, letters: Sequence[int]) -> None:
        """Deliver dead letters again."""
        await self.request(Redeliver(list(letters)))

    async def request(self, command: Command) -> Answered:
        """Send any command, and wait for its answer. Raises RefusedError, or TransportError once it is closed."""
        self._expect_open()
        while not self._client.has_room():
            self._has_room.clear()
            await self._has_room.wait()
            self._expect_open()
        ticket, effects = self._client.request(command, now_ms())
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._answers[ticket] = future
        self._do(effects)
        answered = await future
        if answered.refusals:
            raise RefusedError(answered.documents, answered.refusals)
        return answered

    async def inspect(self, kind: Kind, *, after: str = "", count_max: int = 100) -> list[dict[str, str | int]]:
        """Rows of what the broker has: letters, queues, sources, subscriptions or stats. See `Inspect`."""
        while True:
            self._expect_open()
            question, effects = self._client.inspect(kind, after=after, count_max=count_max)
            future: asyncio.Future[Inspected] = asyncio.get_running_loop().create_future()
            self._inspections[question] = future
            self._do(effects)
            try:
                return (await asyncio.wait_for(future, INSPECT_SECONDS)).rows
            except TimeoutError:
                continue  # it was lost: ask again
            finally:
                del self._inspections[question]

    async def where(self, thing: Thing, name: str) -> Located:
        """Of a registry: which broker has a source or a subscription. Without a broker there is no such thing."""
        while True:
            self._expect_open()
            self._question += 1
            question = self._question
            future: asyncio.Future[Located] = asyncio.get_running_loop().create_future()
            self._places[question] = future
            self._do([Send(BROKER, WhereIs(question, thing, name))])
            try:
                return await asyncio.wait_for(future, INSPECT_SECONDS)
            except TimeoutError:
                continue  # it was lost: ask again
            finally:
                del self._places[question]

    # --- deliveries ---------------------------------------------------------------------------------------------------

    async def deliveries(
        self, subscriptions: Sequence[str], *, credit: int = 1_000
    ) -> AsyncGenerator[ReceivedDelivery, None]:
        """What these subscriptions match, as it comes, for ever. At most `credit` are held without acknowledgement."""
        self._expect_open()
        receiver, effects = self._client.attach(subscriptions, now_ms(), credit=credit)
        queue: asyncio.Queue[list[Delivery] | TreecastError] = asyncio.Queue()  # at most `credit` deliveries
        self._queues[receiver] = queue
        self._do(effects)
        try:
            while True:
                some = await queue.get()
                if isinstance(some, TreecastError):
                    raise some
                for delivery in some:
                    yield ReceivedDelivery(self, delivery)
        finally:
            del self._queues[receiver]
            self._do(self._client.detach(receiver, now_ms()))

    def settle(self, deliveries: Iterable[ReceivedDelivery], *, is_failed: bool = False) -> None:
        """Acknowledge many at once, or fail them, and wait for nothing: if the broker is killed before it has stored
        that, they come again."""
        settle = self._client.fail if is_failed else self._client.acknowledge
        self._do(settle([received.delivery for received in deliveries], now_ms()))

    async def settle_and_confirm(self, delivery: Delivery, *, is_failed: bool) -> bool:
        """Acknowledge one, or fail it; returns whether the broker has stored that."""
        self._expect_open()
        number, effects = self._client.settle([delivery], now_ms(), is_failed=is_failed)
        future: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._settling[number] = future
        self._do(effects)
        return not (await future).doubtful


def connection_closed() -> TransportError:
    """What waits for a connection that is closed, and what is asked of it later, ends with this."""
    return TransportError("the connection was closed", code="TC407")
