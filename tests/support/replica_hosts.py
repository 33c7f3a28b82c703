"""Hosts with replicas for tests, each in its own process, and a control plane that says what it is told."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from support.served_broker import Stranger, stranger
from treecast.overlay.messages import Hello
from treecast.overlay.replica.messages import Role, Standing
from treecast.serve.address import parse_address

SCRIPT = """
import json, sys
from treecast.serve.logs import make_log
from treecast.serve.replica_process import ReplicaOptions, run_replica_host
directory, name, listen, partners = json.loads(sys.argv[1])
options = ReplicaOptions(
    directory=directory, listen=tuple(listen), name=name, partners={n: tuple(a) for n, a in partners.items()}
)
run_replica_host(options, make_log("json", "error"), lambda host, port: print(f"{host}:{port}", flush=True))
"""


def free_address() -> str:
    """Two hosts must know each other's addresses before they start."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


class HostProcess:
    """A process that is ended by its id."""

    def __init__(self, directory: Path, name: str, listen: str, partners: dict[str, str]) -> None:
        self.name = name
        addresses = {partner: parse_address(address) for partner, address in partners.items()}
        arguments = json.dumps([str(directory), name, parse_address(listen), addresses])
        self.process = subprocess.Popen([sys.executable, "-c", SCRIPT, arguments], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> HostProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()


async def appoint(host: HostProcess, role: Role, is_reached: Callable[[Standing], bool]) -> Standing:
    """Say it again and again, until the host stands as it should."""
    control: Stranger = await stranger(host.address)
    control.send(Hello("control"))
    try:
        async with asyncio.timeout(30):
            while True:
                control.send(role)
                standing = await control.next(Standing)
                assert isinstance(standing, Standing)
                if is_reached(standing):
                    return standing
                await asyncio.sleep(0.02)
    finally:
        control.close()
