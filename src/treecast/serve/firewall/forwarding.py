"""Sends documents to back ends, and reads what they answer: in time, up to a size, and following nothing.

Back ends are named by the operator, so they may have any address. What a client has sent along reaches them only as far
as it is on a list of harmless headers; its token never does.
"""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import msgspec
from yarl import URL

from treecast.serve.doors.calls import Call
from treecast.serve.doors.problems import DoorError
from treecast.serve.firewall.backend import Backend
from treecast.serve.firewall.settings import FirewallSettings

USER_AGENT = "treecast"
CORRELATION = "Treecast-Correlation-Id"
PASSED_ON = ("content-type", "soapaction", "accept", "accept-language", "x-request-id", "traceparent", "tracestate")
"""Headers of a request that back ends get."""
PASSED_BACK = ("content-language", "content-encoding", "retry-after")
"""Headers of an answer that the client gets, beside its type."""
VALUE_CHARS_MAX = 2_000
OVERLOADED = (502, 503, 504)
"""Answers of servers in front of others: a back end that gives one has failed, too."""


class Request(msgspec.Struct, frozen=True):
    """What is sent."""

    body: bytes
    headers: dict[str, str]


class Outcome(msgspec.Struct, frozen=True):
    """What became of a request. `error` is empty if there is an answer that counts."""

    backend: str
    status: int = 0
    error: str = ""
    body: bytes = b""
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    is_sent: bool = True
    """The back end may have received the document."""


class Forwarder:
    """`open` in the event loop, `close` at the end."""

    def __init__(self, settings: FirewallSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        settings = self._settings
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=settings.keep_alive_ms / 1000),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_ms / 1000),
        )

    async def close(self) -> None:
        if self._session is not None:
            try:
                async with asyncio.timeout(self._settings.stop_ms / 1000):
                    await self._session.close()
            except TimeoutError:
                pass

    async def send(self, backend: Backend, request: Request, context: ssl.SSLContext) -> Outcome:
        """Never raises, except when it is cancelled."""
        assert self._session is not None
        try:
            async with (
                asyncio.timeout(backend.answer_ms / 1000),
                self._session.post(
                    backend.url, data=request.body, headers=request.headers, allow_redirects=False, ssl=context
                ) as response,
            ):
                return await self._read(backend, response)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return Outcome(backend.name, error=f"cannot be reached ({type(error).__name__})", is_sent=False)
        except TimeoutError:
            return Outcome(backend.name, error="did not answer in time")
        except Exception as error:  # whatever it was: who dispatches has to know that there is no answer
            return Outcome(backend.name, error=f"gave no usable answer ({type(error).__name__})")

    async def _read(self, backend: Backend, response: aiohttp.ClientResponse) -> Outcome:
        status = response.status
        if not 200 <= status < 600 or 300 <= status < 400:
            response.close()
            return Outcome(backend.name, status, f"answered {status}, which is not followed")
        parts: list[bytes] = []
        room = self._settings.answer_bytes_max
        while part := await response.content.read(1 << 16):
            parts.append(part)
            room -= len(part)
            if room < 0:
                response.close()
                return Outcome(backend.name, status, f"answered more than {self._settings.answer_bytes_max:,} bytes")
        headers = [(name, response.headers.get(name, "")) for name in PASSED_BACK]
        return Outcome(
            backend.name,
            status,
            f"answered {status}" if status in OVERLOADED else "",
            b"".join(parts),
            _plain(response.headers.get("content-type", "")) or "application/octet-stream",
            tuple((name, value) for name, value in headers if _plain(value)),
        )

    async def check(self, url: URL, context: ssl.SSLContext) -> bool:
        """Whether a back end says that it is well."""
        assert self._session is not None
        try:
            async with (
                asyncio.timeout(self._settings.check_answer_ms / 1000),
                self._session.get(url, allow_redirects=False, ssl=context) as response,
            ):
                return 200 <= response.status < 300
        except Exception:
            return False


def _plain(value: str) -> str:
    """A value that may stand in a header of ours, or nothing."""
    return value if value.isascii() and value.isprintable() and len(value) <= VALUE_CHARS_MAX else ""


def request_headers(call: Call, extra: list[str], source: str, correlation: str) -> dict[str, str]:
    """Those that back ends get. Raises DoorError TC434: one is there twice, or holds what no header may hold."""
    headers = {"Content-Type": "application/xml", "Treecast-Source": source, CORRELATION: correlation}
    for name in (*PASSED_ON, *(one.lower() for one in extra)):
        value = call.header(name.encode())
        if not value:
            continue
        if not value.isprintable() or len(value) > VALUE_CHARS_MAX:
            raise DoorError(f"the header {name} cannot be passed on", code="TC434")
        headers["Content-Type" if name == "content-type" else name] = value
    return headers
