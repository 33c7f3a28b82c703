"""Primary and backup, message by message: what is held, what is refused, and where the limits are."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from treecast.overlay.peer import Effect, Put, Send, Store
from treecast.overlay.replica import ReplicaHost, ReplicaSettings
from treecast.overlay.replica.host import Home
from treecast.overlay.replica.messages import Ask, Chunk, Copied, Copy, Role, Standing
from treecast.overlay.replica.space import BODIES, LOG, Space, body_or_none
from treecast.overlay.storage import Append, BodyGoneError, DropBefore, Storage
from treecast.sim.storage import SimulatedStorage

pytestmark = pytest.mark.house


class Counter:
    """A peer that stores what it is told, and says so."""

    def __init__(self, name: str, storage: Storage) -> None:
        self.name = name
        self.last = max((key for key, _ in storage.scan("t", 0, 1_000)), default=0)

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        self.last += 1
        if isinstance(message, int):
            return [Store((DropBefore(message),)), Send(sender, ("dropped", message))]
        changes = (Put("t", self.last, message), Append(self.last, message))
        return [Store(changes), Send(sender, ("done", self.last))]

    def tick(self, now_ms: int) -> list[Effect]:
        return []


class Pair:
    """Two hosts without a network between them: messages wait until a test lets them arrive."""

    def __init__(self, **settings: int) -> None:
        self.now_ms = 0
        self.settings = ReplicaSettings(**settings)
        self.storages = {name: SimulatedStorage() for name in ("b1", "b2")}
        self.hosts: dict[str, ReplicaHost] = {}
        self.between: list[tuple[str, str, Any]] = []
        self.answers: list[Any] = []
        self.standings: list[Standing] = []
        for name in self.storages:
            self.start(name)

    def start(self, name: str) -> None:
        home = Home("b1") if name == "b1" else None
        self.hosts[name] = ReplicaHost(
            name,
            self.storages[name],
            Random(name),
            lambda broker, storage, random, is_own: Counter(broker, storage),
            {"b1", "b2"} - {name},
            "control",
            self.settings,
            home,
        )

    def tell(self, host: str, sender: str, message: Any) -> None:
        self.perform(host, self.hosts[host].receive(sender, message, self.now_ms))

    def perform(self, host: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Store):
                self.storages[host].write(effect.changes)
            elif isinstance(effect, Send):
                if effect.to == host:
                    self.tell(host, host, effect.message)
                elif effect.to in self.hosts:
                    self.between.append((host, effect.to, effect.message))
                elif isinstance(effect.message, Standing):
                    self.standings.append(effect.message)
                else:
                    self.answers.append(effect.message)

    def run(self, passes: Callable[[Any], bool] = lambda message: True) -> None:
        """Let time pass and messages arrive, until nothing happens. Those that do not pass are lost."""
        for _ in range(20):
            self.now_ms += 1_000
            for name, host in self.hosts.items():
                self.perform(name, host.tick(self.now_ms))
            while self.between:
                sender, receiver, message = self.between.pop(0)
                if passes(message):
                    self.tell(receiver, sender, message)

    def pair(self) -> None:
        for host in self.hosts:
            self.tell(host, "control", Role("b1", 1, "b1", "b2", is_new=True))
        self.run()
        assert self.hosts["b2"].members()["b1"].complete_term == 1

    def space(self, host: str) -> Space:
        space = self.hosts[host].space("b1")
        assert space is not None
        return space


def test_answers_wait_for_the_backup() -> None:
    pair = Pair()
    pair.pair()
    pair.tell("b1", "client", b"<a/>")
    assert pair.storages["b1"].get("t", 1) == b"<a/>" and pair.answers == []
    pair.run(lambda message: not isinstance(message, Copied))
    assert pair.answers == [] and pair.space("b2").get("t", 1) == b"<a/>"
    pair.run()
    assert pair.answers == [("done", 1)]


def test_a_primary_that_waits_says_so_and_goes_on_only_when_told() -> None:
    pair = Pair(alone_ms=3_000)
    pair.pair()
    pair.tell("b1", "client", b"<a/>")
    pair.run(lambda message: False)
    assert [standing.state for standing in pair.standings][-1] == "waiting" and pair.answers == []
    pair.tell("b1", "control", Role("b1", 2, "b1", ""))
    assert pair.answers == [("done", 1)]
    # The backup was complete in term 1, and does not take over from term 2, which it may know nothing of.
    pair.tell("b2", "control", Role("b1", 3, "b2", "", after=2))
    assert pair.standings[-1].state == "refused" and pair.hosts["b2"].served() is None


def test_a_primary_that_is_far_ahead_takes_no_more() -> None:
    for limit in ({"held_effects_max": 3}, {"behind_groups_max": 3}, {"behind_bytes_max": 30}):
        pair = Pair(**limit)
        pair.pair()
        for _ in range(10):
            pair.tell("b1", "client", b"<a/>")
        stored = pair.storages["b1"].count("t")
        assert 0 < stored < 6 and pair.hosts["b1"].stats()["replica_dropped"] == 10 - stored
        pair.run()
        assert len(pair.answers) == stored
        pair.tell("b1", "client", b"<a/>")
        pair.run()
        assert len(pair.answers) == stored + 1, "it goes on when the backup has caught up"


def test_the_window_is_kept() -> None:
    pair = Pair(window_groups_max=2)
    pair.pair()
    for _ in range(5):
        pair.tell("b1", "client", b"<a/>")
    assert sum(isinstance(message, Copy) for _, _, message in pair.between) == 2
    pair.run()
    assert len(pair.answers) == 5


def test_large_groups_travel_in_parts_and_larger_ones_in_a_snapshot() -> None:
    pair = Pair(part_bytes_max=100, group_bytes_max=1_000)
    pair.pair()
    slot = pair.space("b2").slot
    pair.tell("b1", "client", b"x" * 300)
    assert len(pair.between) > 3
    pair.run()
    assert pair.answers == [("done", 1)] and pair.space("b2").slot == slot
    pair.tell("b1", "client", b"y" * 3_000)
    pair.run()
    assert pair.answers[-1] == ("done", 2) and pair.space("b2").body(2) == b"y" * 3_000
    assert pair.space("b2").slot > slot, "a snapshot has a slot of its own"
    # What the former slot had is deleted.
    assert not any(pair.storages["b2"].count(f"r{slot}_{table}") for table in ("t", BODIES))


def serve_alone_and_then_join(pair: Pair, documents: int) -> None:
    pair.tell("b1", "control", Role("b1", 1, "b1", "", is_new=True))
    for _ in range(documents):
        pair.tell("b1", "client", b"<a/>")
    for host in pair.hosts:
        pair.tell(host, "control", Role("b1", 2, "b1", "b2"))


def test_a_broker_that_is_never_idle_gets_a_backup_all_the_same() -> None:
    pair = Pair(behind_groups_max=5, chunk_bytes_max=1, chunks_ahead_max=1)
    serve_alone_and_then_join(pair, documents=40)
    overtaken = 0
    for step in range(2_000):
        if step % 16 == 0:
            pair.tell("b1", "client", b"<b/>")
            pair.now_ms += 100
            pair.perform("b1", pair.hosts["b1"].tick(pair.now_ms))
        if pair.between:
            sender, receiver, message = pair.between.pop(0)
            pair.tell(receiver, sender, message)
        overtaken = max(pair.hosts["b1"].stats()["replica_overtaken"], overtaken)
        if pair.hosts["b2"].members()["b1"].complete_term == 2:
            break
    assert pair.hosts["b2"].members()["b1"].complete_term == 2
    assert overtaken > 1, "one snapshot was not enough"


def test_a_backup_that_never_comes_costs_no_space() -> None:
    pair = Pair(behind_groups_max=5)
    serve_alone_and_then_join(pair, documents=1)
    broker: Any = pair.hosts["b1"].served()
    for _ in range(20):
        pair.tell("b1", "client", b"<b/>")
        pair.tell("b1", "client", broker.last)
        pair.between.clear()
    assert pair.hosts["b1"].stats()["replica_overtaken"] == 0
    kept = [number for number in range(1, 60) if body_or_none(pair.space("b1"), number) is not None]
    assert len(kept) < 10 and pair.storages["b1"].count(LOG) <= 5


def test_a_primary_that_starts_again_sends_only_what_is_missing() -> None:
    pair = Pair()
    pair.pair()
    pair.tell("b1", "client", b"<a/>")
    pair.run()
    pair.tell("b1", "client", b"<b/>")
    pair.between.clear()
    pair.start("b1")
    # What it answers now may follow a group that the backup does not have.
    pair.tell("b1", "client", b"<c/>")
    sent: list[Any] = []

    def note(message: Any) -> bool:
        sent.append(message)
        return True

    pair.run(note)
    assert {message.group for message in sent if isinstance(message, Copy)} == {3, 4}
    assert not any(isinstance(message, Chunk) for message in sent)
    assert pair.space("b2").body(2) == b"<b/>" and pair.answers == [("done", 1), ("done", 3)]


def test_bodies_are_dropped_when_the_backup_needs_them_no_more() -> None:
    pair = Pair()
    pair.pair()
    pair.tell("b1", "client", b"<a/>")
    pair.tell("b1", "client", 2)
    pair.between.clear()
    assert pair.storages["b1"].body(1) == b"<a/>", "the group that has it is not at the backup yet"
    pair.run()
    pair.tell("b1", "client", b"<b/>")
    for host in ("b1", "b2"):
        pair.run()
        with pytest.raises(BodyGoneError):
            pair.space(host).body(1)


def test_the_former_primary_is_fenced_and_its_groups_are_gone() -> None:
    pair = Pair()
    pair.pair()
    pair.tell("b1", "client", b"<a/>")
    pair.run()
    pair.tell("b2", "control", Role("b1", 2, "b2", "", after=1))
    assert pair.hosts["b2"].served() is not None
    pair.tell("b1", "client", b"<never acknowledged/>")
    pair.run()
    assert pair.answers == [("done", 1)] and pair.standings[-1].state == "deposed"
    pair.tell("b2", "client", b"<b/>")
    for host in pair.hosts:
        pair.tell(host, "control", Role("b1", 3, "b2", "b1", after=1))
    pair.run()
    assert pair.hosts["b1"].members()["b1"].complete_term == 3
    assert [pair.space(host).body(2) for host in pair.hosts] == [b"<b/>", b"<b/>"]


def test_a_host_says_in_which_terms_it_has_not_served() -> None:
    pair = Pair()
    pair.pair()
    # b2 is appointed in terms 2 and 4, hears of neither, and is told of term 5. b1 has served in term 1.
    pair.tell("b1", "control", Role("b1", 4, "b2", "b1", after=1))
    assert (pair.standings[-1].term, pair.standings[-1].idle_since) == (4, 2)
    pair.tell("b2", "control", Role("b1", 5, "b1", "b2", after=4))
    assert (pair.standings[-1].term, pair.standings[-1].idle_since) == (5, 1)
    pair.start("b2")
    pair.tell("b2", "control", Role("b1", 6, "b2", "b1", after=1))
    assert pair.hosts["b2"].served() is not None and pair.standings[-1].idle_since == 0
    # Whoever has lost its disk knows nothing of what was before.
    pair.storages["b1"].lose()
    pair.start("b1")
    pair.tell("b1", "control", Role("b1", 7, "b2", "b1", after=1))
    assert (pair.standings[-1].state, pair.standings[-1].idle_since) == ("backup", 7)


def test_a_term_is_refused_for_good() -> None:
    pair = Pair()
    for host in pair.hosts:
        pair.tell(host, "control", Role("b1", 1, "b1", "b2", is_new=True))
    role = Role("b1", 2, "b2", "b1", after=1)
    pair.tell("b2", "control", role)
    assert (pair.standings[-1].state, pair.standings[-1].idle_since) == ("refused", 1)
    pair.run()
    assert pair.hosts["b2"].members()["b1"].complete_term == 1, "it could take over now"
    pair.start("b2")
    pair.tell("b2", "control", role)
    assert pair.standings[-1].state == "refused" and pair.hosts["b2"].served() is None
    pair.tell("b2", "control", Role("b1", 3, "b2", "b1", after=1))
    assert pair.hosts["b2"].served() is not None


def test_a_lost_disk_is_not_a_beginning() -> None:
    pair = Pair()
    pair.pair()
    pair.tell("b1", "client", b"<a/>")
    pair.run()
    pair.storages["b1"].lose()
    pair.start("b1")
    for is_new in (True, False):  # even if the control plane does not know that the broker has served
        pair.tell("b1", "control", Role("b1", 1, "b1", "b2", is_new=is_new))
        pair.run()
        assert pair.standings[-1].state == "lost" and pair.hosts["b1"].served() is None


def test_strangers_are_not_heard() -> None:
    pair = Pair()
    pair.pair()
    for message in (Role("b1", 9, "b2"), Ask("b1", 9, 1), Copy("b1", 9, 1, [], b""), Chunk("b1", 9, 1, 1, b"")):
        pair.tell("b2", "client", message)
    assert pair.hosts["b2"].refused == 4 and pair.hosts["b2"].members()["b1"].term == 1
    pair.tell("b2", "b1", Chunk("b1", 1, 1 << 40, 1, b"not MessagePack"))
    assert pair.hosts["b2"].refused == 5
