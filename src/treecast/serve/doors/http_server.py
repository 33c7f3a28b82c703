"""Serves an ASGI application with uvicorn, and adds the limits that it does not have.

uvicorn waits for ever for the rest of a header, and for a reader that does not read. Here a header has a deadline and a
size, a connection that takes nothing is closed after a while, and so is one too many. Bodies have their deadline in
`calls.py`.

A proxy and we must agree where each request ends, or one request can hide another in its body. So a request whose end
could be read in two ways is refused, and its connection closed. A request to upgrade to a protocol that is not spoken
here, such as h2c, is read as the HTTP/1.1 that it is (RFC 9110, section 7.8); uvicorn stops reading at its header.

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
from urllib.parse import unquote_to_bytes

import httptools
import msgspec
import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from treecast.errors import TreecastError
from treecast.serve.acceptor import BACKLOG, Acceptor, AcceptPolicy, address_of, bind
from treecast.serve.certificate import Certificate
from treecast.serve.doors.calls import Bodies, Reply, Scope
from treecast.serve.doors.problems import CONTENT_TYPE, DoorError, problem_of_error
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.web_socket import Opening, SocketProtocol, handshake
from treecast.serve.memory import give_back_memory

OTHER_FILES = 1_000
"""Beside connections: those of the store, of imports, of the other doors. Where few are allowed, half of them."""

DIRECT_URL = b"/v1/documents"
DIRECT_NEVER = frozenset((b"content-encoding", b"transfer-encoding", b"expect"))
"""Headers of requests that go through ASGI, which knows what to do about them."""
SOCKET_URL = b"/v1/socket"
MANY_CONNECTIONS = 1_000
"""When half of so many or more have been closed, their memory is given back."""
BLANK_LINE = b"\r\n\r\n"
"""Ends every header, and every body in chunks."""


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


class Cycle(RequestResponseCycle):
    """A request that is answered through ASGI."""

    _ends_with_connection = False
    """HTTP/1.0 has no chunks: an answer whose length is not known ends when the connection is closed."""

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if self.scope["http_version"] == "1.0":
                self._ends_with_connection = all(name != b"content-length" for name, _ in message["headers"])
                self.chunked_encoding = False if self._ends_with_connection else None
        elif self._ends_with_connection:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)


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
        self._version = "1.1"
        self._line_bytes = 0
        """Of the header so far; in a body of chunks, of the lines between its bytes."""
        self._body_bytes_left: int | None = None
        """Of a body; None in a header, and in a body of chunks."""
        self._is_in_header = True
        self._is_over = False
        """Nothing more is read: a request was refused, or the connection belongs to a WebSocket."""
        self._has_begun = False
        self._answered_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
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
        self._let_be_freed()

    def _let_be_freed(self) -> None:
        """Forget what refers to this object: no garbage is left, of which a service that rests collects nothing."""
        nothing: Any = None
        self.parser = self.scope = self.headers = self.cycle = nothing
        self.pipeline.clear()

    # --- what arrives -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Read piece by piece: each header begins and ends with a piece, so its size is known however it arrives."""
        begin = 0
        while begin < len(data) and not (self._is_over or self.transport.is_closing()):
            end = self._piece_end(data, begin)
            self._read(data[begin:end])
            begin = end
        if self._is_held:  # its body is yet to come
            self._let_go()
        # Most headers arrive at once, and need no timer.
        if self._is_in_header and self._has_begun and not self._is_over and self._header_timer is None:
            self._begin_header()

    def _piece_end(self, data: bytes, begin: int) -> int:
        if self._body_bytes_left is not None:
            return min(len(data), begin + self._body_bytes_left)
        if self._line_bytes and begin < len(BLANK_LINE) - 1:
            return begin + 1  # the last piece may have ended in the middle of a blank line
        blank = data.find(BLANK_LINE, begin)
        return len(data) if blank < 0 else blank + len(BLANK_LINE)

    def _read(self, piece: bytes) -> None:
        """A piece that no header or body goes beyond."""
        bytes_max = self.settings.header_bytes_max
        if self._body_bytes_left is not None:
            self._body_bytes_left -= len(piece)
        else:
            self._line_bytes += len(piece)
        try:
            if self._is_in_header and self._line_bytes > bytes_max:
                raise _header_too_large(bytes_max)
            self.parser.feed_data(piece)
            if self._line_bytes > bytes_max:
                raise _header_too_large(bytes_max)
        except httptools.HttpParserUpgrade:
            self._answer_upgrade()
        except httptools.HttpParserError as error:
            reason = error.__context__  # what one of the methods below has raised
            self._refuse(reason if isinstance(reason, DoorError) else DoorError("this is not HTTP", code="TC434"))
        except DoorError as error:
            self._refuse(error)

    def _answer_upgrade(self) -> None:
        """Answer a header that asks for an upgrade. The parser has stopped behind it."""
        if self._is_for_socket():
            self.handle_websocket_upgrade()
            return
        # That parser takes the body for the other protocol. A new one gets the header without the field `upgrade`.
        line = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self._version.encode())
        fields = [b"%s: %s\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self._line_bytes = 0
        self._read(b"".join((line, *fields, b"\r\n")))

    # --- headers ------------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_header:  # trailers of a body in chunks are no headers
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        version = self._version = self.parser.get_http_version()
        fields = dict(self.headers)
        body_bytes = self._check_framing(version, fields)
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise DoorError("this is no proxy", code="TC431", status=501)
            return  # `_answer_upgrade` comes next
        self.expect_100_continue = version != "1.0" and fields.get(b"expect", b"").lower() == b"100-continue"
        self._is_in_header = self._has_begun = False
        self._line_bytes = 0
        self._body_bytes_left = body_bytes
        self._end_header()
        if self.url == DIRECT_URL and self._is_direct(fields):
            self._is_held = True
        else:
            self._begin_asgi()

    def _check_framing(self, version: str, fields: dict[bytes, bytes]) -> int | None:
        """The bytes of the body, None if it is in chunks. Raises DoorError for what others could read otherwise.

        The parser has refused two lengths, a length with chunks, folded lines and line ends that are not CR LF.
        """
        if version not in ("1.0", "1.1"):
            raise DoorError(f"HTTP/{version} is not spoken here", code="TC434", hint="send HTTP/1.1", status=505)
        if len(fields) != len(self.headers):
            names = [name for name, _ in self.headers]
            for once in (b"host", b"transfer-encoding"):
                if (count := names.count(once)) > 1:
                    raise DoorError(f"the header {once.decode()} is there {count} times", code="TC434")
        encoding = fields.get(b"transfer-encoding")
        if encoding is None:
            return int(fields.get(b"content-length", 0))
        if encoding.lower() != b"chunked":
            hint = "send Transfer-Encoding: chunked, or Content-Length"
            raise DoorError("a transfer encoding other than chunked", code="TC435", hint=hint, status=501)
        if version == "1.0":
            raise DoorError("HTTP/1.0 has no chunks", code="TC434", hint="send Content-Length, or HTTP/1.1")
        return None

    def _begin_asgi(self) -> None:
        """Answer through ASGI, when the requests before it are answered. Raises DoorError if the address is no text."""
        url = httptools.parse_url(self.url)
        scope = cast(Scope, self.scope)
        scope.update(
            method=self.parser.get_method().decode(),
            http_version=self._version,
            path=_decode(url.path or b"/", "path"),
            raw_path=url.path or b"/",
            query_string=url.query or b"",
            connection=self,
        )
        _decode(url.query or b"", "query")
        before = self.cycle
        self.cycle = Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=self._version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        self._line_bytes = 0
        if self._is_held:
            self._held_body = self._held_body + body if self._held_body else body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._is_in_header = True
        self._line_bytes = 0
        self._body_bytes_left = None
        if self._is_held:
            self._answer_directly()
        else:
            super().on_message_complete()

    def _begin_header(self) -> None:
        self._header_timer = self.loop.call_later(self.settings.header_ms / 1000, self._header_is_late)

    def _end_header(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _header_is_late(self) -> None:
        self._header_timer = None
        if self._line_bytes or self.cycle is not None:
            self._refuse(DoorError("the header did not arrive in time", code="TC433"))
        else:
            self.transport.close()

    def _refuse(self, error: TreecastError) -> None:
        """Answer what is no request, and close. Requests before it that arrived as a whole are answered first."""
        if self.transport.is_closing():
            return
        self._is_over = True
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

    def _is_direct(self, fields: dict[bytes, bytes]) -> bool:
        """Whether this request may be answered directly, if the rest of it is there too."""
        cycle = self.cycle
        if self.door is None or self.parser.get_method() != b"POST" or (cycle and not cycle.response_complete):
            return False
        return DIRECT_NEVER.isdisjoint(fields)

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
        is_lasting = self._version != "1.0" and self.parser.should_keep_alive()
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

    def _is_for_socket(self) -> bool:
        """Whether the header is the handshake of a WebSocket. Anything else that has a body is read with its body."""
        if self.door is None or self.parser.get_method() != b"GET" or self.url.partition(b"?")[0] != SOCKET_URL:
            return False
        fields = dict(self.headers)
        has_body = self._check_framing(self._version, fields) != 0
        return not has_body and fields[b"upgrade"].lower() == b"websocket"

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, or refuse. Whatever else the client has sent before our answer is dropped."""
        assert self.door is not None
        try:
            if self.cycle is not None and not self.cycle.response_complete:
                raise DoorError("a handshake before the last answer", code="TC434")
            query = self.url.partition(b"?")[2]
            _decode(query, "query")
            opening = self.door.open_socket({"type": "websocket", "headers": self.headers, "query_string": query})
            answer = handshake(self.url.decode("latin-1"), self.headers, self.settings)
        except TreecastError as error:
            self._refuse(error)
            return
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self._is_over = True
        self._end_header()
        self._end_stall()
        self.connections.discard(self)
        SocketProtocol(self.settings, self.door.bodies, self.connections).start(self.transport, answer, opening)
        self._let_be_freed()

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
        """Write a chunk of an answer that ASGI has begun, if it has chunks and nothing waits to be written before."""
        if self.flow.write_paused or self.transport.is_closing() or not self.cycle.chunked_encoding:
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


def _decode(text: bytes, part: str) -> str:
    """A part of a URL as text. Raises DoorError."""
    try:
        return unquote_to_bytes(text).decode() if b"%" in text else text.decode()
    except UnicodeDecodeError:
        raise DoorError(f"the {part} of the URL is not UTF-8", code="TC434") from None


def _header_too_large(bytes_max: int) -> DoorError:
    hint = "send shorter headers; the service allows more with door.header_bytes_max"
    return DoorError(f"the header has more than {bytes_max} bytes", code="TC432", hint=hint, status=431)


class _Server(uvicorn.Server):
    """Signals are for whoever runs the process, and connections are accepted by us."""

    policy: AcceptPolicy
    log: structlog.typing.FilteringBoundLogger
    _acceptor: Acceptor | None = None
    _connections = _most_connections = 0
    """At the last look, and the most since memory was given back."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self._acceptor = Acceptor(self._make_protocol, self.server_state.connections, self.policy, self.log)
        for listening in sockets or ():
            self._acceptor.accept(listening)

    async def on_tick(self, counter: int) -> bool:
        before, self._connections = self._connections, len(self.server_state.connections)
        most = self._most_connections = max(self._most_connections, self._connections)
        if most >= MANY_CONNECTIONS and before <= self._connections <= most // 2:  # and no more are being closed
            self._most_connections = self._connections
            give_back_memory()
        return await super().on_tick(counter)

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


def allow_files(count: int) -> int:
    """Let this process have so many files open, as far as the system permits: many start with 1,024. Returns how many
    of these it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < new_limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
    return new_limit


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
        files = allow_files(settings.connections_max + OTHER_FILES)
        connections_max = min(settings.connections_max, max(files - OTHER_FILES, files // 2))
        if connections_max < settings.connections_max:
            log.info("fewer connections than connections_max", connections=connections_max, open_files=files)
        self._server.policy = AcceptPolicy(
            connections_max=connections_max,
            handshake_ms=settings.handshake_ms,
            shutdown_ms=settings.stop_ms,
            context=lambda: certificate.context if certificate is not None else None,
            logs_failures=False,
        )

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Returns the address; port 0 takes a free one. Raises TransportError TC408."""
        self._socket = bind(host, port)
        return address_of(self._socket)

    async def run(self) -> None:
        assert self._socket is not None
        await self._server.serve([self._socket])

    def stop(self) -> None:
        self._server.should_exit = True
