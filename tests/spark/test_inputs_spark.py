"""Spark's part of tests/test_inputs.py: the same directory, through `match` and through `treecast run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
from support.input_files import ROWS, table, write_documents, write_subscriptions

from treecast import Index
from treecast.cli import main
from treecast.inputs.subscriptions import read_subscriptions
from treecast.names import text_of
from treecast.spark import documents, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answers_of(rows: list[dict[str, Any]], directory: Path) -> dict[str, list[str] | str]:
    """By the name of a document, the ids or the code of the error."""
    answers: dict[str, list[str] | str] = {}
    for row in rows:
        name = row["file"].removeprefix(f"{directory}/")
        if row["error"] is None:
            answers[name] = [row["subscription"]]
        else:
            answers[name] = row["error"]["code"]
    return answers


def test_one_directory_and_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    expected = {text_of(name): answer for name, answer in write_documents(docs).items()}
    paths = write_subscriptions(tmp_path)
    matches = match(documents(spark, docs), paths["array.json"], on_error="report")
    assert answers_of([row.asDict(recursive=True) for row in matches.collect()], docs) == expected

    job = tmp_path / "job.toml"
    job.write_text('[source]\npath = "docs"\n[subscriptions]\npath = "s.tcx"\n[sinks]\nreport = false\n')
    assert main(["run", "--quiet", str(job), "--output", str(tmp_path / "out")]) == 0
    rows = ds.dataset(tmp_path / "out/matches", format="parquet").to_table().to_pylist()
    assert answers_of(rows, docs) == expected

    frame = spark.createDataFrame(table().to_pandas()[["id", "query", "owner"]])
    index = Index(namespaces={"x": "urn:x"})
    index.add_many(frame)
    assert read_subscriptions(frame).to_pylist() == [{"id": row["id"], "query": row["query"]} for row in ROWS]
    assert len(index) == len(ROWS)
