"""What a ring looks like: its peers, where they are, what they hold, how much they have to do, and its hottest states.

Any peer can say: it asks those that it knows, then those that they know, and so on once round the ring. Peers are asked
by messages, like all others; who does not answer is shown as down.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from treecast.overlay.chord.ring_peer import LookAt, Seen
from treecast.overlay.peer import Peer
from treecast.serve.connection import steady_ms
from treecast.serve.doors.calls import Call, Reply, json_reply
from treecast.serve.doors.routes import READ, Route
from treecast.serve.ring.drawing import draw
from treecast.serve.ring.picture import PeerPicture, PlacePicture, RingPicture, StatePicture
from treecast.serve.runtime import Runtime

LOOK_MS = 500
"""The same answer for everybody who asks within this time. Rates are those between two looks."""
WAIT_MS_MAX = 1_500
"""For peers that have not answered; those that did not answer last time are not waited for."""
STALE_MS = 3_000
"""A peer that was not heard for so long is down,"""
FORGET_MS = 60_000
"""and forgotten after so long, unless it belongs to the base."""
PEERS_MAX = 1_000
STATES_MAX = 20
SVG = "image/svg+xml"
ANSWERS = 2
"""Of each peer: about the ring, and about states."""

Row = dict[str, str | int]

ROUTES = (
    Route("GET", "/v1/ring", "ring", "Peers, places and states of a ring", {200: RingPicture}, scopes=READ),
    Route("GET", "/v1/ring.svg", "ring_svg", "A picture of the ring", {200: None}, content=SVG, scopes=READ),
)


class _PeerFacts:
    """A peer, as it was last heard."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.states: dict[str, Row] = {}
        self.heard_ms = -FORGET_MS
        self.question = 0
        self.missing = 0  # answers to the last question
        self.visits_before = (0, 0)
        self.visits_per_second = 0.0

    def take(self, rows: list[Row], question: int) -> None:
        """One of two answers."""
        by_key = {str(row["key"]): row for row in rows}
        if "peer" in by_key:
            self.rows = by_key
            self._rate()
        else:
            self.states = by_key
        self.heard_ms = steady_ms()
        self.missing -= question == self.question

    def _rate(self) -> None:
        visits, now = int(self.rows["peer"]["visits"]), steady_ms()
        before, before_ms = self.visits_before
        if before_ms:
            self.visits_per_second = round(max(visits - before, 0) * 1000 / max(now - before_ms, 1), 1)
        self.visits_before = visits, now

    def neighbours(self) -> list[str]:
        """Peers that it names."""
        names = str(self.rows.get("settings", {}).get("base", "")).split()
        for key, row in self.rows.items():
            if key.startswith("place "):
                names += str(row["successors"]).split()
                names += [str(row["predecessor"])] if row["predecessor"] else []
        return names


class RingPages:
    """A `LocalPeer` of the runtime, and the pages."""

    name = "pages of a ring"

    def __init__(self, runtime: Runtime, own: str, random: Random) -> None:
        self._runtime = runtime
        self._own = own
        self._random = random
        self._facts_by_peer: dict[str, _PeerFacts] = {own: _PeerFacts()}
        self._question = 0
        self._news = asyncio.Event()
        self._last: RingPicture | None = None
        self._last_ms = 0
        self._looking = asyncio.Lock()
        runtime.register(self)

    async def ring(self, call: Call) -> Reply:
        return json_reply(200, await self.look())

    async def ring_svg(self, call: Call) -> Reply:
        return Reply(200, draw(await self.look()).encode(), SVG)

    # --- what the runtime calls ---------------------------------------------------------------------------------------

    def opened(self, peer: Peer) -> None: ...

    def closed(self) -> None: ...

    def removed(self) -> None: ...

    def received(self, messages: list[Any]) -> None: ...

    def announced(self, event: Any) -> None:
        if isinstance(event, Seen) and event.peer in self._facts_by_peer:
            try:
                self._facts_by_peer[event.peer].take(event.rows, event.question)
            except (KeyError, ValueError, TypeError):
                return  # it is no peer of ours, whatever it says
            self._news.set()

    # --- looking ------------------------------------------------------------------------------------------------------

    async def look(self) -> RingPicture:
        async with self._looking:
            if self._last is None or steady_ms() - self._last_ms >= LOOK_MS:
                await self._ask_all()
                self._last, self._last_ms = self._picture(), steady_ms()
            return self._last

    async def _ask_all(self) -> None:
        """Once round the ring."""
        self._question = self._random.getrandbits(62)
        silent = {name for name, facts in self._facts_by_peer.items() if self._is_silent(facts)} - {self._own}
        names_asked: set[str] = set()
        end_ms = steady_ms() + WAIT_MS_MAX
        while True:
            names = [self._own, *(name for facts in list(self._facts_by_peer.values()) for name in facts.neighbours())]
            fresh = [name for name in dict.fromkeys([*names, *self._facts_by_peer]) if name not in names_asked]
            self._ask([name for name in fresh if len(self._facts_by_peer) < PEERS_MAX or name in self._facts_by_peer])
            names_asked.update(fresh)
            waiting = [
                name
                for name in names_asked - silent
                if name in self._facts_by_peer and self._facts_by_peer[name].missing > 0
            ]
            left_ms = end_ms - steady_ms()
            if not waiting or left_ms <= 0:
                return
            self._news.clear()
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await self._news.wait()
            except TimeoutError:
                return

    def _ask(self, names: list[str]) -> None:
        for name in names:
            facts = self._facts_by_peer.setdefault(name, _PeerFacts())
            facts.question, facts.missing = self._question, ANSWERS
        if names:
            self._runtime.tell(self, LookAt(self._question, tuple(names)))

    def _is_silent(self, facts: _PeerFacts) -> bool:
        return steady_ms() - facts.heard_ms > STALE_MS

    def _picture(self) -> RingPicture:
        base = set(str(self._facts_by_peer[self._own].rows.get("settings", {}).get("base", "")).split())
        for name, facts in list(self._facts_by_peer.items()):
            is_old = steady_ms() - facts.heard_ms > FORGET_MS
            if is_old and name not in base and name != self._own:
                del self._facts_by_peer[name]
        total = sum(int(facts.rows["peer"]["visits"]) for facts in self._facts_by_peer.values() if "peer" in facts.rows)
        peers = [
            _peer_picture(name, facts, name in base, not self._is_silent(facts), total)
            for name, facts in sorted(self._facts_by_peer.items())
        ]
        settings = self._facts_by_peer[self._own].rows.get("settings", {})
        states = [
            StatePicture(str(row["state"]), name, int(row["documents"]))
            for name, facts in self._facts_by_peer.items()
            for row in facts.states.values()
        ]
        states.sort(key=lambda state: (-state.documents, state.state))
        return RingPicture(
            int(settings.get("replicas", 0)),
            int(settings.get("members", 0)),
            int(settings.get("fragment_length", 0)),
            peers,
            states[:STATES_MAX],
        )


def _peer_picture(name: str, facts: _PeerFacts, is_base: bool, is_up: bool, total: int) -> PeerPicture:
    row = facts.rows.get("peer", {})
    places = [
        PlacePicture(int(place["index"]), int(place["turn_ppm"]) / 1_000_000, int(place["owned"]))
        for key, place in facts.rows.items()
        if key.startswith("place ")
    ]
    counts = {
        field: int(row.get(field, 0))
        for field in PeerPicture.__struct_fields__
        if field in row and field not in ("name", "is_base", "is_settled")
    }
    return PeerPicture(
        name,
        is_up,
        is_base,
        bool(row.get("is_settled", 0)) and is_up,
        places,
        load=round(int(row.get("visits", 0)) / total, 4) if total else 0.0,
        visits_per_second=facts.visits_per_second if is_up else 0.0,
        **counts,
    )
