"""A network of selective publishing in processes: a service with the source, brokers in levels, members that follow."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from support.quick_process import PIPE, QuickProcess
from treecast.serve.http_client import HttpClient

DEADLINE_S = 120.0
"""For what happens within a second or so, unless the machine is busy."""
FIRM = "firm"
QUIET = ("--log-level", "warning")


class Line:
    """One process that says on its first line where it listens."""

    def __init__(self, directory: Path, name: str, arguments: list[str]) -> None:
        self.name = name
        self._arguments = arguments
        self._log = directory / f"{name}.log"
        self.address = ""
        self.process: QuickProcess | None = None

    def start(self) -> None:
        listen = self.address or "127.0.0.1:0"
        with self._log.open("a") as log:
            arguments = ["-m", "treecast", *self._arguments, "--listen", listen]
            self.process = QuickProcess(arguments, stdout=PIPE, stderr=log)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "listening on" in line or "http" in line, self._log.read_text()
        self.address = line.split("//")[-1].split()[-1].rstrip("/") if "//" in line else line.split()[-1]

    def end(self, number: int = signal.SIGTERM) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            process.wait(60)


class SelectiveProcesses:
    """Levels of brokers with so many each. Everybody knows all of the adjacent levels that were started before."""

    def __init__(self, directory: Path, levels: list[int]) -> None:
        self._directory = directory
        port = free_port()
        self.source_address = f"127.0.0.1:{port}"
        self.service = Line(
            directory,
            "service",
            ["up", "--data", str(directory / "data"), "--selective", self.source_address, *QUIET],
        )
        self._counts = levels
        self.levels: list[list[Line]] = []
        self.members: dict[str, QuickProcess] = {}

    def __enter__(self) -> Self:
        self.service.start()
        for rank, count in enumerate(self._counts, 1):
            self.levels.append([])
            for number in range(count):
                self.join(rank, f"b{rank}-{number}")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.members.values():
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        for line in [*(line for level in self.levels for line in level), self.service]:
            line.end(signal.SIGKILL)

    def join(self, rank: int, name: str) -> Line:
        """One more broker of a level."""
        near = [*self.levels[rank - 2 : rank - 1], *self.levels[rank : rank + 1]] if rank > 1 else self.levels[1:2]
        address_by_name = {line.name: line.address for level in near for line in level if line.process is not None}
        if rank == 1:
            address_by_name["source"] = self.source_address
        neighbours = [text for one, address in address_by_name.items() for text in ("--neighbour", f"{one}={address}")]
        arguments = ["selective", "broker", "--name", name, "--rank", str(rank), *neighbours]
        if rank == len(self._counts):
            arguments.append("--last")
        line = Line(self._directory, name, [*arguments, "--log-level", "warning"])
        line.start()
        self.levels[rank - 1].append(line)
        return line

    # -- the door

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        with HttpClient(f"http://{self.service.address}") as client:
            headers = {"Content-Type": "application/xml"} if isinstance(body, bytes) else {}
            return client.ask(method, path, body, **headers).json

    def publish(self, text: str) -> Any:
        return self.ask("PUT", f"/v1/selective/{FIRM}", text.encode())

    def grant(self, group: str, include: list[str], exclude: list[str], members: list[str]) -> None:
        form = {"group": group, "include": include, "exclude": exclude, "members": members}
        self.ask("POST", f"/v1/selective/{FIRM}:grant", form)

    def revoke(self, group: str, member: str) -> None:
        self.ask("POST", f"/v1/selective/{FIRM}:revoke", {"group": group, "members": [member]})

    def enrol(self, group: str, member: str, *paths: str) -> Path:
        """The directory of a member."""
        from treecast.cli import main

        home = self._directory / f"{quote(member)}-home"
        path_options = [text for path in paths for text in ("--path", path)]
        url = f"http://{self.service.address}"
        assert main(["selective", "subscribe", FIRM, group, member, str(home), *path_options, "--url", url]) == 0
        return home

    # -- members

    def follow(self, home: Path) -> None:
        brokers = [text for line in self.levels[-1] for text in ("--broker", f"{line.name}={line.address}")]
        arguments = ["-m", "treecast", "selective", "follow", str(home), *brokers, "--log-level", "warning"]
        with (self._directory / f"{home.name}.log").open("a") as log:
            self.members[home.name] = QuickProcess(arguments, stdout=log, stderr=log)

    def leave(self, home: Path, number: int = signal.SIGTERM) -> None:
        process = self.members.pop(home.name)
        process.send_signal(number)
        process.wait(60)


def view(home: Path) -> list[str]:
    """What a member has verified last."""
    files = sorted((home / "view").glob("*.xml"), key=lambda path: int(path.stem)) if (home / "view").is_dir() else []
    try:
        return [path.read_text() for path in files]
    except FileNotFoundError:  # it is being written
        return []


def wait_for_view(home: Path, expected: list[str], deadline_s: float = DEADLINE_S) -> None:
    end = time.monotonic() + deadline_s
    while (current := view(home)) != expected:
        assert time.monotonic() < end, json.dumps({"home": home.name, "seen": current, "expected": expected})
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
