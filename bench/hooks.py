"""Web hooks under load: what waits is sent to an endpoint on the same machine, in order and ten at a time.

Documents of about 5 KB, one subscription for each hook. A delivery counts when the endpoint has got it. The endpoint is
as small as can be: it counts requests. The service's CPU time is read from the system; publishing is not part of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.request import Request, urlopen

from bench.broker_peers import cpu_seconds
from bench.http import service
from bench.measure import Report, finish, options_of, run

BATCH = 500
DOCUMENT_BYTES = 5_000
PATIENCE_SECONDS = 300


class Endpoint:
    """Counts requests, in a thread with an event loop of its own."""

    def __init__(self) -> None:
        self.count = 0
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r", 1)[0]))
                self.count += 1
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(made.handle, "127.0.0.1", 0))
    made.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def ask(port: int, method: str, path: str, body: bytes) -> None:
    with urlopen(Request(f"http://127.0.0.1:{port}{path}", body, method=method)) as answer:
        answer.read()


def send(port: int, pid: int, target: Endpoint, name: str, count: int, ordered: bool) -> tuple[float, float]:
    """Publish, and then add a hook, to which everything is sent: seconds by the wall and of the service's CPU."""
    ask(port, "PUT", f"/v1/subscriptions/{name}", json.dumps({"query": f"/{name}"}).encode())
    line = json.dumps({"document": f"<{name}>{'x' * DOCUMENT_BYTES}</{name}>"}).encode()
    for first in range(0, count, BATCH):
        ask(port, "POST", "/v1/documents:batch", b"\n".join([line] * min(BATCH, count - first)))
    form = {"url": f"http://127.0.0.1:{target.port}/", "subscriptions": [name], "ordered": ordered}
    before, cpu, wall = target.count, cpu_seconds(pid), time.perf_counter()
    ask(port, "PUT", f"/v1/hooks/{name}", json.dumps(form).encode())
    while target.count - before < count:
        assert time.perf_counter() - wall < PATIENCE_SECONDS, f"{target.count - before} of {count}"
        time.sleep(0.01)
    return time.perf_counter() - wall, cpu_seconds(pid) - cpu


def measure(report: Report, count: int, passes: int) -> None:
    seconds: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with (
        endpoint() as target,
        tempfile.TemporaryDirectory() as directory,
        service(Path(directory), "--hooks-allow", "127.0.0.0/8") as (port, _, pid),
    ):
        send(port, pid, target, "warm", 200, False)
        for number in range(passes):
            for ordered, taken in seconds.items():
                name = f"{'ordered' if ordered else 'several'}{number}"
                taken.append(send(port, pid, target, name, count, ordered))
    report.note(f"{count:,} deliveries of {DOCUMENT_BYTES:,} bytes a pass; medians of {passes} passes")
    report.note(f"all on one machine, load {os.getloadavg()[0]:.1f}")
    for ordered, taken in seconds.items():
        name = "in order" if ordered else "ten at a time"
        wall, cpu = (median(column) for column in zip(*taken, strict=True))
        report.add(f"{name}: deliveries", f"{count / wall:,.0f}", "/s")
        report.add(f"{name}: CPU of the service", f"{cpu / count * 1e6:,.0f}", "µs/delivery")


def main(arguments: list[str]) -> int:
    options, report = options_of("hooks", __doc__.partition("\n")[0], arguments)
    if options.quick:
        measure(report, count=1_000, passes=1)
    else:
        measure(report, count=5_000, passes=3)
    return finish(options, report)


if __name__ == "__main__":
    run(main)
