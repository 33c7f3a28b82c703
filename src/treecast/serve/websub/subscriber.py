"""One WebSub subscriber at work: everything that its topic gets, one after the other, to its callback.

It reads the topic as event streams do (`treecast.overlay.broker.tail`): it has its own position, so any number of
subscribers get everything. One that has kept up gets what is published at once; one that is behind reads what is
stored. A payload that its callback does not accept is tried again, and in the end given up; nothing overtakes it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import deque
from collections.abc import Callable
from random import Random

from yarl import URL

from treecast.overlay.broker import Broker
from treecast.overlay.broker.tail import TailItem
from treecast.serve.hooks.schedule import wait_ms
from treecast.serve.hooks.sender import Outcome, Sender
from treecast.serve.hooks.settings import HookSettings
from treecast.serve.websub.content import content_type
from treecast.serve.websub.links import link_header
from treecast.serve.websub.rows import SubscriberRow
from treecast.serve.websub.settings import WebSubSettings

GONE = 410


def signature(secret: bytes, body: bytes) -> str:
    """The header `X-Hub-Signature` (section 8).

    >>> signature(b"secret", b"<feed/>")[:20]
    'sha256=bc34c1a93cc52'
    """
    return f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"


def request_of(item: TailItem, row: SubscriberRow) -> dict[str, str]:
    """The headers of a content distribution request (section 7); its body is the payload."""
    headers = {"content-type": content_type(item.payload), "link": link_header(row.topic_url)}
    if row.secret:
        headers["x-hub-signature"] = signature(row.secret, item.payload)
    return headers


class Subscriber:
    """`broker` is there while it serves; `last` is the last document that is durable. `on_gone` is called when its
    callback says 410."""

    def __init__(
        self,
        key: str,
        row: SubscriberRow,
        position: int,
        sender: Sender,
        settings: WebSubSettings,
        retries: HookSettings,
        random: Random,
        broker: Callable[[], Broker | None],
        last: Callable[[], int],
        on_gone: Callable[[Subscriber], None],
        count: Callable[[str], None],
    ) -> None:
        self.key = key
        self.row = row
        self.position = position
        """Everything up to this document is done."""
        self.has_moved = False
        """Its position has to be stored."""
        self._sender = sender
        self._settings = settings
        self._retries = retries
        self._random = random
        self._broker = broker
        self._last = last
        self._on_gone = on_gone
        self._count = count
        self._waiting: deque[TailItem] = deque()
        self._waiting_bytes = 0
        self._read_to = position  # everything up to this document is in `_waiting`, or done
        self._is_behind = True  # there may be something after that, on disk
        self._attempts = 0
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    # --- what is published --------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The broker serves, for the first time or rebuilt."""
        self._is_behind = True

    def on_published(self, item: TailItem) -> None:
        """Something new. One that is behind reads it later."""
        if not self._is_behind:
            if self._waiting_bytes > self._settings.read_bytes_max:
                self._is_behind = True
            else:
                self._waiting.append(item)
                self._waiting_bytes += len(item.payload)
                self._read_to = item.document
        self.pump()

    @property
    def floor(self) -> int:
        """Everything up to this document is done, also those that were not for its topic."""
        return self.position if self._waiting or self._is_behind else self._last()

    def catch_up(self, documents: int) -> None:
        """If its position is that far behind what it is known to be, let it be stored: a restart begins there."""
        if self.floor - self.position >= documents:
            self._read_to = self.floor
            self._settle()

    def pump(self) -> None:
        """Send the next payload, unless one is under way or has to wait."""
        if self._task is None and self._timer is None and not self._is_closed:
            if not self._waiting and self._is_behind:
                self._read()
            if self._waiting:
                self._task = asyncio.create_task(self._send(self._waiting[0]))
                self._task.add_done_callback(self._on_sent)

    def _read(self) -> None:
        """One step of what is stored. If there is nothing in it, the next one follows when others had their turn."""
        broker = self._broker()
        if broker is None:
            return
        last = self._last()
        if self._read_to < last:
            items, self._read_to = broker.tail.read(
                {self.row.topic}, self._read_to, last, self._settings.read_bytes_max
            )
            self._waiting.extend(items)
            self._waiting_bytes += sum(len(item.payload) for item in items)
        self._is_behind = self._read_to < last
        self._settle()
        if self._is_behind and not self._waiting:
            asyncio.get_running_loop().call_soon(self.pump)

    def _settle(self) -> None:
        """If nothing waits, everything that was read is done."""
        position = self._waiting[0].document - 1 if self._waiting else self._read_to
        if position > self.position:
            self.position = position
            self.has_moved = True

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _send(self, item: TailItem) -> None:
        self._attempts += 1
        outcome = await self._sender.send(
            "POST", URL(self.row.callback, encoded=True), request_of(item, self.row), item.payload
        )
        if outcome.is_success:
            self._count("delivered")
            self._next()
        elif outcome.status == GONE:
            self._count("gone")
            self._is_closed = True
            self._on_gone(self)
        elif self._attempts >= self._settings.attempts_max:
            self._count("given up")
            self._next()
        else:
            self._count("again")
            self._wait(outcome)

    def _next(self) -> None:
        self._waiting_bytes -= len(self._waiting.popleft().payload)
        self._attempts = 0
        self._settle()

    def _wait(self, outcome: Outcome) -> None:
        wait = wait_ms(self._attempts, outcome.retry_after_ms, self._retries, self._random)
        if not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(wait / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _on_sent(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.result()
            self.pump()

    def renew(self, row: SubscriberRow) -> None:
        """Another lease, perhaps another secret. What is under way goes on, and nothing is left out."""
        self.row = row
        if self._timer is not None:  # it has just shown that it answers
            self._timer.cancel()
            self._on_timer()

    async def close(self) -> None:
        """Begin nothing more, and let what is under way end, for a while."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if (task := self._task) is not None and task is not asyncio.current_task():
            await asyncio.wait([task], timeout=self._settings.stop_ms / 1000)
            task.cancel()
