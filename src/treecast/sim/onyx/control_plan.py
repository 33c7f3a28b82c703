"""What a run of the control plane is like, drawn by seed: brokers, registries, clients, settings, and who leaves."""

from __future__ import annotations

from random import Random

import msgspec

from treecast.overlay.client import ClientSettings
from treecast.overlay.onyx.membership import MembershipSettings
from treecast.overlay.onyx.registry import RegistrySettings
from treecast.overlay.onyx.registry_client import RegistryClientSettings
from treecast.overlay.onyx.tree_broadcast import TreeBroadcastSettings

NEVER_MS = 10_000_000
"""Longer than any run: a broker that is away for so long does not come back."""


class Departure(msgspec.Struct, frozen=True):
    """A broker says goodbye, and stops."""

    broker: str
    at_ms: int
    away_ms: int
    is_restarting: bool


class ControlPlan(msgspec.Struct, frozen=True):
    """A run."""

    brokers: dict[str, int]
    """When each starts."""
    locations: dict[str, tuple[float, float]]
    registries: tuple[str, ...]
    clients: tuple[str, ...]
    departures: list[Departure]
    duration_ms: int
    action_ms: int
    """About so much time passes between two actions of a client."""
    registry: RegistrySettings
    membership: MembershipSettings
    client: RegistryClientSettings


def draw_plan(random: Random) -> ControlPlan:
    """Three to thirty brokers, mostly few: large networks take long to simulate."""
    count = random.choice([3, 3, 4, 4, 5, 5, 6, 7, 8, 10, 12, 30])
    names = [f"b{number:02}" for number in range(count)]
    duration_ms = random.choice([2_000, 3_000, 4_000]) if count < 20 else 2_000
    departures = []
    for name in names:
        if random.random() < 0.15:
            away_ms = random.choice([1, 200, 1_500, NEVER_MS])
            departures.append(Departure(name, random.randrange(500, duration_ms), away_ms, random.random() < 0.3))
    return ControlPlan(
        brokers={name: random.choice([0, 0, random.randrange(duration_ms)]) for name in names},
        locations={name: (random.uniform(0, 10), random.uniform(0, 10)) for name in names},
        registries=("r1", "r2") if random.random() < 0.85 else ("r1",),
        clients=("c1", "c2")[: random.choice([1, 2])],
        departures=departures,
        duration_ms=duration_ms,
        action_ms=random.choice([100, 300]),
        registry=_draw_registry(random),
        membership=_draw_membership(random),
        client=RegistryClientSettings(
            client=ClientSettings(
                queue_max=1_000,
                window_max=random.choice([1, 3, 16]),
                request_ms=random.choice([100, 300]),
                request_ms_max=1_000,
            ),
            other_ms=random.choice([300, 1_000]),
            cached_max=random.choice([1, 100]),
        ),
    )


def _draw_registry(random: Random) -> RegistrySettings:
    """Limits as small as they may be in some runs, so that what they lead to happens."""

    def draw(usual: int, *extreme: int) -> int:
        return random.choice(extreme) if random.random() < 0.4 else usual

    return RegistrySettings(
        silent_ms=draw(700, 400, 1_500),
        restart_ms=draw(1_500, 3_000),
        doubt_ms=draw(2_000, 700),
        view_ms=draw(50, 0, 300),
        fan_out_max=random.choice([1, 2, 4]),
        catalog_bytes_max=draw(1 << 20, 1, 50),
        reroot_ms=draw(0, 1_000),
        policy=random.choice(["near", "load"]),
        rebalance_ms=draw(500, 100),
        migrations_per_minute_max=draw(600, 3),
        migrations_open_max=draw(100, 1),
        migration_ms=draw(60_000, 300),
        repeat_ms=draw(300, 100),
        ship_ms=draw(150, 60),
        lease_ms=draw(600, 400, 1_000),
        stand_ms=draw(150, 50),
        stand_ms_max=1_000,
        groups_max=draw(1_000, 1, 3),
        held_max=draw(10_000, 1, 5),
        ship_bytes_max=draw(1 << 20, 1, 300),
    )


def _draw_membership(random: Random) -> MembershipSettings:
    return MembershipSettings(
        heartbeat_ms=random.choice([150, 250]),
        gossip_ms=random.choice([300, 1_000]),
        questions_max=random.choice([1, 1_000]),
        question_ms=random.choice([200, 1_000]),
        broadcast=TreeBroadcastSettings(repeat_ms=random.choice([100, 400]), open_max=random.choice([1, 256])),
    )
