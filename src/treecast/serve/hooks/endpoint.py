"""One web hook at work: it takes deliveries of its subscriptions from the broker, and sends each until it is accepted.

Theory of operation. A hook is a receiver of the broker like any other, so what it has not settled is never lost: after
a crash it comes again, with the same id. It holds as many deliveries as it may send at the same time, and a few more. A
failed delivery goes back to the broker, with the time of the next attempt, and makes room for others; after the last
one it becomes a dead letter. If the hook is *ordered*, it sends one delivery at a time, and keeps it until it is
accepted or given up; nothing overtakes it.

An endpoint that fails all the time is spared: attempts come one at a time, and in the end the hook is disabled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random

import msgspec
from yarl import URL

from treecast.errors import TreecastError
from treecast.overlay.messages import Hasten
from treecast.overlay.receiver import Delivered, Delivery, Interrupted, Opened
from treecast.serve.connection import now_ms, steady_ms
from treecast.serve.doors.local import LocalClient
from treecast.serve.hooks.message import request_of
from treecast.serve.hooks.rows import AttemptRow, HookRow, StateRow
from treecast.serve.hooks.schedule import wait_ms
from treecast.serve.hooks.sender import Outcome, Sender
from treecast.serve.hooks.settings import HookSettings

GONE = 410
REASON_CHARS_MAX = 300


class Attempt(msgspec.Struct, frozen=True):
    """A delivery, its id, and the number of the attempt."""

    delivery: Delivery
    id: str
    attempt: int


class Endpoint:
    """Runs one hook. `on_disabled` is called when it has to be stored that it is disabled."""

    def __init__(
        self,
        id: str,
        row: HookRow,
        state: StateRow,
        client: LocalClient,
        sender: Sender,
        settings: HookSettings,
        random: Random,
        on_disabled: Callable[[Endpoint], None],
        count: Callable[[str], None],
    ) -> None:
        self.id = id
        self.row = row
        self.has_news = False
        """Its state has to be stored."""
        self._client = client
        self._sender = sender
        self._settings = settings
        self._random = random
        self._on_disabled = on_disabled
        self._count = count
        self._failing_since_ms = state.failing_since_ms
        self._attempts: deque[AttemptRow] = deque(state.attempts, maxlen=settings.attempts_kept_max)
        self._failures = 0
        self._waiting: deque[tuple[Delivery, int]] = deque()  # to be sent, each with the number of its attempt
        self._settled_deliveries: list[Delivery] = []  # the broker is told in a moment
        self._running: set[asyncio.Task[None]] = set()
        self._receiver: int | None = None
        self._session = ""  # what is held is of this one
        self._is_reopening = False
        self._is_closed = False
        self._not_before_ms = 0
        self._rate_ms = 0.0  # when the rate allows the next attempt
        self._timer: asyncio.TimerHandle | None = None

    # --- from start to end --------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to receive, unless it is disabled."""
        if self._receiver is None and not self.row.disabled and not self._is_closed:
            # More than it sends at the same time, so that it need not wait for the broker's disk between two of them.
            credit = self._settings.ahead_max + (1 if self.row.ordered else self.row.concurrency)
            self._receiver = self._client.attach(list(self.row.subscriptions), credit, self._take, is_patient=True)

    def change(self, row: HookRow) -> None:
        """It has other settings now. What is under way ends as it began; everything else is sent again, and at once."""
        self.row = row
        if not row.disabled:
            self._failing_since_ms = self._failures = 0
            self.has_news = True
        self._not_before_ms = 0
        self._is_reopening = True
        self._reopen()
        self.hasten()

    def _reopen(self) -> None:
        """Once nothing is under way: what it holds goes back to the broker, and comes again."""
        if self._is_reopening and not self._running:
            self._is_reopening = False
            self._detach()
            self.open()

    def _detach(self) -> None:
        self._settle()
        self._waiting.clear()
        self._stop_timer()
        if self._receiver is not None:
            self._client.detach(self._receiver)
            self._receiver = None

    def hasten(self) -> None:
        """What waits to be tried again need not wait any more."""
        for id in self.row.subscriptions:
            try:
                self._client.send(Hasten(id))
            except TreecastError:
                return  # too much waits already: it comes when its time has come

    async def close(self) -> None:
        """Begin nothing more, and let what is under way end, for a while."""
        self._is_closed = True
        self._waiting.clear()
        self._stop_timer()
        if self._running:
            await asyncio.wait(self._running, timeout=self._settings.stop_ms / 1000)
        for task in self._running:
            task.cancel()
        self._detach()

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def _take(self, event: Delivered | Opened | Interrupted) -> None:
        if isinstance(event, Delivered):
            self._session = event.deliveries[0].session
            self._waiting.extend((delivery, delivery.attempt) for delivery in event.deliveries)
            self._pump()
        elif isinstance(event, Interrupted):  # all of it comes again, in another session
            self._session = ""
            self._waiting.clear()

    def join(self) -> None:
        if self._receiver is not None:
            self._client.join(self._receiver)

    def _limit(self) -> int:
        is_spared = self._failures >= self._settings.failures_in_row_max
        return 1 if self.row.ordered or is_spared else self.row.concurrency

    def _pump(self) -> None:
        """Begin as many attempts as there may be now."""
        self._stop_timer()
        while self._waiting and len(self._running) < self._limit() and not (self._is_reopening or self._is_closed):
            now = steady_ms()
            wait = max(self._not_before_ms, self._rate_ms) - now
            if wait > 0:
                self._timer = asyncio.get_running_loop().call_later(wait / 1000, self._pump)
                return
            if self.row.rate_max:
                self._rate_ms = max(now, self._rate_ms) + 1000 / self.row.rate_max
            task = asyncio.create_task(self._attempt(*self._waiting.popleft()))
            self._running.add(task)
            task.add_done_callback(self._on_end)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.result()
        self._reopen()
        self._pump()

    async def _attempt(self, delivery: Delivery, attempt: int) -> None:
        headers, body = request_of(delivery, self.row, now_ms())
        outcome = await self._sender.send("POST", URL(self.row.url), headers, body)
        record = Attempt(delivery, headers["webhook-id"], attempt)
        if outcome.is_success:
            self._succeed(record, outcome)
        else:
            self._fail(record, outcome)

    def _succeed(self, attempt: Attempt, outcome: Outcome) -> None:
        if not self._settled_deliveries:
            asyncio.get_running_loop().call_later(self._settings.settle_ms / 1000, self._settle)
        self._settled_deliveries.append(attempt.delivery)
        self._log(attempt, outcome, "delivered")
        has_failed, self._failing_since_ms, self._failures = self._failing_since_ms, 0, 0
        if has_failed:
            self.hasten()

    def _settle(self) -> None:
        """PERF: bench/hooks.py. Several at once: each message to the broker is a group of changes on disk."""
        deliveries, self._settled_deliveries = self._settled_deliveries, []
        self._client.settle(deliveries)

    def _fail(self, attempt: Attempt, outcome: Outcome) -> None:
        self._failures += 1
        self._failing_since_ms = self._failing_since_ms or now_ms()
        if outcome.retry_after_ms:
            asked_ms = min(outcome.retry_after_ms, self._settings.retry_after_ms_max)
            self._not_before_ms = max(self._not_before_ms, steady_ms() + asked_ms)
        if outcome.status == GONE:
            self._log(attempt, outcome, "disabled")
            self._disable("it answered 410: it is gone")
        elif now_ms() - self._failing_since_ms > self._settings.failing_ms_max:
            self._log(attempt, outcome, "disabled")
            self._disable(f"it has failed for too long: {outcome.error}")
        elif attempt.attempt >= self.row.attempts_max:
            self._log(attempt, outcome, "given up")
            self._client.postpone(attempt.delivery, 0, f"hook {self.id}: {outcome.error}"[:REASON_CHARS_MAX])
        else:
            self._log(attempt, outcome, "again")
            self._try_again(attempt, outcome)

    def _try_again(self, attempt: Attempt, outcome: Outcome) -> None:
        delivery, number = attempt.delivery, attempt.attempt
        wait = wait_ms(number, outcome.retry_after_ms, self._settings, self._random)
        if not self.row.ordered:
            self._client.postpone(delivery, wait, outcome.error[:REASON_CHARS_MAX])
        elif not self._is_reopening and not self._is_closed and delivery.session == self._session:
            # Kept, so that nothing overtakes it; unless its session has ended meanwhile: then it comes again anyway.
            self._not_before_ms = max(self._not_before_ms, steady_ms() + wait)
            self._waiting.appendleft((delivery, number + 1))

    def _disable(self, reason: str) -> None:
        """What it holds stays where it is, until it is enabled again."""
        if not self.row.disabled:
            self.row = msgspec.structs.replace(self.row, disabled=reason, disabled_ms=now_ms())
            self._on_disabled(self)
        self._detach()

    # --- what happened ------------------------------------------------------------------------------------------------

    def _log(self, attempt: Attempt, outcome: Outcome, result: str) -> None:
        excerpt = outcome.body[: self._settings.response_kept_bytes_max].decode("utf-8", "replace")
        self._attempts.append(
            AttemptRow(
                now_ms(),
                attempt.id,
                attempt.delivery.document,
                attempt.delivery.subscription,
                attempt.attempt,
                outcome.status,
                outcome.duration_ms,
                outcome.error,
                result,
                excerpt,
            )
        )
        self.has_news = True
        self._count(result)

    def state(self) -> StateRow:
        return StateRow(self._failing_since_ms, list(self._attempts))

    @property
    def status(self) -> str:
        """In one word."""
        if self.row.disabled:
            return "disabled"
        return "failing" if self._failing_since_ms else "active"
