"""The session that treecast starts, and what it says when it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from treecast import PipelineError
from treecast.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_session_counts(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10


def test_a_session_that_runs_is_taken(spark: SparkSession) -> None:
    assert session.start("local[2,3]").sparkContext is spark.sparkContext


def test_old_spark_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.5")
    with pytest.raises(
        PipelineError, match=r"TC701 this is Spark 4\.0\.5, and treecast needs 4\.1 or newer\n  hint: pip"
    ):
        session.check()


def test_java_is_found() -> None:
    version = session.java_version()
    assert version is not None and version >= session.JAVA_VERSION_MIN


def test_missing_java_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=f"TC701 Spark needs Java, and JAVA_HOME, {tmp_path}, has none that runs"):
        session.check()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match="TC701 Spark needs Java, and none was found\n  hint: install Java 17"):
        session.check()


def test_old_java_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert session.java_version() == 8
    with pytest.raises(PipelineError, match="needs Java 17 or newer, and this is Java 8"):
        session.check()
