"""A control plane for tests: registries, brokers that do nothing else, and a client."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from support.peer_network import PeerNetwork
from treecast.overlay.client import Answered
from treecast.overlay.messages import Command, Inspect, Inspected
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.registry import Registry, RegistrySettings
from treecast.overlay.onyx.registry_client import RegistryClient
from treecast.overlay.onyx.view import BrokerInfo
from treecast.sim import SimulatedStorage
from treecast.sim.onyx.member import Member


class ControlNetwork(PeerNetwork):
    """Registries r1, and r2 if there are `registries`; brokers that tests add; a client."""

    def __init__(self, settings: RegistrySettings | None = None, *, registries: int = 1) -> None:
        super().__init__()
        self.names = ("r1", "r2")[:registries]
        self.settings = settings or RegistrySettings()
        self.infos: dict[str, BrokerInfo] = {}
        self.membership = MembershipSettings()
        for name in self.names:
            self.add(name, partial(self._make_registry, name))
        self.add("client", lambda storage, random: RegistryClient("client", self.names, random))

    def _make_registry(self, name: str, storage: SimulatedStorage, random: Random) -> Registry:
        return Registry(name, storage, random, self.settings, self.names)

    def add_brokers(self, **infos: BrokerInfo) -> None:
        for name, info in infos.items():
            self.infos[name] = info

            def make(storage: Any, random: Any, name: str = name) -> Member:
                return Member(name, storage, random, self.names, self.membership, lambda: self.infos[name])

            self.add(name, make)
        self.run(1_000)

    def registry(self, name: str = "r1") -> Registry:
        registry: Registry = self.peers[name]
        return registry

    def member(self, name: str) -> Member:
        member: Member = self.peers[name]
        return member

    def ask(self, command: Command) -> Answered:
        """Let the client ask, and wait for the answer."""
        ticket, effects = self.peers["client"].request(command, self.now_ms)
        self.do("client", effects)
        for _ in range(200):
            for event in self.events["client"]:
                if isinstance(event, Answered) and event.ticket == ticket:
                    return event
            self.run(50)
        raise AssertionError(f"no answer to {command}")

    def rows(self, kind: Any, registry: str = "r1") -> list[dict[str, str | int]]:
        (answer,) = self.tell("somebody", registry, Inspect(1, kind, count_max=1_000))
        assert isinstance(answer, Inspected)
        return answer.rows
