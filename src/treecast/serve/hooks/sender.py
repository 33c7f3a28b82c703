"""Requests to URLs that strangers have named: they reach no internal address, end in time, and follow nothing.

For each new connection a name is looked up once. What it means is checked by `AddressRules`, and one of these very
addresses is connected to; the last check is made where the socket is. The name stays what the server is asked for and
what its certificate must say. Proxies of the environment are ignored: they would make the connection instead of us. A
redirect is an answer like any other: to follow it is a request that nobody has asked for.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from treecast.errors import AccessError
from treecast.serve.connection import now_ms, steady_ms
from treecast.serve.doors.problems import DoorError
from treecast.serve.hooks.addresses import AddressRules
from treecast.serve.hooks.hook_error import AttemptError, refused_address
from treecast.serve.hooks.schedule import retry_after_ms
from treecast.serve.hooks.settings import HookSettings

USER_AGENT = "treecast"
SUCCESSES = range(200, 300)
BUSY = (429, 503)


class Outcome(msgspec.Struct, frozen=True):
    """What became of a request. `status` is 0 if there was no answer; `error` says what is wrong, or is empty."""

    status: int
    error: str = ""
    body: bytes = b""
    """Its beginning."""
    retry_after_ms: int = 0
    duration_ms: int = 0

    @property
    def is_success(self) -> bool:
        return not self.error


def check_url(text: str, chars_max: int) -> URL:
    """A URL that requests can be sent to. Raises DoorError TC441."""
    hint = "http:// or https://, a host, and no user or password"
    wrong = DoorError(f"the URL {text[:200]!r} cannot be used", code="TC441", hint=hint)
    if not 0 < len(text) <= chars_max or not text.isprintable() or " " in text:
        raise wrong
    try:
        url = URL(text)
        if url.scheme not in ("http", "https") or not url.host or url.user is not None or url.password is not None:
            raise wrong
        if not url.port or "@" in (url.raw_authority or ""):
            raise wrong
    except (ValueError, TypeError, UnicodeError):
        raise wrong from None
    return url.with_fragment(None)


class CheckedResolver(AbstractResolver):
    """Looks names up, and gives away only addresses that may be reached."""

    def __init__(self, rules: AddressRules, settings: HookSettings) -> None:
        self._rules = rules
        self._settings = settings
        # Of our own: names that are slow to look up must not use up the threads of others.
        self._threads = ThreadPoolExecutor(settings.resolvers_max, "hook names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises AccessError TC620, whether there is no address or none that is allowed."""
        loop = asyncio.get_running_loop()

        def look_up() -> list[tuple[Any, ...]]:
            return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)

        try:
            async with asyncio.timeout(self._settings.resolve_ms / 1000):
                results = await loop.run_in_executor(self._threads, look_up)
        except (OSError, UnicodeError, TimeoutError):
            results = []
        allowed_results = [
            ResolveResult(
                hostname=host,
                host=address[0],
                port=port,
                family=address_family,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address_family, _, proto, _, address in results
            if self._rules.is_allowed(address[0])
        ]
        if not allowed_results:
            raise refused_address(host)
        return allowed_results

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Sender:
    """Makes requests. `open` in the event loop, `close` at the end."""

    def __init__(self, settings: HookSettings) -> None:
        self._settings = settings
        self._rules = AddressRules(settings.allow)
        self._session: aiohttp.ClientSession | None = None
        self._resolver: CheckedResolver | None = None

    async def open(self) -> None:
        settings = self._settings
        self._resolver = CheckedResolver(self._rules, settings)
        connector = aiohttp.TCPConnector(
            limit=settings.connections_max,
            use_dns_cache=False,
            resolver=self._resolver,
            socket_factory=self._make_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(
                total=settings.attempt_ms / 1000, connect=None, sock_connect=settings.connect_ms / 1000
            ),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _make_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Where no name can deceive any more."""
        family, kind, protocol, _, address = info
        if not self._rules.is_allowed(str(address[0])):
            raise refused_address(str(address[0]))
        return socket.socket(family, kind, protocol)

    async def check_host(self, url: URL) -> None:
        """Whether a request could be sent there now. Raises AccessError TC620."""
        self._check_literal(url)
        assert self._resolver is not None
        if not _is_address(url.host or ""):
            await self._resolver.resolve(url.host or "", url.port or 0)

    def _check_literal(self, url: URL) -> None:
        """An address in the URL itself is never looked up."""
        host = url.host or ""
        if _is_address(host) and not self._rules.is_allowed(host):
            raise refused_address(host)

    async def send(self, method: str, url: URL, headers: dict[str, str], body: bytes = b"") -> Outcome:
        """Never raises, except when it is cancelled."""
        assert self._session is not None
        begin = steady_ms()
        try:
            self._check_literal(url)
            async with self._session.request(
                method, url, data=body if method == "POST" else None, headers=headers, allow_redirects=False
            ) as response:
                excerpt = await self._read(response)
                asked_ms = 0
                if response.status in BUSY:
                    asked_ms = retry_after_ms(response.headers.get("retry-after", ""), now_ms())
                error = "" if response.status in SUCCESSES else str(AttemptError(f"it answered {response.status}"))
                return Outcome(response.status, error, excerpt, asked_ms, steady_ms() - begin)
        except AccessError as refused:
            error = str(refused).partition("\n")[0]
        except TimeoutError:
            error = str(AttemptError("it did not answer in time"))
        except Exception as failure:  # whatever it was: who sends has to know that it was not received
            cause = failure.__cause__
            if isinstance(cause, AccessError):
                error = str(cause).partition("\n")[0]
            else:
                error = str(AttemptError(f"it cannot be reached ({type(failure).__name__})"))
        return Outcome(0, error, duration_ms=steady_ms() - begin)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """The beginning of the body. If there is more, or if it does not come, the connection is not used again."""
        parts: list[bytes] = []
        room = self._settings.response_bytes_max
        try:
            async with asyncio.timeout(self._settings.response_ms / 1000):
                while room > 0 and (part := await response.content.read(room)):
                    parts.append(part)
                    room -= len(part)
        except (TimeoutError, aiohttp.ClientError):
            response.close()
        if not response.content.at_eof():
            response.close()
        return b"".join(parts)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
