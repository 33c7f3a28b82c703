"""The three strategies on executors that are processes of their own; the twin is tests/spark/test_executors.py."""

from __future__ import annotations

import pytest

from treecast.experiments import executors
from treecast.measure import Inputs
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

pytestmark = pytest.mark.long


def test_executors_of_every_strategy_find_what_one_index_finds() -> None:
    schemas = [Schema.news(), Schema.records()]
    queries = list(generate_queries(schemas, 20_000, QuerySettings(depth_max=8), seed=2))
    documents = list(generate_documents(schemas, 40, DocumentSettings(bytes_target=5_000), seed=2))
    runs = executors.on_executors(Inputs(queries, documents), ("auto", "xtrie-single-path"), 200)
    assert [run.strategy for run in runs[::2]] == ["data-sharing", "data-sharing", "filter-sharing", "hierarchical"]
    assert {run.executors for run in runs} == {1, executors.count()}
    assert [run.wrong for run in runs] == [0] * 8
    assert len({run.matches for run in runs}) == 1 and runs[0].matches > 100
    assert all(run.cpu_us > 0 and run.wall_us > 0 for run in runs)
