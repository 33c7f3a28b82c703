"""Subscriptions that move between brokers of a simulated network: fresh seeds, and bugs planted to be found."""

from __future__ import annotations

import pytest
from support.seeds import find_planted, first_seed, means_of, run_fresh, run_usual_and_fresh

from treecast.overlay.broker.turn import Turn
from treecast.overlay.onyx.migration import Migration
from treecast.overlay.onyx.move_messages import Hand
from treecast.overlay.onyx.wants import Wants
from treecast.sim.onyx.moving_scenario import MovingNetworkScenario, MovingReplicatedScenario, with_broker
from treecast.sim.onyx.network_scenario import CheckedBroker

pytestmark = pytest.mark.house

SEEDS = 6
REPLICATED_SEEDS = 3
FIRST_SEED = first_seed(500_000)
LONG_SEEDS = 1_000
PLANTED_SEEDS_MAX = 20


def test_fresh_seeds() -> None:
    outcomes = run_usual_and_fresh(MovingNetworkScenario(), FIRST_SEED, SEEDS)
    assert means_of(outcomes)["moved"] * SEEDS >= 5  # in one in which nothing moves nothing is found


@pytest.mark.long
def test_many_seeds() -> None:
    first = FIRST_SEED + SEEDS
    run_fresh(MovingNetworkScenario(), range(first, first + LONG_SEEDS))


def test_fresh_seeds_with_replicas() -> None:
    means = means_of(run_usual_and_fresh(MovingReplicatedScenario(), FIRST_SEED, REPLICATED_SEEDS))
    assert means["moved"] > 0.5 and means["terms"] > 2


@pytest.mark.long
def test_many_seeds_with_replicas() -> None:
    first = FIRST_SEED + REPLICATED_SEEDS
    run_fresh(MovingReplicatedScenario(), range(first, first + LONG_SEEDS))


class _HastyWants(Wants):
    """The new host takes a subscription before the network knows of it."""

    def is_move_ready(self, id: str) -> bool:
        return True


class _HastyBroker(CheckedBroker):
    wants_class = _HastyWants


class _HastyMigration(Migration):
    """The old host hands over before it has got as far as the cuts say."""

    def _has_reached(self, cuts: dict[str, int]) -> bool:
        return True


class _ForgetfulMigration(Migration):
    """What the old host has not delivered is left behind."""

    def _take_hand(self, sender: str, hand: Hand, turn: Turn) -> None:
        super()._take_hand(sender, Hand(hand.id, hand.move, hand.row, []), turn)


def _with_migration(kind: type[Migration]) -> MovingNetworkScenario:
    class Broker(CheckedBroker):
        migration_class = kind

    return with_broker(Broker)


PLANTED = {
    "handed over before it is covered": (with_broker(_HastyBroker), 0),
    "handed over before the old host is there": (_with_migration(_HastyMigration), 0),
    "what was not delivered is left behind": (_with_migration(_ForgetfulMigration), 0),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    scenario, first = PLANTED[name]
    find_planted(scenario, range(first, first + PLANTED_SEEDS_MAX), MovingNetworkScenario)
