"""A connection that carries frames, and what it asks of its transport."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import pytest
import trustme

from treecast.overlay.frames import FRAME_BYTES_MAX, FrameDecoder
from treecast.overlay.messages import Hello
from treecast.overlay.onyx.network_messages import Forward, Parcel
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.packets import Packet, packet_of
from treecast.serve.connection import FrameConnection
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls_transport import TlsTransport, start_tls

pytestmark = pytest.mark.house


class Owner:
    """Keeps what came."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []

    def opened(self, connection: FrameConnection) -> None: ...

    def received(self, connection: FrameConnection, packets: list[Packet], size: int) -> None:
        self.packets += packets

    def closed(self, connection: FrameConnection, error: Exception | None) -> None: ...


class PlainTransport(asyncio.Transport):
    """As the sockets of asyncio in Python 3.12.0 to 3.12.8: who uses `writelines` is never told to pause."""

    def __init__(self, protocol: FrameConnection) -> None:
        super().__init__()
        self.waiting = bytearray()
        self._protocol = protocol
        self._high = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.waiting += data
        if len(self.waiting) > self._high:
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.waiting += data


def forward(number: int, size: int) -> Packet:
    documents = Parcels.of([Parcel(number, "s", "", 0, "text", b"x" * size)]).packed
    return packet_of(Forward("r", "s", 1, 7, 3, number - 1, number, documents))


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_plain_connection_is_told_when_the_other_side_does_not_read(size: int) -> None:
    connection = FrameConnection(Owner(), RuntimeSettings(send_bytes_max=400_000), FRAME_BYTES_MAX)
    transport = PlainTransport(connection)
    connection.connection_made(transport)
    packets = [packet_of(Hello("x")), *(forward(number, size) for number in range(1, 4_000_000 // (size + 90)))]
    sent = 0
    for packet in packets:
        if not connection.can_send:
            break
        assert connection.send([packet]) > 0
        sent += 1
    assert sent < len(packets) and 400_000 < len(transport.waiting) < 400_000 + size + 1_000
    assert FrameDecoder().feed(bytes(transport.waiting)) == packets[:sent]
    assert connection.send(packets) == 0


def test_over_tls_documents_are_not_copied_and_what_is_before_them_uses_the_same_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("here").configure_cert(server)
    authority.configure_trust(client)
    written: list[list[Any]] = []
    write = TlsTransport.writelines

    def noted(transport: TlsTransport, parts: Any) -> None:
        written.append(list(parts))
        write(transport, written[-1])

    monkeypatch.setattr(TlsTransport, "writelines", noted)

    async def run() -> None:
        owner, packets = Owner(), [forward(1, 20_000), forward(2, 20_000)]
        here, there = (FrameConnection(one, RuntimeSettings(), FRAME_BYTES_MAX) for one in (Owner(), owner))
        first, second = socket.socketpair()
        with first, second:
            await asyncio.gather(
                start_tls(first, there, server, server_side=True),
                start_tls(second, here, client, server_hostname="here"),
            )
            for packet in packets:
                here.send([packet])
                async with asyncio.timeout(20):
                    while owner.packets != packets[: packets.index(packet) + 1]:
                        await asyncio.sleep(0.001)
            here.abort()
            there.abort()
            await asyncio.sleep(0)
        assert [parts[1] for parts in written] == [packet.message.documents for packet in packets]  # type: ignore[union-attr]
        assert all(parts[1] is packet.message.documents for parts, packet in zip(written, packets, strict=True))  # type: ignore[union-attr]
        assert written[0][0] is written[1][0]

    asyncio.run(run())
