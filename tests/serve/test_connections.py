"""Connections: strangers, floods, those that do not read, those that say nothing, and limits on all of them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from support.served_broker import Stranger, eventually, served, stranger, take

from treecast.overlay.frames import encode
from treecast.overlay.messages import (
    Attach,
    Continue,
    Detach,
    Durable,
    Flow,
    Hello,
    IndexSaved,
    Publish,
    Request,
    SetRecord,
    Welcome,
)
from treecast.overlay.packets import packet_of
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import TlsFiles
from treecast.serve.transport_error import TransportError

pytestmark = pytest.mark.house


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "TC401"),
        (b"\0" * 100, "TC401"),
        (b"tc\x01\0" + b"\xff" * 12, "TC403"),
        (encode([packet_of(Flow("s", 0, 1))])[0], "TC406"),
        (encode([packet_of(Hello("broker"))])[0], "TC406"),
        (encode([packet_of(Hello(""))])[0], "TC406"),
        (encode([packet_of(Hello("x", version=99))])[0], "TC406"),
        (encode([packet_of(Hello("x")), packet_of(Hello("y"))])[0], "TC406"),
        *(
            (encode([packet_of(Hello("x")), packet_of(own)])[0], "TC406")
            for own in (Durable(9), Continue(), IndexSaved(1), Request(1, SetRecord("tokens", "mine", b"")))
        ),
        (encode([packet_of(Request(1, Publish("s" * 900, []))) for _ in range(20)])[0], "TC402"),  # large, before Hello
    ],
)
def test_bytes_that_do_not_belong_here_close_their_connection_and_no_other(
    tmp_path: Path, data: bytes, code: str
) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice") as alice:
            await alice.register_source("s")
            other = await stranger(box.address)
            other.writer.write(data)
            assert code in (await other.next(Detach)).reason
            assert await other.is_closed()
            assert await alice.publish("s", [b"<a/>"]) == [1]
            assert box.metric("failures_total") == 0

    asyncio.run(run())


def test_a_frame_that_is_too_large_is_refused_before_it_arrives(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(frame_bytes_max=10_000)) as box:
            other = await stranger(box.address)
            await other.hello("x")
            (frame,) = encode([packet_of(Request(1, Publish("s", []))) for _ in range(1)])
            (large,) = encode([packet_of(Hello("y" * 900)) for _ in range(20)])
            other.writer.write(frame + large[:16])
            assert "TC402" in (await other.next(Detach)).reason

    asyncio.run(run())


def test_a_large_frame_may_come_together_with_the_one_that_says_whose_it_is(tmp_path: Path) -> None:
    """As from a broker that has to tell another one of a thousand subscriptions as soon as they are connected."""

    async def run() -> None:
        async with served(tmp_path) as box:
            other = await stranger(box.address)
            (hello,) = encode([packet_of(Hello("x", nonce=7))])
            (large,) = encode([packet_of(Request(n, Publish("s" * 900, []))) for n in range(1, 21)])
            small = b"".join(encode([packet_of(Hello("x", nonce=8))]))
            assert len(large) > RuntimeSettings().hello_bytes_max
            other.writer.write(hello + large + small)
            assert {(await other.next(Welcome)).nonce for _ in range(2)} == {7, 8}
            other.close()

    asyncio.run(run())


def test_a_client_that_comes_back_replaces_its_old_connection(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box:
            old = await stranger(box.address)
            first = await old.hello("alice")
            new = await stranger(box.address)
            new.send(Hello("alice", nonce=2))
            second = await new.next(Welcome)
            assert second.lease != first.lease
            assert await old.is_closed()
            assert box.metric("connections_closed_total", reason="replaced") == 1
            new.close()

    asyncio.run(run())


def test_connections_are_limited(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(connections_max=2)) as box:
            one, two = await stranger(box.address), await stranger(box.address)
            await one.hello("one")
            await two.hello("two")
            three = await stranger(box.address)
            assert "too many connections" in (await three.next(Detach)).reason
            assert await three.is_closed()
            with pytest.raises(TransportError, match="too many connections"):
                async with box.connect("four", connect_s=0.3):
                    pass
            one.close()
            await eventually(lambda: box.metric("connections") == 1)
            async with box.connect("four"):
                pass
            two.close()

    asyncio.run(run())


def test_connections_that_fail_in_their_handshake_leave_room_for_others(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(connections_max=1)) as box:
            for number in range(5):
                async with box.connect(f"x{number}", connect_s=20):
                    pass
            authority = trustme.CA()
            authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "tls.pem")
        files = TlsFiles(certificate=str(tmp_path / "tls.pem"))
        async with served(tmp_path / "other", RuntimeSettings(connections_max=1), tls=files) as box:
            for _ in range(5):
                other = await stranger(box.address)
                other.writer.write(b"no TLS at all, and so on")
                assert await other.is_closed()
            context = ssl.create_default_context()
            authority.configure_trust(context)
            async with box.connect("alice", tls=context, connect_s=20):
                pass

    asyncio.run(run())


def test_two_clients_of_one_name_do_not_fight_without_a_pause(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path) as box, box.connect("alice"), box.connect("alice"):
            await asyncio.sleep(1)
            assert box.metric("connections_closed_total", reason="replaced") < 12

    asyncio.run(run())


def test_who_does_not_say_its_name_in_time_is_closed(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(handshake_ms=50)) as box:
            silent, slow = await stranger(box.address), await stranger(box.address)
            slow.writer.write(b"tc")  # and then nothing more
            assert await silent.is_closed() and await slow.is_closed()
            assert box.metric("connections_closed_total", reason="handshake") == 2

    asyncio.run(run())


def test_who_says_nothing_for_long_is_closed(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(idle_ms=50)) as box:
            idle = await stranger(box.address)
            await idle.hello("idle")
            assert await idle.is_closed()
            assert box.metric("connections_closed_total", reason="idle") == 1

    asyncio.run(run())


def test_incomplete_frames_cannot_fill_memory(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, RuntimeSettings(partial_bytes_max=100_000)) as box, box.connect("alice") as alice:
            header = bytearray(encode([packet_of(Detach("x", "y" * 200_000))])[0])
            others = [await stranger(box.address) for _ in range(3)]
            for number, other in enumerate(others):
                await other.hello(f"x{number}")
                other.writer.write(bytes(header[:60_000]))
            await eventually(lambda: box.metric("connections_closed_total", reason="partial") == 2)
            await alice.register_source("s")
            others[0].close()

    asyncio.run(run())


async def never_reading(address: str, name: str) -> Stranger:
    """A connection with small buffers, so that what it does not read stays with the broker."""
    host, port = address.rsplit(":", 1)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=raw, limit=2_048)
    other = Stranger(reader, writer)
    await other.hello(name)
    return other


def test_a_client_that_does_not_read_is_in_nobodys_way(tmp_path: Path) -> None:
    """It is sent nothing more once its buffer is full; others get everything; in the end it is closed."""

    async def run() -> None:
        settings = RuntimeSettings(send_bytes_max=100_000, stalled_ms=300)
        async with served(tmp_path, settings) as box, box.connect("alice") as alice:
            await alice.register_source("s")
            await alice.subscribe("q", "/a")
            await alice.subscribe("stalled", "/a")
            other = await never_reading(box.address, "stalled")
            other.send(Attach("stalled.1", ["stalled"], 1_000))
            taking = asyncio.create_task(take(alice, ["q"], 100))
            for _ in range(10):
                await alice.publish("s", [b"<a>%s</a>" % (b"x" * 100_000)] * 10)
                stalled = [one for names, one in box.runtime._by_name.items() if "stalled" in names]
                assert len(stalled) <= 1 and all(one.send_bytes < 100_000 + 3_000_000 for one in stalled)
            assert len(await taking) == 100
            await eventually(lambda: box.metric("connections_closed_total", reason="stalled") == 1)
            other.close()

    asyncio.run(run())
