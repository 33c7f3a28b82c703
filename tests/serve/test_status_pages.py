"""The pages for those who watch: metrics, health, readiness, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from treecast.serve.logs import make_log
from treecast.serve.metrics import Metrics
from treecast.serve.status_pages import StatusPages

pytestmark = pytest.mark.house


async def fetch(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def test_pages() -> None:
    async def run() -> None:
        is_ready = False
        pages = StatusPages(Metrics(lambda: {"queued": 7}), lambda: is_ready, make_log("json", "error"))
        _, port = pages.listen("127.0.0.1", 0)
        metrics = await fetch(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert metrics.startswith(b"HTTP/1.1 200 OK\r\n") and b"treecast_peer_queued 7.0\n" in metrics
        assert (await fetch(port, b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nalive\n")
        assert b"503" in await fetch(port, b"GET /readyz HTTP/1.1\r\n\r\n")
        is_ready = True
        assert b"200 OK" in await fetch(port, b"GET /readyz?full HTTP/1.1\r\n\r\n")
        assert (await fetch(port, b"HEAD /readyz HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\n")
        assert b"404" in await fetch(port, b"GET / HTTP/1.1\r\n\r\n")
        assert b"405" in await fetch(port, b"POST /metrics HTTP/1.1\r\n\r\n")
        assert await fetch(port, b"x" * 100_000) == b""
        await pages.close()

    asyncio.run(run())
