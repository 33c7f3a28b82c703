"""A pipeline.toml: what it means, and the messages for an invalid one. Nothing here starts Spark."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tomllib
from pathlib import Path
from typing import cast

import pytest

from treecast import Index, PipelineError, sample
from treecast.cli import main, pipeline_file
from treecast.cli import run as run_verb
from treecast.cli.console import Console
from treecast.document import Limits
from treecast.model import DeliveryLimits
from treecast.report import Figures
from treecast.spark import failure, session
from treecast.spark.job.pipeline import MASTER, Pipeline, Sinks, Source, Subscriptions

GUIDE = Path(__file__).parent.parent / "docs" / "guide" / "run.md"
SHORTEST = '[source]\npath = "docs"\n[subscriptions]\npath = "s.csv"\n'
FULL = """\
name = "nightly"
master = "local[4]"
placement = "data-sharing"
[source]
path = ["docs/*.xml", "/data/dblp.xml.gz", "hdfs://host/docs"]
pattern = "*.xml"
record = ["article", "book"]
entities = {uuml = "ü"}
stream = true
trigger = "available-now"
[subscriptions]
path = "s.dat"
format = "jsonl"
namespaces = {x = "urn:x"}
[sinks]
output = "../out"
matches = "s3a://bucket/matches"
overwrite = true
render = true
by_subscription = true
directories_max = 50
report = false
[limits]
document_bytes_max = "2M"
depth_max = 64
payload_bytes_max = "1M"
cache_bytes_max = "1g"
[spark]
"spark.executor.memory" = "4g"
sql.shuffle.partitions = 8
spark.ui.enabled = true
"""


def read(directory: Path, text: str) -> Pipeline:
    path = directory / "jobs" / "job.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return pipeline_file.read(str(path))


def test_the_shortest(tmp_path: Path) -> None:
    home = tmp_path / "jobs"
    pipeline = read(tmp_path, SHORTEST)
    assert pipeline == Pipeline(
        Source((str(home / "docs"),)), Subscriptions((str(home / "s.csv"),)), Sinks(str(home / "results")), name="job"
    )
    assert (pipeline.master, pipeline.limits) == (MASTER, Limits())


def test_everything(tmp_path: Path) -> None:
    home = tmp_path / "jobs"
    assert read(tmp_path, FULL) == Pipeline(
        Source(
            (str(home / "docs/*.xml"), "/data/dblp.xml.gz", "hdfs://host/docs"),
            pattern="*.xml",
            record=("article", "book"),
            entities={"uuml": "ü"},
            stream=True,
            trigger="available-now",
        ),
        Subscriptions((str(home / "s.dat"),), "jsonl", {"x": "urn:x"}),
        Sinks(
            str(home / "../out"),
            matches="s3a://bucket/matches",
            overwrite=True,
            render=True,
            by_subscription=True,
            directories_max=50,
            report=False,
        ),
        name="nightly",
        master="local[4]",
        limits=Limits(document_bytes_max=2 << 20, depth_max=64),
        delivery_limits=DeliveryLimits(payload_bytes_max=1 << 20),
        cache_bytes_max=1 << 30,
        spark={
            "spark.executor.memory": "4g",
            "spark.sql.shuffle.partitions": "8",
            "spark.ui.enabled": "true",
        },
    )


def test_the_description_names_what_is_set(tmp_path: Path) -> None:
    settings = dict(read(tmp_path, FULL).describe())
    assert settings["source.entities"] == "uuml=ü"
    assert settings["source.stream"] == "available-now"
    assert settings["limits.document_bytes_max"] == "2,097,152"
    assert (settings["sinks.render"], settings["limits.payload_bytes_max"]) == ("true", "1,048,576")
    assert settings["spark.executor.memory"] == "4g"
    assert "source.record" not in dict(read(tmp_path, SHORTEST).describe())


@pytest.mark.parametrize(
    ("change", "code", "expected"),
    [
        ("[source", "TC730", "job.toml: not TOML: "),
        ("nmae = 'x'\n", "TC731", "job.toml: nmae: unknown key or table\n  hint: did you mean name?"),
        ("[sink]\n", "TC731", "job.toml: sink: unknown key or table\n  hint: did you mean sinks?"),
        (
            "[sinks]\ntrigger = 1",
            "TC731",
            "job.toml: [sinks] trigger: unknown key\n  hint: it belongs to [source]",
        ),
        ("[sinks]\nname = 1", "TC731", "[sinks] name: unknown key\n  hint: it belongs to the top of the file"),
        (
            "[sinks]\nqq = 1",
            "TC731",
            "hint: the known ones are output, matches, overwrite, render, by_subscription, directories_max, report",
        ),
        (
            "[limits]\ndeph_max = 1",
            "TC731",
            "job.toml: [limits] deph_max: unknown key\n  hint: did you mean depth_max?",
        ),
        ("[limits]\ndepth_max = 0", "TC732", "job.toml: [limits]: depth_max must be 1-"),
        (
            "[limits]\ndepth_max = 'ten'",
            "TC732",
            "job.toml: [limits] depth_max: 'ten' is not a size\n  hint: write a number such as",
        ),
        ("[limits]\ndepth_max = true", "TC732", "job.toml: [limits] depth_max: True is not a size"),
        ("[limits]\ncache_bytes_max = 1.5", "TC732", "a number with a fraction is not a size"),
        (
            "[limits]\nbindings_max = 9",
            "TC732",
            "job.toml: limits: payload_bytes_max, document_payload_bytes_max, bindings_max are about payloads\n"
            "  hint: set sinks.render = true, or leave them out",
        ),
        ("[sinks]\nrender = true\n[limits]\nbindings_max = 0", "TC732", "job.toml: [limits]: bindings_max must be 1-"),
        (
            "[sinks]\nrender = true\n[limits]\ndocument_payload_bytes_max = '2G'",
            "TC732",
            "job.toml: limits.document_payload_bytes_max: 2,147,483,648 is more than a row of Spark holds",
        ),
        ("name = 3\n", "TC732", "job.toml: name: expected a string, got a number\n  hint: put it in quotes"),
        ("source = 'docs'\n", "TC732", "job.toml: source: expected a table, got a string"),
        ("spark = 1\n", "TC732", "job.toml: spark: expected a table, got a number"),
        ("[spark]\nx = [1]", "TC732", "job.toml: [spark] x: a list is not a Spark setting"),
        ("[sinks]\nreport = 'yes'", "TC732", "job.toml: [sinks] report: expected true or false, got a string"),
        ("[sinks]\ndirectories_max = 0", "TC732", "job.toml: sinks.directories_max: 0 is too few"),
        ("[sinks]\ndirectories_max = true", "TC732", "expected a number, got true or false"),
        (
            "[sinks]\noutput = 'hdfs://x/y'",
            "TC732",
            "job.toml: sinks.output: 'hdfs://x/y' is not a directory of this machine",
        ),
        ("[sinks]\nmatches = ''\noverwrite = true", "TC732", "job.toml: [sinks] matches: it is empty"),
        (
            "[sinks]\noverwrite = true",
            "TC732",
            "job.toml: sinks.overwrite: it is about sinks.matches, which is not set",
        ),
        (
            "placement = 'random'\n",
            "TC734",
            "job.toml: placement: 'random' is not a placement; choose one of data-sharing, ",
        ),
        ("placement = 'pep'\nshards = 0\n", "TC732", "job.toml: shards: must be 1-1024, got 0"),
        ("shards = 4\n", "TC732", "job.toml: shards: data-sharing has none"),
        ("master = ''\n", "TC732", "job.toml: master: it is empty"),
        ("master = 'sparks'\n", "TC732", "job.toml: master: 'sparks' is not a Spark master"),
        ("master = 'sc://host'\n", "TC732", "job.toml: master: a job does not run through Spark Connect"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: str, code: str, expected: str) -> None:
    text = SHORTEST + change if change.startswith("[") else change + (SHORTEST if "source =" not in change else "")
    with pytest.raises(PipelineError) as caught:
        read(tmp_path, text)
    assert caught.value.code == code
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"{code} {tmp_path}/jobs/job.toml: ")


@pytest.mark.parametrize(
    ("source", "code", "expected"),
    [
        ("", "TC733", "[source] has no key path"),
        ("path = []", "TC732", "source.path: there is no path"),
        ("path = ''", "TC732", "source.path: there is no path"),
        ("path = [1]", "TC732", "[source] path: expected a string or a list of strings, got a list"),
        ("path = 2026-11-15", "TC732", "[source] path: expected a string or a list of strings, got a date"),
        ("path = 'd'\nrecord = ''", "TC732", "source.record: the name is empty"),
        ("path = 'd'\nrecord = [1]", "TC732", "[source] record: expected a string, got a number"),
        ("path = 'd'\npattern = ''", "TC732", "source.pattern: it is empty"),
        ("path = 'd'\nentities = 'latin'", "TC732", "source.entities: 'latin' is not known\n  hint: write \"html\""),
        ("path = 'd'\nentities = {a = 1}", "TC732", "[source] entities: expected a table of strings, got a table"),
        ("path = 'd'\ntrigger = 'available-now'", "TC732", "source.trigger: only a stream has one"),
        ("path = 'd'\nstream = true\ntrigger = 'now'", "TC732", "source.trigger: 'now' is not a trigger"),
    ],
)
def test_what_is_wrong_with_a_source(tmp_path: Path, source: str, code: str, expected: str) -> None:
    with pytest.raises(PipelineError) as caught:
        read(tmp_path, f"[source]\n{source}\n[subscriptions]\npath = 's.csv'\n")
    assert caught.value.code == code
    assert expected in str(caught.value)


def test_a_stream_without_end_has_no_directories(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"TC732 .*sinks\.by_subscription: it is written at the end"):
        read(tmp_path, FULL.replace("available-now", "10 seconds"))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"^TC730 .*absent\.toml: cannot be read: No such file"):
        pipeline_file.read(str(tmp_path / "absent.toml"))
    (tmp_path / "latin.toml").write_bytes(b'name = "\xfc"')
    with pytest.raises(PipelineError, match=r"^TC730 .*latin\.toml: not UTF-8"):
        pipeline_file.read(str(tmp_path / "latin.toml"))


def test_the_guide_shows_every_key(tmp_path: Path) -> None:
    _, text = re.findall(r"^```toml\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    read(tmp_path, text)
    shown = tomllib.loads(text)
    for table, keys in pipeline_file.KEYS.items():
        assert set(shown[table] if table else shown) >= set(keys), table


# -- treecast run --dry-run


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline that is in order, on a machine where Spark can run."""
    monkeypatch.setattr(session, "check", lambda: None)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.xml").write_text("<a/>")
    (tmp_path / "s.csv").write_text("id,query\nq1,/a\n")
    path = tmp_path / "job.toml"
    path.write_text(SHORTEST)
    return path


def listing(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def dry_run(job: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    before = listing(job.parent)
    status = main(["run", str(job), "--dry-run", *more])
    assert listing(job.parent) == before
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_dry_run_starts_nothing(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = dry_run(job, capsys, "--master", "local[7]", "--output", "elsewhere")
    assert (status, err) == (0, "")
    assert out.startswith("job: 1 subscriptions; everything is in order, and nothing was started\n")
    assert "  master                     local[7]\n" in out
    assert "elsewhere/matches" in out


def test_a_dry_run_of_the_sample(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job.parent)
    assert main(["run", "--dry-run", "-o", "new"]) == 0
    assert capsys.readouterr().out.startswith("the embedded sample: 450 subscriptions;")
    assert not Path("new").exists()
    assert (sample.path() / "documents").is_dir()


def test_all_problems_at_once(job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> None:
        raise PipelineError("Spark needs Java, and none was found", code="TC701", hint="install it")

    monkeypatch.setattr(session, "check", no_java)
    (job.parent / "docs" / "a.xml").unlink()
    (job.parent / "docs").rmdir()
    (job.parent / "s.csv").write_text("id,query\nq1,a\nq2,/b[\n")
    (job.parent / "results").write_text("")
    status, out, err = dry_run(job, capsys)
    assert (status, out) == (1, "")
    for expected in (
        "treecast: TC701 Spark needs Java",
        f"treecast: TC710 there is no file or directory {job.parent}/docs",
        f"treecast: TC736 {job.parent}/results is not a directory",
        "treecast: TC140 2 subscriptions are refused:\nq1: TC104",
    ):
        assert expected in err, err
    assert "Traceback" not in err


def test_all_mistakes_of_a_file_at_once(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = "".join(f"q{number},/b[\n" for number in range(30))
    (job.parent / "s.csv").write_text(f"id,query\n{many}")
    job.write_text("""\
nmae = "nightly"
shards = "two"
master = "spork"
[source]
path = "nowhere"
record = ""
trigger = "available-now"
[subscriptions]
path = "s.csv"
fromat = "csv"
[sinks]
directories_max = 0
overwrite = true
[limits]
depth_max = "deep"
[spark]
list = [1]
""")
    status, out, err = dry_run(job, capsys)
    assert (status, out) == (1, "")
    for expected in (
        f"TC731 {job}: nmae: unknown key or table\n  hint: did you mean name?",
        f"TC732 {job}: shards: expected a number, got a string",
        f"TC732 {job}: source.record: the name is empty",
        f"TC732 {job}: source.trigger: only a stream has one",
        f"TC731 {job}: [subscriptions] fromat: unknown key\n  hint: did you mean format?",
        f"TC732 {job}: sinks.overwrite: it is about sinks.matches",
        f"TC732 {job}: sinks.directories_max: 0 is too few",
        f"TC732 {job}: [limits] depth_max: 'deep' is not a size",
        f"TC732 {job}: [spark] list: a list is not a Spark setting",
        f"TC732 {job}: master: 'spork' is not a Spark master",
        f"TC710 there is no file or directory {job.parent}/nowhere",
        "TC140 30 subscriptions are refused:",
    ):
        assert f"treecast: {expected}" in err, (expected, err)
    assert err.count("treecast: ") == 12
    assert all(f"\nq{number}: TC1" in err for number in range(30))


def test_a_file_without_paths_still_has_its_other_mistakes(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job.write_text("shards = 1\n[subscriptions]\npath = 7\n")
    _, _, err = dry_run(job, capsys)
    assert "TC733 " in err
    assert "there is no table [source]" in err
    assert "[subscriptions] path: expected a string or a list of strings, got a number" in err
    assert "shards: data-sharing has none" in err
    assert err.count("treecast: ") == 3


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            '[source]\npath = "docs/*.json"\n[subscriptions]\npath = "s.csv"',
            "TC710 nothing fits {home}/docs/*.json",
        ),
        (
            '[source]\npath = "docs"\n[subscriptions]\npath = "t.csv"',
            "TC190 {home}/t.csv: cannot be read: No such file or directory",
        ),
        (
            '[source]\npath = "docs"\n[subscriptions]\npath = "docs"\nformat = "csv"',
            "TC190 {home}/docs: cannot be read: Is a directory",
        ),
        (
            '[source]\npath = "docs"\n[subscriptions]\npath = "s.dat"',
            "TC194 cannot infer the format of {home}/s.dat",
        ),
        ('[source]\npath = "docs"\n[subscriptions]\npath = "s.csv"\nformat = "tcx"', "TC501"),
        ('[source]\npath = "docs"\n[subscriptions]\npath = "s.csv"\nformat = "jsonl"', "TC191 {home}/s.csv: line 1"),
        (
            '[source]\npath = "docs"\n[subscriptions]\npath = ["s.csv", "i.tcx"]',
            "TC190 {home}/i.tcx: cannot be read",
        ),
        ('[source]\npath = "docs"\n[subscriptions]\npath = ["s.csv", "s.csv"]', "TC14"),
    ],
)
def test_one_problem(job: Path, capsys: pytest.CaptureFixture[str], change: str, expected: str) -> None:
    job.write_text(change)
    status, _, err = dry_run(job, capsys)
    assert status == 1
    assert expected.format(home=job.parent) in err, err
    assert err.count("treecast:") == 1


@pytest.mark.parametrize(
    ("documents", "more", "status", "verdict", "said"),
    [
        (["<a/>"], "", 0, "everything is in order", ""),
        (["<a><a/></a>"], "depth_max = 1", 1, "the only document", "raise it with depth_max below [limits]"),
        (["<a>xxxxxxx</a>"], "document_bytes_max = 9", 1, "the only document", "document_bytes_max below [limits]"),
        (["<a>xxxxxxx</a>"], "document_bytes_max = 9", 1, "the only document", "split it with record below [source]"),
        (["<a>&nbsp;</a>"], "", 1, "the only document looked into", 'add entities = "html" below [source]'),
        (["<a>", "<a/>", "<a/>"], "", 0, "1 of the 3 documents looked into would be rejected", "docs/0.xml: TC209"),
        (["<a>"] * 200, "", 1, "all 100 documents looked into would be rejected", "docs/1.xml: TC209"),
        ([], "", 1, "the only document looked into", "TC710 no document in this directory"),
    ],
)
def test_a_dry_run_reads_documents(
    job: Path, capsys: pytest.CaptureFixture[str], documents: list[str], more: str, status: int, verdict: str, said: str
) -> None:
    (job.parent / "docs" / "a.xml").unlink()
    for number, text in enumerate(documents):
        (job.parent / "docs" / f"{number}.xml").write_text(text)
    job.write_text(f"{SHORTEST}\n[limits]\n{more}")
    actual, out, err = dry_run(job, capsys)
    assert actual == status
    assert out.startswith(f"job: 1 subscriptions; {verdict}")
    assert said in err
    assert bool(err) == bool(said)


def test_a_dry_run_reads_records(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job.parent / "docs" / "a.xml").write_text("<list><a/><a><b/></a></list>")
    source = '[source]\npath = "docs"\nrecord = "{}"\n[subscriptions]\npath = "s.csv"\n[limits]\ndepth_max = 1'
    job.write_text(source.format("a"))
    assert "1 of the 2 documents looked into would be rejected" in dry_run(job, capsys)[1]
    job.write_text(source.format("nothing"))
    status, out, _ = dry_run(job, capsys)
    assert (status, "no document was found" in out) == (1, True)


def test_a_stream_may_wait_for_its_documents(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job.parent / "docs" / "a.xml").unlink()
    job.write_text(SHORTEST.replace("[source]", "[source]\nstream = true"))
    assert "everything is in order" in dry_run(job, capsys)[1]


def test_subscriptions_that_only_spark_can_read(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (job.parent / "many").mkdir()
    job.write_text('[source]\npath = "docs"\n[subscriptions]\npath = ["s.csv", "many", "s3a://b/s.parquet"]')
    status, out, err = dry_run(job, capsys)
    assert (status, out.splitlines()[0]) == (0, "job: 1 subscriptions; everything is in order, and nothing was started")
    assert f"treecast: subscriptions.path: {job.parent}/many is read by Spark" in err
    assert "treecast: subscriptions.path: s3a://b/s.parquet is read by Spark" in err
    job.write_text('[source]\npath = "docs"\n[subscriptions]\npath = "s3a://b/s.csv"')
    assert "TC732 subscriptions.path: s3a://b/s.csv: only Parquet is read from there" in dry_run(job, capsys)[2]


def test_a_saved_index(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = Index()
    index.add_many([("q1", "/a"), ("q2", "/b")])
    index.save(job.parent / "i.tcx")
    job.write_text('[source]\npath = "docs"\n[subscriptions]\npath = "i.tcx"')
    assert dry_run(job, capsys)[1].startswith("job: 2 subscriptions;")
    more = "[sinks]\nrender = true\n[limits]\npayload_bytes_max = 9"
    job.write_text(f'[source]\npath = "docs"\n[subscriptions]\npath = "i.tcx"\n{more}')
    loaded = run_verb.build_index(pipeline_file.read(str(job)), print)
    assert loaded.delivery_limits == DeliveryLimits(payload_bytes_max=9)
    job.write_text('[source]\npath = "docs"\n[subscriptions]\npath = "i.tcx"\nnamespaces = {x = "urn:x"}')
    assert dry_run(job, capsys)[1].startswith("job: 2 subscriptions;")
    job.write_text('[source]\npath = "docs"\n[subscriptions]\npath = ["i.tcx", "s.csv"]')
    (job.parent / "s.csv").write_text("id,query\nq3,/c\n")
    assert dry_run(job, capsys)[1].startswith("job: 3 subscriptions;")


def test_what_is_not_ours_is_not_overwritten(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = job.parent / "results"
    results.mkdir()
    assert dry_run(job, capsys)[0] == 0
    (results / "thesis.txt").write_text("")
    assert "TC736" in dry_run(job, capsys)[2]
    (results / "run.json").write_text("{}")
    assert dry_run(job, capsys)[0] == 0
    (results / "checkpoint").mkdir()
    assert "holds the results of a stream" in dry_run(job, capsys)[2]
    (job.parent / "old").mkdir()
    (job.parent / "old" / "part.parquet").write_text("")
    job.write_text(SHORTEST + '[sinks]\noutput = "new"\nmatches = "old"')
    assert f"TC736 sinks.matches: {job.parent}/old is there already" in dry_run(job, capsys)[2]
    job.write_text(SHORTEST + '[sinks]\noutput = "new"\nmatches = "old"\noverwrite = true')
    assert dry_run(job, capsys)[0] == 0
    for place, held in (("docs", "docs"), (".", "new")):  # what the job reads, or also writes
        job.write_text(SHORTEST + f'[sinks]\noutput = "new"\nmatches = "{place}"\noverwrite = true')
        assert f"holds {job.parent}/{held}\n  hint: name a separate directory" in dry_run(job, capsys)[2]


def test_an_output_nobody_may_write(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
    status, _, err = dry_run(job, capsys, "--output", "a/b")
    assert status == 1
    assert "is not writable\n  hint: choose a place" in err


# -- failures of Spark, in a sentence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkException: Could not parse Master URL: 'local[2'\n\tat org.apache.spark.X",
            "TC737 Spark failed: Could not parse Master URL: 'local[2'\n  hint: see s.log",
        ),
        (
            "x\ntreecast.errors.PipelineError: TC704 the executor has treecast 2\n  hint: install\n  at org",
            "TC704 the executor has treecast 2\n  hint: install",
        ),
        (
            "x\nCaused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "TC738 a worker died",
        ),
        ("ExecutorLostFailure (executor 1 exited", "TC738 a worker died\n  hint: it was killed"),
        (
            "Task 0 in stage 3.0 failed 4 times\nCaused by: x.SparkException: Python worker exited unexpectedly",
            "TC738 a worker died, in each of 4 tries\n",
        ),
        (
            "x\nCaused by: org.apache.spark.SparkException: Python worker failed to connect back.",
            "TC738 a Python worker was started, and did not call Spark back\n  hint: PYSPARK_PYTHON",
        ),
        (
            "Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:",
            "TC739 Spark stopped by itself\n  hint: see whether the master can be reached; see s.log",
        ),
        (
            "a\nCaused by: java.lang.OutOfMemoryError: Java heap space",
            "TC738 Spark ran out of memory\n  hint: raise spark.driver.memory",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03",
            "TC737 Spark failed: Path does not exist: file:/x\n  hint: see s.log",
        ),
        ("boom\nCaused by: a.b.CException: x.y.DError: the disk is full", "TC737 Spark failed: the disk is full"),
        ("a\nCaused by: java.io.IOException: No space left on device", "TC736 no space is left for the results"),
        ("", "TC737 Spark failed: for no reason that it gave"),
        ("x" * 1000, "TC737 Spark failed: " + "x" * 300 + "…"),
    ],
)
def test_failures_are_one_sentence(text: str, expected: str) -> None:
    assert str(failure.to_pipeline_error(RuntimeError(text), "s.log")).startswith(expected)


def test_a_failure_says_its_last_cause() -> None:
    error, cause = (
        RuntimeError("Error while instantiating 'a.b.Builder'"),
        RuntimeError("x.y.BadException: -3 is too few"),
    )
    error._cause = cause  # type: ignore[attr-defined]
    assert str(failure.to_pipeline_error(error)) == "TC737 Spark failed: -3 is too few"


def executed(output: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> dict[str, str]:
    """What run.json says after a job that ends so; Spark is not started."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("treecast.spark.job.job.open_session", fail)
    pipeline = Pipeline(Source((str(output),)), Subscriptions(("s.csv",)), Sinks(str(output)))
    with pytest.raises(PipelineError, match="TC736 no space is left"):
        run_verb.execute(pipeline, Index(), Console({}, io.StringIO()), quiet=True)
    report: dict[str, str] = json.loads((output / "run.json").read_text())
    return report


def test_a_full_disk_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "matches"))
    assert executed(tmp_path, monkeypatch, full)["code"] == "TC736"
    # Not even a new run.json can be written: the old one has room for the message.
    fsync, calls = os.fsync, []

    def refuse(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 2:  # run.json and its directory, when the job begins
            raise full
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", refuse)
    report = executed(tmp_path, monkeypatch, full)
    assert (report["state"], report["code"], len(calls)) == ("failed", "TC736", 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "spark.log"]


def test_a_report_that_cannot_be_written_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied", "report.html")

    monkeypatch.setattr("treecast.report.write_page", fail)
    pipeline = Pipeline(Source((str(tmp_path),)), Subscriptions(("s.csv",)), Sinks(str(tmp_path)))
    with pytest.raises(PipelineError, match=r"TC736 the report cannot be written to report\.html: Permission denied"):
        run_verb.write_report(pipeline, cast(Figures, None))


def test_the_log_of_the_run_before_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark.log").write_text("why the stream ended\n")
    executed(tmp_path, monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    log = (tmp_path / "spark.log").read_text()
    assert log.startswith("why the stream ended\n---- 20")


def test_spark_that_is_gone() -> None:
    assert failure.to_pipeline_error(ConnectionRefusedError("111")).code == "TC739"
    ours = PipelineError("x", code="TC736")
    assert failure.to_pipeline_error(ours) is ours


def test_the_stack_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("before\n")
    failure.write_stack(RuntimeError("boom"), log)
    assert log.read_text() == "before\nRuntimeError: boom\n"
    failure.write_stack(RuntimeError("boom"), tmp_path)  # a directory: nothing is written, and nothing raised
