"""Brokers of a network and their registry for measurements: processes on loopback, with mutual TLS, and their CPU time.

As a program it is such a process: `python -m bench.network_peers OPTIONS`, with options in JSON; it prints its address.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import trustme

from treecast.overlay.broker import BrokerSettings
from treecast.overlay.messages import RegisterSource
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.serve.client import Connection
from treecast.serve.logs import make_log
from treecast.serve.network_process import NetworkOptions, registry_settings, run_network_peer
from treecast.serve.settings import RuntimeSettings
from treecast.serve.tls import TlsFiles

REGISTRY = "registry"
START_SECONDS = 60


class Cpu(NamedTuple):
    """Seconds of CPU time of a process: of the thread that does everything, and of the others, which write to disk."""

    main: float
    others: float

    def since(self, before: Cpu) -> Cpu:
        return Cpu(self.main - before.main, self.others - before.others)


class Peer:
    """A process."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        assert process.stdout is not None
        self.process = process
        self.name = name
        self.address = process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(f"{name} did not start")

    def cpu(self) -> Cpu:
        """To the nanosecond, as the scheduler counts."""
        pid = self.process.pid
        main = others = 0.0
        for task in Path(f"/proc/{pid}/task").iterdir():
            seconds = int((task / "schedstat").read_text().split()[0]) / 1e9
            if int(task.name) == pid:
                main = seconds
            else:
                others += seconds
        return Cpu(main, others)

    def memory_bytes(self) -> int:
        """What it has of the machine's memory now, its own and shared."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Network:
    """Brokers, one after the other: documents that are published at the first reach each by the one before. With more
    than one child each, they are a tree."""

    def __init__(
        self,
        directory: Path,
        names: list[str],
        settings: NetworkSettings,
        *,
        tls: bool = True,
        runtime: RuntimeSettings | None = None,
        broker: BrokerSettings | None = None,
        fan_out_max: int = 1,
    ) -> None:
        self.directory = directory
        self.names = names
        self._settings = settings
        self._runtime = runtime or RuntimeSettings()
        self._broker = broker or BrokerSettings()
        self._fan_out_max = fan_out_max
        self._authority = trustme.CA() if tls else None
        if self._authority is not None:
            self._authority.cert_pem.write_to_path(directory / "ca.pem")
        self.peers: dict[str, Peer] = {}

    def _tls(self, name: str) -> TlsFiles | None:
        if self._authority is None:
            return None
        path = self.directory / f"{name}.pem"
        certificate = self._authority.issue_cert("127.0.0.1", name, common_name=name)
        certificate.private_key_and_cert_chain_pem.write_to_path(path)
        return TlsFiles(certificate=str(path), ca=str(self.directory / "ca.pem"))

    @contextmanager
    def run(self) -> Iterator[Network]:
        with ExitStack() as stack:
            registry = stack.enter_context(self._peer(REGISTRY, ""))
            for place, name in enumerate(self.names):
                stack.enter_context(self._peer(name, registry.address, location=(float(place), 0.0)))
            yield self

    @contextmanager
    def _peer(self, name: str, registry: str, **more: Any) -> Iterator[Peer]:
        options = NetworkOptions(
            directory=str(self.directory / name),
            listen=("127.0.0.1", 0),
            name=name,
            registries={REGISTRY: registry},
            network=self._settings,
            runtime=self._runtime,
            broker=self._broker,
            registry=registry_settings(fan_out_max=self._fan_out_max),
            tls=self._tls(name),
            **more,
        )
        command = [sys.executable, "-m", "bench.network_peers", msgspec.json.encode(options).decode()]
        with (self.directory / f"{name}.log").open("w") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            peer = self.peers[name] = Peer(process, name)
            yield peer
        finally:
            process.terminate()
            process.wait(30)

    def connect(self, broker: str, client: str) -> Connection:
        return Connection(self.peers[broker].address, client, tls=self._tls(client))

    def cpu(self) -> dict[str, Cpu]:
        return {name: self.peers[name].cpu() for name in self.names}

    async def add_source(self, source: str, root: str, publisher: Connection) -> None:
        """Until this broker is its root, and knows of it."""
        place = float(self.names.index(root))
        async with self.connect(REGISTRY, f"adds-{source}") as registry, asyncio.timeout(START_SECONDS):
            while len(await registry.inspect("brokers")) < len(self.names):
                await asyncio.sleep(0.05)
            answered = await registry.request(RegisterSource(source, location=(place, 0.0)))
            assert answered.places[0].broker == root, answered.places
            while source not in [row["key"] for row in await publisher.inspect("sources", count_max=1_000)]:
                await asyncio.sleep(0.05)

    async def is_linked(self, seconds: float = 60) -> None:
        """Until every broker has the next one as a child in the tree of the first."""
        end = time.monotonic() + seconds
        for name, child in pairwise(self.names):
            async with self.connect(name, f"looks-at-{name}") as connection:
                while f"{self.names[0]}/{child}" not in [row["key"] for row in await connection.inspect("trees")]:
                    if time.monotonic() > end:
                        raise RuntimeError(f"{name} has no link to {child}")
                    await asyncio.sleep(0.1)


def run_peer() -> None:
    options = msgspec.json.decode(sys.argv[1], type=NetworkOptions)
    Path(options.directory).mkdir(parents=True, exist_ok=True)
    log = make_log(level="error")
    profile = os.environ.get("TREECAST_BENCH_PROFILE")
    announce = lambda host, port: print(f"{host}:{port}", flush=True)  # noqa: E731
    if not profile:
        run_network_peer(options, log, announce)
        return
    import cProfile

    profiler = cProfile.Profile(time.thread_time)
    profiler.runcall(run_network_peer, options, log, announce)
    profiler.dump_stats(f"{profile}.{options.name}")


if __name__ == "__main__":
    run_peer()
