"""A ring under joins, leaves, crashes and partitions: its invariant at every step, and afterwards all that was stored.

A seed draws peers, settings, what applications do, and faults. Peers of the base crash and come back; the others also
join, leave, and lose their disks. At most `replicas` - 1 disks are lost before every entry that is left is on enough
disks again: a ring promises no more than that. Nobody who looks on knows which of them are acknowledged: the answer may
still be on its way to the writer.

After the last fault the ring must become what it should be, lookups must be right, and every acknowledged entry must be
where it belongs, on as many peers as it should.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec

from treecast.overlay.chord import ChordPeer, ChordSettings
from treecast.overlay.chord.chord_messages import Entry, Step
from treecast.overlay.chord.chord_peer import RING_TABLE, STANDING
from treecast.overlay.chord.identifiers import RING, place_of_key
from treecast.overlay.chord.ring import RingMember, StableBase
from treecast.overlay.chord.shelf import TABLE
from treecast.sim.chord.ring_checks import RingChecks, owner_among, ring_faults
from treecast.sim.faults import Crash, Fault, FaultRates, Partition, draw_faults
from treecast.sim.frames import PacketCodec
from treecast.sim.host import CLOCK_BEGIN_MS
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

HEALING_MS_MAX = 60_000
"""Time after the last fault within which all must be well."""
STEP_MS = 250
LATE_MS = 5_000
"""Time after that within which frames and syncs of before may still make a lookup wrong."""
KEYS = 16
MakePeer = Callable[..., ChordPeer]
"""With the arguments of a `ChordPeer`."""


class ChordPlan(msgspec.Struct, frozen=True):
    """What a seed draws."""

    hosts: list[str]
    settings: ChordSettings
    duration_ms: int
    joins: list[tuple[int, str]]
    leaves: list[tuple[int, str]]
    writes: list[tuple[int, str]]
    lookups: list[tuple[int, str]]


def draw_plan(seed: int) -> ChordPlan:
    random = Random(f"{seed}/ring")
    hosts = [f"p{number}" for number in range(random.randint(5, 9))]
    base, others = hosts[:4], hosts[4:]
    duration_ms = random.choice([2_500, 4_000])
    settings = ChordSettings(
        base=tuple(base),
        members=random.choice([1, 1, 2, 3]),
        stabilise_ms=random.choice([150, 400]),
        finger_ms=random.choice([300, 1_000]),
        sync_ms=random.choice([300, 1_000]),
        claim_ms=random.choice([2_000, 4_000]),
        offer_ms=random.choice([500, 1_500]),
        probe_ms=random.choice([100, 250]),
        chunk_entries_max=random.choice([1, 4, 256]),
    )

    def times(count: int, among: Sequence[str]) -> list[tuple[int, str]]:
        return sorted((random.randrange(duration_ms), random.choice(among)) for _ in range(count))

    joins = [(random.choice([0, random.randrange(duration_ms)]), host) for host in others]
    leaves = times(random.choice([0, 1, 3]), others)
    rejoins = [(random.randint(time_ms, duration_ms), host) for time_ms, host in leaves if random.random() < 0.5]
    return ChordPlan(
        hosts, settings, duration_ms, joins + rejoins, leaves, times(random.choice([10, 40]), hosts), times(10, hosts)
    )


class ChordScenario:
    """A `Scenario`. Tests that plant a bug make the peers themselves."""

    name = "chord"

    def __init__(self, make_peer: MakePeer = ChordPeer) -> None:
        self._make_peer = make_peer

    def plan(self, seed: int) -> ChordPlan:
        return draw_plan(seed)

    def faults(self, seed: int) -> list[Fault]:
        plan, random = self.plan(seed), Random(f"{seed}/ring faults")
        # An error of storage is a crash too; those of others than the base are drawn as such, for `would_strand`.
        rates = FaultRates(crashing=tuple(plan.hosts), storing=plan.settings.base, loses_disk=True)
        faults = draw_faults(random, plan.hosts, plan.duration_ms, rates)
        for _ in range(random.choice([0, 1, 4])):
            at_ms, down_ms = random.randrange(plan.duration_ms), random.choice([1, 300, 1_000, 3_000])
            faults.append(Crash(random.choice(plan.hosts), at_ms, down_ms, random.random() < 0.4))
        for time_ms, _ in random.sample(plan.writes, random.choice([0, 0, 6])):
            # Somebody is cut off from some, and loses its disk soon after it may have acknowledged something.
            victim, *others = random.sample(plan.hosts, 4)
            faults.append(Partition([[victim], others], max(time_ms - 20, 0), time_ms + 60))
            faults.append(Crash(victim, time_ms + random.randint(3, 60), random.choice([1, 500]), True))
        return faults

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = ChordRun(seed, self.plan(seed), self._make_peer)
        run.play(faults)
        return outcome_of(self.name, run.world, faults, with_trace, dict(run.counts))


class ChordWorld(World):
    """A crash is left out if it would leave a list of successors without a living member, as Zave assumes."""

    may_crash: Callable[[str], bool]
    may_lose_disk: Callable[[str], bool]
    see_crash: Callable[[str, bool], None]

    def _crash(self, fault: Crash) -> None:
        if not self.hosts[fault.host].is_up or not self.may_crash(fault.host):
            return
        loses_disk = fault.loses_disk and self.may_lose_disk(fault.host)
        super()._crash(msgspec.structs.replace(fault, loses_disk=loses_disk))
        self.see_crash(fault.host, loses_disk)


class ChordRun:
    """One run: peers, what applications do, and what has to hold."""

    def __init__(self, seed: int, plan: ChordPlan, make_peer: MakePeer = ChordPeer) -> None:
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.world = ChordWorld(seed, PacketCodec())
        self.checks = RingChecks(StableBase(plan.settings), self.world.fail)
        self._make_peer = make_peer
        self._random = self.world.random_of("applications")
        self._late_until_us = 0
        self.acknowledged: dict[tuple[str, str], Entry] = {}
        self.written: dict[tuple[str, str], Entry] = {}
        self._history: set[Entry] = set()
        self._lost_disks = 0
        self.world.may_crash = lambda host: not self.checks.would_strand(host, plan.settings.replicas)
        self.world.may_lose_disk = self._may_lose_disk
        self.world.see_crash = self._see_crash
        for host in plan.hosts:
            self.world.add_host(host, partial(self._start, host), partial(self._take_event, host))

    def _start(self, host: str, storage: SimulatedStorage, random: Random) -> ChordPeer:
        return self._make_peer(host, storage, random, self.plan.settings, self.checks.watch)

    def _take_event(self, host: str, event: Any) -> None:
        """What a peer delivers. A ring by itself has nothing of interest."""

    def play(self, faults: Sequence[Fault]) -> None:
        world, plan = self.world, self.plan
        world.schedule(faults)
        for times, action in [
            (plan.joins, self._join),
            (plan.leaves, self._leave),
            (plan.writes, self._write),
            (plan.lookups, self._look_up),
        ]:
            for time_ms, host in times:
                world.at(time_ms * 1000, action, host)
        world.run(plan.duration_ms)
        world.heal()
        self._wait("a ring", self._ring_faults)
        self._wait("entries where they belong", self._entry_faults)
        self._wait_for_lookups()
        self._finish()
        self.counts["checks"] = self.checks.checks
        self.counts["members"] = len(self.checks.members)
        self.counts["acknowledged"] = len(self.acknowledged)

    def _finish(self) -> None:
        """More to check in the end."""

    # -- what applications do

    def _peer(self, host: str) -> Any:
        return self.world.hosts[host].peer

    def _join(self, host: str) -> None:
        if self.world.hosts[host].call(lambda peer, now_ms: list(peer.join(now_ms))):
            self.counts["joins"] += 1

    def _leave(self, host: str) -> None:
        peer = self._peer(host)
        if peer is not None and peer.is_member and not self.checks.would_strand(host, self.plan.settings.replicas):
            self.world.hosts[host].call(lambda peer, now_ms: list(peer.leave(now_ms)))
            self.counts["leaves"] += 1

    def _write(self, host: str) -> None:
        random = self._random
        key, id = f"/k{random.randrange(KEYS)}", f"{host} {random.randrange(3)}"
        before = self.written.get((key, id))
        version = max(CLOCK_BEGIN_MS + self.world.now_us // 1000, before.version + 1 if before else 0)
        entry = Entry(key, id, version, b"%d" % random.randrange(1000), random.random() < 0.2)
        self.written[key, id] = entry
        self._history.add(entry)

        def end(is_stored: bool) -> None:
            self.counts["stored" if is_stored else "not stored"] += 1
            present = self.acknowledged.get((key, id))
            if is_stored and (present is None or present.version < version):
                self.acknowledged[key, id] = entry

        self.world.hosts[host].call(lambda peer, now_ms: peer.put(entry, end, now_ms))

    def _look_up(self, host: str) -> None:
        place = self._random.randrange(RING)

        def end(step: Step | None, hops: int) -> None:
            right = step is not None and step.members[0] == owner_among(self._rings(), place)
            self.counts["right lookups" if right else "other lookups"] += 1

        self.world.hosts[host].call(lambda peer, now_ms: peer.find(place, end, now_ms))

    # -- faults

    def _see_crash(self, host: str, loses_disk: bool) -> None:
        self.counts["crashes"] += 1
        self.checks.remove_peer(host)
        if loses_disk:
            self._lost_disks += 1
            self.counts["lost disks"] += 1

    def _may_lose_disk(self, host: str) -> bool:
        replicas = self.plan.settings.replicas
        if all(disks >= replicas for disks in self._disk_counts().values()):
            self._lost_disks = 0
        return self._lost_disks < replicas - 1

    def _disk_counts(self) -> Counter[tuple[str, str]]:
        """On how many disks each entry is, in its latest version."""
        entries = [
            msgspec.msgpack.decode(row, type=Entry)
            for host in self.world.hosts.values()
            for row in host.storage.tables().get(TABLE, {}).values()
        ]
        latest = {(entry.key, entry.id): entry.version for entry in sorted(entries, key=lambda entry: entry.version)}
        return Counter((entry.key, entry.id) for entry in entries if entry.version == latest[entry.key, entry.id])

    # -- in the end

    def _expected_members(self) -> set[str]:
        """Who is to be a member. A wish that a crash has taken back was none."""
        joined_hosts = {
            n for n, host in self.world.hosts.items() if host.storage.get(RING_TABLE, STANDING) == b"joined"
        }
        return joined_hosts | set(self.plan.settings.base)

    def _rings(self) -> list[RingMember]:
        return [ring for host in self.plan.hosts if self._peer(host) for ring in self._peer(host).members]

    def _wait(self, what: str, faults_of: Callable[[], list[str]]) -> None:
        world = self.world
        end_ms = world.now_us // 1000 + HEALING_MS_MAX
        while world.failure is None and (wrong := faults_of()):
            if world.now_us // 1000 >= end_ms:
                world.fail(f"no {what} {HEALING_MS_MAX} ms after all faults have ended: {'; '.join(wrong[:4])}")
            world.run(world.now_us // 1000 + STEP_MS)

    def _ring_faults(self) -> list[str]:
        wrong = []
        expected_members = self._expected_members()
        for name, host in self.world.hosts.items():
            if host.peer is None:
                wrong.append(f"{name} is down")
            elif self._peer(name).is_member != (name in expected_members):
                wrong.append(f"{name} is {'a' if self._peer(name).is_member else 'no'} member")
        return wrong or ring_faults(self._rings())

    def _entry_faults(self) -> list[str]:
        """Owners and holders of copies have the same, nobody else has anything, and nothing acknowledged is missing."""
        wrong = self._ring_faults()
        rings = {ring.me: ring for ring in self._rings() if ring.is_member}
        shelves = {host: self._peer(host).entries.shelf for host in self.plan.hosts if self._peer(host)}
        keys = {key for shelf in shelves.values() for key in shelf.key_list()} | {key for key, _ in self.acknowledged}
        for key in sorted(keys) if not wrong else ():
            ring = rings[owner_among(rings.values(), place_of_key(key))]
            holders = [ring.me.peer, *ring.copy_peers(self.plan.settings.replicas - 1)]
            owner_entries = {entry.id: entry for entry in shelves[ring.me.peer].entries(key)}
            for host, shelf in shelves.items():
                own = {entry.id: entry for entry in shelf.entries(key)}
                if own != (owner_entries if host in holders else {}):
                    wrong.append(
                        f"{host} has {len(own)} entries of {key}, its owner {ring.me.peer} {len(owner_entries)}"
                    )
            if not self._peer(ring.me.peer).entries.is_ready(key):
                wrong.append(f"{ring.me.peer} is not ready for {key}")
            for (_, id), entry in self.acknowledged.items():
                present = owner_entries.get(id)
                if entry.key == key and (present is None or present.version < entry.version):
                    wrong.append(f"lost: {entry}")
            if self.acknowledged:
                wrong += [f"changed: {entry}" for entry in owner_entries.values() if entry not in self._history]
        return wrong

    def _wait_for_lookups(self) -> None:
        """Every member looks for places, and all answers are right."""
        answers: list[bool] = []
        expected = 0
        self._late_until_us = self.world.now_us + LATE_MS * 1000
        for host in sorted(self._expected_members()):
            for _ in range(3):
                expected += 1
                self._expect_owner(host, self._random.randrange(RING), answers)
        self._wait("answers to lookups", lambda: [] if len(answers) == expected else [f"{len(answers)}/{expected}"])
        if self.world.failure is None and not all(answers):
            self.world.fail(f"{answers.count(False)} of {expected} lookups are wrong after all faults have ended")

    def _expect_owner(self, host: str, place: int, answers: list[bool]) -> None:
        def end(step: Step | None, hops: int) -> None:
            is_right = step is not None and step.members[0] == owner_among(self._rings(), place)
            if step is None or (not is_right and self.world.now_us < self._late_until_us):
                # What was sent before the last fault ended may still be on its way: others wait behind it, and a peer
                # whose disk has to catch up may be taken for dead once more.
                self.world.after(STEP_MS * 1000, self._expect_owner, host, place, answers)
            else:
                answers.append(is_right)

        self.world.hosts[host].call(lambda peer, now_ms: peer.find(place, end, now_ms))
