"""Experiments: each runs at a tiny size and leaves its files; each verdict gives each answer for rows made for it."""

from __future__ import annotations

import csv
import gc
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from treecast import experiments
from treecast.cli import main
from treecast.errors import QueryLimitError
from treecast.experiments import inputs, onyx_recovery, output, rules, selective_levels, selective_trees
from treecast.experiments.experiment import ANSWERS, Experiment, Finding, Row, Sizes, overall
from treecast.experiments.session import Session
from treecast.experiments.ten_types import tags_of
from treecast.index import Index
from treecast.workload import Schema

pytestmark = pytest.mark.house

NAMES = experiments.names()
# Their claims are about tens of thousands of queries: a run with sixty decides nothing.
TOO_SMALL = [name for name in NAMES if name not in ("yfilter-cost-split", "xtrie-filters", "xtrie-length")]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True, scope="module")
def few_objects_to_collect() -> Iterator[None]:
    """Every clocked call collects garbage first, and here the test suite's own objects would be looked at each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed depends on it; the tests that want one name it."""
    monkeypatch.delenv("TREECAST_DATA", raising=False)


def tiny(experiment: Experiment) -> Sizes:
    """As few queries and documents as make rows at all; the varied parameter at its first and last value."""
    values = experiment.quick.values
    ends = tuple(sorted({values[0], values[-1]})) if values else ()
    few = 10 if experiment.name.startswith("selective-") else 40  # networks of thirty brokers in Python
    return Sizes((few,) if ends else (20, 60), 2, values=ends, passes=1, cell_seconds=0.01)


# Whole runs.


@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_runs_and_leaves_its_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onyx_recovery, "FAILURES", ("root-disk",))  # each takes seconds
    shapes = {mean: children[: len(children) * 2 // 3] for mean, children in selective_levels.CHILDREN.items()}
    monkeypatch.setattr(selective_levels, "CHILDREN", shapes)  # a tenth of the elements
    monkeypatch.setattr(selective_trees, "SAMPLE", 100)
    experiment = experiments.find(name)
    progress: list[tuple[int, int, str]] = []
    outcome = experiments.perform(
        experiment, tiny(experiment), progress=lambda done, total, what: progress.append((done, total, what))
    )
    assert outcome.problems == []
    assert outcome.rows and all(tuple(row) == experiment.columns for row in outcome.rows)
    time = "median_s" if name == "onyx-recovery" else "us"
    assert all(row[time] > 0 for row in outcome.rows)
    assert outcome.findings and {finding.answer for finding in outcome.findings} <= set(ANSWERS)
    assert all(finding.claim and finding.seen and finding.rule for finding in outcome.findings)
    assert outcome.notes, "which inputs were used is said"
    if name in TOO_SMALL:
        assert {finding.answer for finding in outcome.findings} == {"inconclusive"}, "however the times came out"
    points = len(experiment.points(outcome.sizes))
    assert [done for done, _, what in progress if what == "inputs"] == list(range(points))
    files = output.write(outcome, tmp_path / "out", f"treecast experiment {name}")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in files)
    with (tmp_path / "out" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(outcome.rows)
    assert [row[time] for row in read] == [str(row[time]) for row in outcome.rows]
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(PNG)
    page = (tmp_path / "out" / f"{name}.md").read_text(encoding="utf-8")
    assert f"    treecast experiment {name}\n" in page and "Python 3" in page and "CPUs, load" in page
    assert f"## Verdict: {outcome.answer}" in page


def test_equal_seeds_measure_the_same_inputs() -> None:
    experiment = experiments.find("xtrie-filters")
    sizes = tiny(experiment)
    first, again, other = (experiments.perform(experiment, sizes, seed=seed).rows for seed in (1, 1, 2))
    inside = ("queries", "engine", "matches", "states", "documents")
    assert [[row[key] for key in inside] for row in first] == [[row[key] for key in inside] for row in again]
    assert [row["states"] for row in first] != [row["states"] for row in other]


class Forgetful(Index):
    """Loses the first match, if it is the engine that does."""

    forgets = ""

    def match_many(self, *arguments: Any, **options: Any) -> Any:
        table = super().match_many(*arguments, **options)
        return table.slice(1) if self.engine == self.forgets else table


def test_wrong_answers_are_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Any) -> None:
    """An engine that loses a match: said in the outcome, on both streams, in the file, and by the exit status."""
    monkeypatch.setattr(Forgetful, "forgets", "hybrid")
    monkeypatch.setattr("treecast.experiments.session.Index", Forgetful)
    arguments = ["experiment", "yfilter-rivals", "--quick", "--queries", "50", "--documents", "2", "-o", str(tmp_path)]
    assert main(arguments) == 1
    said = capfd.readouterr()
    assert re.search(r"WRONG ANSWERS: hybrid and auto disagree on 1 of the matches with 50 queries, first on", said.out)
    assert "treecast: yfilter-rivals: wrong answers: hybrid and auto disagree" in said.err
    assert "xfilter and auto" not in said.err
    assert "WRONG ANSWERS" in (tmp_path / "yfilter-rivals.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("yfilter-maintenance", "xfilter"),
        ("yfilter-cost-split", "yfilter"),
        ("yfilter-predicates", "yfilter-inline"),
        ("xtrie-variants", "xtrie"),
    ],
)
def test_each_way_of_measuring_sees_wrong_answers(name: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forgetful, "forgets", engine)
    for module in ("session", "yfilter_maintenance"):
        monkeypatch.setattr(f"treecast.experiments.{module}.Index", Forgetful)
    experiment = experiments.find(name)
    outcome = experiments.perform(experiment, Sizes((60,), 2, values=(1,), passes=1, cell_seconds=0.01))
    assert outcome.problems and all(problem.startswith(f"{engine} and auto disagree") for problem in outcome.problems)


# Verdicts on rows made for them.


def answers(name: str, rows: Sequence[Row]) -> list[str]:
    return [finding.answer for finding in experiments.find(name).verdict(rows)]


def cells(column: str, times: dict[str, Callable[[float], float]], values: Sequence[float], **more: Any) -> list[Row]:
    """A row for each engine and value, whose time is a function of the value."""
    return [
        {column: value, "engine": engine, "us": taken(value), "matches": value / 10, **more}
        for value in values
        for engine, taken in times.items()
    ]


def rivals(
    hybrid: float, xfilter: float, sizes: Sequence[int] = (1_000, 10_000, 100_000), power: float = 0.9
) -> list[Row]:
    """YFilter's time grows with the root of the queries; the rivals' with `power`, to these factors at the largest."""
    most = sizes[-1]
    times: dict[str, Callable[[float], float]] = {
        "yfilter": lambda n: n**0.5,
        "hybrid": lambda n: hybrid * most**0.5 * (n / most) ** power,
        "xfilter": lambda n: xfilter * most**0.5 * (n / most) ** power,
    }
    return cells("queries", times, sizes)


def test_verdict_on_rivals() -> None:
    assert answers("yfilter-rivals", rivals(hybrid=9, xfilter=24)) == ["agree", "agree", "agree"]
    assert answers("yfilter-rivals", rivals(hybrid=2, xfilter=3)) == ["inconclusive", "differs", "agree"]
    assert answers("yfilter-rivals", rivals(hybrid=9, xfilter=24, power=0.3)) == ["agree", "agree", "differs"]
    assert answers("yfilter-rivals", rivals(9, 24, sizes=(100, 1_000))) == ["inconclusive"] * 3
    seen = experiments.find("yfilter-rivals").verdict(rivals(hybrid=9, xfilter=24))
    assert "24x at 100,000 queries" in seen[0].seen and "9.0x at 100,000" in seen[1].seen


@pytest.mark.parametrize("name", ["yfilter-wildcards", "yfilter-descendants"])
def test_verdict_on_shares(name: str) -> None:
    def rows(worst: float, rival: float, queries: int = 20_000) -> list[Row]:
        flat: dict[str, Callable[[float], float]] = {
            "yfilter": lambda share: 100 * (1 + (worst - 1) * share),
            "hybrid": lambda share: 100 * (1 + (worst - 1) * share) * rival,
            "xfilter": lambda share: 100 * (1 + (worst - 1) * share) * rival * 2,
        }
        both = ("distinct", "random")
        return [
            row
            for kind in both
            for row in cells("share", flat, (0.0, 0.5, 1.0), queries=queries, kind=kind, distinct=queries)
        ]

    assert answers(name, rows(worst=2, rival=3)) == ["agree"] * 4
    assert answers(name, rows(worst=6, rival=0.9)) == ["inconclusive"] * 4
    assert answers(name, rows(worst=30, rival=0.3)) == ["differs"] * 4
    assert answers(name, rows(worst=2, rival=3, queries=100)) == ["inconclusive"] * 4
    half = [*rows(2, 3)[:9], *rows(30, 0.3)[9:]]
    assert answers(name, half) == ["agree", "agree", "differs", "differs"], "each kind of set for itself"


def test_verdict_on_dtds() -> None:
    def rows(spread: float, rival: float, dtds: int = 4) -> list[Row]:
        made = []
        for place in range(dtds):
            taken = 100 * spread ** (place / (dtds - 1))
            for engine, factor in (("yfilter", 1), ("hybrid", rival), ("xfilter", 2 * rival)):
                made.append(
                    {"dtd": f"d{place}", "engine": engine, "us": taken * factor, "queries": 20_000, "distinct": 9}
                )
        return made

    assert answers("yfilter-dtds", rows(spread=5, rival=2)) == ["agree", "agree"]
    assert answers("yfilter-dtds", rows(spread=20, rival=0.9)) == ["inconclusive", "inconclusive"]
    assert answers("yfilter-dtds", rows(spread=50, rival=0.5)) == ["differs", "differs"]
    assert answers("yfilter-dtds", rows(spread=5, rival=2, dtds=2)) == ["inconclusive", "inconclusive"]


def test_verdict_on_maintenance() -> None:
    def rows(cost: float, power: float, new: float, sizes: Sequence[int] = (1_000, 10_000, 100_000)) -> list[Row]:
        return [
            {
                "queries": queries,
                "engine": engine,
                "add_us": cost * (queries / sizes[-1]) ** power,
                "remove_us": cost,
                "us": 1_000.0,
                "new_states": new,
                "steps": 6.0,
            }
            for queries in sizes
            for engine in ("auto", "yfilter", "hybrid", "xfilter")
        ]

    assert answers("yfilter-maintenance", rows(cost=5, power=0.1, new=1.5)) == ["agree", "agree", "agree"]
    assert answers("yfilter-maintenance", rows(cost=200, power=0.4, new=4)) == ["inconclusive"] * 3
    assert answers("yfilter-maintenance", rows(cost=2_000, power=1, new=6)) == ["differs"] * 3
    assert answers("yfilter-maintenance", rows(5, 0.1, 1.5, sizes=(100, 1_000))) == ["inconclusive"] * 3


def test_verdict_on_predicates() -> None:
    def rows(random: float, distinct: float, growth: float, queries: int = 10_000) -> list[Row]:
        return [
            {
                "paths": kind,
                "predicates": predicates,
                "queries": queries,
                "engine": engine,
                "us": 100.0 if engine == "yfilter" else 100.0 * factor * (growth if predicates == 2 else 1),
                "structural": 10.0,
            }
            for kind, factor in (("random paths", random), ("distinct paths", distinct))
            for predicates in (1, 2)
            for engine in ("yfilter", "yfilter-inline")
        ]

    assert answers("yfilter-predicates", rows(random=2, distinct=4, growth=2)) == ["agree", "agree", "agree"]
    assert answers("yfilter-predicates", rows(random=1.4, distinct=1.5, growth=1.2)) == ["inconclusive"] * 3
    assert answers("yfilter-predicates", rows(random=1.2, distinct=0.9, growth=0.9)) == ["differs"] * 3
    assert answers("yfilter-predicates", rows(2, 4, 2, queries=500)) == ["inconclusive"] * 3


def test_verdict_on_the_cost_split() -> None:
    def rows(outweighed: int, lxml: float = 50.0) -> list[Row]:
        """Of four sizes, the first `outweighed` are those at which matching is the smaller part."""
        return [
            {
                "queries": 1_000 * (place + 1),
                "engine": engine,
                "parse_us": 10.0,
                "match_us": 5.0 if place < outweighed else 500.0,
                "emit_us": 1.0,
                "lxml_parse_us": lxml,
            }
            for place in range(4)
            for engine in ("yfilter", "auto")
        ]

    assert answers("yfilter-cost-split", rows(2)) == ["agree", "agree"]
    assert answers("yfilter-cost-split", rows(1)) == ["inconclusive", "inconclusive"]
    assert answers("yfilter-cost-split", rows(0)) == ["differs", "differs"]
    assert answers("yfilter-cost-split", rows(0, lxml=0.0)) == ["differs"], "without lxml there is one finding"
    assert answers("yfilter-cost-split", rows(0, lxml=600.0)) == ["differs", "agree"]
    assert answers("yfilter-cost-split", rows(0)[:4]) == ["inconclusive", "inconclusive"]


SIZES = (10_000, 20_000, 50_000, 100_000, 200_000)


def test_verdict_on_filters() -> None:
    def rows(taken: Callable[[float], float], sizes: Sequence[int] = SIZES) -> list[Row]:
        return cells("queries", {"xtrie-single-path": taken, "auto": lambda n: 5.0}, sizes, bytes=10**8)

    assert answers("xtrie-filters", rows(lambda n: 7_000 + 0.15 * n)) == ["agree", "agree"], "the paper's own line"
    assert answers("xtrie-filters", rows(lambda n: 0.01 * n)) == ["agree", "differs"]
    assert answers("xtrie-filters", rows(lambda n: 1_000 + 0.055 * n)) == ["agree", "inconclusive"]
    assert answers("xtrie-filters", rows(lambda n: n**3)) == ["inconclusive", "differs"]
    assert answers("xtrie-filters", rows(lambda n: 50 if n in (20_000, 100_000) else 99))[0] == "differs"
    assert answers("xtrie-filters", rows(lambda n: n, sizes=(100, 200))) == ["inconclusive", "inconclusive"]


def test_verdict_on_length() -> None:
    def rows(taken: Callable[[float], float], tags: Sequence[int] = (30, 60, 120, 240, 480)) -> list[Row]:
        return cells("tags", {"xtrie-single-path": taken, "xtrie": lambda n: 2 * taken(n)}, tags)

    assert answers("xtrie-length", rows(lambda n: 20 + 3 * n)) == ["agree", "agree"]
    assert answers("xtrie-length", rows(lambda n: n**3)) == ["inconclusive", "inconclusive"]
    assert answers("xtrie-length", rows(lambda n: 1e5 if n == 120 else n)) == ["differs", "differs"]
    assert answers("xtrie-length", rows(lambda n: n, tags=(30, 60))) == ["inconclusive", "inconclusive"]


def test_verdict_on_variants() -> None:
    from treecast.experiments.xtrie_variants import ORDERED, SAME, SINGLE, TREES

    def rows(factor: float, queries: int = 20_000) -> list[Row]:
        times = {SINGLE: 100.0, SAME: 120.0, TREES: 60 * factor, ORDERED: 100 * factor}
        return [
            {"queries": queries, "kind": kind, "us": us, "matches": 3.0, "substrings": 2.0}
            for kind, us in times.items()
        ]

    assert answers("xtrie-variants", rows(10)) == ["agree"]
    assert answers("xtrie-variants", rows(4)) == ["inconclusive"]
    assert answers("xtrie-variants", rows(2)) == ["differs"]
    assert answers("xtrie-variants", rows(50)) == ["differs"]
    assert answers("xtrie-variants", rows(10, queries=50)) == ["inconclusive"]


# The rules behind verdicts.


def test_fits_by_least_squares() -> None:
    fit = rules.line([(1, 5), (2, 7), (3, 9)])
    assert fit and (round(fit.base, 9), round(fit.rise, 9), round(fit.explained, 9)) == (3, 2, 1)
    noisy = rules.line([(0, 0), (1, 1), (2, 0), (3, 1)])
    assert noisy and round(noisy.explained, 3) == 0.2
    assert rules.line([(1, 5), (1, 7)]) is None and rules.line([]) is None
    assert rules.slope([(1, 2), (10, 2), (100, 2)]) == 0
    assert rules.slope([(10, 0), (20, 4)]) is None, "nothing is no point on a logarithmic scale"


def test_thresholds_have_a_band_that_decides_nothing() -> None:
    assert [rules.at_least(v, agree=5, differs=2) for v in (5, 4.9, 2, 1.9)] == [
        "agree", "inconclusive", "inconclusive", "differs",
    ]  # fmt: skip
    assert [rules.at_most(v, agree=2, differs=5) for v in (2, 2.1, 5, 5.1)] == [
        "agree", "inconclusive", "inconclusive", "differs",
    ]  # fmt: skip
    assert [rules.between(v, 5, 20, slack=2) for v in (5, 20, 3, 40, 2, 41)] == [
        "agree", "agree", "inconclusive", "inconclusive", "differs", "differs",
    ]  # fmt: skip
    for rule in (rules.at_least, rules.at_most):
        assert rule(None, agree=1, differs=1) == rule(float("nan"), agree=1, differs=1) == "inconclusive"
    assert rules.between(None, 1, 2, slack=1) == "inconclusive"


def test_one_answer_for_all_findings() -> None:
    def finding(answer: Any) -> Finding:
        return Finding("c", "s", "r", answer)

    assert overall([finding("agree"), finding("agree")]) == "agree"
    assert overall([finding("agree"), finding("inconclusive")]) == "inconclusive"
    assert overall([finding("inconclusive"), finding("differs"), finding("agree")]) == "differs"
    assert overall([]) == "inconclusive"


def test_tags_are_counted_as_documents_have_them() -> None:
    assert tags_of([b"<?xml version='1.0'?><a><b/><!-- x --><c>1</c></a>", b"<a/>"]) == 2.0


# Inputs.


def test_a_data_directory_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    text = "<!ELEMENT nitf (head, body?)> <!ELEMENT head EMPTY> <!ELEMENT body (#PCDATA)>"
    (tmp_path / "dtd" / "nitf-2.5").mkdir(parents=True)
    (tmp_path / inputs.NITF).write_text(text, encoding="utf-8")
    (tmp_path / inputs.RELEASE_DOCUMENTS).mkdir(parents=True)
    for number in range(3):
        (tmp_path / inputs.RELEASE_DOCUMENTS / f"{number}.xml").write_text(f"<nitf><head/><!--{number}--></nitf>")
    session = Session(Sizes((5,), 3), tmp_path)
    assert inputs.news_schema(session).root == "nitf"
    assert sorted(inputs.news_documents(session)) == [b"<nitf><head/><!--%d--></nitf>" % n for n in range(3)]
    assert len(inputs.news_queries(session, 5)) == 5
    assert [schema.name for schema in inputs.several_schemas(session)] == ["NITF", "news", "records"]
    said = " ".join(session.notes)
    assert "DTD: NITF 2.5" in said and "3 of the 3 of the YFilter release" in said
    assert "queries: distinct, drawn from the DTD" in said and "left out" in said and "auction" in said


def test_missing_data_is_drawn() -> None:
    session = Session(Sizes((5,), 2))
    assert inputs.news_schema(session).root == "news" and len(inputs.news_documents(session)) == 2
    assert [schema.name for schema in inputs.ten_schemas(session)] == ["news", "records"]
    assert any("ships with treecast" in note for note in session.notes)


def test_more_distinct_paths_than_the_dtd_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema.from_text("<!ELEMENT a (b?)> <!ELEMENT b EMPTY> <!ATTLIST b x CDATA #IMPLIED>")
    monkeypatch.setattr(Schema, "news", classmethod(lambda cls: schema))
    experiment = experiments.find("yfilter-predicates")
    with pytest.raises(QueryLimitError, match="distinct paths of the 1,000 asked for"):
        experiments.perform(experiment, replace(tiny(experiment), queries=(1_000,)))


def test_the_release_has_the_inputs_of_the_experiments(
    data_directory: Path | None, leave_out: Callable[[str], None]
) -> None:
    if data_directory is None:
        leave_out("experiments on the DTDs, documents and queries of the papers (TREECAST_DATA)")
        return
    session = Session(Sizes((50,), 5), data_directory)
    assert len(inputs.ten_schemas(session)) == 10 and len(inputs.several_schemas(session)) == 8
    assert len(inputs.news_queries(session, 50)) == 50 and len(inputs.news_documents(session)) == 5
    assert not any("left out" in note or "drawn from the DTD" in note for note in session.notes)


# The command.


def test_the_list_has_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert all(experiments.find(name).title in line for name, line in zip(NAMES, lines, strict=True))


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("yfilter-rivls", "yfilter-rivals"),
        ("Xtrie-Filter", "xtrie-filters"),
        ("predicates", "yfilter-predicates"),
        ("cost_split", "yfilter-cost-split"),
        ("zz", None),
    ],
)
def test_a_wrong_name_gets_the_nearest_one(wrong: str, meant: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["experiment", wrong])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert f"no experiment is called {wrong!r}" in said
    assert (f"did you mean {meant}?" in said) if meant else ("did you mean" not in said and "--list" in said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which?"),
        (["xtrie-length", "--data", "no/such"], "there is no directory 'no/such'"),
        (["xtrie-length", "--queries", "10,x"], "'x' is not a number from 1 up"),
        (["xtrie-length", "--queries", ",".join(["1"] * 51)], "at most 50 numbers"),
        (["xtrie-length", "--documents", "0"], "'0' is not a number from 1 up"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["experiment", *arguments, "-o", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_prints_table_and_verdict(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--quick", "--queries", "40,20", "--documents", "2", "--seed", "5", "-o", str(tmp_path)]
    assert main(["experiment", "xtrie-filters", "xtrie-filters", *arguments]) == 0
    said = capfd.readouterr()
    assert said.out.count("== xtrie-filters") == 1, "a name given twice is run once"
    assert re.search(r"^ *queries  engine +µs/doc  matches/doc", said.out, re.MULTILINE)
    assert re.search(r"^ +20  xtrie-single-path", said.out, re.MULTILINE)
    assert "The paper found: The performance of the nonparallel XTrie" in said.out
    assert "INCONCLUSIVE: performance decreases linearly" in said.out and "Verdict: inconclusive" in said.out
    assert "left out, for want of a data directory" in said.out
    assert "xtrie-filters: 0 of 2 points" in said.err
    page = (tmp_path / "xtrie-filters.md").read_text(encoding="utf-8")
    assert "    treecast experiment xtrie-filters --quick --queries 20,40 --documents 2 --seed 5\n" in page
    assert main(["experiment", "xtrie-filters", *arguments, "--quiet"]) == 0
    assert capfd.readouterr().err == ""


def test_a_place_that_cannot_be_written_is_said_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["experiment", "xtrie-filters", "-o", str(tmp_path / "file")]) == 1
    said = capfd.readouterr()
    assert said.out == "" and "file" in said.err


def test_the_environment_names_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setenv("TREECAST_DATA", str(tmp_path / "absent"))
    with pytest.raises(SystemExit) as stopped:
        main(["experiment", "xtrie-length", "-o", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert "there is no directory" in capfd.readouterr().err
