"""What a ring refuses, for the golden errors: a line says what is tried, and with what."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from treecast.overlay.broker.refused import RequestError
from treecast.overlay.chord import ChordSettings
from treecast.overlay.chord.peer_names import RingAdmission
from treecast.overlay.chord.ring_peer import RingPeer
from treecast.overlay.chord.ring_settings import RingSettings
from treecast.overlay.messages import Answer, Document, Publish, RegisterSource, Request, Subscribe
from treecast.overlay.peer import Effect, Send
from treecast.serve.ring.ring_file import RingFile, check, no_answer
from treecast.sim import SimulatedStorage

BASE = tuple(f"127.0.0.1:{port}" for port in (7501, 7502, 7503, 7504))
FILE = RingFile(name=BASE[0], base=BASE, replicas=3, members=1, fragment_length=0)
SECONDS = 70


def refuse_ring(data: bytes) -> None:
    what, *items = data.decode().split()
    if what == "data":
        check(Path("p1-data"), FILE, items[0], None)
    elif what == "base":
        check(
            Path("p1-data"), FILE, BASE[0], RingFile(name="", base=(*items,), replicas=1, members=1, fragment_length=0)
        )
    elif what == "join":
        raise no_answer({items[0]: "TC407 no connection"})
    elif what == "peer":
        admission = RingAdmission(("10.0.*",), BASE)
        assert not admission.is_peer(items[0])
        raise admission.refusal(items[0])
    else:
        ask_alone(what, items)


def ask_alone(what: str, items: list[str]) -> None:
    """Ask a peer whose ring does not answer."""
    settings = RingSettings(underway_max=1)
    peer = RingPeer(BASE[0], SimulatedStorage(), Random(1), ChordSettings(base=BASE), settings=settings)
    commands: list[Any] = [Subscribe("mine", items[0])]
    if what == "publish":
        commands = [RegisterSource("golden"), *(Publish("golden", [Document(item.encode())]) for item in items)]
    effects: list[Effect] = []
    for number, command in enumerate(commands, 1):
        effects += peer.receive("client", Request(number, command), 0)
    for second in range(SECONDS):
        effects += peer.tick(second * 1_000)
    answers = [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Answer)]
    for refusal in answers[-1].refusals:
        raise RequestError(refusal.message.removeprefix(f"{refusal.code} "), code=refusal.code)
