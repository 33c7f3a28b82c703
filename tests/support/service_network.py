"""A running `treecast up --brokers`: asked at its door, its processes killed by name."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.quick_process import PIPE, QuickProcess

WAIT_SECONDS = 60
BUSY = 503


class Network:
    """A running `treecast up --brokers`."""

    def __init__(self, process: QuickProcess, port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    def ask(self, method: str, path: str, body: str | bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Again while the door says so: that is safe, as documents have ids."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            if answer.status != BUSY or time.monotonic() > end:
                return answer.status, json.loads(data) if data else None
            time.sleep(0.05)

    def pids(self) -> dict[str, int]:
        """Of the processes as they were started last."""
        rows = map(json.loads, self._log.read_text().splitlines())
        return {row["name"]: row["pid"] for row in rows if row["event"] == "a process serves"}

    def addresses(self) -> dict[str, str]:
        """For peers of these processes."""
        rows = map(json.loads, self._log.read_text().splitlines())
        return {row["name"]: row["address"] for row in rows if row["event"] == "a process serves"}

    def kill(self, name: str) -> None:
        """And wait until another one serves in its place."""
        before = self.pids()[name]
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: self.pids()[name] != before)

    def stream(self, subscription: str, payload_by_delivery: dict[str, str]) -> Callable[[], None]:
        """Read events into `seen` in a thread, until the answer is called, which ends the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        connection.request("GET", f"/v1/events?subscription={subscription}")
        open_socket = connection.sock
        answer = connection.getresponse()
        assert answer.status == 200

        def read() -> None:
            with suppress(OSError, ValueError, AttributeError):  # what a response does whose connection is closed
                for line in answer:
                    if line.startswith(b"data: "):
                        event = json.loads(line[6:])
                        payload_by_delivery[event["delivery"]] = event["payload"]

        threading.Thread(target=read, daemon=True).start()
        # Closing it would wait for the thread that reads, until the next sign of life of the server.
        return lambda: open_socket.shutdown(socket.SHUT_RDWR)


def wait_for(condition: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def running(directory: Path, brokers: int, *options: str) -> Iterator[Network]:
    log = directory / "log"
    with log.open("w") as errors:
        arguments = ("--data", str(directory / "data"), "--listen", "127.0.0.1:0", "--brokers", str(brokers))
        process = QuickProcess(["-m", "treecast", "up", *arguments, *options], stdout=PIPE, stderr=errors)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), log.read_text()
        yield Network(process, int(line.rpartition(":")[2]), log)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(20)
