"""The report of the sample on Spark: what only a job knows. tests/test_report_page.py looks at a page in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from oracles.report_page import check_page

from treecast import sample
from treecast.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE_BYTES_MAX = 1_500_000


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("report") / "results"
    assert main(["run", "--quiet", "--render", "--output", str(output)]) == 0
    return output / "report.html"


def test_the_page_stands_alone(report: Path) -> None:
    text = report.read_text("utf-8")
    assert len(text.encode()) <= PAGE_BYTES_MAX
    page_text = check_page(text)
    for expected in ("the embedded sample", "archive/every-document", "to start", "starting Spark", "Java"):
        assert expected in page_text, expected
    assert '<a href="matches">' in text


def test_every_document_and_subscription_of_the_sample_is_on_it(report: Path) -> None:
    text = check_page(report.read_text("utf-8"))
    directory = sample.path() / "documents"
    for path in directory.rglob("*.xml*"):
        assert str(path.relative_to(directory)) in text, path
    counts = pq.read_table(report.parent / "subscriptions.parquet")
    assert counts.num_rows == 450
    for row in counts.to_pylist():
        assert row["id"] in text
    assert "//urgency/@ed-urg" in text
    assert "delivered: the whole document" in text
    assert "could not be read again" not in text


def test_start_up_is_no_part_of_the_rate(report: Path) -> None:
    run = json.loads((report.parent / "run.json").read_text())
    assert run["documents"] == 38
    assert 0 < run["matching_seconds"] < run["seconds"]
    assert run["startup_seconds"] > 0
    counts = pq.read_table(report.parent / "subscriptions.parquet")
    assert sum(counts["matches"].to_pylist()) == run["matches"]
