"""A service that runs out of descriptors: clients wait or are refused, what it has goes on, and the log stays short."""

from __future__ import annotations

import http.client
import json
import resource
import time
from pathlib import Path

import pytest
from support.served_http import PROGRAM, Service, read_all

pytestmark = pytest.mark.house


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


class Limited(Service):
    """May have so many files open, and cannot allow itself more."""

    files = 0

    def arguments(self) -> list[str]:
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({self.files}, {self.files}))\n"
        return ["-c", limit + PROGRAM, *super().arguments()[2:]]


def test_no_descriptor_for_a_connection(tmp_path: Path) -> None:
    """The system keeps those that wait, and they are served when there are descriptors again."""
    with Service(tmp_path / "data") as service:
        kept = service.connect()
        kept.request("POST", "/v1/documents", b"<a/>")  # from now on the store has what it needs
        assert kept.getresponse().read() == b'{"document":1}'
        _, hard = resource.prlimit(service.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (open_files(service.pid) + 3, hard))
        connections = [service.connect() for _ in range(10)]
        for connection in connections:
            connection.request("GET", "/healthz")
        time.sleep(1.5)  # it tries to accept again and again
        kept.request("POST", "/v1/documents", b"<a/>")
        assert kept.getresponse().read() == b'{"document":2}'
        for number, connection in enumerate(connections):
            assert connection.getresponse().read() == b"alive\n", number
            connection.close()  # leaves a descriptor to another one
        status, logs = service.end()
    (line,) = logs.splitlines()
    entry = json.loads(line)
    assert (status, entry["event"], entry["error"]) == (0, "cannot accept connections", "Too many open files")
    assert "LimitNOFILE" in entry["hint"]


def test_a_system_that_allows_few_files(tmp_path: Path) -> None:
    """Connections leave enough of them to the store and the rest."""
    limited = Limited(tmp_path / "data")
    limited.files = 120
    with limited as service:
        connections = [service.socket() for _ in range(200)]
        refused = sum(read_all(connection) == b"" for connection in connections[60:])
        assert refused == 140
        with connections[0] as connection:
            connection.sendall(b"POST /v1/documents HTTP/1.1\r\nConnection: close\r\nContent-Length: 4\r\n\r\n<a/>")
            assert read_all(connection).startswith(b"HTTP/1.1 201")
        for connection in connections:
            connection.close()
        while True:
            try:
                assert service.publish("<b/>") == 2
                break
            except (ConnectionError, http.client.HTTPException):  # those that were closed are not gone yet
                time.sleep(0.02)
        assert service.end() == (0, "")
