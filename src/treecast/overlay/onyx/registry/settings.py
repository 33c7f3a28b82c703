"""Limits and times of a registry. Every queue, cache and retry has a bound here."""

from __future__ import annotations

from typing import Literal

import msgspec

from treecast.overlay.broker.settings import DAY_MS, MINUTE_MS, SECOND_MS
from treecast.overlay.onyx.view import BROKERS_MAX, ROOTS_MAX

Policy = Literal["near", "load", "content"]
"""How the host of a subscription is chosen: by distance, by load, or by what its query asks for (PEP)."""


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit brokers of one site."""

    allow: tuple[str, ...] = ()
    """Names of brokers that may join, or patterns: see `admission.py`. Empty: all."""
    brokers_max: int = BROKERS_MAX
    roots_max: int = ROOTS_MAX
    sources_max: int = 10_000
    """Those that were removed count: others must hear of the removal, however late."""
    subscribers_max: int = 1_000_000
    subscriptions_max: int = 10_000_000
    clients_max: int = 100_000
    client_ms: int = 7 * DAY_MS
    """If there are so many, those that were silent for so long are forgotten."""

    silent_ms: int = 2 * SECOND_MS
    """A broker from which nothing was heard for so long is taken out of the view;"""
    restart_ms: int = 10 * SECOND_MS
    """one that said that it restarts, after so long;"""
    doubt_ms: int = 8 * SECOND_MS
    """and if most brokers are silent, after so long: it is more likely that the registry is cut off."""
    view_ms: int = 100
    """Between two views, so that those who come together are in one."""
    fan_out_max: int = 4
    """Children of a broker in a tree."""
    return_ms: int = 5 * SECOND_MS
    """A broker that was taken over goes back to its own host when so much time has passed since the last decision;"""
    rejoin_ms: int = 5 * SECOND_MS
    """a host that was given up as the backup of a broker becomes it again after so long at the earliest."""
    lost_ms: int = 10 * SECOND_MS
    """If a primary has lost its data, and nobody is known to have everything, others get so long to say what they
    have;"""
    salvage_ms: int = 10 * MINUTE_MS
    """and so long to come back, if they are away. See `roles.py`."""

    catalog_bytes_max: int = 1 << 20
    """Of the entries in one message, unless a single one is larger."""
    reroot_ms: int = 0
    """A source whose root was away for so long gets another one. 0: never, so that the order of its documents is
    kept."""

    former_ms: int = DAY_MS
    """A broker that is the root of nothing any more keeps its tree for so long: others may still lack documents that it
    has acknowledged."""

    policy: Policy = "near"
    near_slack: float = 1.0
    """Brokers that are farther by so much than the nearest count as near; the one with the lowest load is taken."""
    partitions: int = 64
    """With `content`: how many parts queries are divided into. Each part has a broker."""
    skew_max: float = 1.5
    """Subscriptions move if a broker has so many times as many as there are on average."""
    rebalance_ms: int = 10 * SECOND_MS
    """Between two looks at whether something should move;"""
    looked_at_max: int = 1_000
    """with `content` so many subscriptions are looked at in one step."""
    migrations_per_minute_max: int = 600
    migrations_open_max: int = 100
    migration_ms: int = MINUTE_MS
    """A migration that is not done after so long is given up; it may be planned again."""
    repeat_ms: int = SECOND_MS
    """What brokers were told to move, and hosts to be, is told again after so long."""

    ship_ms: int = 300
    """Between two signs of life to the other registry."""
    lease_ms: int = 1_500
    """If the registry in charge was silent for so long, the other one wants to take over. If the other one was, the one
    in charge wants to go on alone. Brokers decide: see `pair.py`."""
    stand_ms: int = 500
    """Brokers are asked again after so long, then after twice as long, and so on."""
    stand_ms_max: int = 4 * SECOND_MS
    groups_max: int = 1_000
    """Groups of changes that are kept for the other registry. If it needs more, it gets a copy of everything. While
    nothing is acknowledged before it has them, no requests are taken if so many wait."""
    held_max: int = 10_000
    """Messages that wait until the other registry has what they tell. More are lost; whoever needs them asks again."""
    ship_bytes_max: int = 1 << 20
    """Of the rows in one message, unless a single one is larger."""
