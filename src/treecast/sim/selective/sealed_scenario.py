"""Sealed documents in a network: a publisher, brokers in levels, members of groups; loss, deaths, joins, revocations.

The document changes in content and structure. What has to hold:

- A member never shows anything but a state that its view, or the subtree that it asked for, had when the publisher
  published it; and states follow each other.
- Who has been revoked shows nothing that was published afterwards.
- No broker ever has a box that can be read.
- After all faults have ended, every member has the latest state; then it is quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from treecast.overlay.peer import Effect
from treecast.overlay.selective.member_peer import MemberPeer, MemberState, ViewChange
from treecast.overlay.selective.publication import Publication
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.overlay.selective.tree_broker import TreeBroker
from treecast.overlay.selective.tree_source import TreeSource, TreeVersion
from treecast.selective.assembly import WHOLE, Assembly
from treecast.selective.parcels import mailbox
from treecast.selective.policies import Policies
from treecast.selective.publisher import Publisher
from treecast.sim.faults import Crash, Fault, FaultRates, draw_faults
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.selective.layered_run import LayeredRun
from treecast.sim.selective.sealed_plan import GROUPS, PAPER, SealedPlan, SealedText, draw_sealed
from treecast.sim.selective.selective_plan import SOURCE
from treecast.sim.storage import SimulatedStorage

FOR_EVER_MS = 10_000_000
MakeBroker = Callable[..., TreeBroker]


class SealedScenario:
    """A `Scenario`. Tests that plant a bug make the brokers themselves."""

    name = "sealed"

    def __init__(self, make_broker: MakeBroker = TreeBroker) -> None:
        self._make_broker = make_broker

    def faults(self, seed: int) -> list[Fault]:
        plan, random = draw_sealed(seed), Random(f"{seed}/sealed faults")
        brokers = tuple(name for name in plan.brokers() if name not in plan.joins)
        members = tuple(plan.members)
        faults = draw_faults(
            random, [SOURCE, *brokers, *members], plan.duration_ms, FaultRates(crashing=(*brokers, *members))
        )
        for name in members:  # it goes away, and comes back
            if random.random() < 0.3:
                faults.append(Crash(name, random.randrange(plan.duration_ms), random.choice([500, 3_000])))
        if random.random() < 0.6:
            for level in plan.levels:
                alive = [name for name in level if name in brokers]
                if len(alive) > 1 and random.random() < 0.7:
                    faults.append(Crash(random.choice(alive), random.randrange(plan.duration_ms), FOR_EVER_MS))
        return faults

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = SealedRun(seed, draw_sealed(seed), self._make_broker)
        run.play(faults)
        return outcome_of(self.name, run.world, faults, with_trace, dict(run.counts))


class SealedRun(LayeredRun):
    """One run: a publisher, brokers, members, and what has to hold."""

    def __init__(self, seed: int, plan: SealedPlan, make_broker: MakeBroker) -> None:
        super().__init__(seed, plan)
        self.plan = plan
        self._make_broker = make_broker
        self._settings: SelectiveSettings = plan.settings
        self._text = SealedText(Random(f"{seed}/text"), plan.size)
        policies = Policies()
        for group, (include, exclude) in GROUPS.items():
            policies.grant(group, include=include, exclude=exclude, allow_empty=True)
        for member, (group, _) in plan.members.items():
            policies.join(group, member)
        signer = Ed25519PrivateKey.from_private_bytes(bytes(32))
        self.publisher = Publisher(PAPER, policies, secret=bytes(32), signer=signer)
        self.publication = Publication(self.publisher)
        self.source = TreeSource(
            SOURCE, self.world.random_of("source"), neighbours=self._brokers_of(1), settings=plan.settings
        )
        self._history: dict[tuple[str, int], list[tuple[int, list[bytes]]]] = {}  # by group and root
        self._roots: dict[str, int] = {}
        self._latest: dict[str, int] = {}  # the version that each member has shown
        self._limits: dict[str, int] = {}  # the last version for those who have been revoked
        self._saved_states: dict[str, MemberState] = {}
        self._saving = self.world.random_of("saving")
        self.world.add_host(SOURCE, lambda storage, random: self.source)
        self._publish(is_first=True)
        self._add_brokers(self._start_broker)
        for name in plan.members:
            self.world.add_host(name, partial(self._start_member, name), partial(self._see, name))

    def _start_broker(self, name: str, storage: SimulatedStorage, random: Random) -> TreeBroker:
        rank = self._rank(name)
        return self._make_broker(
            *(name, rank, random),
            neighbours=self._neighbours_of(name),
            settings=self._settings,
            faces_subscribers=rank == len(self.plan.levels),
        )

    def _start_member(self, name: str, storage: SimulatedStorage, random: Random) -> MemberPeer:
        group, _ = self.plan.members[name]
        key = self.publisher.keys.member(name)
        assembly = Assembly(name, key, PAPER, group, self.publisher.public_key, [self._roots[name]])
        self.counts["starts"] += 1
        self.counts["caught up"] += name in self._saved_states
        peer = MemberPeer(
            *(name, random, assembly, mailbox(self.publisher, name)),
            brokers=self.plan.levels[-1],
            settings=self._settings,
            edition=1,
            state=self._saved_states.get(name),
        )
        self._latest[name] = assembly.version
        return peer

    # -- what happens

    def play(self, faults: Sequence[Fault]) -> None:
        for time_ms in self.plan.publications:
            self.world.at(time_ms * 1000, self._publish)
        for time_ms, member in self.plan.revocations:
            self.world.at(time_ms * 1000, self._revoke, member)
        self.world.schedule(list(faults))
        self._finish()
        self._check_boxes()
        self.counts["brokers"] += len(self._brokers())
        self.counts["dead"] += len(self.plan.brokers()) - len(self._brokers())
        self.counts["elements sent"] += self._elements_sent()

    def _publish(self, is_first: bool = False) -> None:
        if not is_first:
            self.counts["structure"] += self._text.change()
        self.publisher.publish(self._text.to_bytes())
        if is_first:
            self._choose_roots()
        self._note()
        self._send()

    def _choose_roots(self) -> None:
        """Some members want a subtree of their view that stays."""
        for name, (group, is_partial) in self.plan.members.items():
            ids = self.publisher.view(group).select("//keep") if is_partial else []
            self._roots[name] = ids[0] if ids else WHOLE
            if ids:
                self.publication.parcels(group).watch(ids[0])
                self.counts["partial"] += 1

    def _note(self) -> None:
        """What the views are now, made without parcels."""
        document = self.publisher.document
        assert document is not None
        for group in GROUPS:
            view = self.publisher.view(group)
            fragments = document.preview(self.publisher.policies.subtrees(group, document))
            states = {WHOLE: fragments}
            for root in {self._roots[name] for name, (own, _) in self.plan.members.items() if own == group} - {WHOLE}:
                states[root] = [one for one in fragments if one.startswith(b"<keep")][:1] or [
                    piece for one in fragments for piece in self._text.keeps(one)
                ][:1]
            for root, state in states.items():
                history = self._history.setdefault((group, root), [])
                if not history or history[-1][1] != state:
                    history.append((view.version, state))

    def _revoke(self, member: str) -> None:
        group, _ = self.plan.members[member]
        self.publisher.policies.revoke(group, member)
        self._limits[member] = self.publisher.version(group)
        self.counts["revocations"] += 1
        self._send()

    def _send(self) -> None:
        for version in self.publication.collect(self.world.hosts[SOURCE].now_ms()):
            self.world.hosts[SOURCE].call(partial(_publish_version, version))

    # -- what has to hold

    def _see(self, name: str, event: ViewChange) -> None:
        self.counts["views"] += 1
        peer = self.world.hosts[name].peer
        assert isinstance(peer, MemberPeer)
        group, _ = self.plan.members[name]
        version, fragments = peer.assembly.version, peer.assembly.fragments()
        states = self._history[group, self._roots[name]]
        if fragments not in [state for since, state in states if since <= version]:
            self.world.fail(f"{name} sees what its group never saw in version {version}: {fragments!r}")
        if version < self._latest[name]:
            self.world.fail(f"{name} goes back from version {self._latest[name]} to {version}")
        if name in self._limits and version > self._limits[name]:
            self.world.fail(f"{name} sees version {version} after it was revoked in {self._limits[name]}")
        self._latest[name] = version
        if self._saving.random() < 0.5:
            self._saved_states[name] = peer.save()

    def _missing(self) -> list[str]:
        members = []
        for name, (group, _) in self.plan.members.items():
            peer = self.world.hosts[name].peer
            if name in self._limits:
                continue
            latest = self._history[group, self._roots[name]][-1][1]
            if not isinstance(peer, MemberPeer) or peer.assembly.fragments() != latest:
                members.append(name)
        return members

    def _brokers(self) -> list[TreeBroker]:
        return [host.peer for host in self.world.hosts.values() if isinstance(host.peer, TreeBroker)]

    def _elements_sent(self) -> int:
        peers = [tree.broker.downward for peer in self._brokers() for tree in peer.trees.values()]
        sources = [tree.source.downward for tree in self.source.trees.values()]
        return sum(one.elements_sent for one in [*peers, *sources] if one is not None)

    def _check_boxes(self) -> None:
        for peer in self._brokers():
            for tree in peer.trees.values():
                if any(self._text.mark in one.payload for one in tree.broker.elements.values()):
                    self.world.fail(f"{peer.name} can read what it carries")


def _publish_version(version: TreeVersion, peer: TreeSource, now_ms: int) -> list[Effect]:
    return peer.publish(version, now_ms)
