"""The connection of a worker to NATS: streams, questions, and messages that are stored once.

`nats-py` speaks the protocol and connects again by itself. Here is what it leaves to its users: many messages are sent
together and each is acknowledged, what has no acknowledgement is sent again with the same id (so that NATS drops the
copy), and everything has an end.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import nats
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from treecast.serve.connection import steady_ms
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.records import DOCUMENTS, Names
from treecast.serve.fleet.settings import FleetSettings

STREAM_NOT_FOUND, STREAM_IN_USE = 10059, 10058
STORE_FAILED = 10077
STATUS = "Status"
CANCEL_SECONDS = 0.1
DELIVERED, SEQUENCE, TIME, PENDING = -5, -4, -2, -1
"""Where these are in the address to which a message is acknowledged."""


class Outgoing(msgspec.Struct, frozen=True):
    """A message to be stored. NATS drops a second one with the same id."""

    subject: str
    payload: bytes
    id: str


class StoreReceipt(msgspec.Struct, frozen=True):
    """NATS has it, at this place of its stream. `is_copy`: it had it before."""

    sequence: int
    is_copy: bool


def number_in(reply: str, place: int) -> int:
    """One of the numbers in the address to which a message is acknowledged.

    >>> number_in("$JS.ACK.stream.consumer.1.7.9.1794836618253410580.2", SEQUENCE)
    7
    """
    fields = reply.split(".")
    if len(fields) > 9:  # with a domain and an account there is something random behind it
        fields = fields[:11]
    return int(fields[place])


class Backbone:
    """One connection. `open` it first."""

    def __init__(
        self, servers: Sequence[str], fleet: str, settings: FleetSettings, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self.settings = settings
        self.names = Names(fleet)
        self.client = Client()
        self.identity = ""
        """Of the documents of this fleet: other streams of the same name have another one."""
        self.on_reconnected: list[Callable[[], None]] = []
        self.on_dropped: list[Callable[[], None]] = []
        """Messages that came in were dropped, as too many of them waited."""
        self._servers = list(servers)
        self._log = log
        self._answers: dict[int, asyncio.Future[Msg]] = {}
        self._inbox = ""
        self._is_open = False
        self._last_number = 0

    # --- the connection -----------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and make the streams that do not exist. Raises BackboneError."""
        settings = self.settings
        try:
            async with asyncio.timeout(settings.connect_ms / 1000):
                await self.client.connect(
                    self._servers,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=settings.reconnect_ms / 1000,  # type: ignore[arg-type]
                    connect_timeout=max(settings.connect_ms // 1000, 1),
                    pending_size=settings.outgoing_bytes_max,
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnected,
                    reconnected_cb=self._on_reconnected,
                )
        except (TimeoutError, Error, OSError, ValueError) as error:
            reason = "it takes too long" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            # What is in front of an @ may be a password.
            addresses = ", ".join(server.rpartition("@")[2] for server in self._servers)
            raise BackboneError(f"no NATS server answers at {addresses}: {reason}") from None
        self._is_open = True
        self._inbox = self.client.new_inbox()
        await self.client.subscribe(f"{self._inbox}.*", cb=self._on_answer, pending_msgs_limit=0, pending_bytes_limit=0)
        for config in self.names.streams(settings).values():
            await self._make_stream(config)
        documents = await self.stream_info(DOCUMENTS)
        text = f"{self.names.stream(DOCUMENTS)} {documents['created']}"
        self.identity = hashlib.sha256(text.encode()).hexdigest()[:32]

    async def close(self) -> None:
        self._is_open = False
        await self.client.close()

    def is_connected(self) -> bool:
        return self.client.is_connected

    async def _on_error(self, error: Exception) -> None:
        """Connections that fail are tried again. What is dropped has to be read again."""
        if isinstance(error, nats.errors.SlowConsumerError):
            for callback in self.on_dropped:
                callback()
        else:
            self._log.debug("nats", error=repr(error))

    async def _on_disconnected(self) -> None:
        if self._is_open:
            self._log.warning("nats is away")

    async def _on_reconnected(self) -> None:
        self._log.warning("nats is back")
        answers, self._answers = self._answers, {}
        for future in answers.values():  # what was asked may be lost: ask again now, not after a while
            if not future.done():
                future.cancel()
        for callback in self.on_reconnected:
            callback()

    async def _make_stream(self, config: dict[str, object]) -> None:
        info = await self.ask(f"STREAM.INFO.{config['name']}", retries=True)
        if _code(info) == STREAM_NOT_FOUND:
            info = await self.ask(f"STREAM.CREATE.{config['name']}", config, retries=True)
        if "error" in info and _code(info) != STREAM_IN_USE:  # another worker was first
            text = info["error"].get("description", "")
            hint = "NATS needs JetStream (-js), from 2.9 on, and room for the stream"
            raise BackboneError(f"the stream {config['name']} cannot be used: {text}", hint=hint)

    # --- questions ----------------------------------------------------------------------------------------------------

    async def ask(self, what: str, body: Any = None, *, retries: bool = False) -> dict[str, Any]:
        """What JetStream's API answers, errors included. Raises BackboneError if nothing comes."""
        data = b"" if body is None else msgspec.json.encode(body)
        message = await self.request(f"$JS.API.{what}", data, retries=retries)
        try:
            answer: dict[str, Any] = msgspec.json.decode(message.data)
        except (msgspec.MsgspecError, ValueError):  # ValueError: a text that is no UTF-8
            answer = {"error": {"description": "JetStream is not enabled, or not ready"}}
        return answer

    async def request(self, subject: str, data: bytes, *, retries: bool = False) -> Msg:
        """The answer to one message. Raises BackboneError; with `retries` only after `store_ms`."""
        end = steady_ms() + (self.settings.store_ms if retries else 0)
        while True:
            try:
                message = await self.client.request(subject, data, timeout=self.settings.request_ms / 1000)
                return message
            except (TimeoutError, Error, OSError) as error:
                if steady_ms() >= end or self.client.is_closed:
                    raise BackboneError(f"NATS does not answer: {error or type(error).__name__}") from None
            await asyncio.sleep(self.settings.retry_ms / 1000)

    async def stream_info(self, kind: str) -> dict[str, Any]:
        info = await self.ask(f"STREAM.INFO.{self.names.stream(kind)}")
        if "error" in info:
            raise BackboneError(f"NATS does not know {kind}: {info['error'].get('description', '')}")
        return info

    async def last_sequence(self, kind: str) -> int:
        """The place of the last message that is stored, once this is asked."""
        return int((await self.stream_info(kind))["state"]["last_seq"])

    # --- messages that are stored -------------------------------------------------------------------------------------

    async def store(self, messages: Sequence[Outgoing], *, within_ms: int = 0) -> list[StoreReceipt]:
        """Store all of them; returns when NATS has acknowledged each. Raises BackboneError: some may be stored."""
        end = steady_ms() + (within_ms or self.settings.store_ms)
        receipts: list[StoreReceipt] = []
        first = 0
        while first < len(messages):
            last, size = first, 0
            while last < len(messages) and last - first < self.settings.store_messages_max:
                size += len(messages[last].payload)
                if size > self.settings.store_bytes_max and last > first:
                    break
                last += 1
            receipts += await self._store(messages[first:last], end)
            first = last
        return receipts

    async def _store(self, messages: Sequence[Outgoing], end: int) -> list[StoreReceipt]:
        receipts: list[StoreReceipt | None] = [None] * len(messages)
        missing = list(range(len(messages)))
        while True:
            problem = await self._try_to_store(messages, missing, receipts, end)
            missing = [place for place in missing if receipts[place] is None]
            if not missing:
                return receipts  # type: ignore[return-value]
            if steady_ms() >= end or self.client.is_closed:
                raise BackboneError(f"NATS has not stored {len(missing)} messages: {problem}")
            await asyncio.sleep(self.settings.retry_ms / 1000)

    async def _try_to_store(
        self, messages: Sequence[Outgoing], missing: list[int], receipts: list[StoreReceipt | None], end: int
    ) -> str:
        """Send those that are missing, and note what is acknowledged. Returns what is wrong with the others."""
        if not self.client.is_connected:
            return "it is away"
        requests: dict[int, tuple[int, asyncio.Future[Msg]]] = {}
        loop = asyncio.get_running_loop()
        problem = "it does not answer"
        try:
            for place in missing:
                message = messages[place]
                self._last_number = number = self._last_number + 1
                future: asyncio.Future[Msg] = loop.create_future()
                self._answers[number] = future
                requests[place] = (number, future)
                headers = {"Nats-Msg-Id": message.id}
                await self.client.publish(message.subject, message.payload, f"{self._inbox}.{number}", headers)
            wait_ms = max(min(self.settings.request_ms, end - steady_ms()), 1)
            await asyncio.wait([future for _, future in requests.values()], timeout=wait_ms / 1000)
        except (Error, OSError) as error:
            problem = str(error) or type(error).__name__
        for place, (number, future) in requests.items():
            self._answers.pop(number, None)
            if future.done() and not future.cancelled():
                outcome = _outcome(future.result())
                if isinstance(outcome, StoreReceipt):
                    receipts[place] = outcome
                else:
                    problem = outcome
        return problem

    async def _on_answer(self, message: Msg) -> None:
        future = self._answers.pop(int(message.subject.rpartition(".")[2]), None)
        if future is not None and not future.done():
            future.set_result(message)


async def end_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: nats-py forgets a cancellation now and then."""
    waiting = set(tasks)
    while waiting:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=CANCEL_SECONDS)


def _outcome(answer: Msg) -> StoreReceipt | str:
    """What became of a message; or what is wrong now. Raises BackboneError if it will be wrong next time as well."""
    if not answer.data:
        return "nobody takes it"  # there is no leader of the stream just now
    fields = msgspec.json.decode(answer.data)
    error = fields.get("error")
    if error is None:
        return StoreReceipt(int(fields["seq"]), bool(fields.get("duplicate")))
    text = str(error.get("description", ""))
    if error.get("err_code") == STORE_FAILED and "maximum" in text:
        raise BackboneError("the fleet is full: " + text, code="TC415", hint="its workers have to catch up first")
    return text


def _code(info: dict[str, Any]) -> int:
    return int(info.get("error", {}).get("err_code", 0))
