"""Spark 4.1, the oldest that is promised: what it lacks of the newest does not show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from treecast import PipelineError
from treecast.spark.sources import source_stream
from treecast.spark.sources.source_options import Options
from treecast.spark.sources.source_stream import DocumentStream
from treecast.spark.sources.source_tasks import Task

JOB = Path(__file__).parent.parent / "support" / "spark_version_job.py"


def restarted(inbox: Path, log: Path) -> DocumentStream:
    return DocumentStream(Options((str(inbox),), log=str(log)))


def files_of(stream: DocumentStream, start: dict[str, object], end: dict[str, object]) -> list[str]:
    tasks = [task for task in stream.partitions(start, end) if isinstance(task, Task)]
    return sorted(Path(piece.file.path).name for task in tasks for piece in task.pieces)


def test_a_stream_that_is_not_told_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_stream, "IS_ADMITTED", False)
    inbox, log = tmp_path / "inbox", tmp_path / "log"
    inbox.mkdir()
    with pytest.raises(PipelineError, match=r"TC711 on Spark 4\.1 a stream of files needs a directory of its own"):
        DocumentStream(Options((str(inbox),)))
    (inbox / "1.xml").write_text("<a/>")
    stream = restarted(inbox, log)
    start = stream.initialOffset()
    first = stream.latestOffset()
    assert files_of(stream, start, first) == ["1.xml"]
    assert stream.latestOffset() == first
    stream.stop()
    (inbox / "2.xml").write_text("<a/>")
    stream = restarted(inbox, log)
    second = stream.latestOffset()
    assert files_of(stream, first, second) == ["2.xml"]
    assert files_of(stream, start, second) == ["1.xml", "2.xml"]  # a batch that Spark repeats
    stream.stop()
    for path in log.iterdir():
        path.unlink()
    stream = restarted(inbox, log)
    with pytest.raises(PipelineError, match="TC716 the log of files that this query has read"):
        stream.partitions(second, stream.latestOffset())
    stream.stop()


@pytest.mark.long
@pytest.mark.parametrize("version", ["4.1", "4.2", "4.3"])
def test_each_promised_version(version: str, tmp_path: Path) -> None:
    """With PySpark installed apart, in build/; in a process of its own."""
    place = Path("build", f"pyspark-{version}").absolute()
    if not (place / "pyspark").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place)]
        subprocess.run([*command, f"pyspark=={version}.*"], check=True)
    process = subprocess.run(
        [sys.executable, str(JOB), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(place)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    answers = json.loads(process.stdout.splitlines()[-1])
    assert answers.pop("version").startswith(version)
    assert answers == {"batch": ["any", "b"], "stream": [2, 3, 3], "run": 0}
