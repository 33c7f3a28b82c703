"""`treecast bench` at tiny sizes: every workload and engine, the files it leaves, what it leaves out, what it refuses.

No time is checked here, only that there is one.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from treecast import engines
from treecast.cli import main
from treecast.measure import Answers, Cell, Effort, Seconds, process, run
from treecast.measure.named import DTDS, NAMES, named
from treecast.measure.suite import Row
from treecast.measure.table import HEADINGS, WIDTH_MAX, csv_text, table

pytestmark = pytest.mark.house

TINY = ["--queries", "40", "--documents", "6", "--bytes", "1500", "--budget", "0.2", "--quiet"]
DTD = "<!ELEMENT a (b+, c?)> <!ELEMENT b (#PCDATA)> <!ATTLIST b x CDATA #REQUIRED> <!ELEMENT c EMPTY>"


def bench(directory: Path, *arguments: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """The exit status, and the rows of every CSV file that was written."""
    try:
        status = main(["bench", *arguments, "--output", str(directory)])
    except SystemExit as leaving:
        status = int(str(leaving.code))
    return status, {path.stem: read_csv(path) for path in sorted(directory.glob("*.csv"))}


def read_csv(path: Path) -> list[dict[str, str]]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(io.StringIO("\n".join(lines))))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with two of the ten DTDs."""
    for place in DTDS[:2]:
        path = tmp_path / "data" / "dtd" / place
        path.parent.mkdir(parents=True)
        path.write_text(DTD)
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests say themselves where data is."""
    monkeypatch.delenv("TREECAST_DATA", raising=False)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are measured in this process, which takes a tenth of the time. Their figures of memory mean little then,
    and a crash would end the tests; tests/test_measure.py has processes, and what becomes of their failures."""

    def serve_here(task: dict[str, Any], directory: Path, effort: Effort) -> dict[str, Any]:
        for name in (process.FIGURES_FILE, process.ANSWERS_FILE):
            (directory / name).unlink(missing_ok=True)
        (directory / process.TASK_FILE).write_text(json.dumps(task), encoding="utf-8")
        process.serve(directory)
        reply: dict[str, Any] = json.loads((directory / process.FIGURES_FILE).read_text(encoding="utf-8"))
        return reply

    monkeypatch.setattr(process, "_start", serve_here)


@pytest.mark.usefixtures("here")
def test_every_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, files = bench(tmp_path, *NAMES, *TINY)
    out = capsys.readouterr().out
    assert status == 0
    assert set(files) == set(NAMES)
    for name, rows in files.items():
        assert [row["engine"] for row in rows] == ["auto", "lxml"]
        assert {row["queries"] for row in rows} == {"40"}
        assert all(row["wrong_answers"] == "0" and not row["failure"] for row in rows)
        assert all(float(row["unseen_us_cpu"]) > 0 and float(row["warm_us_wall"]) > 0 for row in rows)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert f"== {name}" in out
    assert out.count("the built-in news schema, for no data directory was given") == 3
    assert "the built-in news and record schemas, for no data directory was given" in out
    assert float(files["nitf"][0]["matches_per_document"]) > 0


@pytest.mark.usefixtures("here")
def test_every_engine_and_what_it_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, files = bench(tmp_path, "trees", "--engines", "all", "--peers", "none", *TINY)
    out = capsys.readouterr().out
    assert status == 0
    rows = {row["engine"]: row for row in files["trees"]}
    assert list(rows) == engines.names(variants=True)
    assert rows["auto"]["refused"] == "0"
    refused = int(rows["xtrie-single-path"]["refused"])
    assert 0 < refused < 40
    assert int(rows["xtrie-single-path"]["sampled"]) == 40 - refused
    assert f"left out: xtrie-single-path, 40 queries: {refused} that it does not take" in out
    assert all(row["wrong_answers"] == "0" for row in rows.values())


@pytest.mark.usefixtures("here")
def test_some_refused_queries_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = tmp_path / "queries.txt"
    queries.write_text("//p\n/news[not(p)]\n//p\n/news//em\n")
    status, files = bench(
        tmp_path / "out", "nitf", "--engines", "xfilter", "--peers", "none", *TINY[2:], "--queries", str(queries)
    )
    assert status == 0
    rows = {row["engine"]: row for row in files["nitf"]}
    assert (rows["xfilter"]["queries"], rows["xfilter"]["refused"], rows["xfilter"]["sampled"]) == ("3", "1", "2")
    out = capsys.readouterr().out
    assert "left out: xfilter, 3 queries: 1 that it does not take (TC150" in out
    assert "queries: 3 distinct ones of queries.txt" in out


def test_csv_has_every_figure_by_both_clocks(tmp_path: Path) -> None:
    _, files = bench(tmp_path, "record", *TINY, "--peers", "lxml")
    ours, peer = files["record"]
    times = ("first", "unseen", "warm", "parse", "match", "emit", "lxml_parse")
    assert {f"{name}_us_{kind}" for name in times for kind in ("cpu", "wall")} <= set(ours)
    for name in ("build_s_cpu", "index_bytes_per_query", "memory_bytes", "unseen_per_lxml_parse", "lxml_per_unseen"):
        assert float(ours[name]) > 0, name
    assert (ours["peer"], peer["peer"], ours["extrapolated"]) == ("no", "yes", "no")
    parts = sum(float(ours[f"{name}_us_cpu"] or 0) for name in ("parse", "match", "emit"))
    assert parts == pytest.approx(float(ours["warm_us_cpu"]), rel=1e-4)
    comments = [line for line in (tmp_path / "record.csv").read_text().splitlines() if line.startswith("#")]
    assert comments[0].startswith("# command: treecast bench record --engines auto --peers lxml --queries 40")
    assert any("CPUs, load" in line for line in comments)
    assert any("Python 3" in line and "lxml" in line for line in comments)
    assert "treecast bench record" in (tmp_path / "record.md").read_text()


@pytest.mark.usefixtures("here")
def test_extrapolation_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--queries", "3000", "--documents", "4", "--bytes", "20000", "--budget", "0.05", "--quiet"]
    _, files = bench(tmp_path, "nitf", *given)
    ours, peer = files["nitf"]
    assert (ours["extrapolated"], peer["extrapolated"], ours["lxml_extrapolated"]) == ("no", "yes", "yes")
    assert int(peer["sampled"]) < 3000 == int(peer["queries"])
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("  lxml"))
    assert line.count("~") >= 6
    assert (
        f"~ scaled up from a sample of the queries, in proportion: lxml, 3,000 queries: {int(peer['sampled']):,}" in out
    )


@pytest.mark.usefixtures("here")
def test_several_sizes_without_a_row_for_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*TINY[2:-1], "--engines", "yfilter", "--peers", "none", "--queries", "10,30"]
    status, files = bench(tmp_path, "values", *given)
    assert status == 0
    assert [(row["engine"], row["queries"]) for row in files["values"]] == [("yfilter", "10"), ("yfilter", "30")]
    message = capsys.readouterr().err
    assert "values: cell 1 of 2: auto, 10 queries, for its answers" in message
    assert "values: cell 2 of 2: yfilter, 30 queries" in message


@pytest.mark.usefixtures("here")
def test_a_dtd_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "orders.dtd"
    path.write_text(DTD)
    status, files = bench(tmp_path / "out", str(path), "--queries", "100000", *TINY[2:])
    assert status == 0
    assert int(files["orders"][0]["queries"]) < 100_000
    out = capsys.readouterr().out
    assert "orders gave only" in out
    assert "the root is a" in out


@pytest.mark.usefixtures("here")
def test_a_directory_of_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = tmp_path / "docs"
    documents.mkdir()
    for number in range(4):
        (documents / f"{number}.xml").write_text(f'<a xmlns="urn:a" xmlns:p="urn:p"><p:b n="{number}"/></a>')
    (documents / "bad.xml").write_text("<a>")
    queries = tmp_path / "queries.jsonl"
    bound = '"namespaces": {"q": "urn:p"}'
    queries.write_text(
        f'{{"id": "1", "query": "//q:b[@n=3]", {bound}}}\n{{"id": "2", "query": "/*"}}\n'
        '{"id": "3", "query": "/*[x][y]", "ordered": true}\n'
    )
    status, files = bench(tmp_path / "out", str(documents), "--queries", str(queries), "--budget", "10", "--quiet")
    assert status == 0
    ours, peer = files["docs"]
    assert ours["queries"] == "2"
    assert ours["documents"] == "2"  # the unseen half
    assert ours["matches_per_document"] == peer["matches_per_document"] == "1.5"
    out = capsys.readouterr().out
    assert "1 documents are refused and left out" in out
    assert "1 ordered patterns are left out" in out


@pytest.mark.usefixtures("here")
def test_data_directory(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = bench(tmp_path / "out", "aggregated", "--data", str(data), "--peers", "none", *TINY[2:])
    out = capsys.readouterr().out
    assert status == 0
    assert "schemas: 2 DTDs: nitf-2.5, auction" in out
    assert "left out, for they are not there: dblp/" in out
    assert str(data) not in out
    assert named("trees", data).notes == ("schema: NITF 2.5",)
    for place in DTDS[:2]:
        (data / "dtd" / place).unlink()
    assert "the built-in news schema, for there is no dtd/nitf" in named("nitf", data).notes[0]
    assert "the data directory has none of the DTDs" in named("aggregated", data).notes[0]


def test_missing_data_directory_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, files = bench(tmp_path / "out", "nitf", "--data", str(tmp_path / "none"), *TINY)
    assert (status, files) == (1, {})
    assert "TC780" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "NAME"),
        (["no-such"], "no workload and no file is called 'no-such'"),
        (["nitf", "--engines", "fast"], "no engine is called 'fast'"),
        (["nitf", "--engines", "auto,,"], "not a list of names"),
        (["nitf", "--peers", "grep"], "no peer is called 'grep'"),
        (["nitf", "--queries", "0"], "nothing to measure"),
        (["nitf", "--documents", "0"], "nothing to measure"),
        (["nitf", "--documents", "many"], "is not a number"),
        (["nitf", "--bytes", "0"], "at least 1"),
        (["nitf", "--budget", "0"], "not a number of seconds"),
        (["nitf", "nitf"], "same name"),
        (["nitf", "--queries", "a.csv", "--queries", "b.csv"], "one file"),
        (["."], "is a directory of documents; give the queries with --queries FILE"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(tmp_path / "out", *arguments) == (2, {})
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("missing.csv", None, "TC190"),
        ("queries.what", "/a", "TC194"),
        ("empty.txt", "", "TC192"),
        ("twice.csv", "id,query,namespaces\n1,//p:a,p=urn:1\n2,//p:b,p=urn:2\n", "TC193"),
        ("wrong.txt", "/a[", "TC"),
    ],
)
@pytest.mark.usefixtures("here")
def test_invalid_query_files(
    name: str, text: str | None, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    status, _ = bench(tmp_path / "out", "record", "--queries", str(tmp_path / name), "--peers", "none", *TINY[2:])
    message = capsys.readouterr()
    if name == "wrong.txt":  # a query that no engine takes is a row
        assert status == 0
        assert "it takes none of the queries: TC" in message.out
    else:
        assert status == 1
        assert code in message.err


def test_directory_without_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "q.txt").write_text("/a")
    status, _ = bench(tmp_path / "out", str(tmp_path / "docs"), "--queries", str(tmp_path / "q.txt"))
    assert status == 1
    assert "TC292" in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_a_peer_that_is_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name in ("lxml", "saxonche", "matplotlib") else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    status, files = bench(tmp_path / "out", "nitf", "--peers", "saxonche", *TINY)
    assert (status, files) == (1, {})
    assert "TC782 the peer saxonche needs saxonche, which is not installed" in capsys.readouterr().err
    # Nobody asked for lxml or for a picture: without them there is less to see, and it is said.
    status, files = bench(tmp_path / "out", "record", *TINY[:-1])
    message = capsys.readouterr().err
    assert status == 0
    assert [row["engine"] for row in files["record"]] == ["auto"]
    assert "without a peer: TC782 the peer lxml needs lxml" in message
    assert "no picture: matplotlib is not installed" in message
    assert not (tmp_path / "out" / "record.png").exists()


@pytest.mark.usefixtures("here")
def test_saxonche_agrees(tmp_path: Path) -> None:
    status, files = bench(tmp_path, "values", "--peers", "lxml,saxonche", *TINY)
    assert status == 0
    rows = {row["engine"]: row for row in files["values"]}
    assert not rows["saxonche"]["failure"]
    assert rows["saxonche"]["wrong_answers"] == "0"
    assert float(rows["saxonche"]["unseen_us_cpu"]) > 0


@pytest.mark.usefixtures("here")
def test_wrong_answers_are_loud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(engine: str, directory: Path, effort: Effort, *, queries: int | None = None) -> Any:
        cell, answers = run(engine, directory, effort, queries=queries)
        if engine == "hybrid":
            assert answers is not None
            answers = Answers(answers.pairs.slice(1), answers.documents, answers.asked)
        return cell, answers

    monkeypatch.setattr("treecast.measure.suite.run", broken)
    status, files = bench(tmp_path, "nitf", "--engines", "auto,hybrid", "--peers", "none", *TINY)
    assert status == 1
    out = capsys.readouterr().out
    assert "!!! WRONG ANSWERS: hybrid, 40 queries: 1 pairs of document and query differ from auto's: document" in out
    assert "hybrid !!!" in out
    assert [row["wrong_answers"] for row in files["nitf"]] == ["0", "1"]


def test_a_breakdown_is_a_row_and_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(engine: str, directory: Path, effort: Effort, *, queries: int | None = None) -> Any:
        return Cell(engine, queries or 0, failure="its process was ended by SIGSEGV", broken=True), None

    monkeypatch.setattr("treecast.measure.suite.run", broken)
    status, files = bench(tmp_path, "nitf", *TINY)
    assert status == 1
    assert "no figures: auto, 40 queries: its process was ended by SIGSEGV" in capsys.readouterr().out
    assert {row["failure"] for row in files["nitf"]} == {"its process was ended by SIGSEGV"}


def test_tables_stay_within_120_columns() -> None:
    far = Seconds(9.87654, 9.87654)
    rows = []
    for name in ("xtrie-single-path", "yfilter-inline", "lxml"):
        cell = Cell(
            name, 1_000_000, sampled=1000 if name == "lxml" else 999_000, refused=1000, documents=1, offered=100,
            document_bytes=1e6, matches=99_999, build=Seconds(99, 99), index_bytes=10**11, cache_bytes=1,
            memory_bytes=10**11, first=far, unseen=far, warm=far, parse=far / 1e4, match=far, emit=far / 1e3,
            lxml_parse=far / 1e4, notes=("TC150 " + "no such step " * 20,),
        )  # fmt: skip
        rows.append(Row("nitf", cell, name == "lxml", wrong=3, examples=("document 1, /a/b/c",) * 3))
    text = table(rows)
    assert max(map(len, text.splitlines())) <= WIDTH_MAX
    assert all(heading in text for heading in HEADINGS)
    assert len(csv_text(rows, ["about"]).splitlines()) == 1 + 1 + len(rows)


def test_the_guide_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    options = set(re.findall(r"^  (?:-[a-z] [A-Z]+, )?(--[a-z]+)", capsys.readouterr().out, re.MULTILINE))
    page = (Path(__file__).parent.parent / "docs" / "guide" / "bench.md").read_text()
    assert {*re.findall(r"^\| `(--[a-z]+)`", page, re.MULTILINE), "--data", "--quiet"} == options
    assert set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)) == set(NAMES)


def test_bench_does_not_slow_the_other_verbs_down() -> None:
    """Nothing that only measuring needs is imported with the command line."""
    program = (
        "import sys, treecast.cli; print(sorted(m for m in sys.modules if m.startswith(('treecast.measure', 'lxml'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_answers_without_matches() -> None:
    empty = pa.table({"document": pa.array([], pa.int64()), "subscription": pa.array([], pa.string())})
    assert len(Answers.of_table(empty, 1, [0]).pairs) == 0
