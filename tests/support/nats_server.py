"""A NATS server with JetStream on loopback, for tests, where Debian's nats-server is installed.

The fixture `nats_address` is None where it is not; tests then say what they leave out. `consume` reads a JetStream
stream to its end.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

LEFT_OUT = "deliveries to NATS JetStream: nats-server is not installed (Debian: nats-server)"
PATIENCE_SECONDS = 60


class Consumed(NamedTuple):
    """A message as a consumer sees it."""

    subject: str
    id: str
    payload: bytes
    headers: dict[str, str]


def program() -> str | None:
    return shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")


@pytest.fixture(scope="session")
def nats_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """nats://127.0.0.1:…, or None."""
    server = program()
    if server is None:
        yield None
        return
    directory = tmp_path_factory.mktemp("nats")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    command = [server, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(directory), "-l", str(directory / "log")]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        wait_for_server(process, port, directory / "log")
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait_for_server(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)


def make_stream(address: str, name: str, subject: str) -> None:
    """A JetStream stream that forgets ids at once, so that what is published twice is there twice."""

    async def make() -> None:
        import nats
        from nats.js.api import StreamConfig

        client = await nats.connect(address)
        config = StreamConfig(name=name, subjects=[f"{subject}.>"], duplicate_window=0.1)
        await client.jetstream().add_stream(config)
        await client.close()

    asyncio.run(make())


def consume(address: str, name: str) -> list[Consumed]:
    """All messages of a stream, in order, with repetitions."""

    async def read() -> list[Consumed]:
        import nats

        client = await nats.connect(address)
        context = client.jetstream()
        state = (await context.stream_info(name)).state
        messages = []
        for number in range(state.first_seq, state.last_seq + 1):
            message = await context.get_msg(name, number)
            headers = message.headers or {}
            messages.append(Consumed(message.subject or "", headers["Nats-Msg-Id"], message.data or b"", dict(headers)))
        await client.close()
        return messages

    return asyncio.run(read())
