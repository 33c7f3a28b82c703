"""Subscriptions that take too much work, on Spark: separate rows, or one sentence; the others are answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_run import pairs, write_job, written
from test_work_limit import DEEP, HEAVY, LIGHT, SMALLEST

import treecast
from treecast.cli import main
from treecast.spark import match, render, split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def index() -> treecast.Index:
    index = treecast.Index(limits=SMALLEST)
    index.add_many([("light", LIGHT), ("heavy", HEAVY), ("plain", "/b")])
    return index


@pytest.fixture
def documents(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("deep", DEEP), ("flat", b"<b/>")], "key string, document binary")


@pytest.mark.parametrize("placement", ["data-sharing", "filter-sharing"])
def test_match_reports(documents: DataFrame, index: treecast.Index, placement: str) -> None:
    good, bad = split(
        match(documents, index, on_error="report", placement=placement, shards=2 if "filter" in placement else None)
    )
    expected = [("deep", "light"), ("deep", "plain"), ("flat", "plain")]
    assert sorted((row.key, row.subscription) for row in good.collect()) == expected
    (row,) = bad.collect()
    assert (row.key, row.error.code, row.error.offset) == ("deep", "TC340", None)
    assert "'heavy'" in row.error.message


def test_otherwise_it_fails_in_one_sentence(documents: DataFrame, index: treecast.Index) -> None:
    from pyspark.errors import PythonException

    for verb in (match, render):
        with pytest.raises(PythonException) as error_info:
            verb(documents, index).collect()
        text = str(error_info.value)
        assert "TC340" in text and "'heavy'" in text and 'on_error="report"' in text
        assert "Traceback" not in text and len(text.splitlines()) <= 5, text


def test_render_reports(documents: DataFrame, index: treecast.Index) -> None:
    good, bad = split(render(documents, index, on_error="report"))
    assert good.count() == 3
    (row,) = bad.collect()
    assert (row.key, row.subscription, row.error.code) == ("deep", "heavy", "TC340")


def test_run(spark: SparkSession, tmp_path: Path) -> None:
    path = write_job(tmp_path, more="[limits]\nwork_per_item_max = 1\n")
    (tmp_path / "docs" / "3.xml").write_bytes(DEEP)
    (tmp_path / "s.csv").write_text(f'id,query\nany,/a\nheavy,"{HEAVY}"\nplain,/b\n')
    assert main(["run", str(path)]) == 0
    results = tmp_path / "results"
    assert pairs(results / "matches") == [("1.xml", "any"), ("2.xml", "any"), ("3.xml", "plain")]
    (bad,) = [row for row in written(results / "matches") if row["error"]]
    assert (bad["subscription"], bad["error"]["code"]) == (None, "TC340")
    report = json.loads((results / "run.json").read_text())
    assert (report["documents"], report["matches"], report["refused"]) == (3, 3, 1)
