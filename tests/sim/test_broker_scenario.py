"""The broker in the simulated world: fresh seeds, every seed that ever failed, and bugs planted to be found."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from support.hash_seeds import digests
from support.planted_bugs import PLANTED

from treecast.overlay.broker import Broker
from treecast.overlay.peer import Peer
from treecast.sim import Crash, Fault, HostFault, SimulatedStorage
from treecast.sim.__main__ import SCENARIOS, main
from treecast.sim.broker.application import BROKER
from treecast.sim.broker.scenario import (
    BrokerRun,
    BrokerScenario,
    DamagedBrokerScenario,
    DoorsScenario,
    FailingSubscribersScenario,
)
from treecast.sim.faults import from_tables
from treecast.sim.scenario import Outcome, report_of, run_seeds
from treecast.sim.shorten import shorten

pytestmark = pytest.mark.house

SEEDS = 100
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "100000"))
"""Set it to look at other seeds than last time."""
OTHER_SEEDS = 40
PLANTED_SEEDS_MAX = 80
FAILED = tomllib.loads((Path(__file__).parent / "failed_seeds.toml").read_text(encoding="utf-8"))["case"]


def run_all(seeds: range) -> tuple[list[Outcome], list[Outcome]]:
    """All outcomes, and the failing ones."""
    outcomes: list[Outcome] = []
    failures = list(run_seeds(BrokerScenario(), seeds, outcomes.append))
    return outcomes, failures


def test_fresh_seeds() -> None:
    outcomes, failures = run_all(range(FIRST_SEED, FIRST_SEED + SEEDS))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    # A scenario in which nothing happens finds nothing.
    means = {name: sum(outcome.counts[name] for outcome in outcomes) / SEEDS for name in outcomes[0].counts}
    assert means["operations"] > 30 and means["receipts"] > 30 and means["refused"] > 1
    assert means["in_doubt"] > 0.2 and means["starts"] > 0.3 and means["letters"] > 0.01


@pytest.mark.parametrize("name", [DamagedBrokerScenario.name, DoorsScenario.name, FailingSubscribersScenario.name])
def test_fresh_seeds_of_other_scenarios(name: str) -> None:
    outcomes: list[Outcome] = []
    failures = list(run_seeds(SCENARIOS[name](), range(FIRST_SEED, FIRST_SEED + OTHER_SEEDS), outcomes.append))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    assert sum(outcome.counts["letters"] for outcome in outcomes) > 1
    if name == DoorsScenario.name:
        assert all(sum(outcome.counts[what] for outcome in outcomes) > 60 for what in ("postponed", "records"))


def _parameter(case: dict[str, Any]) -> Any:
    marks = [pytest.mark.long] if case.get("long") else []
    return pytest.param(case, id=f"{case['scenario']}-{case['seed']}", marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in FAILED])
def test_seeds_that_failed_once(case: dict[str, Any]) -> None:
    scenario = SCENARIOS[case["scenario"]]()
    outcome = scenario.run(case["seed"], from_tables(case["faults"]) if "faults" in case else None)
    assert outcome.failure is None, report_of(outcome)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    scenario = PLANTED[name]
    failing = next((o for o in map(scenario.run, range(PLANTED_SEEDS_MAX)) if o.failure is not None), None)
    assert failing is not None, f"{PLANTED_SEEDS_MAX} seeds did not find it"
    assert " raised " not in str(failing.failure), "a check finds it; that the planted code breaks says nothing"
    # It is the planted bug, and nothing else, that makes this seed fail.
    assert type(scenario)().run(failing.seed).failure is None


def test_a_planted_bug_is_shortened() -> None:
    scenario = PLANTED["acknowledgement before the write"]
    failing = next(
        o for o in map(scenario.run, range(PLANTED_SEEDS_MAX)) if o.failure is not None and len(o.faults) > 3
    )
    short = shorten(scenario, failing, runs_max=60)
    assert short.failure is not None and len(short.faults) < len(failing.faults)
    assert scenario.run(short.seed, short.faults).digest == short.digest


def test_runs_repeat_whatever_the_hash_seed() -> None:
    assert len(set(digests("broker", 3))) == 3, "different seeds are different runs"


def test_a_failing_seed_repeats_whatever_the_hash_seed() -> None:
    failing = next(o for o in map(PLANTED["reordering"].run, range(PLANTED_SEEDS_MAX)) if o.failure is not None)
    second = PLANTED["reordering"].run(failing.seed)
    assert (second.digest, second.failure, second.trace) == (failing.digest, failing.failure, failing.trace)


def test_a_saved_index_counts_only_when_what_it_has_is_durable() -> None:
    """The simulator saves indexes as `SaveIndex` promises. Without that promise it finds a subscription of nobody."""

    class Eager(BrokerRun):
        """Each change of a subscription is saved, and the broker crashes all the time, with a slow disk."""

        def __init__(self, seed: int) -> None:
            crashes: list[Fault] = [Crash(BROKER, at_ms, 1) for at_ms in range(100, 1_500, 150)]
            faults = [HostFault("slow-disk", BROKER, 0, 1_500, 50), *crashes]
            super().__init__(seed, BrokerScenario().workload(seed), faults)

        def _start_broker(self, storage: SimulatedStorage, random: Random) -> Peer:
            self.settings = msgspec.structs.replace(self.settings, save_index_changes=1)
            return super()._start_broker(storage, random)

    class Hasty(Eager):
        def _finish_saving(self, broker: Broker, version: int) -> None:
            if self.broker.peer is broker:
                self._saved_index = (broker.index.subscriptions(), version)

    def failure(kind: type[BrokerRun], seed: int) -> str | None:
        run = kind(seed)  # type: ignore[call-arg]
        run.play()
        return run.world.failure

    failing_seed = next((seed for seed in range(PLANTED_SEEDS_MAX) if failure(Hasty, seed)), None)
    assert failing_seed is not None
    assert failure(Eager, failing_seed) is None


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--first", "5"]) == 0
    assert "2/2 seeds, 0 failed" in capsys.readouterr().out
    assert main(["--seed", "5", "--trace"]) == 0
    output = capsys.readouterr().out
    assert "Subscribe" in output and "digest" in output
