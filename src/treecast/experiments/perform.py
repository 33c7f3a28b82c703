"""Run an experiment: its points one after the other, as many times as its sizes say, then the verdict.

With a `journal` each point is written down as soon as it is measured. If the run is cut off, the next one with the same
journal goes on behind the last of them. Whoever has written the outcome somewhere else removes the journal.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from treecast.experiments.experiment import Answer, Experiment, Finding, Point, Row, Sizes, overall
from treecast.experiments.journal import Journal
from treecast.experiments.runs import combine, median_rows
from treecast.experiments.session import Session
from treecast.version import VERSION

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
    progress: Progress = lambda points_done, total, what: None,
    journal: Path | None = None,
) -> Outcome:
    """Run it, in this process. `progress` is called with the points done, their number, and what comes next."""
    sizes = sizes or experiment.full
    session = Session(sizes, data, seed)
    begin = time.perf_counter()
    points = experiment.points(sizes)
    old_journal = Journal(journal, _run_of(experiment, session)) if journal else None
    if old_journal is not None:
        session.notes += old_journal.notes
        session.problems += old_journal.problems
    runs: list[list[Row]] = [[] for _ in range(sizes.runs)]
    frozen = gc.get_freeze_count()
    try:
        for run, rows in enumerate(runs):
            session.begin_run()
            for points_done, point in enumerate(points, start=run * len(points)):

                def say(what: str, points_done: int = points_done) -> None:
                    progress(points_done, len(points) * len(runs), what)

                session.say = say
                rows += _rows_of(experiment, session, run, point, old_journal)
    finally:
        if not frozen:  # what the session froze, and nobody else
            gc.unfreeze()
    rows = median_rows(runs)
    findings = combine(experiment.verdict(rows), [experiment.verdict(one) for one in runs])
    seconds = time.perf_counter() - begin
    return Outcome(experiment, sizes, rows, runs, findings, session.notes, session.problems, seconds)


def _rows_of(experiment: Experiment, session: Session, run: int, point: Point, journal: Journal | None) -> list[Row]:
    old_rows = journal.rows(run, point) if journal is not None else None
    session.say("inputs" if old_rows is None else "measured before")
    if old_rows is not None:
        return old_rows
    notes, problems = len(session.notes), len(session.problems)
    rows = [_in_order(experiment, row) for row in experiment.measure(session, point)]
    if journal is not None:
        journal.add(run, point, rows, session.notes[notes:], session.problems[problems:])
    return rows


def _run_of(experiment: Experiment, session: Session) -> dict[str, Any]:
    """What has to be the same for a run to go on."""
    return {
        "experiment": experiment.name,
        "treecast": VERSION,
        "columns": experiment.columns,
        "sizes": asdict(session.sizes),
        "seed": session.seed,
        "data": str(session.data.resolve()) if session.data else None,
    }


def _in_order(experiment: Experiment, row: Row) -> Row:
    return {column: row[column] for column in experiment.columns}
