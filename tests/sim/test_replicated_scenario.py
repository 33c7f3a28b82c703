"""A network of brokers with replicas in the simulated world: fresh seeds with lost disks, and a bug to be found."""

from __future__ import annotations

import pytest
from support.planted_network_bugs import LatePositions
from support.seeds import find_planted, first_seed, means_of, run_fresh, run_usual_and_fresh

from treecast.overlay.onyx.network_host import NetworkHost
from treecast.overlay.replica.member import Member
from treecast.sim.onyx.replicated_scenario import ReplicatedNetworkScenario

pytestmark = pytest.mark.house

SEEDS = 6
FIRST_SEED = first_seed(400_000)
LONG_SEEDS = 1_000
PLANTED_FIRST, LATE_FIRST = 4, 2
PLANTED_SEEDS_MAX = 10


def test_fresh_seeds() -> None:
    means = means_of(run_usual_and_fresh(ReplicatedNetworkScenario(), FIRST_SEED, SEEDS))
    assert means["operations"] > 20 and means["received"] > 10 and means["terms"] > 2


@pytest.mark.long
def test_many_seeds() -> None:
    first = FIRST_SEED + SEEDS
    means = means_of(run_fresh(ReplicatedNetworkScenario(), range(first, first + LONG_SEEDS)))
    assert means["takeovers"] > 0.5 and means["lost_disks"] > 0.2


class _EarlyHost(NetworkHost):
    """Acknowledges when its own disk has it, whatever the backup has."""

    def _open(self, member: Member) -> None:
        super()._open(member)
        self._primaries[member.broker]._may_leave = lambda: True  # type: ignore[method-assign]


def test_an_acknowledgement_before_the_backup_has_it_is_found() -> None:
    seeds = range(PLANTED_FIRST, PLANTED_FIRST + PLANTED_SEEDS_MAX)
    find_planted(ReplicatedNetworkScenario(_EarlyHost), seeds, ReplicatedNetworkScenario)


def test_a_duplicate_after_a_take_over_is_found() -> None:
    """A broker that stores documents, and their positions some time later: who takes over gets them again."""
    seeds = range(LATE_FIRST, LATE_FIRST + PLANTED_SEEDS_MAX)
    scenario = ReplicatedNetworkScenario(make_broker=LatePositions)
    assert find_planted(scenario, seeds, ReplicatedNetworkScenario).counts["takeovers"] > 0
