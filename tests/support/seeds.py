"""Seeds of a scenario, as tests run them: fresh ones, which must not fail, and planted bugs, which one has to find."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from treecast.sim.scenario import Outcome, Scenario, report_of, run_seeds


def first_seed(usual: int) -> int:
    """Where fresh seeds begin. Set TREECAST_FIRST_SEED to look at other seeds than last time."""
    return int(os.environ.get("TREECAST_FIRST_SEED", usual))


def fresh_seed(usual: int) -> int:
    """Where seeds begin that differ from commit to commit. `.ci/run` sets TREECAST_FRESH_SEED from the commit, so a run
    that fails does so again."""
    return int(os.environ.get("TREECAST_FRESH_SEED", first_seed(usual)))


def run_fresh(scenario: Scenario, seeds: Iterable[int]) -> list[Outcome]:
    """The outcomes of all of them. None may fail."""
    outcomes: list[Outcome] = []
    failures = list(run_seeds(scenario, seeds, outcomes.append))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    return outcomes


def run_usual_and_fresh(scenario: Scenario, usual: int, count: int) -> list[Outcome]:
    """So many from `usual` on, whose outcomes are returned, and as many that differ from commit to commit: what few
    seeds do on average is no reason to fail."""
    fresh = fresh_seed(usual)
    if fresh != usual:
        run_fresh(scenario, range(fresh, fresh + count))
    return run_fresh(scenario, range(usual, usual + count))


def means_of(outcomes: list[Outcome]) -> dict[str, float]:
    """How often things happened in a run: a scenario in which nothing happens finds nothing."""
    return {name: sum(outcome.counts[name] for outcome in outcomes) / len(outcomes) for name in outcomes[0].counts}


def find_planted(planted_scenario: Scenario, seeds: range, make_sound: Callable[[], Scenario]) -> Outcome:
    """The first seed that finds a planted bug. Without the bug it must not fail."""
    failing = next((outcome for outcome in map(planted_scenario.run, seeds) if outcome.failure is not None), None)
    assert failing is not None, f"{len(seeds)} seeds did not find it"
    sound = make_sound().run(failing.seed)
    assert sound.failure is None, f"not because of what was planted: {report_of(sound)}"
    return failing
