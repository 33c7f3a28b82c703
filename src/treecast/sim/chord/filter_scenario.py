"""Documents and subscriptions on a ring under joins, leaves, crashes and partitions.

At any time, what is delivered matches. In runs whose only faults are crashes that keep their disks, a document that is
reported as complete was delivered for every subscription that was acknowledged before it was published. When all faults
have ended and all is acknowledged, deliveries are those of one index, and each is made once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import msgspec

from treecast.index import Index
from treecast.overlay.chord import ChordPeer, NfaPeer, NfaSettings
from treecast.overlay.chord.indexing import SubscriptionChange
from treecast.overlay.chord.nfa_peer import Method, Published
from treecast.overlay.chord.notifying import Match
from treecast.sim.chord.scenario import ChordPlan, ChordRun, ChordScenario, MakePeer
from treecast.sim.faults import Crash, Fault
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.storage import SimulatedStorage

QUERIES = (
    *("/a", "/a/b", "//b", "/a//c", "//a/*/b", "/*/*", "//c//b", "/a/b/c", "//b/c", "/a[b]/c"),
    *("//a[c//b]", "/a[@x]/b", "//b[2]", "//c[not(b)]", "/a[b/c][.//a]"),
)
LAST_DOCUMENTS = 3


def draw_document(random: Random, depth: int = 0) -> str:
    name, attribute = random.choice("abc") if depth else "a", random.choice(["", " x='1'"])
    inside = "".join(draw_document(random, depth + 1) for _ in range(random.randint(0, 2) if depth < 3 else 0))
    return f"<{name}{attribute}>{inside}</{name}>"


class FilterScenario(ChordScenario):
    """A `Scenario`. What a ring of `ChordScenario` does with entries, this one does with subscriptions."""

    name = "ring-filter"

    def __init__(self, make_peer: MakePeer = NfaPeer) -> None:
        super().__init__(make_peer)

    def plan(self, seed: int) -> ChordPlan:
        plan = super().plan(seed)
        return msgspec.structs.replace(plan, writes=plan.writes[:20], lookups=plan.lookups[:6])

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = FilterRun(seed, self.plan(seed), self._make_peer)
        run.only_crashes = all(isinstance(fault, Crash) and not fault.loses_disk for fault in faults)
        run.play(faults)
        return outcome_of(self.name, run.world, faults, with_trace, dict(run.counts))


class FilterRun(ChordRun):
    """Writes are changes of subscriptions, lookups are documents."""

    only_crashes = False

    def __init__(self, seed: int, plan: ChordPlan, make_peer: MakePeer) -> None:
        random = Random(f"{seed}/filter")
        self.nfa_settings = NfaSettings(
            fragment_length=random.randrange(4),
            shed_rate=random.choice([0.1, 1.0]),
            shed_documents_min=2,
            shed_copies=2,
            whole_bytes_max=random.choice([0, 64 << 10]),
            locations_max=random.choice([0, 10_000]),
            walk_attempts_max=1_000,
        )
        self.queries: dict[str, tuple[str, str]] = {}
        """By subscription: its host and its query. Ids are never used again."""
        self.subscribed: set[str] = set()
        self.documents: dict[str, bytes] = {}
        self._expected: dict[str, set[str]] = {}
        """By document: subscriptions that were acknowledged before it."""
        self.deliveries: Counter[tuple[str, str]] = Counter()
        self._finished_documents: set[str] = set()
        super().__init__(seed, plan, make_peer)

    def _start(self, host: str, storage: SimulatedStorage, random: Random) -> ChordPeer:
        return self._make_peer(host, storage, random, self.plan.settings, self.checks.watch, self.nfa_settings)

    # -- what applications do

    def _write(self, host: str) -> None:
        random = self._random
        own = sorted(id for id in self.subscribed if self.queries[id][0] == host)
        if own and random.random() < 0.25:
            id = random.choice(own)
            self.subscribed.discard(id)
            self.world.hosts[host].call(lambda peer, now_ms: peer.unsubscribe(id, now_ms))
            return
        id, query = f"s{len(self.queries)}", random.choice(QUERIES)
        self.queries[id] = (host, query)
        self.world.hosts[host].call(lambda peer, now_ms: peer.subscribe(id, query, now_ms=now_ms))

    def _look_up(self, host: str) -> None:
        peer = self._peer(host)
        if peer is not None and peer.is_member:
            self._publish(host)

    def _publish(self, host: str) -> str:
        random = self._random
        body, id = draw_document(random).encode(), f"d{len(self.documents)}"
        method: Method = random.choice(["recursive", "recursive", "iterative"])
        self.documents[id] = body
        self._expected[id] = set(self.subscribed)
        self.world.hosts[host].call(lambda peer, now_ms: peer.publish(body, id=id, method=method, now_ms=now_ms))
        return id

    def _take_event(self, host: str, event: object) -> None:
        if isinstance(event, SubscriptionChange) and event.change == "subscribed":
            self.subscribed.add(event.id)
            self.counts["subscribed"] += 1
        elif isinstance(event, Match):
            self._take_match(host, event)
        elif isinstance(event, Published):
            self._finished_documents.add(event.document)
            self.counts["complete" if event.is_complete else "partial"] += 1
            if event.is_complete and self.only_crashes:
                self._expect_all(event.document)

    def _matches(self, id: str, document: str) -> bool:
        index = Index(seed=0)
        index.add("q", self.queries[id][1])
        return bool(index.match(self.documents[document]))

    def _take_match(self, host: str, match: Match) -> None:
        self.counts["matches"] += 1
        place = (match.document, match.subscription)
        self.deliveries[place] += 1
        if not self._matches(match.subscription, match.document):
            self.world.fail(f"{match} is delivered, and does not match")
        # A host that was rebuilt, after a crash or an error of its disk, may repeat what was not stored.
        if self.deliveries[place] > 1 and self.world.hosts[host].incarnation == 1:
            self.world.fail(f"{match} is delivered twice")

    def _expect_all(self, document: str) -> None:
        for id in sorted(self._expected[document] & self.subscribed):
            if self._matches(id, document) and not self.deliveries[document, id]:
                self.world.fail(f"{document} is complete, and {id} ({self.queries[id]}) has not got it")

    # -- in the end

    def _finish(self) -> None:
        self._wait("acknowledged subscriptions", self._unsettled_ids)
        if self.world.failure is not None:
            return
        hosts = sorted(self._expected_members())
        last = [self._publish(self._random.choice(hosts)) for _ in range(LAST_DOCUMENTS)]
        self._wait("end of the last documents", lambda: [id for id in last if id not in self._finished_documents])
        expected = self._live()
        for document in last if self.world.failure is None else ():
            for id in sorted(expected):
                if self._matches(id, document) != bool(self.deliveries[document, id]):
                    self.world.fail(f"{id} ({self.queries[id]}) and {document}: {self.documents[document]!r}")

    def _live(self) -> set[str]:
        peers = [self._peer(host) for host in self.plan.hosts]
        return {id for peer in peers for id, each in peer.indexing.subscriptions.items() if not each.row.is_removed}

    def _unsettled_ids(self) -> list[str]:
        return [
            id
            for host in self.plan.hosts
            for id, each in (self._peer(host).indexing.subscriptions.items() if self._peer(host) else [(host, None)])
            if each is None or not each.row.is_confirmed
        ]
