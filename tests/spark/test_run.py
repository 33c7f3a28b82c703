"""`treecast run` on Spark: what it writes is what one index says, exactly once, and what goes wrong is one sentence."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from oracles.report_page import check_page
from test_readme import ROOT, blocks

from treecast import Index, sample
from treecast.cli import main, pipeline_file
from treecast.cli import run as run_verb
from treecast.inputs.subscriptions import read_subscriptions
from treecast.spark.batch import place
from treecast.spark.batch.answer_form import ANSWER, AnswerForm
from treecast.spark.job import job, plan
from treecast.spark.job.pipeline import Pipeline, Sinks, Source, Subscriptions
from treecast.spark.job.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def written(directory: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet directory."""
    rows: list[dict[str, Any]] = ds.dataset(directory, format="parquet").to_table().to_pylist()
    return rows


def pairs(directory: Path) -> list[tuple[str, str]]:
    """(file name, subscription) of every match, sorted, so that one written twice shows."""
    return sorted((Path(row["file"]).name, row["subscription"]) for row in written(directory) if row["subscription"])


def write_job(directory: Path, more: str = "", source: str = "") -> Path:
    (directory / "docs").mkdir()
    (directory / "docs" / "1.xml").write_text("<a><b/></a>")
    (directory / "docs" / "2.xml").write_text("<a><c x='1'/></a>")
    (directory / "s.csv").write_text("id,query\nany,/a\nb,//b\nx,//@x\nnone,/z\n")
    text = f'[source]\npath = "docs"\n{source}\n[subscriptions]\npath = "s.csv"\n{more}'
    (directory / "job.toml").write_text(text)
    return directory / "job.toml"


MATCHES = [("1.xml", "any"), ("1.xml", "b"), ("2.xml", "any"), ("2.xml", "x")]


def test_the_sample(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out"
    assert main(["run", "--output", str(output)]) == 0
    index = Index()
    index.add_many(read_subscriptions(sample.path() / "subscriptions.csv"))
    expected = []
    for path in (sample.path() / "documents").rglob("*.xml*"):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        expected += [(path.name, id) for id in index.match(data)]
    assert pairs(output / "matches") == sorted(expected)
    report = json.loads((output / "run.json").read_text())
    assert (report["state"], report["documents"]) == ("done", 38)
    assert (report["matches"], report["refused"]) == (len(expected), 0)
    assert sorted(path.name for path in output.iterdir()) == [
        "matches", "report.html", "report.png", "run.json", "spark.log", "subscriptions.parquet",
    ]  # fmt: skip
    output_text = capsys.readouterr().out
    assert f"{len(expected):,}" in output_text
    assert blocks(ROOT / "README.md")[1][1] in output_text
    assert str(output / "report.html") in output_text
    page_text = check_page((output / "report.html").read_text("utf-8"))
    assert "archive/every-document" in page_text
    assert "All 38. Open one to see what matched" in page_text


def test_bad_documents_are_rows_and_the_rest_goes_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_job(tmp_path, more="[sinks]\nrender = true\nby_subscription = true\n[limits]\npayload_bytes_max = 4")
    (tmp_path / "s.csv").write_text("id,query,deliver\nany,/a,\nb,//b,elements\nx,//c,elements\n")
    (tmp_path / "docs" / "3.xml").write_text("<a><b></a>")
    (tmp_path / "docs" / "4<i>.xml").write_text("")
    (tmp_path / "docs" / "5.xml.gz").write_bytes(gzip.compress(b"<a/>")[:-6])
    assert main(["run", str(path)]) == 0
    results = tmp_path / "results"
    assert pairs(results / "matches") == MATCHES
    bad = {Path(row["file"]).name: row["error"]["code"] for row in written(results / "matches") if row["error"]}
    assert bad["3.xml"] == "TC202"
    assert bad["2.xml"] == "TC330"  # what is for x is too large
    assert set(bad) == {"2.xml", "3.xml", "4<i>.xml", "5.xml.gz"}
    payloads = [(row["subscription"], row["payload"]) for row in written(results / "matches") if row["payload"]]
    assert sorted(payloads) == [("any", b"<a><b/></a>"), ("any", b"<a><c x='1'/></a>"), ("b", b"<b/>")]
    assert [row["payload"] for row in written(results / "by-subscription" / "directory=b")] == [b"<b/>"]
    report = json.loads((results / "run.json").read_text())
    assert (report["documents"], report["matches"], report["refused"]) == (5, 4, 3)
    assert (report["payload_bytes"], report["refused_deliveries"]) == (32, 1)
    output_text = capsys.readouterr().out
    assert "3.xml: TC202 the end tag </a> does not match the start tag <b>" in output_text
    assert "4<i>.xml" in check_page((results / "report.html").read_text("utf-8"))


@pytest.mark.parametrize("placement", ["root-tag", "pep", "auto"])
def test_a_placement_changes_neither_matches_nor_accounts(
    spark: SparkSession, tmp_path: Path, placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_job(tmp_path)
    (tmp_path / "docs" / "3.xml").write_text("<a><b></a>")
    (tmp_path / "docs" / "4.xml").write_text("<unwanted/>")
    (tmp_path / "docs" / "5.xml").write_text("")
    monkeypatch.setattr(place, "worker_bytes", lambda setting: 1)
    path.write_text(f'placement = "{placement}"\nshards = 3\n{path.read_text()}')
    render = ["--render"] if placement == "pep" else []
    assert main(["run", str(path), "--quiet", *render]) == 0
    results = tmp_path / "results"
    assert pairs(results / "matches") == MATCHES
    bad = [(Path(row["file"]).name, row["error"]["code"]) for row in written(results / "matches") if row["error"]]
    assert sorted(bad) == [("3.xml", "TC202"), ("5.xml", "TC209")]
    report = json.loads((results / "run.json").read_text())
    assert (report["documents"], report["matches"], report["refused"]) == (5, 4, 2)
    assert report["bytes"] == sum(file.stat().st_size for file in (tmp_path / "docs").iterdir())
    assert report.get("payload_bytes") == (56 if render else None)
    page_text = check_page((results / "report.html").read_text("utf-8"))
    assert (": the index takes" if placement == "auto" else placement) in page_text


def test_a_stream_with_a_placement(spark: SparkSession, tmp_path: Path) -> None:
    path = write_job(tmp_path, source='stream = true\ntrigger = "available-now"')
    path.write_text(f'placement = "hierarchical"\nshards = 2\n{path.read_text()}[sinks]\nrender = true')
    assert main(["run", str(path), "--quiet"]) == 0
    assert pairs(tmp_path / "results" / "matches") == MATCHES
    for row in written(tmp_path / "results" / "matches"):
        assert row["payload"] == Path(row["file"]).read_bytes()
    (tmp_path / "s.csv").write_text("id,query\nany,/a\nnew,//d\n")
    (tmp_path / "docs" / "3.xml").write_text("<a><d/></a>")
    assert main(["run", str(path), "--quiet"]) == 0
    assert pairs(tmp_path / "results" / "matches") == sorted([*MATCHES, ("3.xml", "any"), ("3.xml", "new")])
    report = json.loads((tmp_path / "results" / "run.json").read_text())
    assert (report["documents"], report["matches"], report["payload_bytes"]) == (1, 2, 22)


def test_the_pipeline_of_the_guide(spark: SparkSession, tmp_path: Path) -> None:
    write_job(tmp_path)
    (tmp_path / "s.csv").rename(tmp_path / "subscriptions.csv")
    toml_blocks = [code for language, code in blocks(ROOT / "docs" / "guide" / "run.md") if language == "toml"]
    (tmp_path / "job.toml").write_text(toml_blocks[0])
    assert main(["run", str(tmp_path / "job.toml"), "--quiet"]) == 0
    assert pairs(tmp_path / "results" / "matches") == MATCHES
    assert "<h1>nightly</h1>" in (tmp_path / "results" / "report.html").read_text("utf-8")


def test_subscriptions_of_a_parquet_directory(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_job(tmp_path)
    path.write_text(path.read_text().replace('"s.csv"', '["s.csv", "many"]'))
    spark.createDataFrame([(7, "//c"), (8, "/a/b")], "ID long, query string").write.parquet(str(tmp_path / "many"))
    assert main(["run", str(path), "--quiet"]) == 0
    assert pairs(tmp_path / "results" / "matches") == sorted([*MATCHES, ("1.xml", "8"), ("2.xml", "7")])
    (tmp_path / "s.csv").write_text("id,query\n7,/a\n")
    capsys.readouterr()
    assert main(["run", str(path), "--quiet"]) == 1
    assert "7: TC1" in capsys.readouterr().err


def test_a_second_run_replaces_the_first(spark: SparkSession, tmp_path: Path) -> None:
    path = write_job(
        tmp_path,
        "[sinks]\nreport = false\nby_subscription = true\n[limits]\ndocument_bytes_max = 15\ncache_bytes_max = 0\n",
    )
    assert main(["run", str(path), "--quiet"]) == 0
    assert pairs(tmp_path / "results" / "matches") == MATCHES[:2]  # the other one is too long
    path.write_text(path.read_text().replace("= 15", "= 99"))
    assert main(["run", str(path), "--quiet"]) == 0
    assert pairs(tmp_path / "results" / "matches") == MATCHES
    assert not (tmp_path / "results" / "report.html").exists()
    directories = tmp_path / "results" / "by-subscription"
    assert {path.name for path in directories.glob("directory=*")} == {"directory=any", "directory=b", "directory=x"}
    assert [Path(row["file"]).name for row in written(directories / "directory=b")] == ["1.xml"]


def test_nothing_matches_and_nothing_is_there(spark: SparkSession, tmp_path: Path) -> None:
    path = write_job(tmp_path)
    (tmp_path / "s.csv").write_text("id,query\nnone,/z\n")
    assert main(["run", str(path), "--quiet"]) == 0
    assert written(tmp_path / "results" / "matches") == []
    assert json.loads((tmp_path / "results" / "run.json").read_text())["documents"] == 2


def test_a_stream_writes_each_document_once(spark: SparkSession, tmp_path: Path) -> None:
    path = write_job(tmp_path, source='stream = true\ntrigger = "available-now"')
    results = tmp_path / "results"
    assert main(["run", str(path), "--quiet"]) == 0
    assert pairs(results / "matches") == MATCHES
    assert json.loads((results / "run.json").read_text())["documents"] == 2
    (tmp_path / "docs" / "3.xml").write_text("<z/>")
    (tmp_path / "docs" / "4.xml").write_text("<z>")
    (tmp_path / "s.csv").write_text("id,query\nany,/a\nlate,/z\n")  # from now on
    assert main(["run", str(path), "--quiet"]) == 0
    report = json.loads((results / "run.json").read_text())
    assert (report["documents"], report["matches"], report["refused"]) == (2, 1, 1)
    assert pairs(results / "matches") == [*MATCHES, ("3.xml", "late")]


def test_a_running_stream_picks_up_its_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    path = write_job(tmp_path, source="stream = true")
    pipeline = pipeline_file.read(str(path))
    index, problems = run_verb.check(pipeline, lambda note: None)
    assert index is not None
    assert problems == []

    def tell(progress: Progress) -> None:
        if progress.stage:
            return
        if progress.documents == 2 and not (tmp_path / "docs" / "3.xml").exists():
            (tmp_path / "s.new").write_text("id,query\nnew,/a\nbad,][\n")
            (tmp_path / "s.new").rename(tmp_path / "s.csv")
            (tmp_path / "docs.new").write_text("<a/>")
            (tmp_path / "docs.new").rename(tmp_path / "docs" / "3.xml")
        elif progress.documents == 3:
            raise KeyboardInterrupt

    figures = job.run(spark, pipeline, index, tell, run_verb.supply_of(pipeline, spark))
    assert (figures.documents, figures.matches) == (3, 5)
    assert pairs(tmp_path / "results" / "matches") == [*MATCHES, ("3.xml", "new")]
    assert job.run(spark, replace(pipeline, sinks=Sinks(str(tmp_path / "none"))), index, stop_at_once).documents == 0


def stop_at_once(progress: Progress) -> None:
    if not progress.stage:
        raise KeyboardInterrupt


def test_an_interrupted_stream_ends_with_what_it_has(spark: SparkSession, tmp_path: Path) -> None:
    write_job(tmp_path)
    index = Index()
    index.add("any", "/a")

    def tell(progress: Progress) -> None:
        if progress.documents and not progress.stage:
            raise KeyboardInterrupt

    source = Source((str(tmp_path / "docs"),), stream=True)
    pipeline = Pipeline(source, Subscriptions(("unused",)), Sinks(str(tmp_path / "out")))
    figures = job.run(spark, pipeline, index, tell)
    assert (figures.documents, figures.matches, figures.top) == (2, 2, (("any", 2),))
    assert spark.streams.active == []


def test_a_process_of_its_own_is_quiet_and_ends_when_told(tmp_path: Path) -> None:
    path = write_job(tmp_path, source="stream = true")
    quick = '[spark]\n"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"\n'
    path.write_text(f'master = "local[2]"\n{path.read_text()}{quick}')
    command = [sys.executable, "-m", "treecast", "run", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            output = []
            for line in process.stderr:
                output.append(line)
                if "  2 documents" in f"  {line.removeprefix('treecast: ')}":
                    process.send_signal(signal.SIGTERM)
                    break
            out, rest = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 0, (output, rest)
    assert all(line.startswith("treecast: ") for line in [*output, *rest.splitlines()]), (output, rest)
    assert "matches" in out
    assert pairs(tmp_path / "results" / "matches") == MATCHES
    assert json.loads((tmp_path / "results" / "run.json").read_text())["documents"] == 2


def _processes_with(text: str) -> list[int]:
    """The processes of this machine whose command lines hold the text."""
    numbers = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if text.encode() in (directory / "cmdline").read_bytes():
                numbers.append(int(directory.name))
    return numbers


def test_a_job_that_is_ended_while_spark_starts_leaves_no_jvm(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    mark = f"-Dmark={tmp_path}"
    path.write_text(f'{path.read_text()}[spark]\n"spark.driver.extraJavaOptions" = "{mark}"\n')
    command = [sys.executable, "-m", "treecast", "run", str(path), "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            while process.poll() is None and not _processes_with(mark):
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, "treecast: interrupted\n")
    assert _processes_with(mark) == []


@pytest.fixture
def slow(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Matching that takes a minute, so that an interruption comes first."""
    _replace_matching(monkeypatch, "time.sleep(60)")
    yield


def _replace_matching(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def fake(parts: DataFrame, options: object, index: Index, form: AnswerForm, cache_bytes_max: int) -> DataFrame:
        def poisoned(batches: Any) -> Any:
            exec(f"import os, time\n{code}")
            yield from batches

        poisoned.__annotations__ = {}  # Spark would read them, and they say nothing
        return parts.mapInArrow(poisoned, f"file string, offset long, ordinal long, {ANSWER} {form.spark_type}")

    monkeypatch.setattr(plan, "file_answers", fake)


def test_an_interrupted_batch_leaves_nothing(
    spark: SparkSession, slow: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_job(tmp_path)

    def interrupt(progress: Progress) -> None:
        if progress.tasks:
            raise KeyboardInterrupt

    monkeypatch.setattr("treecast.cli.run_progress.RunProgress.tell", lambda self, progress: interrupt(progress))
    assert main(["run", str(path), "--quiet"]) == 130
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("", "treecast: interrupted\n")
    assert json.loads((tmp_path / "results" / "run.json").read_text()) == {"state": "interrupted"}
    assert sorted(os.listdir(tmp_path / "results")) == ["run.json", "spark.log"]  # noqa: PTH208
    while spark.sparkContext.statusTracker().getActiveStageIds():
        time.sleep(0.05)


def test_a_worker_that_dies_is_one_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_job(tmp_path)
    assert main(["run", str(path), "--quiet"]) == 0
    _replace_matching(monkeypatch, "os._exit(9)")
    assert main(["run", str(path), "--quiet"]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("treecast: TC738 a worker died")
    assert len(streams.err.splitlines()) == 2
    assert pairs(tmp_path / "results" / "matches") == MATCHES  # of the run before
    report = json.loads((tmp_path / "results" / "run.json").read_text())
    assert (report["state"], report["code"]) == ("failed", "TC738")
    assert "org.apache.spark" in (tmp_path / "results" / "spark.log").read_text()


def test_an_error_in_a_worker_is_one_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_job(tmp_path)
    _replace_matching(monkeypatch, 'raise RuntimeError("TC704 the executor has another treecast\\n  hint: install it")')
    assert main(["run", str(path), "--quiet"]) == 1
    assert capsys.readouterr().err == "treecast: TC704 the executor has another treecast\n  hint: install it\n"
