"""The transport of frames over TLS, without frames: what arrives, who waits for whom, and how it ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from treecast.serve import tls_transport
from treecast.serve.tls_transport import LARGE_PIECE_BYTES, PIECE_BYTES, TlsTransport, start_tls

pytestmark = pytest.mark.house

AUTHORITY = trustme.CA()
SECONDS = 20


def context(*, is_server: bool) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    AUTHORITY.issue_cert("here").configure_cert(made)
    AUTHORITY.configure_trust(made)
    made.verify_mode = ssl.CERT_REQUIRED
    return made


class Side(asyncio.BufferedProtocol):
    """Keeps what it gets, in rooms of odd sizes."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.stalls = 0
        self.can_write = asyncio.Event()
        self.can_write.set()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._room = bytearray(1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsTransport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        self._room = bytearray(1 + (7 * len(self.received)) % 100_003)
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._room[:nbytes]

    def pause_writing(self) -> None:
        self.stalls += 1
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)

    async def get(self, count: int) -> bytes:
        async with asyncio.timeout(SECONDS):
            while len(self.received) < count:
                await asyncio.sleep(0.001)
        return bytes(self.received)

    async def end(self) -> Exception | None:
        async with asyncio.timeout(SECONDS):
            return await self.lost


@asynccontextmanager
async def connected(name: str = "here") -> AsyncIterator[tuple[Side, Side]]:
    first, second = socket.socketpair()
    server, client = Side(), Side()
    with first, second:
        await asyncio.gather(
            start_tls(first, server, context(is_server=True), server_side=True),
            start_tls(second, client, context(is_server=False), server_hostname=name),
        )
        yield server, client
        server.transport.abort()
        client.transport.abort()
        await asyncio.gather(server.end(), client.end())


def test_what_is_written_arrives_in_both_directions() -> None:
    async def run() -> None:
        async with connected() as (server, client):
            for size in (0, 1, 16_384, 70_000, 1_000_000):
                client.transport.write(bytes([size % 251]) * size)
                server.transport.write(bytes([size % 241]) * size)
            there, back = await server.get(1_086_385), await client.get(1_086_385)
            assert [there.count(bytes([size % 251])) for size in (16_384, 70_000)] == [16_384, 70_000]
            assert back.endswith(bytes([1_000_000 % 241]) * 1_000_000)
            assert client.transport.get_extra_info("peercert")["subjectAltName"] == (("DNS", "here"),)

    asyncio.run(run())


def test_who_does_not_read_makes_the_other_wait_and_nothing_is_lost() -> None:
    async def run() -> None:
        async with connected() as (server, client):
            server.transport.pause_reading()
            client.transport.set_write_buffer_limits(high=100_000, low=10_000)
            data = bytearray()
            while client.can_write.is_set():
                part = bytearray(len(data).to_bytes(4, "big") * 10_000)
                data += part
                client.transport.write(part)
                part.clear()  # nobody refers to it
            assert client.stalls == 1 and client.transport.get_write_buffer_size() > 100_000
            await asyncio.sleep(0.01)
            assert not server.received and not server.transport.is_reading()
            server.transport.resume_reading()
            assert await server.get(len(data)) == data
            await asyncio.wait_for(client.can_write.wait(), SECONDS)
            assert client.transport.get_write_buffer_size() == 0

    asyncio.run(run())


def test_the_last_words_arrive_although_the_other_side_goes_on() -> None:
    async def run() -> None:
        async with connected() as (server, client):
            client.transport.pause_reading()
            client.transport.write(b"x" * 300_000)
            server.transport.write(b"the last words")
            server.transport.close()
            server.transport.write(b"nor this")
            client.transport.write(b"y" * 300_000)
            client.transport.resume_reading()
            assert await client.get(14) == b"the last words"
            assert await client.end() is None
            assert await server.end() is None
            assert server.transport.is_closing() and client.transport.is_closing()

    asyncio.run(run())


def test_who_reads_nothing_can_end_too() -> None:
    async def run() -> None:
        async with connected() as (server, client):
            server.transport.pause_reading()
            client.transport.write(b"x" * 1_000_000)
            server.transport.close()
            assert await client.end() is None
            assert await server.end() is None
            assert not server.received

    asyncio.run(run())


def test_a_connection_that_is_cut_off_ends() -> None:
    async def run() -> None:
        async with connected() as (server, client):
            client.transport.write(b"before")
            await server.get(6)
            client.transport.abort()
            await client.end()
            error = await server.end()
            assert error is None or isinstance(error, OSError)

    asyncio.run(run())


def test_who_does_not_end_has_so_long() -> None:
    async def run() -> None:
        first, second = socket.socketpair()
        with first, second:
            server, client = Side(), Side()
            await asyncio.gather(
                start_tls(first, server, context(is_server=True), server_side=True, shutdown_s=0.05),
                start_tls(second, client, context(is_server=False), server_hostname="here"),
            )
            client.transport.pause_reading()  # it does not hear that nothing follows
            server.transport.close()
            assert await server.end() is None
            client.transport.abort()
            await client.end()

    asyncio.run(run())


def test_damaged_bytes_end_a_connection_with_an_error() -> None:
    async def run() -> None:
        async with connected() as (server, client):
            client.transport.write(b"before")
            await server.get(6)
            client.transport.get_extra_info("socket").send(b"\x17\x03\x03\x00\x20" + bytes(32))
            assert isinstance(await server.end(), ssl.SSLError)
            assert server.received == b"before"

    asyncio.run(run())


def test_a_handshake_needs_the_right_name_and_has_so_long() -> None:
    async def run() -> None:
        first, second = socket.socketpair()
        with first, second:
            server, client = Side(), Side()
            results = await asyncio.gather(
                start_tls(first, server, context(is_server=True), server_side=True),
                start_tls(second, client, context(is_server=False), server_hostname="elsewhere"),
                return_exceptions=True,
            )
            assert isinstance(results[1], ssl.SSLCertVerificationError)
            assert isinstance(results[0], ssl.SSLError)  # it is told
        first, second = socket.socketpair()
        with first, second:
            with pytest.raises(ConnectionAbortedError, match=r"longer than 0\.05 seconds"):
                await start_tls(first, Side(), context(is_server=True), server_side=True, handshake_s=0.05)
            second.close()
            with pytest.raises(ConnectionResetError):
                await start_tls(first, Side(), context(is_server=True), server_side=True)

    asyncio.run(run())


def test_parts_arrive_as_one_and_small_ones_leave_with_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    flush = TlsTransport._flush

    def counted(transport: TlsTransport) -> None:
        sizes.append(transport._outgoing.pending)
        flush(transport)

    async def run() -> None:
        async with connected() as (server, client):
            monkeypatch.setattr(TlsTransport, "_flush", counted)
            large = bytes(range(256)) * 5_000
            server.transport.writelines([b"begin", bytearray(b" of "), memoryview(large), b"", b"end"])
            expected = b"begin of " + large + b"end"
            assert await client.get(len(expected)) == expected
            assert len(sizes) == len(large) // LARGE_PIECE_BYTES + 1, "neither the beginning nor the end left alone"

    asyncio.run(run())


def test_large_pieces_are_for_some_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them keeps memory of that size."""
    monkeypatch.setattr(tls_transport, "_large", threading.BoundedSemaphore(1))
    data = bytes(range(256)) * 5_000

    async def sizes_of(count: int) -> set[int]:
        async with connected() as (server, client):
            server.transport.write(b"small")
            assert server.transport._piece_bytes == PIECE_BYTES
            server.transport.write(data)
            assert await client.get(5 + len(data)) == b"small" + data
            return {server.transport._piece_bytes, *(await sizes_of(count - 1) if count > 1 else ())}

    async def run() -> None:
        assert await sizes_of(1) == {LARGE_PIECE_BYTES}
        await asyncio.sleep(0)
        assert await sizes_of(2) == {LARGE_PIECE_BYTES, PIECE_BYTES}, "the first has given its place back"

    asyncio.run(run())
