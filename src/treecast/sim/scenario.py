"""What a scenario is, how many seeds of it are run, and how a failing one is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from treecast.sim.faults import Fault, text_of, to_toml
from treecast.sim.world import World


class Outcome(msgspec.Struct, frozen=True):
    """How a run ended."""

    scenario: str
    seed: int
    faults: list[Fault]
    failure: str | None
    digest: str
    """Of everything that happened: equal for equal runs."""
    events: int
    time_ms: int
    trace: str = ""
    counts: dict[str, int] = {}
    """What happened how often: whether a scenario does what it is meant to do."""


class Scenario(Protocol):
    """A world, what its clients do in it, and what must hold in the end."""

    name: str

    def faults(self, seed: int) -> list[Fault]:
        """The faults that this seed draws."""

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        """Run the seed with its own faults, or with these."""


def outcome_of(
    scenario: str, world: World, faults: Sequence[Fault], with_trace: bool, counts: dict[str, int] | None = None
) -> Outcome:
    """The outcome of a world that has come to its end. A failing one always has its trace."""
    return Outcome(
        scenario,
        world.seed,
        list(faults),
        world.failure,
        world.trace.digest(),
        world.events,
        world.now_us // 1000,
        world.trace.text() if with_trace or world.failure is not None else "",
        counts or {},
    )


def run_seeds(scenario: Scenario, seeds: Iterable[int], report: Callable[[Outcome], None]) -> Iterator[Outcome]:
    """Run seeds one after the other. Yields those that fail; `report` gets all."""
    for seed in seeds:
        outcome = scenario.run(seed)
        report(outcome)
        if outcome.failure is not None:
            yield outcome


def report_of(outcome: Outcome) -> str:
    """What a developer needs to know of a failing run."""
    faults = "".join(f"  {text_of(fault)}\n" for fault in outcome.faults) or "  none\n"
    return (
        f"seed {outcome.seed} of scenario {outcome.scenario} fails after {outcome.time_ms} ms:\n  {outcome.failure}\n"
        f"with these faults:\n{faults}"
    )


def case_of(outcome: Outcome) -> str:
    """The run as a case for `tests/sim/failed_seeds.toml`."""
    failure = (outcome.failure or "").splitlines()[0].replace("'''", "")
    return (
        f"[[case]]\nscenario = \"{outcome.scenario}\"\nseed = {outcome.seed}\nfailure = '''{failure}'''\n"
        f"{to_toml(outcome.faults)}"
    )
