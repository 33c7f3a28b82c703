"""The HTTP door: an ASGI application over the broker in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import msgspec
import structlog

from treecast.errors import TreecastError
from treecast.serve.access.gate import Gate
from treecast.serve.doors.calls import Call, Reply, Scope, problem_reply
from treecast.serve.doors.console_pages import ConsolePages, DoorKind
from treecast.serve.doors.document_pages import DocumentPages
from treecast.serve.doors.door import Door
from treecast.serve.doors.kept_documents import KeptDocumentPages
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.openapi import describe
from treecast.serve.doors.outgoing import Outgoing
from treecast.serve.doors.problems import problem_of_error
from treecast.serve.doors.reading import ReadingPages
from treecast.serve.doors.routes import ROUTES, Route, Router
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.socket_session import Sockets
from treecast.serve.doors.status import StatusPages
from treecast.serve.doors.subscription_pages import SubscriptionPages
from treecast.serve.doors.transfers import TransferPages
from treecast.serve.doors.visible import let_in
from treecast.serve.doors.web_socket import Opening
from treecast.serve.firewall.firewall import Firewall
from treecast.serve.firewall.pages import FirewallPages
from treecast.serve.local_peers import LocalRuntime


class HttpDoor(Door):
    """The application. `start` once the broker runs, `stop` before it stops."""

    def __init__(
        self,
        runtime: LocalRuntime,
        random: Random,
        log: structlog.typing.FilteringBoundLogger,
        version: str,
        settings: DoorSettings | None = None,
        directory: str | None = None,
        gate: Gate | None = None,
        firewall: Firewall | None = None,
        *,
        owns_sources: bool = True,
        pages: Sequence[object] = (),
        routes: tuple[Route, ...] = (),
        kind: DoorKind = "broker",
    ) -> None:
        """`directory` is where the data are: its sizes are part of the status. `pages` and `routes` are those that a
        peer of a `kind` has besides. Without `owns_sources` they are those that the registry of a network tells."""
        settings = settings or DoorSettings()
        gate = gate or Gate(None, log)
        self._looking: asyncio.Task[None] | None = None
        self._client = LocalClient(runtime, random, settings.answer_ms)
        self._subscriptions = SubscriptionPages(self._client, settings, gate.settings)
        feed = self._subscriptions.feed
        self._status = StatusPages(self._client, feed, settings, version, directory)
        self._documents = DocumentPages(self._client, settings, self._status.refusals, owns_sources=owns_sources)
        self._kept_documents = KeptDocumentPages(self._client, feed, settings)
        self._reading = ReadingPages(self._client, feed, settings)
        self._transfers = TransferPages(self._client, settings, gate.settings)
        self._sockets = Sockets(self._client, self._documents, settings)
        self._outgoing = Outgoing(runtime, feed, random, log, settings)
        self._firewall = FirewallPages(
            firewall, self._client, self._documents.publisher, settings, self._status.refusals
        )
        if firewall is not None:
            runtime.metrics.registry.register(firewall)
        super().__init__(
            *(log, settings, gate, runtime.metrics, runtime.is_ready), {"streams": feed, "sockets": self._sockets}
        )
        self._pages = (
            self._documents,
            self._subscriptions,
            self._transfers,
            self._status,
            self._kept_documents,
            self._reading,
            ConsolePages(kind),
            self._firewall,
            *self._outgoing.pages,
            *pages,
        )
        self._router = Router((*ROUTES, *routes))
        self._publish_route, _ = self._router.find("POST", "/v1/documents")
        self._dispatch_route, _ = self._router.find("POST", "/v1/dispatch")
        self._socket_route, _ = self._router.find("GET", "/v1/socket")
        open_routes = tuple(route for route in (*ROUTES, *routes) if self._page(route) is not None)
        self._description = msgspec.json.encode(describe(version, open_routes))

    async def start(self) -> None:
        """Prepare what publishers need, unless it was stopped before. Raises TreecastError."""
        if self.is_stopping:
            return
        await self._documents.register_default()
        if self.is_stopping:
            return
        self._looking = asyncio.create_task(self._gate.run())
        await self._outgoing.start()

    def stop(self) -> None:
        """End event streams, and accept nothing more."""
        self.is_stopping = True
        if self._looking is not None:
            self._looking.cancel()
        self._subscriptions.feed.close_all()
        self._client.stop()

    async def close(self) -> None:
        """After `stop`: let what is being sent to others end."""
        await self._outgoing.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    def _find(self, method: str, path: str) -> tuple[Route, str]:
        """Also for paths that the rules of a firewall claim; they are no pages of ours."""
        if self._firewall.claims(method, path):
            return self._dispatch_route, ""
        return self._router.find(method, path)

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
        let_in(self._gate, call, self._socket_route)  # from which sites pages may come, `handshake` checks
        self._sockets.expect_room()
        return partial(self._sockets.open, call.access, call.query("subscription"))


async def _no_more() -> Scope:
    raise AssertionError("the body has arrived")


async def _no_send(message: Scope) -> None:
    raise AssertionError("there is a callback for the answer")
