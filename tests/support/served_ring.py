"""Peers of a ring, each a `treecast peer` of its own on loopback, with an HTTP door."""

from __future__ import annotations

import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import trustme

from support.quick_process import PIPE, QuickProcess
from treecast.serve.ring.ring_service import free_addresses

WAIT_SECONDS = 60


class RingTls:
    """A certificate for this host, and who signs those of all hosts."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        self.ca, self.certificate = directory / "ca.pem", directory / "host.pem"
        authority.cert_pem.write_to_path(self.ca)
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(self.certificate)
        # The same host, by an authority that nobody trusts.
        self.stranger = directory / "stranger.pem"
        trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(self.stranger)

    def options(self, certificate: Path | None = None) -> list[str]:
        return ["--tls-cert", str(certificate or self.certificate), "--tls-ca", str(self.ca)]


class PeerProcess:
    """One process. It keeps its directory and its address when it is started again."""

    def __init__(self, directory: Path, address: str, options: Sequence[str]) -> None:
        self.address = address
        self._directory = directory / address.replace(":", "-")
        self._log = directory / f"{address}.log"
        self._options = options
        self._process: QuickProcess | None = None
        self.http = ""

    def start(self, *more: str) -> None:
        arguments = ["--data", str(self._directory), "--listen", self.address, "--http", "127.0.0.1:0"]
        with self._log.open("a") as log:
            self._process = QuickProcess(
                ["-m", "treecast", "peer", *arguments, *self._options, *more], stdout=PIPE, stderr=log
            )

    def wait(self) -> None:
        """Until it listens."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening on "), self._log.read_text()
        self.http = line.split()[-1]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.signal(number)
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.stdout is not None:
            process.stdout.close()
        return process.wait(WAIT_SECONDS)

    def signal(self, number: int) -> None:
        if self._process is not None and number:
            with suppress(ProcessLookupError):  # it has ended by itself
                self._process.send_signal(number)

    def kill(self) -> None:
        """End it without any warning."""
        self.end(signal.SIGKILL)

    def log(self) -> str:
        return self._log.read_text()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(f"{self.http}/v1/{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                data = answer.read()
                return answer.status, json.loads(data) if data else None
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def ask_again(self, method: str, path: str, body: bytes, **headers: str) -> Any:
        """Until there is an answer: a busy machine may take longer than a door waits. Nothing is done twice."""
        while True:
            status, answer = self.ask(method, path, body, **headers)
            if status in (200, 201):
                return answer
            assert (status, answer["code"]) == (503, "TC436"), answer

    def subscribe(self, id: str, query: str) -> None:
        self.ask_again("PUT", f"subscriptions/{id}", json.dumps({"query": query}).encode())

    def publish(self, document: str) -> str:
        """How far it got; its text is its id."""
        answer = self.ask_again("POST", "documents", document.encode(), **{"Treecast-Document-Id": document[:900]})
        return str(answer["filtering"])

    def pull(self, id: str, wait_ms: int = 0) -> list[tuple[str, str]]:
        """Payloads that are there, with the ids of their deliveries; they are acknowledged."""
        _, answer = self.ask("POST", f"subscriptions/{id}:pull", b'{"wait_ms": %d}' % wait_ms)
        deliveries = [(one["delivery"], one["payload"]) for one in answer["deliveries"]]
        if deliveries:
            form = json.dumps({"deliveries": [delivery for delivery, _ in deliveries]}).encode()
            assert self.ask("POST", f"subscriptions/{id}:ack", form)[1]["settled"] == len(deliveries)
        return deliveries


class Ring:
    """A base of some peers, and others that join."""

    def __init__(
        self, directory: Path, count: int, replicas: int, options: Sequence[str], joined: Sequence[str]
    ) -> None:
        self._directory = directory
        self._options = [*options, "--replicas", str(replicas)]
        self._joined = joined
        addresses = free_addresses(count, Random(), [])
        base = addresses[: replicas + 1]
        self.peers = [PeerProcess(directory, address, joined) for address in addresses]
        self.base = self.peers[: replicas + 1]
        for peer in self.base:
            peer.start("--base", *base, "--replicas", str(replicas), *options)
        for peer in self.base:
            peer.wait()
        for peer in self.peers[replicas + 1 :]:
            peer.start("--join", base[0])
        for peer in self.peers[replicas + 1 :]:
            peer.wait()
        self.settle()

    def add(self, *more: str) -> PeerProcess:
        """One more joins."""
        (address,) = free_addresses(1, Random(), [peer.address for peer in self.peers])
        peer = PeerProcess(self._directory, address, self._joined)
        self.peers.append(peer)
        peer.start("--join", *(base.address for base in self.base), *more)
        peer.wait()
        return peer

    def settle(self, *missing: PeerProcess) -> dict[str, Any]:
        """Wait until all peers but these are members with all that they own; returns the picture."""
        addresses = {peer.address for peer in self.peers if peer not in missing}
        peer_asked = next(peer for peer in self.peers if peer not in missing)

        def settled_picture() -> dict[str, Any] | None:
            picture = peer_asked.ask("GET", "ring")[1]
            names = {peer["name"] for peer in picture["peers"] if peer["is_settled"]}
            return picture if names == addresses else None

        picture: dict[str, Any] = wait_for(settled_picture)
        return picture

    def end(self, number: int = signal.SIGTERM) -> list[int]:
        for peer in self.peers:
            peer.signal(number)
        return [peer.end(0) for peer in self.peers]  # one signal each: a second one could meet it while it ends


def wait_for(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + WAIT_SECONDS
    while not (answer := look()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer


@contextmanager
def running(
    directory: Path, count: int, replicas: int = 2, options: Sequence[str] = (), joined: Sequence[str] = ()
) -> Iterator[Ring]:
    """`options` are those of the base, `joined` those of all peers."""
    ring: Ring | None = None
    try:
        ring = Ring(directory, count, replicas, options, joined)
        yield ring
        assert set(ring.end()) == {0}
    finally:
        if ring is not None:
            ring.end(signal.SIGKILL)
