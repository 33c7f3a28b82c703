"""A run that was cut off goes on where it stopped; single figures of an experiment."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from treecast import experiments
from treecast.cli import main
from treecast.experiments import catalogue
from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.figures import FIGURES
from treecast.experiments.journal import Journal
from treecast.experiments.panels import lines
from treecast.experiments.session import Session

pytestmark = pytest.mark.house

SIZES = Sizes((1, 2, 3), 1)


class CutOffError(Exception):
    """Somebody has pulled the plug."""


def counting(measured: list[int], stops_at: int = 0) -> Experiment:
    """A point for each number of queries. `measured` gets those that are really measured."""

    def measure(session: Session, point: Point) -> list[Row]:
        if point["queries"] == stops_at:
            raise CutOffError
        measured.append(point["queries"])
        session.note(f"point {point['queries']}")
        if point["queries"] == 1:
            session.problems.append("a problem")
        return [{"queries": point["queries"], "us": 0.5}]

    def verdict(rows: Sequence[Row]) -> list[Finding]:
        return [Finding("all", str([row["queries"] for row in rows]), "agree", "agree")]

    return replace(
        catalogue.find("dht-states"), columns=("queries", "us"), measure=measure, verdict=verdict,
        points=lambda sizes: [{"queries": queries} for queries in sizes.queries],
        panels=lambda rows: [lines([{**row, "engine": "x"} for row in rows], "all", ("queries", ""))],
    )  # fmt: skip


def cut_off(journal: Path, sizes: Sizes = SIZES, stops_at: int = 3) -> None:
    with pytest.raises(CutOffError):
        experiments.perform(counting([], stops_at), sizes, journal=journal)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    journal, measured = tmp_path / "run.partial", list[int]()
    cut_off(journal)
    progress: list[tuple[int, str]] = []
    outcome = experiments.perform(
        counting(measured), SIZES, journal=journal, progress=lambda done, total, what: progress.append((done, what))
    )
    assert measured == [3] and [row["queries"] for row in outcome.rows] == [1, 2, 3]
    assert outcome.notes == ["point 1", "point 2", "point 3"] and outcome.problems == ["a problem"]
    assert progress == [(0, "measured before"), (1, "measured before"), (2, "inputs")]
    again = experiments.perform(counting(measured), SIZES, journal=journal)
    assert again.rows == outcome.rows and measured == [3], "nothing is lost if writing the outcome fails"


def test_several_runs_go_on_too(tmp_path: Path) -> None:
    journal, measured = tmp_path / "run.partial", list[int]()
    sizes = replace(SIZES, runs=2)
    cut_off(journal, sizes)
    assert len(experiments.perform(counting(measured), sizes, journal=journal).runs) == 2
    assert measured == [3, 1, 2, 3]


@pytest.mark.parametrize("change", ["sizes", "seed", "version"])
def test_another_run_begins_anew(tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, measured = tmp_path / "run.partial", list[int]()
    cut_off(journal)
    if change == "version":
        monkeypatch.setattr(sys.modules["treecast.experiments.perform"], "VERSION", "another")
    sizes = replace(SIZES, documents=2) if change == "sizes" else SIZES
    experiments.perform(counting(measured), sizes, seed=2 if change == "seed" else 1, journal=journal)
    assert measured == [1, 2, 3]


def test_what_is_half_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.partial"
    journal = Journal(path, {"seed": 1})
    journal.add(0, {"at": 1}, [{"queries": 1}])
    journal.add(0, {"at": 2}, [{"queries": 2}])
    whole = path.read_text()
    path.write_text(whole[:-9])
    again = Journal(path, {"seed": 1})
    assert again.rows(0, {"at": 1}) == [{"queries": 1}] and again.rows(0, {"at": 2}) is None and len(again) == 1
    again.add(0, {"at": 2}, [{"queries": 3}])
    assert Journal(path, {"seed": 1}).rows(0, {"at": 2}) == [{"queries": 3}]
    assert Journal(path, {"seed": 1}).rows(1, {"at": 2}) is None
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_the_command_goes_on_unless_it_is_told_not_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def run(*options: str, stops_at: int = 0) -> int:
        monkeypatch.setattr(experiments, "find", lambda name: counting(measured, stops_at))
        return main(["experiment", "dht-states", "--queries", "1,2,3", "--quiet", "-o", str(tmp_path), *options])

    for options, expected in [((), [1, 2, 3]), (("--anew",), [1, 2, 1, 2, 3])]:
        measured.clear()
        with pytest.raises(CutOffError):
            run(stops_at=3)
        assert (tmp_path / "dht-states.partial").exists()
        assert run(*options) == 1, "there was a problem"
        assert measured == expected
        assert not (tmp_path / "dht-states.partial").exists()


# --- single figures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_figures_have_points_findings_and_pictures(name: str) -> None:
    figure = experiments.find(name)
    whole = experiments.find(FIGURES[name].experiment)
    number = name.rpartition("-")[2]
    assert figure.name == name and figure.section == f"Figure {number}"
    sizes = Sizes((20, 40), 2, values=(1_000, 1_100))
    chosen = figure.points(sizes)
    assert 0 < len(chosen) <= len(whole.points(sizes))
    assert all(point in whole.points(sizes) for point in chosen)
    if number[0] != "7" and number not in ("5b", "6"):  # the same rows as its neighbour, or as slow as the whole
        outcome = experiments.perform(figure, sizes)
        assert outcome.findings and all(number in finding.claim for finding in outcome.findings)
        assert figure.panels(outcome.rows)


def test_figures_are_found_by_name_and_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert catalogue.is_known("dht-figure-3") and not catalogue.is_known("dht-figure-8")
    assert not set(FIGURES) & set(experiments.names())
    assert experiments.nearest("dht-figure-5d") in FIGURES
