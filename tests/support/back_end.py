"""Servers behind a firewall, for tests: each in its own thread, on a free port, and as bad as a test wants it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class BackEnd:
    """Answers every POST with its own name, unless it is told otherwise. `received` has path, headers and body."""

    name: str
    status: int = 200
    health: int = 200
    behaviour: str = ""
    """slow: never answers. endless, trickling: the answer never ends, fast or slowly. redirect. rude: closes."""
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    checks: int = 0
    port: int = 0
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}/in"

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.received]

    def start(self) -> BackEnd:
        """Again on the same port."""
        self._stop = asyncio.Event()
        self._ready.clear()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def stop(self) -> None:
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(20)
            self._thread = None

    def __enter__(self) -> BackEnd:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.close()

    async def _run(self) -> None:
        application = web.Application(client_max_size=1 << 26)
        application.router.add_get("/health", self._health)
        application.router.add_post("/{tail:.*}", self._post)
        runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True, ssl_context=self.tls)
        await site.start()
        self.port = self.port or runner.addresses[0][1]
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _health(self, request: web.Request) -> web.Response:
        self.checks += 1
        return web.Response(status=self.health)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        self.received.append((request.path, {k.lower(): v for k, v in request.headers.items()}, await request.read()))
        if self.behaviour == "slow":
            await asyncio.sleep(60)
        if self.behaviour == "redirect":
            return web.Response(status=307, headers={"Location": self.url})
        if self.behaviour == "rude":
            assert request.transport is not None
            request.transport.abort()
        if self.behaviour in ("endless", "trickling"):
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(bytes(65536 if self.behaviour == "endless" else 1))
                await asyncio.sleep(0.02)
        headers = {"Set-Cookie": "a=b", "X-Internal": "secret", "Content-Language": "en"}
        return web.Response(
            status=self.status, text=f"<from>{self.name}</from>", content_type="text/xml", headers=headers
        )
