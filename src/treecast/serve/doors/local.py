"""A client of a broker that runs in the same process and event loop.

It is the state machine of any client (`treecast.overlay.client`), but its messages need no connection. If the broker
has to be rebuilt, the client says hello again and repeats what has no answer.

Whoever reads stored documents must not read those that are not durable: a crash takes them back, and others get their
numbers. When the client is opened, the broker may have accepted some already, as it takes documents from other brokers
and clients too. Its answer to the client's hello follows all that it had accepted before: from then on the client is
*current*, and knows the last document that is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeVar, assert_never

from treecast.overlay.broker import Broker
from treecast.overlay.broker.tail import Published
from treecast.overlay.chord.ring_peer import RingPeer
from treecast.overlay.client import Answered, Client, ClientSettings
from treecast.overlay.messages import Command, Inspected, Kind, Publish, Refusal, Request
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.peer import TICK_MS, Deliver, Effect, Peer, SaveIndex, Send, Store
from treecast.overlay.receiver import Delivered, Delivery, Interrupted, Opened, ReceiverSettings, Settled
from treecast.serve.client import RefusedError
from treecast.serve.connection import now_ms
from treecast.serve.doors.problems import DoorError
from treecast.serve.local_peers import LocalRuntime

NAME = "http door"
Result = TypeVar("Result")
SETTINGS = ClientSettings(
    queue_max=10_000,
    request_ms=60_000,
    request_ms_max=60_000,
    receivers_max=10_000,
    receiver=ReceiverSettings(flow_ms=3_000),
)
"""Nothing is lost on the way, so nothing needs to be sent again, except to a broker that was rebuilt."""


class LocalClient:
    """A `LocalPeer` of the runtime."""

    def __init__(self, runtime: LocalRuntime, random: Random, answer_ms: int, name: str = NAME) -> None:
        self.name = name
        self.broker: Broker | None = None
        """While it serves. Only for looking at it."""
        self.on_opened: list[Callable[[Broker], None]] = []
        self.on_current: list[Callable[[], None]] = []
        self.on_announced: list[Callable[[Any], None]] = []
        self.on_tick: list[Callable[[int], None]] = []
        self.last_document = 0
        """The last one that is durable. Before the client is current, there may be later ones."""
        self._last_accepted = 0
        self._current = asyncio.Event()
        self._runtime = runtime
        self._answer_s = answer_ms / 1000
        self._client = Client(name, "broker", random, SETTINGS)
        self._answers: dict[int, asyncio.Future[Answered]] = {}
        self._receivers: dict[int, Callable[[Delivered | Opened | Interrupted], None]] = {}
        self._inspections: dict[int, asyncio.Future[Inspected]] = {}
        self._settling: dict[int, asyncio.Future[Settled]] = {}
        self._outgoing: list[Any] = []
        self._ticker: asyncio.Task[None] | None = None
        self._is_removed = False
        """The broker is served elsewhere: nothing is asked here any more."""
        runtime.register(self)

    # --- what the runtime calls ---------------------------------------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        if isinstance(peer, NetworkBroker | RingPeer):
            peer = peer.broker  # a door looks at what this broker has itself
        assert isinstance(peer, Broker)
        self.broker = peer
        self._current.clear()
        self._last_accepted = peer.tail.last_document()
        self.last_document = min(self.last_document, self._last_accepted)
        if self._ticker is None:
            self._ticker = asyncio.create_task(self._tick())
        for callback in self.on_opened:
            callback(peer)
        self._do(self._client.connected(now_ms()))

    def closed(self) -> None:
        self.broker = None
        self._current.clear()

    def removed(self) -> None:
        self._is_removed = True
        self.stop()
        error = no_answer()
        refusal = Refusal(-1, error.code, str(error))
        answers, self._answers = self._answers, {}
        for ticket, future in answers.items():
            if not future.done():
                future.set_result(Answered(ticket, [], [refusal]))
        for question in self._inspections.values():
            if not question.done():
                question.set_exception(no_answer())
        for settling in self._settling.values():
            if not settling.done():
                settling.set_exception(no_answer())

    def received(self, messages: list[Any]) -> None:
        for message in messages:
            self._do(self._client.receive("broker", message, now_ms()))
        if self.broker is not None and not self.is_current() and self._client.is_welcome():
            self._current.set()
            self.last_document = max(self.last_document, self._last_accepted)
            for callback in self.on_current:
                callback()

    def announced(self, event: Any) -> None:
        if isinstance(event, Published):
            self.last_document = max(self.last_document, event.document)
        for callback in self.on_announced:
            callback(event)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            now = now_ms()
            self._do(self._client.tick(now))
            for callback in self.on_tick:
                callback(now)

    def stop(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()

    # --- effects ------------------------------------------------------------------------------------------------------

    def _do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    if not self._outgoing:
                        asyncio.get_running_loop().call_soon(self._flush)
                    self._outgoing.append(effect.message)
                case Deliver():
                    self._take(effect.event)
                case Store() | SaveIndex():
                    raise AssertionError("a client stores nothing")
                case _:
                    assert_never(effect)

    def _flush(self) -> None:
        """Not at once: the broker may be in the middle of something that made us send."""
        messages, self._outgoing = self._outgoing, []
        if self._is_removed:
            return  # the runtime would take this client for one of another broker
        for message in messages:
            size = 0
            if isinstance(message, Request) and isinstance(message.command, Publish):
                size = sum(len(document.body) for document in message.command.documents)
            self._runtime.tell(self, message, size)

    def _take(self, event: Any) -> None:
        if isinstance(event, Answered):
            future = self._answers.pop(event.ticket, None)
            if future is not None and not future.done():
                future.set_result(event)
        elif isinstance(event, Inspected):
            question = self._inspections.pop(event.question, None)
            if question is not None and not question.done():
                question.set_result(event)
        elif isinstance(event, Settled):
            settling = self._settling.pop(event.number, None)
            if settling is not None and not settling.done():
                settling.set_result(event)
        elif isinstance(event, Delivered | Opened | Interrupted):
            callback = self._receivers.get(event.receiver)
            if callback is not None:
                callback(event)

    # --- requests -----------------------------------------------------------------------------------------------------

    def expect_broker(self) -> Broker:
        """Raises DoorError if there is none at present."""
        if self.broker is None or not self._runtime.is_ready():
            raise not_ready()
        return self.broker

    def is_current(self) -> bool:
        """The broker serves, and all that it had when it was opened is durable."""
        return self._current.is_set()

    async def current_broker(self) -> Broker:
        """The broker, once `last_document` is true. Raises DoorError TC436 if that takes too long."""
        self.expect_broker()
        try:
            async with asyncio.timeout(self._answer_s):
                await self._current.wait()
        except TimeoutError:
            raise not_ready() from None
        return self.expect_broker()

    def send(self, command: Command) -> asyncio.Future[Answered]:
        """Ask for something. Raises if it is too large, if too much waits, or if the broker is served elsewhere."""
        if self._is_removed:
            raise not_ready()
        ticket, effects = self._client.request(command, now_ms())
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._answers[ticket] = future
        self._do(effects)
        return future

    async def request(self, command: Command) -> Answered:
        """Ask for something, and wait until it is done and durable. Raises RefusedError, or DoorError TC436."""
        self.expect_broker()
        answer = await self.within_time(self.send(command))
        if answer.refusals:
            raise RefusedError(answer.documents, answer.refusals)
        return answer

    async def within_time(self, future: asyncio.Future[Result]) -> Result:
        try:
            async with asyncio.timeout(self._answer_s):
                return await future
        except TimeoutError:
            raise no_answer() from None

    async def inspect(self, kind: Kind, after: str, count_max: int) -> list[dict[str, str | int]]:
        """Rows of what the broker has. Raises DoorError TC436."""
        self.expect_broker()
        question, effects = self._client.inspect(kind, after=after, count_max=count_max)
        future: asyncio.Future[Inspected] = asyncio.get_running_loop().create_future()
        self._inspections[question] = future
        self._do(effects)
        try:
            return (await self.within_time(future)).rows
        finally:
            self._inspections.pop(question, None)

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def attach(
        self,
        subscription: str | list[str],
        credit: int,
        callback: Callable[[Delivered | Opened | Interrupted], None],
        *,
        is_patient: bool = False,
    ) -> int:
        """Receive from one or some; returns the number of the receiver. Raises if there are too many."""
        subscriptions = [subscription] if isinstance(subscription, str) else subscription
        receiver, effects = self._client.attach(subscriptions, now_ms(), credit=credit, is_patient=is_patient)
        self._receivers[receiver] = callback
        self._do(effects)
        return receiver

    def ask(self, receiver: int, credit: int) -> None:
        self._do(self._client.ask(receiver, credit, now_ms()))

    def detach(self, receiver: int) -> None:
        self._receivers.pop(receiver, None)
        self._do(self._client.detach(receiver, now_ms()))

    def settle(self, deliveries: Iterable[Delivery], *, is_failed: bool = False) -> None:
        settle = self._client.fail if is_failed else self._client.acknowledge
        self._do(settle(deliveries, now_ms(), singly=True))

    def settle_and_confirm(self, deliveries: Sequence[Delivery], *, is_failed: bool) -> asyncio.Future[Settled]:
        """The same, of one receiver; the future ends when the broker has stored it. Fails with DoorError TC436 if the
        broker is served elsewhere."""
        number, effects = self._client.settle(deliveries, now_ms(), is_failed=is_failed)
        future: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # perhaps nobody waits any more
        self._settling[number] = future
        self._do(effects)
        return future

    def postpone(self, delivery: Delivery, wait_ms: int, reason: str) -> None:
        """Try it again after so long; 0: give it up."""
        self._do(self._client.postpone(delivery, wait_ms, reason))

    def join(self, receiver: int) -> None:
        self._do(self._client.join(receiver))


def not_ready() -> DoorError:
    return DoorError("the broker is not ready", code="TC436", hint="try again soon")


def no_answer() -> DoorError:
    hint = "it may still be done; ask again, with the same id"
    return DoorError("the broker does not answer", code="TC436", hint=hint)
