"""10,000 event streams: memory of each while nothing happens and when all are closed, and what one event to all costs.

The service is a process of its own; this one has the other ends. The memory is what the service's process has more than
with a few streams, by stream; what the kernel keeps for a connection is not in it. An event counts as sent when every
stream has it.

Bars: 20 KB a stream, 10 KB of it when it is closed, 0.5 s of the service's CPU for an event.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.broker_peers import cpu_seconds
from bench.broker_stalled import rss_mb
from bench.http import service
from bench.measure import Report, finish, options_of, run

STREAMS, FEW, EVENTS = 10_000, 50, 5
KB_MAX, CLOSED_KB_MAX, CPU_SECONDS_MAX = 20, 10, 0.5
REQUEST = b"GET /v1/events?subscription=all HTTP/1.1\r\nHost: here\r\n\r\n"
QUIET_S = 1.0
CLOSED_S = 3.0


class Readers:
    """Streams, read together."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._selector = selectors.DefaultSelector()
        self.count = 0

    def open(self, count: int) -> None:
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", self._port))
            connection.sendall(REQUEST)
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ)
        self.count += count
        self.wait(b"id: ", count)

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def wait(self, expected: bytes, count: int) -> None:
        """Until so many streams have got this."""
        seen: set[int] = set()
        while len(seen) < count:
            for key, _ in self._selector.select(60):
                if expected in key.fileobj.recv(1 << 16):  # type: ignore[union-attr]
                    seen.add(key.fd)


def ask(port: int, method: str, path: str, body: bytes) -> None:
    url = f"http://127.0.0.1:{port}{path}"
    urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=60).read()


def measure(report: Report, streams: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as directory, service(Path(directory)) as (port, _, pid):
        ask(port, "PUT", "/v1/subscriptions/all", b'{"query": "/all"}')
        readers = Readers(port)
        readers.open(FEW)
        time.sleep(QUIET_S)
        before, cpu = rss_mb(pid), cpu_seconds(pid)
        readers.open(streams)
        opening = (cpu_seconds(pid) - cpu) / streams * 1e6
        time.sleep(QUIET_S)
        kb = (rss_mb(pid) - before) * 1024 / streams
        costs, waits = [], []
        for number in range(EVENTS):
            cpu, begin = cpu_seconds(pid), time.perf_counter()
            ask(port, "POST", "/v1/documents", b"<all>%d</all>" % number)
            readers.wait(b"event: delivery", readers.count)
            waits.append(time.perf_counter() - begin)
            time.sleep(QUIET_S)
            costs.append(cpu_seconds(pid) - cpu)
        readers.close()
        time.sleep(CLOSED_S)
        closed_kb = (rss_mb(pid) - before) * 1024 / streams
    report.note(f"{streams:,} streams; medians of {EVENTS} events; load {os.getloadavg()[0]:.1f}")
    is_full = streams == STREAMS
    report.figure("memory of an idle stream", kb, "KB", bar=KB_MAX if is_full else None)
    report.figure("memory of a stream that is closed", closed_kb, "KB", bar=CLOSED_KB_MAX if is_full else None)
    report.figure("CPU to open a stream", opening, "µs")
    report.figure("CPU for one event to all", sorted(costs)[EVENTS // 2], "s", bar=CPU_SECONDS_MAX if is_full else None)
    report.figure("until all have it, readers on the same machine", sorted(waits)[EVENTS // 2], "s")


def main(arguments: list[str]) -> int:
    options, report = options_of("http_streams", __doc__.partition("\n")[0], arguments)
    measure(report, STREAMS // 10 if options.quick else STREAMS)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
