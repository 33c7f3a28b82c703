"""Several runs of one experiment: medians, spread, and verdicts that moved. The timings are made up."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from treecast import experiments
from treecast.cli import main
from treecast.experiments import output
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes, overall
from treecast.experiments.rules import at_least
from treecast.experiments.runs import combine, median_rows
from treecast.experiments.session import Session

pytestmark = pytest.mark.house


def made_up(figures: Iterator[float]) -> Experiment:
    """One row a run, with the next figure in it; from 2 on the paper is right, below 1 it is not."""

    def measure(session: Session, point: Point) -> list[Row]:
        drawn = session.once("input", lambda: next(inputs))
        taken = session.once("taken", lambda: next(figures), measured=True)
        return [{"queries": drawn, "engine": "xtrie", "us": taken}]

    def verdict(rows: Sequence[Row]) -> list[Finding]:
        us = float(rows[0]["us"])
        return [Finding("it is slow", f"{us:g} µs", "agree from 2", at_least(us, agree=2, differs=1), figure=us)]

    inputs = iter(range(10, 100))
    found = experiments.find("xtrie-filters")
    return replace(
        found, columns=("queries", "engine", "us"), points=lambda sizes: [{}], measure=measure, verdict=verdict,
        panels=lambda rows: [],
    )  # fmt: skip


def test_rows_are_medians_and_the_spread_is_said() -> None:
    outcome = experiments.perform(made_up(iter([2.5, 9.0, 2.0, 3.0, 4.0])), Sizes((1,), 1, runs=5))
    assert outcome.rows == [{"queries": 10, "engine": "xtrie", "us": 3.0}], "inputs are drawn once"
    assert [rows[0]["us"] for rows in outcome.runs] == [2.5, 9.0, 2.0, 3.0, 4.0]
    assert outcome.answer == "agree"
    assert outcome.findings[0].seen == "3 µs. In 5 runs from 2 to 9: 5 agree"
    assert output.verdict_text(outcome).endswith("Verdict: agree (median of 5 runs)")


def test_a_verdict_that_moved_is_called_so() -> None:
    outcome = experiments.perform(made_up(iter([2.5, 0.5, 2.0, 3.0, 1.5])), Sizes((1,), 1, runs=5))
    assert outcome.answer == outcome.findings[0].answer == "moved between runs", "though the median, 2, would agree"
    assert outcome.findings[0].seen.endswith("In 5 runs from 0.5 to 3: 3 agree, 1 differs, 1 inconclusive")
    assert "MOVED BETWEEN RUNS: it is slow" in output.verdict_text(outcome)


def test_one_run_is_said_to_be_one() -> None:
    outcome = experiments.perform(made_up(iter([2.5])), Sizes((1,), 1))
    assert outcome.findings[0].seen == "2.5 µs" and output.answer_text(outcome) == "agree (one run)"


def test_progress_goes_over_all_runs() -> None:
    progress_calls: list[tuple[int, int]] = []
    sizes = Sizes((1,), 1, runs=3)
    experiments.perform(
        made_up(iter([1.0] * 3)), sizes, progress=lambda done, total, what: progress_calls.append((done, total))
    )
    assert progress_calls == [(0, 3), (1, 3), (2, 3)]


def test_medians_keep_labels_and_pass_over_runs_that_lack_rows() -> None:
    def row(us: float, leaves: int) -> Row:
        return {"engine": "a", "us": us, "leaves": leaves}

    runs = [[row(1.0, 3), row(5.0, 7)], [row(2.0, 4), row(9.0, 7)], [row(0.1, 1)], [row(3.0, 9), row(6.0, 7)]]
    assert median_rows(runs) == [row(2.0, 4), row(6.0, 7)]
    assert median_rows([[], []]) == [] and median_rows([runs[0]]) == runs[0]
    with pytest.raises(AssertionError, match="different rows"):
        median_rows([[{"engine": "a"}], [{"engine": "b"}]])


def test_findings_without_a_figure_tell_their_answers() -> None:
    one = Finding("a claim", "much", "a rule", "agree")
    assert combine([one], [[one]]) == [one]
    assert combine([one], [[one], [one]])[0].seen == "much. In 2 runs: 2 agree"


def test_what_moved_is_weaker_than_what_differs() -> None:
    def findings(*answers: Any) -> list[Finding]:
        return [Finding("", "", "", answer) for answer in answers]

    assert overall(findings("agree", "moved between runs", "inconclusive")) == "moved between runs"
    assert overall(findings("moved between runs", "differs")) == "differs"


def test_several_runs_from_the_command_line(tmp_path: Path, capfd: Any) -> None:
    arguments = ["experiment", "xtrie-filters", "--quick", "--queries", "20,40", "--documents", "2", "--runs", "3"]
    assert main([*arguments, "--quiet", "-o", str(tmp_path)]) == 0
    assert "(median of 3 runs)" in capfd.readouterr().out
    with (tmp_path / "xtrie-filters-runs.csv").open(encoding="utf-8", newline="") as file:
        each = list(csv.DictReader(file))
    with (tmp_path / "xtrie-filters.csv").open(encoding="utf-8", newline="") as file:
        medians = list(csv.DictReader(file))
    assert len(each) == 3 * len(medians) and {row["run"] for row in each} == {"1", "2", "3"}
    page = (tmp_path / "xtrie-filters.md").read_text(encoding="utf-8")
    assert "--runs 3" in page and "(median of 3 runs)" in page


def test_figure_7_takes_five_runs() -> None:
    assert experiments.find("xtrie-routers").full.runs == 5
    with pytest.raises(ValueError, match="runs"):
        Sizes((1,), 1, runs=0)
