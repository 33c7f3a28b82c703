"""A network of brokers with replicas in the simulated world: fresh seeds with lost disks, and a bug to be found."""

from __future__ import annotations

import os

import pytest

from treecast.overlay.onyx.network_host import NetworkHost
from treecast.overlay.replica.member import Member
from treecast.sim.onyx.replicated_scenario import ReplicatedNetworkScenario
from treecast.sim.scenario import Outcome, report_of, run_seeds

pytestmark = pytest.mark.house

SEEDS = 6
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "400000"))
LONG_SEEDS = 1_000
PLANTED_FIRST = 4
PLANTED_SEEDS_MAX = 10


def test_fresh_seeds() -> None:
    outcomes: list[Outcome] = []
    failed = list(run_seeds(ReplicatedNetworkScenario(), range(FIRST_SEED, FIRST_SEED + SEEDS), outcomes.append))
    assert not failed, "\n".join(report_of(outcome) for outcome in failed[:3])
    # A scenario in which nothing happens finds nothing.
    totals = {name: sum(outcome.counts[name] for outcome in outcomes) for name in outcomes[0].counts}
    assert totals["operations"] > 100 and totals["received"] > 50 and totals["terms"] > 10


@pytest.mark.long
def test_many_seeds() -> None:
    first = FIRST_SEED + SEEDS
    outcomes: list[Outcome] = []
    failed = list(run_seeds(ReplicatedNetworkScenario(), range(first, first + LONG_SEEDS), outcomes.append))
    assert not failed, "\n".join(report_of(outcome) for outcome in failed[:3])
    means = {name: sum(outcome.counts[name] for outcome in outcomes) / LONG_SEEDS for name in outcomes[0].counts}
    assert means["takeovers"] > 0.5 and means["lost_disks"] > 0.2


class _EarlyHost(NetworkHost):
    """Acknowledges when its own disk has it, whatever the backup has."""

    def _open(self, member: Member) -> None:
        super()._open(member)
        self._primaries[member.broker]._may_leave = lambda: True  # type: ignore[method-assign]


def test_an_acknowledgement_before_the_backup_has_it_is_found() -> None:
    scenario = ReplicatedNetworkScenario(_EarlyHost)
    seeds = range(PLANTED_FIRST, PLANTED_FIRST + PLANTED_SEEDS_MAX)
    found = next((outcome for outcome in map(scenario.run, seeds) if outcome.failure is not None), None)
    assert found is not None, f"{PLANTED_SEEDS_MAX} seeds did not find it"
    assert ReplicatedNetworkScenario().run(found.seed).failure is None
