"""Run an experiment: its points one after the other, as many times as its sizes say, then the verdict."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from treecast.experiments.experiment import Answer, Experiment, Finding, Row, Sizes, overall
from treecast.experiments.runs import combine, median_rows
from treecast.experiments.session import Session

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Outcome:
    """The result. `problems` are answers that differ between engines: the times then mean nothing."""

    experiment: Experiment
    sizes: Sizes
    rows: list[Row]
    """The rows; with several runs, their medians."""
    runs: list[list[Row]]
    """The rows of each run."""
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
    """Run it, in this process. `progress` is called with the points done, their number, and what comes next."""
    sizes = sizes or experiment.full
    session = Session(sizes, data, seed)
    begin = time.perf_counter()
    points = experiment.points(sizes)
    runs: list[list[Row]] = [[] for _ in range(sizes.runs)]
    frozen = gc.get_freeze_count()
    try:
        for run, rows in enumerate(runs):
            session.begin_run()
            for done, point in enumerate(points, start=run * len(points)):

                def say(what: str, done: int = done) -> None:
                    progress(done, len(points) * len(runs), what)

                session.say = say
                say("inputs")
                rows += [_in_order(experiment, row) for row in experiment.measure(session, point)]
    finally:
        if not frozen:  # what the session froze, and nobody else
            gc.unfreeze()
    rows = median_rows(runs)
    findings = combine(experiment.verdict(rows), [experiment.verdict(one) for one in runs])
    seconds = time.perf_counter() - begin
    return Outcome(experiment, sizes, rows, runs, findings, session.notes, session.problems, seconds)


def _in_order(experiment: Experiment, row: Row) -> Row:
    return {column: row[column] for column in experiment.columns}
