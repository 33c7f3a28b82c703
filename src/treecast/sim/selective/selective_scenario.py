"""A network of selective publishing with loss, duplication, brokers that die at every level, and brokers that join.

What has to hold:

- No subscriber ever gets an element that it may not see, or has not asked for, or that the source never published.
- After all faults have ended, every subscriber has the latest state of every element that it wants and may see.
- Then the network is quiet: nothing is sent any more that is known already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from treecast.overlay.peer import Effect
from treecast.overlay.selective.selective_broker import SelectiveBroker
from treecast.overlay.selective.source import Source
from treecast.overlay.selective.subscriber_peer import Arrival, SubscriberPeer
from treecast.overlay.selective.upward import Upward
from treecast.selective.outline import Outline
from treecast.selective.subtrees import Subtree
from treecast.sim.faults import Crash, Fault, FaultRates, draw_faults
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.selective.layered_run import LayeredRun
from treecast.sim.selective.selective_plan import SOURCE, SelectivePlan, draw_plan, is_allowed, visible_elements
from treecast.sim.storage import SimulatedStorage

FOR_EVER_MS = 10_000_000
MakeBroker = Callable[..., SelectiveBroker]


class SelectiveScenario:
    """A `Scenario`. Tests that plant a bug make the brokers themselves."""

    name = "selective"

    def __init__(self, make_broker: MakeBroker = SelectiveBroker) -> None:
        self._make_broker = make_broker

    def faults(self, seed: int) -> list[Fault]:
        plan, random = draw_plan(seed), Random(f"{seed}/selective faults")
        brokers = tuple(plan.brokers())
        hosts = [SOURCE, *brokers, *plan.subscribers]
        faults = draw_faults(random, hosts, plan.duration_ms, FaultRates(crashing=brokers))
        if random.random() < 0.6:
            # A broker of each level dies for good; another one of its level is left.
            for level in plan.levels:
                if len(level) > 1 and random.random() < 0.7:
                    faults.append(Crash(random.choice(level), random.randrange(plan.duration_ms), FOR_EVER_MS))
        return faults

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = SelectiveRun(seed, draw_plan(seed), self._make_broker)
        run.play(faults)
        return outcome_of(self.name, run.world, faults, with_trace, dict(run.counts))


class SelectiveRun(LayeredRun):
    """One run: a source, brokers, subscribers, and what has to hold."""

    restlessness = "elements are sent again and again, or links never settle"

    def __init__(self, seed: int, plan: SelectivePlan, make_broker: MakeBroker) -> None:
        super().__init__(seed, plan)
        self.plan = plan
        self.outline = Outline(plan.parents)
        self._make_broker = make_broker
        self._rights = {name: set(ids) for name, ids in plan.rights.items()}
        self._subtrees_by_subscriber: dict[str, list[Subtree]] = {name: [] for name in plan.subscribers}
        self._visible: dict[str, set[int]] = {name: set() for name in plan.subscribers}  # ever
        self._payload_by_version: dict[tuple[int, int], bytes] = {}
        first = self._brokers_of(1)
        self.source = Source(
            SOURCE, self.world.random_of("source"), plan.parents, neighbours=first, settings=plan.settings
        )
        self.world.add_host(SOURCE, lambda storage, random: self.source)
        self._add_brokers(self._start_broker)
        for name in plan.subscribers:
            self.world.add_host(name, partial(self._start_subscriber, name), partial(self._see, name))

    def _start_broker(self, name: str, storage: SimulatedStorage, random: Random) -> SelectiveBroker:
        rank = self._rank(name)
        is_last = rank == len(self.plan.levels)
        self.counts["starts"] += 1
        return self._make_broker(
            *(name, rank, random),
            neighbours=self._neighbours_of(name),
            settings=self.plan.settings,
            faces_subscribers=is_last,
            check=self._may_have if is_last else None,
        )

    def _may_have(self, name: str, part: Subtree, proof: bytes) -> bool:
        return name in self._rights and is_allowed(part, self._rights[name], self.outline)

    def _start_subscriber(self, name: str, storage: SimulatedStorage, random: Random) -> SubscriberPeer:
        last = self.plan.levels[-1]  # those that join later among them: somebody has told it
        return SubscriberPeer(name, len(self.plan.levels) + 1, random, brokers=last, settings=self.plan.settings)

    # -- what happens

    def play(self, faults: Sequence[Fault]) -> None:
        self._publish(list(self.outline))
        for time_ms, name, parts in self.plan.wants:
            self.world.at(time_ms * 1000, self._want, name, parts)
        for time_ms, ids in self.plan.publications:
            self.world.at(time_ms * 1000, self._publish, ids)
        late = [fault for fault in faults if isinstance(fault, Crash) and fault.host in self.plan.joins]
        for fault in late:  # nobody can crash who is not there
            if fault.at_ms > self.plan.joins[fault.host]:
                self.world.schedule([fault])
        self.world.schedule([fault for fault in faults if fault not in late and self._is_possible(fault)])
        self._finish()
        self._count()

    def _is_possible(self, fault: Fault) -> bool:
        return getattr(fault, "host", "") not in self.plan.joins

    def _publish(self, ids: Sequence[int]) -> None:
        version = self.source.version + 1
        payloads = {id: f"{id} in {version}".encode() for id in ids}
        self._payload_by_version.update({(id, version): payload for id, payload in payloads.items()})

        def act(source: Source, now_ms: int) -> list[Effect]:
            return source.publish(payloads, now_ms)

        self.world.hosts[SOURCE].call(act)

    def _want(self, name: str, parts: list[Subtree]) -> None:
        self._subtrees_by_subscriber[name] = parts
        self._visible[name] |= visible_elements(parts, self._rights[name], self.outline)
        self.counts["wants"] += 1
        self.counts["beyond"] += any(not is_allowed(part, self._rights[name], self.outline) for part in parts)
        self.world.hosts[name].call(lambda peer, now_ms: list(peer.want(parts, now_ms)))

    # -- what has to hold

    def _see(self, name: str, event: Arrival) -> None:
        for one in event.elements:
            self.counts["arrivals"] += 1
            if one.id not in self._visible[name]:
                self.world.fail(f"{name} gets element {one.id}, which it may not see or has not asked for")
            if self._payload_by_version.get((one.id, one.version)) != one.payload:
                self.world.fail(f"{name} gets element {one.id} in a state that it never had")

    def _missing(self) -> list[str]:
        texts = []
        for name in self.plan.subscribers:
            peer = self.world.hosts[name].peer
            assert isinstance(peer, SubscriberPeer)
            for id in sorted(visible_elements(self._subtrees_by_subscriber[name], self._rights[name], self.outline)):
                if peer.elements.get(id) != self.source.elements[id]:
                    texts.append(f"{name}: {id}")
        return texts

    def _peers(self) -> list[SelectiveBroker]:
        return [host.peer for host in self.world.hosts.values() if isinstance(host.peer, SelectiveBroker)]

    def _elements_sent(self) -> int:
        peers = [peer.downward for peer in self._peers() if peer.downward is not None]
        return self.source.downward.elements_sent + sum(one.elements_sent for one in peers)

    def _is_settled(self) -> bool:
        return all(_has_its_links(peer.upward) for peer in self._peers() if peer.upward is not None)

    def _count(self) -> None:
        for peer in self._peers():
            if peer.upward is not None:
                self.counts["links"] += len(peer.upward.links)
                self.counts["merges"] += peer.upward.forwarding.merges
                self.counts["inquiries"] += peer.upward.inquiries
        self.counts["brokers"] += len(self.plan.brokers())
        self.counts["dead"] += len(self.plan.brokers()) - len(self._peers())
        self.counts["elements sent"] += self._elements_sent()


def _has_its_links(upward: Upward) -> bool:
    """Whether there is a link, and it is granted, for all that is asked for, and for nothing else."""
    links = upward.links
    return sorted(links) == sorted(upward.forwarding.asked_roots()) and all(
        link.state == "granted" for link in links.values()
    )
