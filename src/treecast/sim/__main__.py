"""`python -m treecast.sim`: run seeds of a scenario, look at one, and shorten those that fail. For developers.

python -m treecast.sim --seeds 100                  seeds 0 to 99
python -m treecast.sim --seed 17 --trace            one seed, and what happened in it
python -m treecast.sim --seeds 5000 --jobs 16       on sixteen cores; the failing ones are printed as they come
python -m treecast.sim --seeds 1000 --shorten       fewest faults for each seed that fails, as a case for the tests
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from treecast.sim.broker.scenario import (
    BrokerScenario,
    DamagedBrokerScenario,
    DoorsScenario,
    FailingSubscribersScenario,
)
from treecast.sim.chord.filter_scenario import FilterScenario
from treecast.sim.chord.scenario import ChordScenario
from treecast.sim.faults import text_of
from treecast.sim.onyx.control import ControlScenario
from treecast.sim.onyx.moving_scenario import MovingNetworkScenario, MovingReplicatedScenario
from treecast.sim.onyx.network_scenario import NetworkScenario
from treecast.sim.onyx.replicated_scenario import ReplicatedNetworkScenario
from treecast.sim.replica.scenario import ReplicaScenario
from treecast.sim.scenario import Outcome, Scenario, case_of, report_of, run_seeds
from treecast.sim.selective.sealed_scenario import SealedScenario
from treecast.sim.selective.selective_scenario import SelectiveScenario
from treecast.sim.shorten import shorten

SCENARIOS: dict[str, type[Scenario]] = {
    kind.name: kind
    for kind in (
        *(BrokerScenario, DamagedBrokerScenario, DoorsScenario, FailingSubscribersScenario),
        *(ControlScenario, NetworkScenario, MovingNetworkScenario, ReplicatedNetworkScenario),
        *(MovingReplicatedScenario, ReplicaScenario, ChordScenario, FilterScenario, SelectiveScenario, SealedScenario),
    )
}
PROGRESS_SECONDS = 5.0


class Progress:
    """Counts runs, and prints how it goes now and then."""

    def __init__(self, runs_total: int) -> None:
        self._runs_total = runs_total
        self._runs = self._failures = self._events = 0
        self._counts: Counter[str] = Counter()
        self._began_at = self._printed_at = time.monotonic()

    def add(self, outcome: Outcome) -> None:
        self._runs += 1
        self._failures += outcome.failure is not None
        self._events += outcome.events
        self._counts.update(outcome.counts)
        now = time.monotonic()
        if now - self._printed_at > PROGRESS_SECONDS:
            self._printed_at = now
            print(self.text(), file=sys.stderr, flush=True)

    def text(self) -> str:
        seconds = max(time.monotonic() - self._began_at, 1e-9)
        return (
            f"{self._runs}/{self._runs_total} seeds, {self._failures} failed, {self._runs / seconds:.1f} seeds/s, "
            f"{self._events / seconds:,.0f} events/s"
        )

    def summary(self) -> str:
        """What happened, as an average of all runs: a scenario in which little happens finds little."""
        return ", ".join(f"{name} {count / max(self._runs, 1):.2f}" for name, count in self._counts.items())


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    scenario = SCENARIOS[options.scenario]()
    if options.seed is not None:
        return _run_one(scenario, options.seed, options.trace, options.shorten)
    progress = Progress(options.seeds)
    failures = 0
    seeds = range(options.first, options.first + options.seeds)
    run = partial(_run_beside, options.scenario, options.jobs) if options.jobs > 1 else partial(run_seeds, scenario)
    for outcome in run(seeds, progress.add):
        failures += 1
        _print_failure(scenario, outcome, options.shorten)
    print(progress.text())
    print("a run has on average:", progress.summary())
    return 1 if failures else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m treecast.sim",
        description="Run a scenario in the simulated world, one seed after the other.",
        epilog="example: python -m treecast.sim --seeds 1000 --first 5000 --shorten",
    )
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default=BrokerScenario.name)
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many seeds (100)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="seeds that are run beside each other (1)")
    parser.add_argument("--seed", type=int, metavar="SEED", help="run this one only")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happened")
    parser.add_argument("--shorten", action="store_true", help="look for the fewest faults that still fail")
    return parser.parse_args(arguments)


def _run_beside(name: str, jobs: int, seeds: range, report: Callable[[Outcome], None]) -> Iterator[Outcome]:
    """As `run_seeds`, in so many processes."""
    with ProcessPoolExecutor(jobs) as pool:
        for outcome in pool.map(partial(_outcome, name), seeds):
            report(outcome)
            if outcome.failure is not None:
                yield outcome


def _outcome(name: str, seed: int) -> Outcome:
    return SCENARIOS[name]().run(seed)


def _run_one(scenario: Scenario, seed: int, with_trace: bool, shortens: bool) -> int:
    outcome = scenario.run(seed, with_trace=with_trace)
    if with_trace:
        print(outcome.trace)
    for fault in outcome.faults:
        print(text_of(fault))
    print(f"seed {seed}: {outcome.events} events, {outcome.time_ms} ms, digest {outcome.digest}, {outcome.counts}")
    if outcome.failure is None:
        return 0
    _print_failure(scenario, outcome, shortens)
    return 1


def _print_failure(scenario: Scenario, outcome: Outcome, shortens: bool) -> None:
    print(report_of(outcome))
    if shortens:
        short = shorten(scenario, outcome)
        print("shortened: " + report_of(short))
        print("for tests/sim/failed_seeds.toml:\n\n" + case_of(short), flush=True)


if __name__ == "__main__":
    sys.exit(main())
