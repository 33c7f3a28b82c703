"""Networks of selective publishing in the simulated world: fresh seeds, planted bugs, deaths at each level."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from support.hash_seeds import digests
from support.planted_selective_bugs import BUGS, plant

from treecast.overlay.selective.selective_broker import is_tree
from treecast.overlay.selective.selective_messages import Inquiry, Update, Wants
from treecast.sim.faults import Crash
from treecast.sim.network import Network
from treecast.sim.scenario import Outcome, report_of, run_seeds
from treecast.sim.selective.selective_plan import draw_plan
from treecast.sim.selective.selective_scenario import FOR_EVER_MS, SelectiveScenario

pytestmark = pytest.mark.house

SEEDS = 25
"""Networks with seals have more (`test_sealed_scenario.py`)."""
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "100000"))
LONG_SEEDS = 5_000


def test_fresh_seeds() -> None:
    outcomes: list[Outcome] = []
    failures = list(run_seeds(SelectiveScenario(), range(FIRST_SEED, FIRST_SEED + SEEDS), outcomes.append))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    names = ("starts", "wants", "beyond", "arrivals", "links", "merges", "inquiries", "dead", "joins")
    means = {name: sum(outcome.counts.get(name, 0) for outcome in outcomes) / SEEDS for name in names}
    # A scenario in which nothing happens finds nothing.
    assert means["arrivals"] > 15 and means["links"] > 4 and means["merges"] > 0.2 and means["inquiries"] > 10
    assert means["dead"] > 0.4 and means["joins"] > 0.7 and means["beyond"] > 0.4


@pytest.mark.long
def test_many_seeds() -> None:
    first = FIRST_SEED + SEEDS
    failures = list(run_seeds(SelectiveScenario(), range(first, first + LONG_SEEDS), lambda outcome: None))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_found(name: str) -> None:
    with plant(name):
        failing = next((one for one in map(SelectiveScenario().run, range(20)) if one.failure is not None), None)
    assert failing is not None, "20 seeds did not find it"
    assert SelectiveScenario().run(failing.seed).failure is None


def test_brokers_die_at_each_level_and_at_two() -> None:
    seed = next(seed for seed in range(100) if len(draw_plan(seed).levels) == 4 and not draw_plan(seed).joins)
    levels = draw_plan(seed).levels
    times = {rank: 1_500 + 300 * rank for rank in range(4)}
    victims = [(rank,) for rank in range(4)] + list(combinations(range(4), 2))  # adjacent ones, too
    for ranks in victims:
        faults = [Crash(levels[rank][0], times[rank], FOR_EVER_MS) for rank in ranks]
        outcome = SelectiveScenario().run(seed, faults)
        assert outcome.failure is None, report_of(outcome)
        assert outcome.counts["dead"] == len(ranks)


def test_requests_go_to_lower_ranks_and_updates_to_higher(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = draw_plan(3)
    rank = {"source": 0} | {name: rank for rank, level in enumerate(plan.levels, 1) for name in level}
    rank |= dict.fromkeys(plan.subscribers, len(plan.levels) + 1)
    steps: dict[type, set[int]] = {Inquiry: set(), Wants: set(), Update: set()}
    send = Network.send

    def note(network: Network, sender: str, receiver: str, messages: Sequence[Any], *more: Any) -> None:
        for message in messages:
            steps.setdefault(type(message), set()).add(rank[receiver] - rank[sender])
        send(network, sender, receiver, messages, *more)

    monkeypatch.setattr(Network, "send", note)
    assert SelectiveScenario().run(3).failure is None
    assert {kind: steps[kind] for kind in (Inquiry, Wants, Update)} == {Inquiry: {-1}, Wants: {-1}, Update: {1}}


def test_outlines_of_strangers_are_checked() -> None:
    assert is_tree([-1]) and is_tree([-1, 0, 1, 1, 0])
    assert not any(map(is_tree, ([], [0], [-1, -1], [-1, 0, 0, 1], [-1, 2, 0], [-1, 1])))


def test_runs_repeat_whatever_the_hash_seed() -> None:
    assert len(set(digests("selective", 3))) == 3, "different seeds are different runs"
