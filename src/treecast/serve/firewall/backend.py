"""A server behind the firewall: how it is, how much it has to do, and who waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from yarl import URL

from treecast.serve.connection import steady_ms
from treecast.serve.doors.problems import DoorError
from treecast.serve.firewall.health import Health
from treecast.serve.firewall.rules_file import BackendForm
from treecast.serve.firewall.settings import FirewallSettings


class Backend:
    """One back end, however many rules name it. It stays the same when rules are read again and it is unchanged."""

    def __init__(self, form: BackendForm, settings: FirewallSettings) -> None:
        self.form = form
        self.name = form.name
        self.url = URL(form.url)
        self.check_url = self.url.join(URL(form.health)) if form.health else None
        self.answer_ms = form.answer_ms or settings.answer_ms
        self.health = Health(settings, is_checked=self.check_url is not None)
        self.outstanding = 0
        self.sent = self.failed = self.answer_ms_total = 0
        """Requests, those that failed, and how long the others took together."""
        self.last_error = ""
        self._concurrency_max = form.concurrency_max or settings.backend_concurrency_max
        self._settings = settings
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def load(self) -> int:
        return self.outstanding + self.waiting

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """One of its requests. Raises DoorError TC451 if too many wait, or this one has waited too long."""
        if self.outstanding < self._concurrency_max:
            self.outstanding += 1
        else:
            await self._wait()
        try:
            yield
        finally:
            self._release()

    async def _wait(self) -> None:
        if len(self._waiting) >= self._settings.backend_queue_max:
            raise busy()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._settings.backend_queue_ms / 1000):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._release()  # it was our turn just now
            elif turn in self._waiting:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise busy() from None
            raise

    def _release(self) -> None:
        """The next one takes over, or there is one less."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.outstanding -= 1

    def begin(self) -> int:
        """A request leaves. Returns when."""
        self.health.begin()
        self.sent += 1
        return steady_ms()

    def succeed(self, begin_ms: int) -> None:
        self.answer_ms_total += steady_ms() - begin_ms
        self.health.note_success()

    def fail(self, error: str) -> None:
        self.failed += 1
        self.last_error = error
        self.health.note_failure(steady_ms())


def busy() -> DoorError:
    return DoorError("the servers behind have too much to do", code="TC451", hint="try again soon")


def unavailable() -> DoorError:
    return DoorError("no server behind is available", code="TC451", hint="try again soon")
