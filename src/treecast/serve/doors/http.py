"""The HTTP door: an ASGI application over the broker in the same process.

Every answer that refuses something is a problem (`problems.py`), also for pages that do not exist and for our own bugs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sized
from functools import partial
from random import Random

import msgspec
import structlog
from prometheus_client import Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from treecast.errors import TreecastError
from treecast.overlay.messages import NAME_CHARS_MAX
from treecast.serve.access.gate import Gate
from treecast.serve.doors.calls import Bodies, Call, DisconnectedError, Receive, Reply, Scope, Send, problem_reply
from treecast.serve.doors.console_pages import ConsolePages
from treecast.serve.doors.document_pages import DocumentPages
from treecast.serve.doors.kept_documents import KeptDocumentPages
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.openapi import describe
from treecast.serve.doors.outgoing import Outgoing
from treecast.serve.doors.problems import DoorError, problem_of, problem_of_error
from treecast.serve.doors.reading import ReadingPages
from treecast.serve.doors.routes import PUBLIC, Route, Router
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.socket_session import Sockets
from treecast.serve.doors.status import StatusPages
from treecast.serve.doors.subscription_pages import SubscriptionPages
from treecast.serve.doors.transfers import TransferPages
from treecast.serve.doors.visible import let_in
from treecast.serve.doors.web_socket import Opening
from treecast.serve.firewall.firewall import Firewall
from treecast.serve.firewall.pages import FirewallPages
from treecast.serve.metrics import CONTENT_TYPE, Metrics
from treecast.serve.runtime import Runtime

TEXT = "text/plain; charset=utf-8"
Page = Callable[[Call], Awaitable[Reply | None]]


class HttpDoor:
    """The application. `start` once the broker runs, `stop` before it stops."""

    def __init__(
        self,
        runtime: Runtime,
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        version: str,
        settings: DoorSettings | None = None,
        directory: str | None = None,
        gate: Gate | None = None,
        firewall: Firewall | None = None,
    ) -> None:
        """`directory` is where the data are: its sizes are part of the status."""
        self.settings = settings = settings or DoorSettings()
        self._runtime = runtime
        self._log = log
        self._gate = gate = gate or Gate(None, log)
        self._looking: asyncio.Task[None] | None = None
        self._client = LocalClient(runtime, random, settings.answer_ms)
        self._subscriptions = SubscriptionPages(self._client, settings, gate.settings)
        feed = self._subscriptions.feed
        self._status = StatusPages(self._client, feed, settings, version, directory)
        self._documents = DocumentPages(self._client, settings, self._status.refusals)
        self._kept = KeptDocumentPages(self._client, feed, settings)
        self._reading = ReadingPages(self._client, feed, settings)
        self._console = ConsolePages()
        self._transfers = TransferPages(self._client, settings, gate.settings)
        self._sockets = Sockets(self._client, self._documents, settings)
        self._outgoing = Outgoing(runtime, feed, random, log, settings)
        self._firewall = FirewallPages(
            firewall, self._client, self._documents.publisher, settings, self._status.refusals
        )
        if firewall is not None:
            runtime.metrics.registry.register(firewall)
        self.bodies = Bodies(settings)
        self._router = Router()
        self._publish_route, _ = self._router.find("POST", "/v1/documents")
        self._dispatch_route, _ = self._router.find("POST", "/v1/dispatch")
        self._description = msgspec.json.encode(describe(version))
        self._counts = _Counts(runtime.metrics, feed, self._sockets)
        self._is_stopping = False

    async def start(self) -> None:
        """Prepare what publishers need. Raises TreecastError."""
        await self._documents.register_default()
        self._looking = asyncio.create_task(self._gate.run())
        await self._outgoing.start()

    def stop(self) -> None:
        """End event streams, and accept nothing more."""
        self._is_stopping = True
        if self._looking is not None:
            self._looking.cancel()
        self._subscriptions.feed.close_all()
        self._client.stop()

    async def close(self) -> None:
        """After `stop`: let what is being sent to others end."""
        await self._outgoing.close()

    # --- requests -----------------------------------------------------------------------------------------------------

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
            return await self._page(route)(call)
        except TreecastError as error:
            return problem_reply(problem_of_error(error), getattr(error, "headers", ()))
        except DisconnectedError:
            raise
        except Exception as error:
            return self._apologize(call.scope, error)

    def _find(self, method: str, path: str) -> tuple[Route, str]:
        """Also for paths that the rules of a firewall claim; they are no pages of ours."""
        if self._firewall.claims(method, path):
            return self._dispatch_route, ""
        return self._router.find(method, path)

    def _apologize(self, scope: Scope, error: Exception) -> Reply:
        self._log.error("a request failed", path=scope["path"][:200], error=repr(error), exc_info=True)
        return problem_reply(problem_of("TC437", "TC437 the request failed, and that is our mistake"))

    def publish_directly(self, scope: Scope, body: bytes, answer: Callable[[Reply], None]) -> None:
        """Answer a POST of a document that has arrived as a whole: as `__call__` does, without a task.

        PERF: bench/http.py. Tasks, messages and futures of ASGI cost more than matching and storing a document.
        """

        def finish(reply: Reply) -> None:
            self._counts.count(reply.status)
            answer(reply)

        call = Call(scope, _no_more, _no_send, self.bodies)
        try:
            let_in(self._gate, call, self._publish_route)
            self._documents.publish_arrived(call, body, finish)
        except TreecastError as error:
            finish(problem_reply(problem_of_error(error), getattr(error, "headers", ())))
        except Exception as error:
            finish(self._apologize(scope, error))

    def open_socket(self, scope: Scope) -> Opening:
        """Whether a WebSocket may be opened by this request, and with what it begins. Raises DoorError."""
        call = Call(scope, _no_more, _no_send, self.bodies)
        route, call.parameter = self._router.find(scope["method"], scope["path"])
        let_in(self._gate, call, route)  # from which sites pages may come, `handshake` checks
        if route.name != "socket":
            raise DoorError(f"the page {scope['path'][:200]!r} is no WebSocket", code="TC434")
        self._sockets.expect_room()
        return partial(self._sockets.open, call.access, call.query("subscription"))

    def _page(self, route: Route) -> Page:
        for pages in (
            self,
            self._documents,
            self._subscriptions,
            self._transfers,
            self._status,
            self._kept,
            self._reading,
            self._console,
            self._firewall,
            *self._outgoing.pages,
        ):
            page: Page | None = getattr(pages, route.name, None)
            if page is not None:
                return page
        raise AssertionError(route.name)

    # --- pages for those who watch ------------------------------------------------------------------------------------

    async def health(self, call: Call) -> Reply:
        return Reply(200, b"alive\n", TEXT)

    async def readiness(self, call: Call) -> Reply:
        is_ready = self._runtime.is_ready() and not self._is_stopping
        return Reply(200 if is_ready else 503, b"ready\n" if is_ready else b"not ready\n", TEXT)

    async def metrics(self, call: Call) -> Reply:
        return Reply(200, self._runtime.metrics.text(), CONTENT_TYPE)

    async def openapi(self, call: Call) -> Reply:
        return Reply(200, self._description)


async def _no_more() -> Scope:
    raise AssertionError("the body has arrived")


async def _no_send(message: Scope) -> None:
    raise AssertionError("there is a callback for the answer")


class _Counts(Collector):
    """What the door counts. PERF: bench/http.py; Prometheus's own counter takes a lock for each request."""

    def __init__(self, metrics: Metrics, feed: Sized, sockets: Sized) -> None:
        self._by_status: dict[int, int] = {}
        metrics.registry.register(self)
        streams = Gauge("treecast_http_streams", "Event streams", registry=metrics.registry)
        streams.set_function(lambda: len(feed))
        open_sockets = Gauge("treecast_http_sockets", "WebSockets", registry=metrics.registry)
        open_sockets.set_function(lambda: len(sockets))

    def count(self, status: int) -> None:
        self._by_status[status] = self._by_status.get(status, 0) + 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(
            "treecast_http_requests", "Requests by the status of their answer", labels=["status"]
        )
        for status, count in sorted(self._by_status.items()):
            family.add_metric([str(status)], count)
        yield family
