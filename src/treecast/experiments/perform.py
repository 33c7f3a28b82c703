"""Run an experiment: its points one after the other, then the verdict."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from treecast.experiments.experiment import Answer, Experiment, Finding, Row, Sizes, overall
from treecast.experiments.session import Session

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Outcome:
    """What came of a run. `problems` are answers that differ between engines: then the times mean nothing."""

    experiment: Experiment
    sizes: Sizes
    rows: list[Row]
    findings: list[Finding]
    notes: list[str]
    problems: list[str]
    seconds: float

    @property
    def answer(self) -> Answer:
        return overall(self.findings)


def perform(
    experiment: Experiment,
    sizes: Sizes | None = None,
    *,
    data: Path | None = None,
    seed: int = 1,
    progress: Progress = lambda done, total, what: None,
) -> Outcome:
    """Run it, in this process. `progress` is told how many points are done, of how many, and what comes next."""
    sizes = sizes or experiment.full
    session = Session(sizes, data, seed)
    begin = time.perf_counter()
    points = experiment.points(sizes)
    rows: list[Row] = []
    frozen = gc.get_freeze_count()
    try:
        for done, point in enumerate(points):

            def say(what: str, done: int = done) -> None:
                progress(done, len(points), what)

            session.say = say
            say("inputs")
            rows += experiment.measure(session, point)
    finally:
        if not frozen:  # what the session froze, and nobody else
            gc.unfreeze()
    rows = [{column: row[column] for column in experiment.columns} for row in rows]
    findings = experiment.verdict(rows)
    return Outcome(experiment, sizes, rows, findings, session.notes, session.problems, time.perf_counter() - begin)
