"""Serves an ASGI application with uvicorn, and adds the limits that it does not have.

uvicorn waits for ever for the rest of a header, and for a reader that does not read. Here a header has a deadline and a
size, a connection that takes nothing is closed after a while, and so is one too many. Bodies have their deadline in
`calls.py`.

A POST of a document that has arrived as a whole when its header is read, as most do, is answered without ASGI
(`Door`). tests/serve/test_http_direct.py compares both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import Callable, Generator
from typing import Any, Protocol, cast
from urllib.parse import unquote

import msgspec
import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from treecast.errors import TreecastError
from treecast.serve.acceptor import BACKLOG, Acceptor, AcceptPolicy, address_of, bind
from treecast.serve.certificate import Certificate
from treecast.serve.doors.calls import Bodies, Reply, Scope
from treecast.serve.doors.problems import CONTENT_TYPE, DoorError, problem_of_error
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.web_socket import Opening, SocketProtocol, handshake

OTHER_FILES = 1_000
"""Beside connections: those of the store, of imports, of the other doors."""


DIRECT_URL = b"/v1/documents"
DIRECT_NEVER = frozenset((b"content-encoding", b"transfer-encoding", b"expect", b"upgrade"))
"""Headers of requests that go through ASGI, which knows what to do about them."""


class Door(Protocol):
    """What the server does without ASGI: `HttpDoor` has it."""

    bodies: Bodies

    def publish_directly(self, scope: Scope, body: bytes, answer: Callable[[Reply], None]) -> None: ...

    def open_socket(self, scope: Scope) -> Opening: ...


class _Event:
    """What uvicorn wakes when a connection is lost: nobody waits for it here."""

    def set(self) -> None:
        pass


class DirectCycle:
    """A request that is being answered without ASGI, in place of uvicorn's object."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")
    _event = _Event()
    more_body = response_started = False
    """It has arrived as a whole, and is answered at once."""

    def __init__(self, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
        self.message_event = self._event


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    settings = DoorSettings()
    door: Door | None = None
    """Answers documents and WebSockets, if it is there."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.on_lost: Callable[[], None] | None = None
        """Is called when the connection is lost: for those who answer for long."""
        self._is_held = False
        self._held_body = b""
        self._header_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._is_in_header = True
        self._has_begun = False
        self._answered_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        if len(self.connections) > self.settings.connections_max:
            self.transport.abort()
            return
        self._begin_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_header()
        self._end_stall()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()
            self.on_lost = None

    # --- headers ------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_in_header:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._is_held:  # its body is yet to come
            self._let_go()
        # Most headers arrive at once, and need no timer.
        if self._is_in_header and self._has_begun:
            if self._header_timer is None:
                self._begin_header()
            if self._header_bytes > self.settings.header_bytes_max:
                self._refuse(DoorError("the header is too large", code="TC432", status=431))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_begun = True

    def on_headers_complete(self) -> None:
        self._is_in_header = self._has_begun = False
        self._end_header()
        if self.url == DIRECT_URL and self._is_direct():
            self._is_held = True
        else:
            self._begin_asgi()

    def _begin_asgi(self) -> None:
        cast(Scope, self.scope)["connection"] = self
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._is_held:
            self._held_body = self._held_body + body if self._held_body else body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_held:
            self._answer_directly()
        else:
            super().on_message_complete()
        self._is_in_header = True
        self._header_bytes = 0

    def _begin_header(self) -> None:
        self._header_timer = self.loop.call_later(self.settings.header_ms / 1000, self._header_is_late)

    def _end_header(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _header_is_late(self) -> None:
        self._header_timer = None
        if self._header_bytes or self.cycle is not None:
            self._refuse(DoorError("the header did not arrive in time", code="TC433"))
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse(DoorError("this is not HTTP", code="TC434"))

    def _refuse(self, error: TreecastError) -> None:
        """Answer what is no request, and close. Requests before it that arrived as a whole are answered first."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is not None and not (cycle.response_complete or cycle.response_started or cycle.more_body):
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if cycle is None or cycle.response_complete:
            problem = problem_of_error(error)
            body = msgspec.json.encode(problem)
            head = "".join(f"{name}: {value}\r\n" for name, value in getattr(error, "headers", ()))
            head += f"content-type: {CONTENT_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[problem.status] + head.encode() + body)
        self.transport.close()

    # --- documents without ASGI ---------------------------------------------------------------------------------------

    def _is_direct(self) -> bool:
        """Whether this request may be answered directly, if the rest of it is there too."""
        cycle = self.cycle
        if self.door is None or self.parser.get_method() != b"POST" or (cycle and not cycle.response_complete):
            return False
        return all(name not in DIRECT_NEVER for name, _ in self.headers)

    def _let_go(self) -> None:
        """The usual way, after all."""
        self._is_held = False
        body, self._held_body = self._held_body, b""
        self._begin_asgi()
        if body:
            super().on_body(body)

    def _answer_directly(self) -> None:
        assert self.door is not None
        self._is_held = False
        body, self._held_body = self._held_body, b""
        is_lasting = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        cycle = self.cycle = cast(Any, DirectCycle(is_lasting))
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/documents",
            "query_string": b"",
            "headers": self.headers,
        }
        self.door.publish_directly(scope, body, lambda reply: self._write_reply(cycle, reply))

    def _write_reply(self, cycle: DirectCycle, reply: Reply) -> None:
        cycle.response_complete = True
        if cycle.disconnected:
            return
        head = [STATUS_LINE[reply.status]]
        for name, value in self.server_state.default_headers:
            head += (name, b": ", value, b"\r\n")
        head.append(b"content-type: %s\r\ncontent-length: %d\r\n" % (reply.content_type.encode(), len(reply.body)))
        head += (f"{name}: {value}\r\n".encode() for name, value in reply.headers)
        if not cycle.keep_alive:
            head.append(b"connection: close\r\n")
        self.transport.write(b"".join((*head, b"\r\n", reply.body)))
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    # --- WebSockets ---------------------------------------------------------------------------------------------------

    def _should_upgrade_to_ws(self) -> bool:
        return self.door is not None

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, or refuse. Whatever else the client has sent before our answer is dropped."""
        assert self.door is not None
        path, _, query = self.url.partition(b"?")
        try:
            if self.cycle is not None and not self.cycle.response_complete:
                raise DoorError("a handshake before the last answer", code="TC434")
            scope: Scope = {"type": "websocket", "method": self.scope["method"], "headers": self.headers}
            scope.update(path=unquote(path.decode("latin-1")), query_string=query)
            opening = self.door.open_socket(scope)
            answer = handshake(self.url.decode("latin-1"), self.headers, self.settings)
        except TreecastError as error:
            self._refuse(error)
            return
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self._end_stall()
        self.connections.discard(self)
        SocketProtocol(self.settings, self.door.bodies, self.connections).start(self.transport, answer, opening)

    # --- connections that ask for nothing -----------------------------------------------------------------------------

    def _unset_keepalive_if_required(self) -> None:
        """The timer goes on: PERF: bench/http.py; one for each answer costs more than a look when it ends."""

    def on_response_complete(self) -> None:
        self._answered_at = self.loop.time()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.timeout_keep_alive_task is None:
            self._wait_for_request(self.timeout_keep_alive)

    def _wait_for_request(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._has_begun or not self._is_in_header or not self.cycle.response_complete:
            return  # the next answer begins to wait again
        seconds_left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if seconds_left > 0:
            self._wait_for_request(seconds_left)
        else:
            super().timeout_keep_alive_handler()

    def write_now(self, data: bytes) -> bool:
        """Write part of an answer that ASGI has begun, if nothing waits to be written before it."""
        if self.flow.write_paused or self.transport.is_closing():
            return False
        self.transport.write(data)
        return True

    # --- readers that do not read -------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer = self.loop.call_later(self.settings.stalled_ms / 1000, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_stall()
        super().resume_writing()

    def _end_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


class _Server(uvicorn.Server):
    """Signals are for whoever runs the process. With a certificate, connections are accepted by us."""

    policy: AcceptPolicy | None = None
    log: structlog.typing.FilteringBoundLogger
    _acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.policy is None:
            await super().startup(sockets)
            return
        await super().startup([])
        self._acceptor = Acceptor(self._make_protocol, self.server_state.connections, self.policy, self.log)
        for listening in sockets or ():
            self._acceptor.accept(listening)

    def _make_protocol(self) -> asyncio.Protocol:
        config = self.config
        protocol: asyncio.Protocol = cast(Any, config.http_protocol_class)(
            config=config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._acceptor is not None:
            await self._acceptor.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _Forward(logging.Handler):
    """What uvicorn logs goes to our log."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__(logging.ERROR)  # a warning is what strangers can cause, as often as they like
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.error("http", message=record.getMessage())


def allow_files(count: int) -> None:
    """Let this process have so many files open, as far as the system permits: many start with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < new_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))


class HttpServer:
    """Listens, and serves until `stop`."""

    def __init__(
        self,
        application: Any,
        settings: DoorSettings,
        log: structlog.typing.FilteringBoundLogger,
        door: Door | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self._settings = settings
        self._socket: socket.socket | None = None
        logger = logging.getLogger("uvicorn.error")
        logger.handlers = [_Forward(log)]
        logger.propagate = False
        protocol = type("Protocol", (GuardedProtocol,), {"settings": settings, "door": door})
        config = uvicorn.Config(
            application,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=max(settings.keep_alive_ms // 1000, 1),
            timeout_graceful_shutdown=max(settings.stop_ms // 1000, 1),
            backlog=BACKLOG,
        )
        self._server = _Server(config)
        self._server.log = log
        if certificate is not None:
            self._server.policy = AcceptPolicy(
                connections_max=settings.connections_max,
                handshake_ms=settings.handshake_ms,
                shutdown_ms=settings.stop_ms,
                context=lambda: certificate.context,
                logs_failures=False,
            )

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Returns the address; port 0 takes a free one. Raises TransportError TC408."""
        allow_files(self._settings.connections_max + OTHER_FILES)
        self._socket = bind(host, port)
        return address_of(self._socket)

    async def run(self) -> None:
        assert self._socket is not None
        await self._server.serve([self._socket])

    def stop(self) -> None:
        self._server.should_exit = True
