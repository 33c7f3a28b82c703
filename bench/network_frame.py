"""CPU of a broker per document without sockets and disk: frames in, frames out, in one process.

Three brokers are played one after the other: a **root** to which documents are published as text, in requests of 64;
one that **passes on and delivers**, and one that **delivers**, each with a client that receives and acknowledges. A
fourth **passes on** only, and is held against lxml. Each is told frames as they come from a connection, and what it
sends is encoded into frames; what it stores is taken as durable at once. The documents and subscriptions are those of
`bench.network_cpu`, which has sockets, TLS and disks too.

    python -m bench.network_frame --quick
    valgrind --tool=callgrind --instr-atstart=no python -m bench.network_frame --count delivers

With `--count` a role is played twice with 256 documents, and instructions are counted the second time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from bench.measure import Report, clock, finish, lxml_time, median, options_of, run
from bench.network_cpu import FRAME, HALF, TWICE, batches, common_path, index_of, valued_documents, valued_queries
from bench.reading import news_document
from treecast.document import Document, read_many
from treecast.model import Subscription
from treecast.overlay.frames import FrameDecoder, encode
from treecast.overlay.messages import (
    Acknowledge,
    Answer,
    Attach,
    Deliveries,
    Hello,
    Publish,
    RegisterSource,
    Request,
    Subscribe,
    SubscribeMany,
    Welcome,
)
from treecast.overlay.messages import Document as Published
from treecast.overlay.onyx.control_messages import NewView
from treecast.overlay.onyx.network_broker import NetworkBroker
from treecast.overlay.onyx.network_messages import Announce, Covered, Forward, Parcel, Taken
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.path_routing import PathRouting
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.view import BrokerInfo, View
from treecast.overlay.packets import packet_of
from treecast.overlay.peer import Send, Store
from treecast.sim import SimulatedStorage
from treecast.wire import Codec

ROOT, OWN, CHILD, CLIENT = "r", "o", "c", "client"
CREDIT = 100_000


class Disk(SimulatedStorage):
    """Forgets what it is given, once all is set up: writing is another thread's work."""

    is_open = True

    def write(self, changes: Sequence[Any]) -> None:
        if self.is_open:
            super().write(changes)


class Role:
    """A broker between others, whom the benchmark plays. `root`: it is the root itself."""

    def __init__(self, queries: list[str], wanted: str, *, root: bool = False) -> None:
        self.name = ROOT if root else OWN
        self._disk = Disk()
        self.broker = NetworkBroker(self.name, self._disk, Random(1), network=NetworkSettings(link_formats=("binary",)))
        self._decoders: dict[str, FrameDecoder] = {}
        self._to_cover = 0
        self._lease = self._requests = 0
        self.seconds: dict[str, float] = {}
        names = {name: BrokerInfo() for name in (ROOT, OWN, CHILD)}
        tree = {OWN: ROOT, CHILD: ROOT} if root else {OWN: ROOT, CHILD: OWN}
        self._tell("registry", NewView(View(1, names, {ROOT: tree})))
        self._set_up(queries, wanted)
        self._disk.is_open = False

    def _set_up(self, queries: list[str], wanted: str) -> None:
        for answer in self._tell(CLIENT, Hello(CLIENT, nonce=1)):
            if isinstance(answer, Welcome):
                self._lease = answer.lease
        if self.name == ROOT:
            self._request(RegisterSource("bench"))
        rows = [Subscribe(str(n), query) for n, query in enumerate(queries)]
        for begin in range(0, len(rows), 1_000):
            self._request(SubscribeMany(rows[begin : begin + 1_000]))
        assert len(self.broker.index) == len(queries), "all subscriptions count"
        if queries:
            self._tell(CLIENT, Attach("s1", [row.id for row in rows], CREDIT, 1, 1))
        if wanted:
            routing = PathRouting(seed=1)
            query = routing.map(Subscription("", wanted)).encode()
            self._tell(CHILD, Announce(ROOT, 1, 5, 1, 0, [(query, routing.empty().encode())], ["binary"]))

    def _request(self, command: Any) -> list[Any]:
        self._requests += 1
        return self._tell(CLIENT, Request(self._requests, command, self._lease))

    def _tell(self, sender: str, message: Any) -> list[Any]:
        frames = self.take(sender, b"".join(encode([packet_of(message)])))
        while self._to_cover:
            version, self._to_cover = self._to_cover, 0
            covered = Covered(ROOT, "store", 1, 7, self.broker.life, version, 0)
            frames += self.take(ROOT, b"".join(encode([packet_of(covered)])))
        return [packet.message for _, frame in frames for packet in FrameDecoder().feed(frame)]

    # --- what a broker does -------------------------------------------------------------------------------------------

    def take(self, sender: str, frame: bytes) -> list[tuple[str, bytes]]:
        """A frame has come; returns those that leave, and for whom they are."""
        begin = time.process_time()
        decoder = self._decoders.setdefault(sender, FrameDecoder())
        packets: list[Any] = []
        view = memoryview(frame)
        while len(view):  # in pieces, as there is room for them
            room = decoder.room()
            size = min(len(room), len(view))
            room[:size] = view[:size]
            room.release()
            packets += decoder.filled(size)
            view = view[size:]
        begin = self._count("frames in", begin)
        sends: dict[str, list[Any]] = {}
        for packet in packets:
            kind = type(packet.message).__name__
            self._happen(self.broker.receive(sender, packet.message, 0), sends)
            begin = self._count(kind, begin)
        frames = [(name, frame) for name, packets in sends.items() for frame in encode(packets)]
        self._count("frames out", begin)
        return frames

    def _count(self, kind: str, begin: float) -> float:
        now = time.process_time()
        self.seconds[kind] = self.seconds.get(kind, 0.0) + now - begin
        return now

    def _happen(self, effects: list[Any], sends: dict[str, list[Any]]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self._disk.write(effect.changes)
            elif isinstance(effect, Send) and effect.to == self.name:
                self._happen(self.broker.receive(self.name, effect.message, 0), sends)
            elif isinstance(effect, Send):
                if isinstance(effect.message, Announce):
                    self._to_cover = effect.message.version
                sends.setdefault(effect.to, []).append(packet_of(effect.message))

    # --- what the others do -------------------------------------------------------------------------------------------

    def requests(self, documents: list[bytes]) -> list[tuple[str, bytes]]:
        """The frames of a client that publishes these."""
        frames: list[tuple[str, bytes]] = []
        for batch in batches(documents):
            self._requests += 1
            command = Publish("bench", [Published(body) for body in batch])
            frames += [(CLIENT, f) for f in encode([packet_of(Request(self._requests, command, self._lease))])]
        return frames

    def forwards(self, documents: list[bytes], after: int) -> list[tuple[str, bytes]]:
        """The frames of a root that forwards these."""
        frames: list[tuple[str, bytes]] = []
        version = self.broker.trees[ROOT].version
        read = [one for one in read_many(documents) if isinstance(one, Document)]
        bodies = Codec("binary").encode_many(read)
        for begin in range(0, len(bodies), FRAME):
            some = enumerate(bodies[begin : begin + FRAME], after + begin + 1)
            parcels = [Parcel(number, "bench", "", 0, "binary", body) for number, body in some]
            packed = Parcels.of(parcels).packed
            message = Forward(ROOT, "store", 1, 7, version, after + begin, after + begin + len(parcels), packed)
            frames += [(ROOT, frame) for frame in encode([packet_of(message)])]
        return frames

    def answer(self, frames: list[tuple[str, bytes]]) -> tuple[int, int]:
        """Acknowledge what has come; returns how many documents were passed on, and how many deliveries came."""
        passed = delivered = 0
        for to, frame in frames:
            messages = [packet.message for packet in FrameDecoder().feed(frame)]
            for message in messages:
                if isinstance(message, Forward):
                    passed += len(Parcels.read(message.documents))
                    self.take(CHILD, b"".join(encode([packet_of(Taken(ROOT, 1, message.upto))])))
                elif isinstance(message, Answer):
                    assert not message.refusals, message
            numbers = [message.number for message in messages if isinstance(message, Deliveries)]
            delivered += sum(len(message.items) for message in messages if isinstance(message, Deliveries))
            if numbers and to == CLIENT:
                self.take(CLIENT, b"".join(encode([packet_of(Acknowledge("s1", numbers))])))
        return passed, delivered


def play(role: Role, frames: list[tuple[str, bytes]]) -> tuple[int, int]:
    """All frames, with the answers of the others; returns what was passed on and delivered."""
    passed = delivered = 0
    role.seconds.clear()
    for sender, frame in frames:
        found = role.answer(role.take(sender, frame))
        passed, delivered = passed + found[0], delivered + found[1]
    return passed, delivered


Frames = Callable[[int], list[tuple[str, bytes]]]


def measure_role(role: Role, frames: Frames, passes: int) -> dict[str, float]:
    """Seconds by what they were spent on, in the pass of the middle."""
    found = []
    for number in range(passes + 1):
        play(role, frames(number))
        found.append(dict(role.seconds))
    return sorted(found[1:], key=lambda times: sum(times.values()))[passes // 2]


ROLES = ("root", "passes on and delivers", "delivers", "passes on")


def make_role(name: str, documents: list[bytes], queries: list[str]) -> tuple[Role, Frames]:
    wanted = common_path(documents)
    if name == "root":
        role = Role([], wanted, root=True)
        return role, lambda _: role.requests(documents)
    role = Role([] if name == "passes on" else queries, "" if name == "delivers" else wanted)
    return role, lambda number: role.forwards(documents, number * len(documents))


def count(name: str, documents: list[bytes], queries: list[str]) -> int:
    """Play a role, for a tool that counts instructions: the first time is to warm up."""
    role, frames = make_role(name, documents, queries)
    play(role, frames(0))
    some = frames(1)
    subprocess.run(["callgrind_control", "--instr=on", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)
    print(name, play(role, some), f"{len(documents)} documents", file=sys.stderr)
    os._exit(0)  # what ends the process is not counted


def main(arguments: list[str]) -> int:
    queries = valued_queries(2_000)
    values = 2 * len(queries) // 6
    if arguments[:1] == ["--count"]:
        return count(arguments[1], valued_documents(4 * FRAME, values), queries)
    options, report = options_of("network_frame", __doc__.partition("\n")[0], arguments)
    report.note(f"load {os.getloadavg()[0]:.1f}; frames of {FRAME}, no sockets, no disk")
    documents = valued_documents((8 if options.quick else 32) * FRAME, values)
    index = index_of(queries)

    def alone() -> None:
        for batch in batches(documents):
            for delivery in index.render_batches(batch):
                assert delivery is not None

    alone()
    own = median([clock(alone) for _ in range(9)]).cpu / len(documents) * 1e6
    report.figure("one index, read, match and render", own, "µs/doc")
    for name in ROLES[:-1]:
        times = measure_role(*make_role(name, documents, queries), 9)
        _report_role(report, name, times, len(documents), own)
    for kind, some in (("prose", [news_document(5_000, seed) for seed in range(len(documents))]),):
        lxml = lxml_time(some, 7).cpu / len(some) * 1e6
        times = measure_role(*make_role("passes on", some, []), 9)
        whole = sum(times.values()) / len(some) * 1e6
        report.add(
            f"{kind}: passes on",
            f"{whole:.1f}",
            "µs/doc",
            cpu=f"{whole / lxml:.2f}x of lxml",
            bar=f"<= {HALF:g}x",
            met=whole / lxml <= HALF,
        )
        _report_parts(report, f"{kind}: passes on", times, len(some))
    return finish(options, report)


def _report_role(report: Report, name: str, times: dict[str, float], documents: int, own: float) -> None:
    whole = sum(times.values()) / documents * 1e6
    bar = f"<= {TWICE:g}x"
    report.add(
        name, f"{whole:.1f}", "µs/doc", cpu=f"{whole / own:.2f}x of the index", bar=bar, met=whole / own <= TWICE
    )
    _report_parts(report, name, times, documents)


def _report_parts(report: Report, name: str, times: dict[str, float], documents: int) -> None:
    for kind, seconds in sorted(times.items(), key=lambda item: -item[1]):
        report.figure(f"{name}: {kind}", seconds / documents * 1e6, "µs/doc")


if __name__ == "__main__":
    run(main)
