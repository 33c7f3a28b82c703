"""A NATS server that can be killed and started again, and workers of a fleet on it, in processes of their own."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from support.nats_server import program, wait_for_server
from support.served_http import Service

LEFT_OUT = "a fleet on NATS JetStream: nats-server is not installed (Debian: nats-server)"
SMALL = {f"{kind}_bytes_max": 64 << 20 for kind in ("documents", "deliveries", "parts", "catalog")}
"""NATS sets the room for a stream aside when it is made, and test machines have little."""
PROGRAM = """\
import sys, msgspec
from treecast.serve.logs import make_log
from treecast.serve.fleet.fleet_process import WorkerOptions, run_worker
options = msgspec.json.decode(sys.argv[1], type=WorkerOptions)
run_worker(options, make_log("json", "error"), lambda address, _: print(*address, flush=True))
"""


class NatsServer:
    """On its own port; again on the same one, with the same data."""

    def __init__(self, directory: Path, *options: str) -> None:
        self._directory = directory
        self._options = options
        directory.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.address = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> NatsServer:
        server = program()
        assert server is not None
        log = self._directory / "log"
        place = ["-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._directory), "-l", str(log)]
        self._process = subprocess.Popen([server, "-js", *place, *self._options], stdin=subprocess.DEVNULL)
        wait_for_server(self._process, self.port, log)
        return self

    def end(self, number: int = signal.SIGTERM) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(timeout=60)

    def __enter__(self) -> NatsServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class FleetWorker(Service):
    """A worker. `fleet_settings` are those of the worker, all others those of its door."""

    def __init__(
        self, server: NatsServer, fleet: str, fleet_settings: dict[str, Any] | None = None, **door: Any
    ) -> None:
        super().__init__(Path("nowhere"), **door)
        self.server = server
        self.options = {
            "servers": [server.address],
            "fleet": fleet,
            "settings": {**SMALL, **(fleet_settings or {})},
            "door": door,
        }

    def arguments(self) -> list[str]:
        options = {**self.options, "listen": ("127.0.0.1", self.port)}
        return ["-c", PROGRAM, msgspec.json.encode(options).decode()]
