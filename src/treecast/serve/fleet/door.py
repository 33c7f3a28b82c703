"""The HTTP door of a worker: the routes of any door, answered by the pages of a fleet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sized

import msgspec
import structlog
from prometheus_client import Counter, Gauge

from treecast.errors import TreecastError
from treecast.overlay.messages import NAME_CHARS_MAX
from treecast.serve.access.gate import Gate
from treecast.serve.doors.calls import Bodies, Call, DisconnectedError, Receive, Reply, Scope, Send, problem_reply
from treecast.serve.doors.openapi import describe
from treecast.serve.doors.problems import DoorError, problem_of, problem_of_error
from treecast.serve.doors.routes import PUBLIC, ROUTES, Route, Router
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import let_in
from treecast.serve.fleet.pages import FleetDocumentPages, FleetSubscriptionPages, not_offered
from treecast.serve.metrics import CONTENT_TYPE, Metrics

TEXT = "text/plain; charset=utf-8"
Page = Callable[[Call], Awaitable[Reply | None]]


class FleetDoor:
    """An ASGI application."""

    def __init__(
        self,
        pages: tuple[FleetDocumentPages, FleetSubscriptionPages],
        is_ready: Callable[[], bool],
        streams: Sized,
        metrics: Metrics,
        log: structlog.typing.FilteringBoundLogger,
        version: str,
        settings: DoorSettings,
        gate: Gate,
    ) -> None:
        self._pages = (self, *pages)
        self._gate = gate
        self._is_ready = is_ready
        self._metrics = metrics
        self._log = log
        self._bodies = Bodies(settings)
        self._router = Router()
        offered = tuple(route for route in ROUTES if self._page(route) is not None)
        self._description = msgspec.json.encode(describe(version, offered))
        self._requests = Counter(
            "treecast_http_requests", "Requests by the status of their answer", ["status"], registry=metrics.registry
        )
        gauge = Gauge("treecast_http_streams", "Event streams", registry=metrics.registry)
        gauge.set_function(lambda: len(streams))
        self.is_stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        call = Call(scope, receive, send, self._bodies)
        try:
            reply = await self._answer(call)
            if reply is not None:
                self._requests.labels(str(reply.status)).inc()
                await call.answer(reply)
        except DisconnectedError:
            pass

    async def _answer(self, call: Call) -> Reply | None:
        try:
            route, call.parameter = self._router.find(call.scope["method"], call.scope["path"])
            if route.scopes != PUBLIC:
                let_in(self._gate, call, route)
            if len(call.parameter) > NAME_CHARS_MAX:
                raise DoorError(f"an id has at most {NAME_CHARS_MAX} characters", code="TC414")
            page = self._page(route)
            if page is None:
                raise not_offered(f"{route.method} {route.path}")
            return await page(call)
        except TreecastError as error:
            return problem_reply(problem_of_error(error), getattr(error, "headers", ()))
        except DisconnectedError:
            raise
        except Exception as error:
            self._log.error("a request failed", path=call.scope["path"][:200], error=repr(error), exc_info=True)
            return problem_reply(problem_of("TC437", "TC437 the request failed, and that is our mistake"))

    def _page(self, route: Route) -> Page | None:
        for pages in self._pages:
            page: Page | None = getattr(pages, route.name, None)
            if page is not None:
                return page
        return None

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
