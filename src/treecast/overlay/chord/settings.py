"""Limits and times of a ring. All peers of a ring have the same `base`, `replicas` and `members`."""

from __future__ import annotations

import msgspec


class ChordSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit peers in one data centre.

    `base` names peers that belong to the ring for ever: at least `replicas` + 1 of them. They may crash and come back,
    but nobody takes them for dead, and they never leave. What the ring promises rests on them (see `ring.py`).
    """

    base: tuple[str, ...]
    replicas: int = 3
    """Peers that store an entry, the owner among them; also how many other peers a list of successors names."""
    members: int = 1
    """Places on the ring that each peer has: virtual nodes, as the papers call them."""

    stabilise_ms: int = 500
    """A member asks its successor so often."""
    finger_ms: int = 1_000
    """One finger is looked up so often."""
    probe_ms: int = 250
    """A question that is not answered within this time is asked again,"""
    probes_max: int = 3
    """up to so often in all; then the other peer is taken for dead, unless it belongs to the base."""
    join_ms: int = 500
    """A join that has failed is tried again after so long."""
    sync_ms: int = 1_000
    """An owner compares its range with those who hold copies so often."""
    claim_ms: int = 6_000
    """A copy whose owner has not been heard for so long is offered to whoever owns the key now."""
    offer_ms: int = 2_000
    """A peer looks so often for entries that it need not hold."""
    retry_ms: int = 300
    """A write that has failed is tried again after so long, then after twice as long, and so on,"""
    retry_ms_max: int = 3_000
    write_attempts_max: int = 12
    """up to so often."""
    forget_ms: int = 86_400_000
    """A removed entry is remembered for so long, so that a peer that comes back does not bring it back."""

    hops_max: int = 64
    """Of one lookup."""
    calls_max: int = 20_000
    """Questions of one peer that wait for their answers; further ones fail at once."""
    writes_max: int = 2_000
    """Writes that an owner works on at once; further ones are refused, and tried again by whoever asks."""
    chunk_entries_max: int = 256
    """Entries in one message between owner and copies; larger ranges are compared in halves."""
    offers_max: int = 64
    """Keys that are offered at once."""

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.members < 1:
            raise ValueError("replicas and members are at least 1")
        if len(set(self.base)) <= self.replicas:
            raise ValueError(f"the base needs at least {self.replicas + 1} peers, it has {len(set(self.base))}")
