"""Brokers and registries, faults; then all faults end, and everybody has to agree.

>>> outcome = ControlScenario().run(seed=1)
>>> outcome.failure is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec

from treecast.overlay.client import Answered
from treecast.overlay.messages import (
    Command,
    PlaceSubscription,
    RegisterSource,
    RegisterSubscriber,
    RemovePlace,
    RemoveSource,
)
from treecast.overlay.onyx.membership import Membership
from treecast.overlay.onyx.registry import Registry
from treecast.overlay.onyx.registry_client import Found, RegistryClient
from treecast.overlay.onyx.view import BrokerInfo
from treecast.overlay.peer import Peer
from treecast.sim.faults import Crash, Fault, FaultRates, draw_faults
from treecast.sim.frames import PacketCodec
from treecast.sim.host import Host
from treecast.sim.onyx.control_checks import ControlChecks
from treecast.sim.onyx.control_plan import ControlPlan, Departure, draw_plan
from treecast.sim.onyx.member import Member
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

HEALING_MS_MAX = 30_000
"""Time after the last fault within which everybody must agree."""
STEP_MS = 100
ACTIONS = ("source", "source", "remove", "place", "place", "place", "unplace", "subscriber", "where")
ACTIONS_MAX = 25
"""Of one client in a run."""


class ControlScenario:
    """A seed draws brokers, settings, departures and faults."""

    name = "control"

    def __init__(
        self, make_registry: Callable[..., Registry] = Registry, make_membership: Callable[..., Membership] = Membership
    ) -> None:
        """Tests that plant a bug make registries or memberships themselves."""
        self._make_registry = make_registry
        self._make_membership = make_membership

    def plan(self, seed: int) -> ControlPlan:
        return draw_plan(Random(f"{seed}/plan"))

    def faults(self, seed: int) -> list[Fault]:
        plan = self.plan(seed)
        hosts = [*plan.registries, *plan.brokers, *plan.clients]
        # Registries crash more often than others: what they lose, everybody loses.
        rates = FaultRates(
            crashing=(*plan.registries, *plan.registries, *plan.brokers),
            restarting=(*plan.registries, *plan.registries, *plan.brokers),
            storing=(*plan.registries, *plan.brokers),
            clock_jump_ms_max=2_000,
        )
        random = Random(f"{seed}/faults")
        faults = draw_faults(random, hosts, plan.duration_ms, rates)
        if random.random() < 0.3:
            # One that is long enough for the other registry to take over.
            at_ms = random.randrange(500, plan.duration_ms)
            faults.append(Crash(random.choice(plan.registries), at_ms, random.randrange(500, 3_000)))
        return faults

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = ControlRun(seed, self.plan(seed), faults, self._make_registry, self._make_membership)
        run.play()
        return outcome_of(self.name, run.world, faults, with_trace, run.counts())


class ControlRun:
    """A run of the scenario, from its beginning to the checks."""

    def __init__(
        self,
        seed: int,
        plan: ControlPlan,
        faults: Sequence[Fault],
        make_registry: Callable[..., Registry] = Registry,
        make_membership: Callable[..., Membership] = Membership,
    ) -> None:
        self.world = world = World(seed, PacketCodec())
        self.plan = plan
        self.faults = faults
        self.checks = ControlChecks(plan.registry)
        self._make_registry = make_registry
        self._make_membership = make_membership
        random = world.random_of("settings")
        world.network.delay_us = random.choice([50, 500, 10_000])
        world.network.jitter_us = random.choice([1, 500, 10_000])
        sync_us = random.choice([(1, 1), (50, 2_000), (5_000, 30_000)])
        self._departed_brokers: set[str] = set()
        for name in plan.registries:
            self._add(name, partial(self._start_registry, name), None, 0, sync_us)
        for name, at_ms in plan.brokers.items():
            self._add(name, partial(self._start_broker, name), partial(self._on_adoption, name), at_ms, sync_us)
        self.clients = [ControlClient(self, name) for name in plan.clients]
        for departure in plan.departures:
            world.at(departure.at_ms * 1000, self._depart, departure)

    def _add(
        self,
        name: str,
        factory: Callable[[SimulatedStorage, Random], Peer],
        application: Callable[[Any], None] | None,
        at_ms: int,
        sync_us: tuple[int, int],
    ) -> None:
        host = self.world.hosts[name] = Host(self.world, name, factory, application, sync_us=sync_us)
        self.world.at(at_ms * 1000, host.start)

    def _start_registry(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        return self._make_registry(name, storage, random, self.plan.registry, self.plan.registries)

    def _start_broker(self, name: str, storage: SimulatedStorage, random: Random) -> Peer:
        info = BrokerInfo(f"{name}:9000", self.plan.locations[name])
        settings = self.plan.membership
        return Member(name, storage, random, self.plan.registries, settings, lambda: info, self._make_membership)

    def _on_adoption(self, name: str, event: Any) -> None:
        self._look()
        self.expect(self.checks.adopt(name, event.view))

    def _depart(self, departure: Departure) -> None:
        host = self.world.hosts[departure.broker]
        if host.call(lambda peer, now_ms: peer.leave(now_ms, is_restarting=departure.is_restarting)):
            self.world.after(50_000, host.crash, departure.away_ms * 1000)

    def expect(self, problem: str | None) -> None:
        if problem is not None:
            self.world.fail(problem)

    # -- looking at it

    def members(self) -> dict[str, Member]:
        return {name: peer for name in self.plan.brokers if isinstance(peer := self.world.hosts[name].peer, Member)}

    def registries(self) -> dict[str, Registry]:
        hosts = self.world.hosts
        return {name: peer for name in self.plan.registries if isinstance(peer := hosts[name].peer, Registry)}

    def _look(self) -> None:
        self.expect(self.checks.look_at(self.registries()))

    # -- the course of a run

    def play(self) -> None:
        world = self.world
        world.schedule(self.faults)
        for client in self.clients:
            client.begin()
        for time_ms in range(STEP_MS, self.plan.duration_ms + STEP_MS, STEP_MS):
            world.run(time_ms)
            self._look()
        world.heal()
        for client in self.clients:
            client.is_calm = True
        self._wait()
        if world.failure is None:
            tables = {name: world.hosts[name].storage.tables() for name in self.plan.registries}
            wrong = self.checks.final(self.members(), self.registries(), tables)
            if wrong:
                world.fail("\n  ".join(wrong))

    def _wait(self) -> None:
        """Until everybody agrees, for two steps: what is written twice a second is written by then."""
        world = self.world
        end_ms = world.now_us // 1000 + HEALING_MS_MAX
        agreeing_steps = 0
        while world.failure is None and agreeing_steps < 2:
            world.run(world.now_us // 1000 + STEP_MS)
            self._look()
            missing = self._missing()
            agreeing_steps = 0 if missing else agreeing_steps + 1
            if missing and world.now_us // 1000 >= end_ms:
                world.fail(f"{HEALING_MS_MAX} ms after all faults have ended: " + "; ".join(missing[:3]))

    def _missing(self) -> list[str]:
        hosts = self.world.hosts
        down = [name for name in self.plan.registries if not hosts[name].is_up]
        away = {departure.broker for departure in self.plan.departures}
        down += [name for name in self.plan.brokers if not hosts[name].is_up and name not in away]
        if down:
            return [f"{down[0]} is down"]
        if any(client.waiting() for client in self.clients):
            return ["a client waits for an answer"]
        return self.checks.differences(self.members(), self.registries())

    def counts(self) -> dict[str, int]:
        """How much happened: a scenario in which nothing happens finds nothing."""
        return {
            "brokers": len(self.plan.brokers),
            "views": self.checks.views,
            "adoptions": self.checks.adoptions,
            "takeovers": self.checks.terms,
            "answers": sum(client.answers for client in self.clients),
            "found": sum(client.found for client in self.clients),
            "moved": sum(registry.hosts.moved for registry in self.registries().values()),
            "spread": sum(registry.spread > 0 for registry in self.registries().values()),
            "refused_views": sum(member.membership.refused_views for member in self.members().values()),
        }


class ControlClient:
    """Someone who registers sources, places subscriptions, and asks where they are."""

    def __init__(self, run: ControlRun, name: str) -> None:
        self.name = name
        self.is_calm = False
        self.answers = self.found = 0
        self._run = run
        self._random = run.world.random_of("client", name)
        self._tickets: dict[int, Command] = {}
        self._last_ticket_by_source: dict[str, int] = {}  # by source: the last ticket; answers may overtake each other
        self._actions = 0
        self.host = run.world.add_host(name, self._make, self._on_event)
        self.host.on_start = self._on_start

    def _make(self, storage: SimulatedStorage, random: Random) -> Peer:
        plan = self._run.plan
        return RegistryClient(self.name, plan.registries, random, plan.client)

    def _on_start(self, peer: RegistryClient) -> None:
        """It has started again, and does not know what became of its requests."""
        for command in self._tickets.values():
            if isinstance(command, RegisterSource | RemoveSource):
                self._run.checks.sources[command.source] = None
        self._tickets.clear()
        self._last_ticket_by_source.clear()

    def waiting(self) -> int:
        peer: Any = self.host.peer
        return len(self._tickets) + (peer.waiting() if peer else 0)

    def begin(self) -> None:
        self._run.world.after(self._random.randrange(500_000), self._act)

    def _act(self) -> None:
        if self.is_calm or self._actions >= ACTIONS_MAX:
            return
        self._actions += 1
        random = self._random
        kind = random.choice(ACTIONS)
        location = (random.uniform(0, 10), random.uniform(0, 10))
        name = f"{self.name}-{random.randrange(6)}"
        if kind == "source":
            self._request(RegisterSource(f"s{name}", "", "x" * random.choice([0, 100]), location=location))
        elif kind == "remove":
            self._request(RemoveSource(f"s{name}"))
        elif kind == "place":
            self._request(PlaceSubscription(f"q{name}", "//a", location=location))
        elif kind == "unplace":
            self._request(RemovePlace(f"q{name}"))
        elif kind == "subscriber":
            self._request(RegisterSubscriber(f"u{name}", location))
        else:
            self.host.call(lambda peer, now_ms: peer.where("source", f"s{name}", now_ms)[1])
        self._run.world.after(random.randrange(2_000 * self._run.plan.action_ms), self._act)

    def _request(self, command: Command) -> None:
        def ask(peer: RegistryClient, now_ms: int) -> list[Any]:
            ticket, effects = peer.request(command, now_ms)
            self._tickets[ticket] = command
            if isinstance(command, RegisterSource | RemoveSource):
                self._run.checks.sources.setdefault(command.source, None)
            return effects

        self.host.call(ask)

    def _on_event(self, event: Any) -> None:
        if isinstance(event, Found):
            self.found += 1
        if not isinstance(event, Answered):
            return
        self.answers += 1
        command = self._tickets.pop(event.ticket)
        checks = self._run.checks
        if event.refusals:
            return  # nothing has changed
        if isinstance(command, RegisterSource | RemoveSource) and event.ticket > self._last_ticket_by_source.get(
            command.source, 0
        ):
            self._last_ticket_by_source[command.source] = event.ticket
            checks.sources[command.source] = isinstance(command, RegisterSource)
        for place in event.places:
            thing = type(command).__name__
            name = msgspec.to_builtins(command)[1]
            # A source or subscription that was removed, and comes again, gets another id.
            self._run.expect(checks.give(place.number, thing, str(name)))
