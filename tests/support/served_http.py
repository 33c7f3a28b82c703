"""A service with an HTTP door, in its own process, and small ways to talk to it."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import msgspec
import pytest

from support.quick_process import PIPE, QuickProcess

PATIENCE_SECONDS = 60
PROGRAM = """\
import sys, msgspec
from treecast.serve.logs import make_log
from treecast.serve.service_process import ServiceOptions, run_service
options = msgspec.json.decode(sys.argv[1], type=ServiceOptions)
run_service(options, make_log("json", "warning"), lambda address, peers: print(*address, *(peers or ()), flush=True))
"""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service:
    """Started and ended by its id."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        """`settings` are those of the door; `broker`, `access` and so on are other options of a service."""
        others: dict[str, Any] = {}
        for name in ("broker", "access", "tls", "peer_listen", "selective_listen", "firewall", "dispatch"):
            if name in settings:
                others[name] = settings.pop(name)
        self.options: dict[str, Any] = {"directory": str(directory), "door": settings, **others}
        self.port = 0
        self.peers: list[str] = []
        """The host and port for peers, if there is one."""
        self.token = ""
        """Sent with every request, if there is one."""
        self._process: QuickProcess | None = None

    def start(self) -> Self:
        """On a free port; again on the same one."""
        self._process = QuickProcess(self.arguments(), stdout=PIPE, stderr=PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._process.communicate()[1]
        self.port = int(line.split()[1])
        self.peers = line.split()[2:]
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def tell(self, number: int) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def arguments(self) -> list[str]:
        """Those of Python."""
        options = {**self.options, "listen": ("127.0.0.1", self.port)}
        return ["-c", PROGRAM, msgspec.json.encode(options).decode()]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """The exit status, and what was logged."""
        assert self._process is not None
        self._process.send_signal(number)
        _, logs = self._process.communicate(timeout=60)
        return self._process.wait(), logs

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    # --- requests -----------------------------------------------------------------------------------------------------

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def ask(self, method: str, path: str, body: bytes | str | dict[str, Any] | None = None, **headers: str) -> Answer:
        connection = self.connect()
        data = json.dumps(body) if isinstance(body, dict) else body
        all_headers = {**self.authorization(), **{name.replace("_", "-"): value for name, value in headers.items()}}
        try:
            connection.request(method, path, data, all_headers)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def publish(self, body: str, **headers: str) -> int:
        answer = self.ask("POST", "/v1/documents", body.encode(), **headers)
        assert answer.status == 201, answer
        number: int = answer.json["document"]
        return number

    def subscribe(self, id: str, query: str, **settings: Any) -> None:
        answer = self.ask("PUT", f"/v1/subscriptions/{quote(id, safe='')}", {"query": query, **settings})
        assert answer.status == 201, answer

    def problem(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """The status and code of what is refused."""
        answer = self.ask(method, path, body, **headers)
        assert answer.headers["content-type"] == "application/problem+json", answer
        problem = answer.json
        assert problem["status"] == answer.status and problem["title"] and problem["detail"], problem
        assert problem["type"] == f"urn:treecast:error:{problem['code']}"
        return answer.status, problem["code"]

    def events(self, *subscriptions: str, last: str = "") -> EventReader:
        return EventReader(self, subscriptions, last)

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def raw(self, data: bytes) -> bytes:
        """Send bytes, and read until the other side closes."""
        with self.socket() as connection:
            connection.sendall(data)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    try:
        while data := connection.recv(65536):
            parts.append(data)
    except ConnectionError:
        pass
    return b"".join(parts)


class EventReader:
    """Reads server-sent events as browsers do, and remembers the last id."""

    def __init__(self, service: Service, subscriptions: tuple[str, ...], last: str) -> None:
        self.last = last
        self._connection = service.connect()
        query = "&".join(f"subscription={quote(id, safe='')}" for id in subscriptions)
        headers = {**service.authorization(), **({"Last-Event-ID": last} if last else {})}
        self._connection.request("GET", f"/v1/events?{query}", headers=headers)
        self.response = self._connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["content-type"] == "text/event-stream"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """The name and data of each event, until the connection ends."""
        fields: dict[str, str] = {}
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            assert time.monotonic() < end, "nothing but heartbeats"
            try:
                line = self.response.readline()
            except (ConnectionError, http.client.HTTPException):
                return
            if not line.endswith(b"\n"):  # the end
                return
            if line != b"\n":
                name, _, value = line.decode().rstrip("\n").partition(": ")
                fields[name] = value
                continue
            self.last = fields.get("id", self.last)
            if "data" in fields:
                end = time.monotonic() + PATIENCE_SECONDS
                yield fields.get("event", "message"), json.loads(fields["data"])
            fields = {}

    def take(self, count: int) -> list[Any]:
        """The data of so many events."""
        events = [data for _, data in islice(self, count)]
        return events

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> EventReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def eventually(is_so: Any, seconds: float = 20) -> None:
    """Wait until something is so. How long that takes decides nothing, except that a test ends."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests that need nothing special: they use names of their own."""
    with Service(tmp_path_factory.mktemp("service") / "data", heartbeat_ms=300, advance_ms=100) as running:
        yield running
        status, logs = running.end()
        assert (status, logs) == (0, "")
