"""How far a job on Spark is, as `treecast run` says it: on a terminal, in a pipe, and while a stream waits."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from treecast.cli import console, run_progress
from treecast.cli.console import Console
from treecast.cli.run_progress import RunProgress, progress_line
from treecast.spark.job.progress import Progress


def test_progress_line() -> None:
    before = Progress(10.0, 1_000, 4_000, 1)
    progress = Progress(12.0, 5_000, 2_004_000, 3, tasks_done=3, tasks=12)
    assert progress_line(progress, before) == " 25%  5,000 documents 2,000/s  2.00 M matches 1.00 M/s  3 refused  12 s"
    words = "no document yet: Spark plans the job and starts its workers … 4 s"
    assert progress_line(Progress(4.2, tasks=3), Progress()) == words


def printed_progress(terminal: bool, *steps: Progress) -> str:
    """What is printed for a job with these steps."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    progress = RunProgress(Console({}, stream))
    progress.stage("starting Spark")
    for step in steps:
        progress.tell(step)
    return stream.getvalue()


def test_a_short_job_says_nothing_in_a_pipe() -> None:
    assert printed_progress(False, Progress(0.5, 10), Progress(1.9, 20), Progress(1.9, 20, stage="counting")) == ""


def test_a_long_job_says_something_now_and_then() -> None:
    steps = [Progress(second / 4, second) for second in range(50)]
    lines = printed_progress(False, *steps, Progress(13.0, 50, stage="counting")).splitlines()
    assert [line.split("  ")[-1] for line in lines] == ["2 s", "7 s", "12 s", "treecast: counting …"]
    assert lines[1] == "treecast: 28 documents 4/s  0 matches 0/s  0 refused  7 s"


def test_an_idle_stream_says_once_that_it_waits() -> None:
    waits = [Progress(second, 5) for second in range(1, 40)]
    lines = printed_progress(False, *waits, *[Progress(second, 9) for second in range(40, 60)]).splitlines()
    assert [line.partition("  ")[0] for line in lines] == [
        "treecast: 5 documents 0/s",
        "treecast: 5 documents so far, waiting for more",
        "treecast: 9 documents 0.8/s",
        "treecast: 9 documents so far, waiting for more",
    ]


def test_a_job_that_takes_long_for_a_document_is_not_called_idle() -> None:
    lines = printed_progress(False, *[Progress(second, 5, tasks=3) for second in range(1, 20)]).splitlines()
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("terminal", "expected"), [(True, "starting Spark … 0 s"), (False, "treecast: starting Spark …\n")]
)
def test_while_spark_starts_something_goes_on(terminal: bool, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_progress, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(run_progress, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(console, "REDRAW_SECONDS", 0.0)
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    with RunProgress(Console({}, stream)).waiting("starting Spark"):
        eventually(lambda: expected in stream.getvalue())
    quiet = io.StringIO()
    with RunProgress(Console({}, quiet), quiet=True).waiting("starting Spark"):
        pass
    assert quiet.getvalue() == ""


def test_spark_is_seen_to_start_though_its_output_goes_to_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_progress, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(run_progress, "FIRST_SECONDS", 0.0)
    terminal, log = tmp_path / "terminal", tmp_path / "log"
    with terminal.open("w") as stream, log.open("w") as elsewhere:
        kept = os.dup(stream.fileno())
        progress = RunProgress(Console({}, stream))
        with progress.waiting("starting Spark"):
            os.dup2(elsewhere.fileno(), stream.fileno())  # as treecast.spark.session does
            eventually(lambda: terminal.read_text() == "treecast: starting Spark …\n")
            os.dup2(kept, stream.fileno())
        progress.stage("counting", said=True)
        os.close(kept)
    assert terminal.read_text() == "treecast: starting Spark …\ntreecast: counting …\n"
    assert log.read_text() == ""


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for another thread; a minute is for ever."""
    for _ in range(6_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("nothing was shown")


def test_a_terminal_shows_each_stage() -> None:
    text = printed_progress(True, Progress(3.0, 7, stage="counting"))
    assert text == "\rstarting Spark …\x1b[K\r\x1b[K\rcounting …\x1b[K"
