"""`treecast up --brokers N` as a process, with one subscriber for every broker: what is published, and what arrives.

    with RunningNetwork(directory, brokers=4) as network:
        network.publish(b"<probe n='1'/>")
        network.wait_for([b"<probe n='1'/>"])

Everything goes through its HTTP door, as with any other client. A document that is refused because its broker is away
is published again, with the same id.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from treecast.errors import TreecastError
from treecast.serve.event_reader import EventReader
from treecast.serve.http_client import HttpClient, HttpClientSettings

WAIT_SECONDS = 120
SETTINGS = HttpClientSettings(retry_ms=20, retry_ms_max=100, give_up_ms=WAIT_SECONDS * 1000)
ROOT_SOURCE = "default"


class RunningNetwork:
    """Its processes end with it."""

    def __init__(self, directory: Path, brokers: int, replicas: int = 1) -> None:
        self._log = directory / "log"
        self._data = directory / "data"
        self._brokers = brokers
        arguments = ["--data", str(self._data), "--listen", "127.0.0.1:0", "--brokers", str(brokers)]
        if replicas > 1:
            arguments += ["--replicas", str(replicas)]
        with self._log.open("w") as log:
            command = [sys.executable, "-m", "treecast", "up", *arguments]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self._url = ""
        self._is_over = False
        self._change = threading.Condition()
        self._document_by_id: dict[str, dict[str, bytes]] = {}

    def __enter__(self) -> RunningNetwork:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the network did not start: {self._log.read_text()[-1_000:]}")
        self._url = line.split()[-1]
        self._client = self._connect()
        for number in range(self._brokers):
            # The broker with the fewest gets the next one.
            self._client.ask_again("PUT", f"/v1/subscriptions/s{number}", {"query": "/*"})
            self._document_by_id[f"s{number}"] = {}
            threading.Thread(target=self._read, args=(f"s{number}",), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._client.stop()
        self._process.terminate()
        try:
            self._process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _connect(self) -> HttpClient:
        return HttpClient(self._url, settings=SETTINGS)

    def _read(self, subscription: str) -> None:
        try:
            for event in EventReader(self._connect(), [subscription], note=lambda text: None).events():
                fields = json.loads(event.data)
                with self._change:
                    self._document_by_id[subscription][fields["delivery"]] = fields["payload"].encode()
                    self._change.notify_all()
        except (TreecastError, OSError):
            if not self._is_over:
                raise

    # --- what it is ---------------------------------------------------------------------------------------------------

    def picture(self) -> Any:
        return self._client.ask_again("GET", "/v1/network").json

    def roles(self) -> dict[str, str]:
        """One broker for each part in the tree of the default source: root, inner and leaf, where there is one."""
        links = self.picture()["links"]
        root = links[0]["root"]
        parents = {link["parent"] for link in links if link["root"] == root} - {root}
        children = {link["child"] for link in links if link["root"] == root}
        role_names = {"root": root, "leaf": min(children - parents)}
        if parents:
            role_names["inner"] = min(parents)
        return role_names

    def pid(self, name: str) -> int:
        """Of the process of this name that was started last."""
        rows = map(json.loads, self._log.read_text().splitlines())
        pids = [row["pid"] for row in rows if row["event"] == "a process serves" and row["name"] == name]
        return int(pids[-1])

    def signal(self, name: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid(name), number)

    def lose(self, name: str) -> None:
        """Kill the process of a broker, and delete its disk before another one is there."""
        self.signal(name)
        shutil.rmtree(self._data / name)

    def wait_for_backups(self) -> None:
        """Until every broker is at home, and its backup has everything."""
        end = time.monotonic() + WAIT_SECONDS
        while any((row["replicas"], row["host"]) != ("paired", row["name"]) for row in self.picture()["brokers"]):
            if time.monotonic() > end:
                raise RuntimeError(f"there are brokers without a backup: {self.picture()['brokers']}")
            time.sleep(0.1)

    # --- documents ----------------------------------------------------------------------------------------------------

    def publish(self, document: bytes, client: HttpClient | None = None) -> None:
        """It is acknowledged when this returns."""
        headers: dict[str, str | bytes] = {"Treecast-Document-Id": document}
        (client or self._client).ask_again("POST", "/v1/documents", document, **headers)

    def publish_all(self, documents: Iterable[bytes], pause_s: float, is_over: threading.Event) -> list[bytes]:
        """One after the other, over its own connection, until it is over; returns those that were acknowledged."""
        acknowledged_documents = []
        with self._connect() as client:
            for document in documents:
                if is_over.is_set():
                    break
                self.publish(document, client)
                acknowledged_documents.append(document)
                time.sleep(pause_s)
        return acknowledged_documents

    def wait_for(self, documents: Iterable[bytes]) -> int:
        """Until every subscriber has these, or for long enough; returns how many deliveries are missing."""
        document_set = set(documents)
        end = time.monotonic() + WAIT_SECONDS
        with self._change:
            while (missing := self._missing(document_set)) and (seconds_left := end - time.monotonic()) > 0:
                self._change.wait(seconds_left)
        return missing

    def _missing(self, document_set: set[bytes]) -> int:
        return sum(
            len(document_set - set(received_documents.values())) for received_documents in self._document_by_id.values()
        )

    def repeats(self) -> int:
        """Documents that a subscriber got under two ids: there should be none."""
        return sum(
            len(received_documents) - len(set(received_documents.values()))
            for received_documents in self._document_by_id.values()
        )
