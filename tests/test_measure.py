"""Cells: their counts are right, whatever the clock says; failures are rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from treecast import Index, engines, measure
from treecast.measure import Answers, Cell, Effort, Inputs, Seconds, differences
from treecast.measure.process import inputs_directory, read_inputs, run, write_inputs
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

pytestmark = pytest.mark.house

TINY = Effort(budget_seconds=0.5, passes=2, compared=3)


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    schema = Schema.news()
    queries = list(generate_queries(schema, 200, QuerySettings(depth_max=5), seed=1))
    return Inputs(queries, list(generate_documents(schema, 6, DocumentSettings(bytes_target=2000), seed=1)))


def pairs_of(inputs: Inputs, cell: Cell) -> int:
    """Matches of the documents that were measured: on a busy machine fewer than were offered, from the first on."""
    index = Index()
    index.add_many([(str(number), query) for number, query in enumerate(inputs.queries)])
    return int(index.match_many(list(inputs.documents)[-cell.offered :][: cell.documents]).num_rows)


@pytest.mark.parametrize("engine", engines.names(variants=True))
def test_every_engine_fills_its_cell(engine: str, inputs: Inputs) -> None:
    cell = measure.cell(engine, inputs.queries, inputs.documents, effort=TINY, isolated=False)
    assert not cell.failure
    assert (cell.engine, cell.queries, cell.refused, cell.sampled) == (engine, 200, 0, 200)
    assert cell.documents >= 1
    assert cell.matches == pairs_of(inputs, cell) / cell.documents or cell.documents < 3
    for time in (cell.build, cell.first, cell.unseen, cell.warm, cell.parse, cell.lxml_parse):
        assert time.wall > 0
    parts = cell.parse + cell.match + cell.emit
    assert parts.cpu == pytest.approx(cell.warm.cpu)
    assert cell.index_bytes > 0
    assert not cell.extrapolated


def test_a_cell_of_its_own_process_is_the_same(inputs: Inputs) -> None:
    cell = measure.cell("auto", inputs.queries, inputs.documents, effort=TINY)
    assert not cell.failure
    assert cell.memory_bytes > 0
    assert cell.matches == pairs_of(inputs, cell) / cell.documents
    assert Cell.from_json(cell.as_json()) == cell


@pytest.mark.parametrize("isolated", [False, True])
def test_refused_queries_are_counted_and_left_out(isolated: bool, inputs: Inputs) -> None:
    queries = [*inputs.queries[:50], "/news[a or b]", "/news[not(a)]"]
    cell = measure.cell("xfilter", queries, inputs.documents, effort=TINY, isolated=isolated)
    assert (cell.queries, cell.refused, cell.taken, cell.sampled) == (52, 2, 50, 50)
    assert "TC150" in cell.notes[0]
    assert not cell.failure
    none = measure.cell("xfilter", queries[-2:], inputs.documents, effort=TINY, isolated=False)
    assert none.failure.startswith("it takes none of the queries: TC150")


def test_answers_of_engines_and_of_lxml_agree(inputs: Inputs) -> None:
    with inputs_directory(inputs) as directory:
        (auto, ours), (peer, theirs) = (run(name, directory, TINY) for name in ("auto", "lxml"))
    assert not auto.failure
    assert not peer.failure
    assert ours is not None and theirs is not None
    assert len(ours.pairs) > 0
    assert differences(ours, theirs) == []
    assert ours.documents == min(TINY.compared, 3)


def test_a_peer_is_measured_on_a_sample_and_says_so() -> None:
    schema = Schema.news()
    queries = list(generate_queries(schema, 20_000, QuerySettings(depth_max=8), seed=1))
    inputs = Inputs(queries, list(generate_documents(schema, 3, DocumentSettings(bytes_target=20_000), seed=1)))
    with inputs_directory(inputs) as directory:
        cell, answers = run("lxml", directory, Effort(budget_seconds=0.05))
    assert cell.extrapolated
    assert cell.sampled < cell.taken == 20_000
    assert answers is not None
    assert len(answers.asked) == cell.sampled


def test_part_of_the_queries(inputs: Inputs) -> None:
    with inputs_directory(inputs) as directory:
        cell, answers = run("auto", directory, TINY, queries=30)
    assert (cell.queries, cell.sampled) == (30, 30)
    assert answers is not None
    assert len(answers.asked) == 30


def test_a_crash_and_a_hang_are_rows(inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_inputs(inputs, tmp_path)
    cell, answers = run("no-such-engine", tmp_path, TINY)
    assert answers is None
    assert "no engine is called 'no-such-engine'" in cell.failure
    monkeypatch.setattr(Effort, "stop_seconds", 0.01)
    cell, answers = run("auto", tmp_path, TINY)
    assert cell.failure.startswith("stopped after")
    assert cell.queries == 200


def test_a_killed_process_is_a_row(inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_inputs(inputs, tmp_path)
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\necho out of memory\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(killed))
    assert run("auto", tmp_path, TINY)[0].failure == "its process was ended by SIGKILL: out of memory"


def test_inputs_travel_whole(tmp_path: Path) -> None:
    inputs = Inputs(["/a", "//x:b"], [b"<a/>", "<ä/>".encode()], {"x": "urn:x"})
    write_inputs(inputs, tmp_path)
    read = read_inputs(tmp_path)
    assert (list(read.queries), list(read.documents), dict(read.namespaces)) == (
        list(inputs.queries),
        list(inputs.documents),
        inputs.namespaces,
    )


def test_answers_travel_and_are_compared(tmp_path: Path) -> None:
    ours = Answers.of([(0, 1), (0, 5), (2, 1)], documents=3, queries=[1, 5, 6])
    ours.write(tmp_path / "answers")
    read = Answers.read(tmp_path / "answers")
    assert read.pairs.equals(ours.pairs)
    assert read.asked.equals(ours.asked)
    assert read.documents == 3
    assert differences(ours, Answers.of([(0, 1), (2, 1), (2, 6)], documents=3, queries=[1, 5, 6])) == [(0, 5), (2, 6)]
    empty = Answers.of([], documents=2, queries=[])
    empty.write(tmp_path / "empty")
    assert differences(ours, Answers.read(tmp_path / "empty")) == []


@pytest.mark.parametrize("wrong", [{"budget_seconds": 0}, {"passes": 0}, {"compared": 0}, {"unseen": 0}, {"unseen": 2}])
def test_wrong_efforts_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        Effort(**wrong)  # type: ignore[arg-type]


def test_nothing_to_measure_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one query"):
        Inputs([], [b"<a/>"])


def test_the_tree_of_processes_is_clocked() -> None:
    busy = [sys.executable, "-c", "import time; e = time.process_time() + 0.2\nwhile time.process_time() < e: pass"]
    taken = measure.tree_clock(lambda: subprocess.run(busy, check=True))
    assert taken.wall > 0
    assert taken.cpu > 0, "a child that has ended was waited for"
    assert measure.private_bytes() > 1 << 20
    assert Seconds(1.0, 2.0) - Seconds(2.0, 1.0) == Seconds(0.0, 1.0)


def test_a_process_that_nobody_waits_for_counts_as_zero() -> None:
    code = """
import os, signal, subprocess, sys, time
from treecast.measure import tree_clock
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what it spent vanishes with it
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
time.sleep(0.5)
def end():
    child.kill()
    while os.path.exists(f"/proc/{child.pid}"):
        time.sleep(0.01)
print(tree_clock(end).cpu)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(ended.stdout) >= 0
