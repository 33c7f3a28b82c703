"""The benchmarks at tiny size: they run to the end, match something, and apply their targets only at full size."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from bench import (
    churn_mixed,
    doubling,
    generating,
    growth,
    language,
    mixed,
    places,
    saved,
    shapes,
    store,
    trees,
    values,
)
from bench.__main__ import NAMES
from bench.__main__ import main as bench_main
from bench.growth_families import FAMILIES
from bench.inputs import draw_documents
from bench.measure import Report
from bench.patterns import draw_mixed, draw_trees, draw_values, with_lacking_names, with_lacking_values, with_numbers
from bench.unseen import Sizes
from treecast import Index, parse
from treecast.workload import Schema

TINY = Sizes(before=3, unseen=4, share=0.001, passes=1)
MEASURES: dict[str, Callable[[Report, Schema, Sizes], None]] = {
    "values": values.measure,
    "trees": trees.measure,
    "places": places.measure,
    "mixed": mixed.measure,
    "doubling": doubling.measure,
    "saved": saved.measure,
    "churn_mixed": churn_mixed.measure,
    "generating": generating.measure,
}


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.news()


@pytest.mark.house
@pytest.mark.parametrize("name", MEASURES)
def test_benchmark_runs_at_tiny_size(name: str, schema: Schema, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(name, [])
    MEASURES[name](report, schema, TINY)
    assert report.rows
    assert all(row[-1] == "" for row in report.rows), "bars are for the full size"
    assert all(re.search(r"\d", row[1]) for row in report.rows)
    assert report.rows[0][0] in capsys.readouterr().out


@pytest.mark.house
def test_language_runs_at_tiny_size() -> None:
    report = Report("language", [])
    for shape, is_rare in ((language.RARE[1], True), (language.EVALUATED[0], False)):
        language.measure_shape(report, shape, 60, 1, is_rare)
    assert len(report.rows) == 2


@pytest.mark.house
def test_shapes_run_at_tiny_size() -> None:
    report = Report("shapes", [])
    for shape in (*islice(shapes.named_shapes(), 2), *shapes.random_shapes(1, seed=1)):
        ratio, growth = shapes.measure_shape(report, shape, 400, 1, churn=True)
        assert ratio > 0 and growth > 0
    assert all(row[-1] == "" for row in report.rows), "bars are for the full size"
    assert "@lang" in report.rows[0][0]


@pytest.mark.house
def test_store_runs_at_tiny_size() -> None:
    report = Report("store", [])
    store.measure(report, groups=2, passes=1)
    store.measure_reading(report, 200)
    store.measure_checksums(report, 10)
    assert len(report.rows) == 22
    assert all(re.search(r"\d", row[1]) for row in report.rows)


@pytest.mark.house
@pytest.mark.parametrize("name", [*MEASURES, "language", "shapes", "store"])
def test_benchmark_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name in NAMES
    with pytest.raises(SystemExit) as leaving:
        __import__(f"bench.{name}", fromlist=["main"]).main(["--help"])
    assert leaving.value.code == 0
    assert "--quick" in capsys.readouterr().out


@pytest.mark.house
def test_growth_runs_at_tiny_size_and_tells_a_square_from_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("growth", [])
    growth.measure(report, FAMILIES, passes=1, share=0.01)
    assert len(report.rows) == len(FAMILIES)
    points = [growth.Point(size, size * size * 1e-6) for size in (10, 20, 40, 80)]
    assert growth.exponent(points) == pytest.approx(2)
    assert growth.exponent([growth.Point(p.size, p.size * 1e-6) for p in points]) == pytest.approx(1)


@pytest.mark.house
def test_every_benchmark_is_named() -> None:
    modules = Path(bench_main.__code__.co_filename).parent.glob("*.py")
    runnable = {path.stem for path in modules if "def main(" in path.read_text("utf-8")} - {"__main__"}
    assert runnable == set(NAMES)


@pytest.mark.house
def test_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        bench_main(["no-such"])
    assert leaving.value.code == 2
    assert "no-such" in capsys.readouterr().err


def test_drawn_predicates_are_distinct_and_found(schema: Schema) -> None:
    """Values that the documents have are found, at the last step and before it; values that they lack are not."""
    documents = draw_documents(schema, 5)
    for inner in (False, True):
        present, absent = draw_values(schema, 100, 10, inner=inner)
        assert len(set(present)) == len(set(absent)) == 1000
        assert all(query.endswith("]") != inner for query in present)
        index = Index()
        index.add_many([(query, query) for query in present + absent])
        found = set(index.match_many(documents)["subscription"].to_pylist())
        assert found
        assert found <= set(present)


def test_drawn_trees_and_mixed_queries_are_found(schema: Schema) -> None:
    documents = with_numbers(draw_documents(schema, 5))
    patterns, both = draw_trees(schema, 300), draw_mixed(schema, 2000)
    assert {query.count("[") for query in patterns} == {1, 2}
    assert all(len(re.findall(r"@[\w.:-]+=\d+", query)) == 2 for query in both)
    lacking = with_lacking_values(schema, patterns) + with_lacking_names(patterns + both)
    assert all(str(parse(query)) for query in lacking)
    index = Index()
    index.add_many([(query, query) for query in patterns + both + lacking])
    found = set(index.match_many(documents)["subscription"].to_pylist())
    assert found & set(patterns)
    assert found & set(both)
    assert not found & set(lacking)
