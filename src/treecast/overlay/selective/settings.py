"""The settings of peers of selective publishing."""

from __future__ import annotations

from dataclasses import dataclass, field

from treecast.selective.forwarding import MergeSettings


@dataclass(frozen=True)
class SelectiveSettings:
    """Times in milliseconds, and how subtrees are asked for."""

    presence_ms: int = 500
    """How often peers say that they are there."""
    failure_ms: int = 2_000
    """A neighbour that has not been heard for so long is taken for dead."""
    lease_ms: int = 6_000
    """What a neighbour asked for is forgotten if it has not been heard for so long."""
    inquiry_ms: int = 400
    """How long to wait for offers before a majority is enough, or the inquiry is repeated."""
    refresh_ms: int = 1_000
    """How often wants are repeated."""
    update_ms: int = 500
    """An update without a receipt is sent again after this time, then after twice as long, and so on."""
    update_ms_max: int = 4_000
    merge_ms: int = 3_000
    """How often brokers between others try to merge what they ask for."""
    merge: MergeSettings = field(default_factory=MergeSettings)
    propagation: str = "best-fit"
    """The policy that chooses a neighbour upwards: one of `PROPAGATION_POLICIES`."""
    clients_max: int = 10_000
    """Neighbours that may ask for something. One more is not answered."""
    trees_max: int = 10_000
    """Trees that one broker carries. Wants of one more are not answered."""
    changes_max: int = 1_000
    """Changes of an outline that are remembered. Who has missed more gets the whole outline."""
    verify_ms: int = 5_000
    """What has arrived and cannot be verified for so long is fetched again, from another broker if there is one."""
