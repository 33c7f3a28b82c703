"""Three pages over HTTP, for those who watch a broker: `/metrics`, `/healthz` and `/readyz`. Nothing else is served.

`/healthz` answers while the process lives. `/readyz` answers 200 if requests are served, and 503 while the broker
starts, stops, or waits for its disk. Keep the port away from strangers: there is no access control.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import structlog

from treecast.serve.acceptor import Acceptor, AcceptPolicy, address_of, bind
from treecast.serve.metrics import CONTENT_TYPE, Metrics

REQUEST_BYTES_MAX = 8_192
REQUEST_S_MAX = 5.0
REQUESTS_MAX = 32
"""Requests at the same time. Further ones are closed at once."""


class StatusPages:
    """A tiny HTTP server."""

    def __init__(
        self, metrics: Metrics, is_ready: Callable[[], bool], log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._metrics = metrics
        self._is_ready = is_ready
        self._busy: set[asyncio.BaseProtocol] = set()
        policy = AcceptPolicy(connections_max=REQUESTS_MAX, handshake_ms=0, context=lambda: None)
        self._acceptor = Acceptor(self._make_protocol, self._busy, policy, log)
        self._listening: socket.socket | None = None

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Returns the address; port 0 takes a free one. Raises TransportError TC408."""
        self._listening = bind(host, port)
        self._acceptor.accept(self._listening)
        return address_of(self._listening)

    async def close(self) -> None:
        await self._acceptor.close()
        if self._listening is not None:
            self._listening.close()

    def _make_protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(REQUEST_BYTES_MAX), self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = writer.transport.get_protocol()
        self._busy.add(protocol)
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            self._busy.discard(protocol)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _page("405 Method Not Allowed", b"only GET\n")
        if path == b"/metrics":
            return _page("200 OK", self._metrics.text(), CONTENT_TYPE, method == b"HEAD")
        if path == b"/healthz":
            return _page("200 OK", b"alive\n", is_head=method == b"HEAD")
        if path == b"/readyz":
            is_ready = self._is_ready()
            status = "200 OK" if is_ready else "503 Service Unavailable"
            return _page(status, b"ready\n" if is_ready else b"not ready\n", is_head=method == b"HEAD")
        return _page("404 Not Found", b"there are /metrics, /healthz and /readyz\n")


def _page(status: str, body: bytes, kind: str = "text/plain; charset=utf-8", is_head: bool = False) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (b"" if is_head else body)
