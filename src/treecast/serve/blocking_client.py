"""The client for programs without asyncio: the same calls, each waiting for its answer.

    with BlockingConnection("localhost:7400", "alice") as connection:
        connection.subscribe("sport", "/news/item[@topic='sport']")
        for delivery in connection.deliveries(["sport"]):
            print(delivery.payload)
            delivery.acknowledge()

An event loop runs in a thread of its own, from `with` to its end. Threads may share a connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from treecast.overlay.client import Answered
from treecast.overlay.messages import Command, Document, Kind, Subscribe
from treecast.serve.client import Connection, ReceivedDelivery, connection_closed

Result = TypeVar("Result")
END_SECONDS = 1.0


class BlockingDelivery:
    """A delivery; see `ReceivedDelivery`."""

    def __init__(self, connection: BlockingConnection, received: ReceivedDelivery) -> None:
        self._connection = connection
        self.received = received
        self.id = received.id
        self.subscription = received.subscription
        self.document = received.document
        self.attempt = received.attempt
        self.published_ms = received.published_ms
        self.payload = received.payload

    def acknowledge(self) -> bool:
        return self._connection.wait_for(self.received.acknowledge())

    def fail(self) -> bool:
        return self._connection.wait_for(self.received.fail())


class BlockingConnection:
    """Takes the arguments of `Connection`."""

    def __init__(self, address: str, name: str, **arguments: Any) -> None:
        self._arguments = (address, name, arguments)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="treecast client", daemon=True)
        self._ending = threading.Lock()
        self._has_ended = False

    def __enter__(self) -> BlockingConnection:
        address, name, arguments = self._arguments
        self._thread.start()

        async def connect() -> Connection:
            return await Connection(address, name, **arguments).__aenter__()

        try:
            self._connection = self.wait_for(connect())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.wait_for(self._connection.close())
        finally:
            self._end()

    def _end(self) -> None:
        # What other threads have asked before is in the loop, and gets an answer; from here on they are refused.
        with self._ending:
            self._has_ended = True
        asyncio.run_coroutine_threadsafe(_end_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def wait_for(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        with self._ending:
            if self._has_ended:
                coroutine.close()
                raise connection_closed()
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # of an interrupt: nobody waits for it any more
            raise

    def register_source(self, source: str, **arguments: Any) -> None:
        self.wait_for(self._connection.register_source(source, **arguments))

    def publish(self, source: str, documents: Iterable[bytes | Document]) -> list[int]:
        return self.wait_for(self._connection.publish(source, documents))

    def subscribe(self, id: str, query: str, **arguments: Any) -> None:
        self.wait_for(self._connection.subscribe(id, query, **arguments))

    def subscribe_many(self, subscriptions: Sequence[Subscribe]) -> None:
        self.wait_for(self._connection.subscribe_many(subscriptions))

    def remove_source(self, source: str) -> None:
        self.wait_for(self._connection.remove_source(source))

    def request(self, command: Command) -> Answered:
        """Any command."""
        return self.wait_for(self._connection.request(command))

    def inspect(self, kind: Kind, **arguments: Any) -> list[dict[str, str | int]]:
        return self.wait_for(self._connection.inspect(kind, **arguments))

    def unsubscribe(self, id: str) -> None:
        self.wait_for(self._connection.unsubscribe(id))

    def pause(self, id: str) -> None:
        self.wait_for(self._connection.pause(id))

    def resume(self, id: str) -> None:
        self.wait_for(self._connection.resume(id))

    def replay(self, id: str, **arguments: int) -> int:
        return self.wait_for(self._connection.replay(id, **arguments))

    def redeliver(self, letters: Sequence[int]) -> None:
        self.wait_for(self._connection.redeliver(letters))

    def settle(self, deliveries: Iterable[BlockingDelivery], *, is_failed: bool = False) -> None:
        """Acknowledge many at once, or fail them, without waiting: see `Connection.settle`."""
        received = [delivery.received for delivery in deliveries]
        with self._ending:
            if self._has_ended:
                raise connection_closed()
            self._loop.call_soon_threadsafe(lambda: self._connection.settle(received, is_failed=is_failed))

    def deliveries(
        self, subscriptions: Sequence[str], *, credit: int = 1_000
    ) -> Generator[BlockingDelivery, None, None]:
        """What these subscriptions match, as it comes, for ever."""
        items: Any = self._connection.deliveries(subscriptions, credit=credit)
        try:
            while True:
                yield BlockingDelivery(self, self.wait_for(items.__anext__()))
        finally:
            self.wait_for(items.aclose())


async def _end_others() -> None:
    """Until other threads have the errors that closing the connection has raised; what does not end is cancelled."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=END_SECONDS)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
