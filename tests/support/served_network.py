"""Brokers of a network and their registry, each in its own process, on free ports of loopback, with mutual TLS.

As a program it is such a process: `python served_network.py OPTIONS`, with options in JSON; it prints its address.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import trustme

from treecast.overlay.client import ClientSettings
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.serve.client import Connection
from treecast.serve.logs import make_log
from treecast.serve.network_process import NetworkOptions, run_network_peer
from treecast.serve.tls import TlsFiles

REGISTRY = "registry"
MEMBERSHIP = MembershipSettings(heartbeat_ms=100)
NETWORK = NetworkSettings(positions_ms=200, announce_ms=200, repair_ms=200)
QUICK = ClientSettings(request_ms=5_000, request_ms_max=5_000)
END_SECONDS = 20


class Authority:
    """Signs the certificates of everybody in a network, in which their names are."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = trustme.CA()
        self._ca = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self._ca)

    def files(self, name: str) -> TlsFiles:
        path = self._directory / f"{name}.pem"
        certificate = self._authority.issue_cert("127.0.0.1", name, common_name=name)
        certificate.private_key_and_cert_chain_pem.write_to_path(path)
        return TlsFiles(certificate=str(path), ca=str(self._ca))


class PeerProcess:
    """One process. It keeps its directory, and where it listens, when it is started again."""

    def __init__(self, directory: Path, name: str, registry: str = "", **options: Any) -> None:
        self.name = name
        self.address = ""
        self._directory = directory / name
        self._registry = registry
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        host, _, port = (self.address or "127.0.0.1:0").rpartition(":")
        listen = (host, int(port))
        options = NetworkOptions(
            directory=str(self._directory),
            listen=listen,
            name=self.name,
            registries={REGISTRY: self._registry},
            membership=MEMBERSHIP,
            network=NETWORK,
            **self._options,
        )
        log = (self._directory.parent / f"{self.name}.log").open("a")
        self._process = subprocess.Popen(
            [sys.executable, __file__, msgspec.json.encode(options).decode()],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        log.close()
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert self.address, (self._directory.parent / f"{self.name}.log").read_text()

    def kill(self) -> None:
        """End it without any warning."""
        self.end(signal.SIGKILL)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for its end; returns the status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        assert process.stdout is not None
        process.stdout.close()
        return process.wait(END_SECONDS)


class NetworkProcesses:
    """A registry and some brokers, each at a location of its own, on a line."""

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self.authority = Authority(directory)
        self.registry = PeerProcess(directory, REGISTRY, tls=self.authority.files(REGISTRY))
        self.brokers: list[PeerProcess] = []
        self._count = count

    def __enter__(self) -> NetworkProcesses:
        self.registry.start()
        for place in range(self._count):
            name = f"b{place + 1}"
            tls, location = self.authority.files(name), (float(place), 0.0)
            broker = PeerProcess(self._directory, name, self.registry.address, tls=tls, location=location)
            self.brokers.append(broker)
            broker.start()
        return self

    def connect(self, process: PeerProcess, name: str) -> Connection:
        return Connection(process.address, name, tls=self.authority.files(name), settings=QUICK)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in [*self.brokers, self.registry]:
            process.end(signal.SIGKILL if kind else signal.SIGTERM)


if __name__ == "__main__":
    run_network_peer(
        msgspec.json.decode(sys.argv[1], type=NetworkOptions),
        make_log(),
        lambda host, port: print(f"{host}:{port}", flush=True),
    )
