"""What the HTTP doors of a broker and of a fleet's worker share: an ASGI application that finds the page of a request.

Every answer that refuses something is a problem (`problems.py`), also for pages that do not exist and for our own bugs.
A subclass has the pages, as methods of `self` or of its `_pages`, named as in `routes.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Sized

import structlog
from prometheus_client import Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from treecast.errors import TreecastError
from treecast.overlay.messages import NAME_CHARS_MAX
from treecast.serve.access.gate import Gate
from treecast.serve.doors.calls import (
    Bodies,
    Call,
    DisconnectedError,
    Receive,
    Reply,
    Scope,
    Send,
    json_reply,
    problem_reply,
)
from treecast.serve.doors.envelopes import timestamp
from treecast.serve.doors.forms import TicketAnswer
from treecast.serve.doors.problems import DoorError, problem_of, problem_of_error
from treecast.serve.doors.routes import PUBLIC, Route, Router
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import let_in
from treecast.serve.metrics import CONTENT_TYPE, Metrics

TEXT = "text/plain; charset=utf-8"
Page = Callable[[Call], Awaitable[Reply | None]]


class Door:
    """The application. `open_things` are counted in the metrics: event streams, WebSockets."""

    _pages: Sequence[object] = ()
    _description = b""
    """For `/openapi.json`."""

    def __init__(
        self,
        log: structlog.typing.FilteringBoundLogger,
        settings: DoorSettings,
        gate: Gate,
        metrics: Metrics,
        is_ready: Callable[[], bool],
        open_things: Mapping[str, Sized],
    ) -> None:
        self.settings = settings
        self.bodies = Bodies(settings)
        self.is_stopping = False
        self._log = log
        self._gate = gate
        self._metrics = metrics
        self._is_ready = is_ready
        self._router = Router()
        self._counts = _Counts(metrics, open_things)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        call = Call(scope, receive, send, self.bodies)
        try:
            reply = await self._answer(call)
            if reply is not None:
                self._counts.count(reply.status)
                await call.answer(reply)
        except DisconnectedError:
            pass

    async def _answer(self, call: Call) -> Reply | None:
        try:
            route, call.parameter = self._find(call.scope["method"], call.scope["path"])
            if route.scopes != PUBLIC:
                let_in(self._gate, call, route)
            if len(call.parameter) > NAME_CHARS_MAX:
                raise DoorError(f"an id has at most {NAME_CHARS_MAX} characters", code="TC414")
            page = self._page(route)
            if page is None:
                raise self._not_offered(route)
            return await page(call)
        except TreecastError as error:
            return problem_reply(problem_of_error(error), getattr(error, "headers", ()))
        except DisconnectedError:
            raise
        except Exception as error:
            return self._apologize(call.scope, error)

    def _find(self, method: str, path: str) -> tuple[Route, str]:
        return self._router.find(method, path)

    def _page(self, route: Route) -> Page | None:
        for pages in (self, *self._pages):
            page: Page | None = getattr(pages, route.name, None)
            if page is not None:
                return page
        return None

    def _not_offered(self, route: Route) -> Exception:
        """Why there is no such page here."""
        return AssertionError(route.name)

    def _apologize(self, scope: Scope, error: Exception) -> Reply:
        self._log.error("a request failed", path=scope["path"][:200], error=repr(error), exc_info=True)
        return problem_reply(problem_of("TC437", "TC437 the request failed, and that is our mistake"))

    # --- pages for those who watch ------------------------------------------------------------------------------------

    async def health(self, call: Call) -> Reply:
        return Reply(200, b"alive\n", TEXT)

    async def readiness(self, call: Call) -> Reply:
        is_ready = self._is_ready() and not self.is_stopping
        return Reply(200 if is_ready else 503, b"ready\n" if is_ready else b"not ready\n", TEXT)

    async def metrics(self, call: Call) -> Reply:
        return Reply(200, self._metrics.text(), CONTENT_TYPE)

    async def openapi(self, call: Call) -> Reply:
        return Reply(200, self._description)

    # --- for web pages ------------------------------------------------------------------------------------------------

    async def create_ticket(self, call: Call) -> Reply:
        ticket, ends_ms = self._gate.make_ticket(call.access)
        return json_reply(201, TicketAnswer(ticket, timestamp(ends_ms)), (("cache-control", "no-store"),))


class _Counts(Collector):
    """What the door counts. PERF: bench/http.py; Prometheus's own counter takes a lock for each request."""

    def __init__(self, metrics: Metrics, open_things: Mapping[str, Sized]) -> None:
        self._by_status: dict[int, int] = {}
        metrics.registry.register(self)
        for name, things in open_things.items():
            description = {"streams": "Event streams", "sockets": "WebSockets"}[name]
            gauge = Gauge(f"treecast_http_{name}", description, registry=metrics.registry)
            gauge.set_function(lambda things=things: len(things))  # type: ignore[misc]

    def count(self, status: int) -> None:
        self._by_status[status] = self._by_status.get(status, 0) + 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(
            "treecast_http_requests", "Requests by the status of their answer", labels=["status"]
        )
        for status, count in sorted(self._by_status.items()):
            family.add_metric([str(status)], count)
        yield family
