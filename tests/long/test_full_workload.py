"""The full-size check of workloads: a million distinct queries, and many documents of every DTD at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from oracles.dtd_validation import grammar_of, loadable, validate
from test_workload_documents import HARD, SHIPPED
from test_workload_drawn import check_drawn
from test_workload_queries import compile_all

from treecast import Index
from treecast.workload import DocumentSettings, QuerySettings, Schema, Values, generate_documents, generate_queries

pytestmark = pytest.mark.long

MILLION = 1_000_000
DOCUMENTS = 30
DRAWS = 12


@pytest.mark.parametrize(
    "settings",
    [
        QuerySettings(),
        QuerySettings(skew=1),
        QuerySettings(predicates=1, nested=1, kinds={"attribute": 2, "text": 1, "position": 1}),
        QuerySettings(predicates=2, selectivity=0.1),
    ],
    ids=["paths", "skewed", "patterns", "values"],
)
def test_a_million_distinct_queries(settings: QuerySettings) -> None:
    queries = list(generate_queries(Schema.news(), MILLION, settings, seed=1))
    assert len(set(queries)) == MILLION
    index = Index()
    sample = queries[:: MILLION // 1000]
    index.add_many((str(place), query) for place, query in enumerate(sample))
    assert len(index) == len(sample)


def draw_settings(random: Random) -> DocumentSettings:
    """Any settings at all."""
    return DocumentSettings(
        bytes_target=random.choice((None, 1, 300, 3000, 30_000, 200_000)),
        bytes_max=100_000,
        depth_max=random.choice((1, 2, 3, 5, 8, 15, 60)),
        repeats_max=random.choice((1, 2, 5)),
        recursion_max=random.choice((None, 0, 1, 3)),
        optional=random.random(),
        attributes=random.choice((0, 0.2, 1)),
        skew=random.choice((0, 0, 1, 3)),
        values=Values(skew=random.choice((0, 1)), text_words_max=random.choice((1, 8))),
    )


@pytest.mark.parametrize("name", [*SHIPPED, *(name for name in HARD if name != "undeclared")])
def test_documents_are_valid_whatever_the_settings(name: str) -> None:
    text = {**SHIPPED, **HARD}[name]
    schema = Schema.from_text(text, name=name)
    grammar = grammar_of(text, schema)
    random = Random(f"settings/{name}")
    for draw in range(DRAWS):
        settings = draw_settings(random)
        validate(grammar, generate_documents(schema, DOCUMENTS, settings, seed=draw), (name, settings))


@pytest.mark.parametrize("part", range(10, 20))
def test_drawn_dtds(part: int) -> None:
    check_drawn(part, 1000)


def test_real_dtds(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("documents and queries of DTDs in use, at full size")
        return
    random = Random("settings/real")
    for path in loadable(data_directory / "dtd"):
        schema = Schema.from_dtd(path)
        grammar = grammar_of(path, schema)
        for draw in range(DRAWS):
            settings = draw_settings(random)
            validate(grammar, generate_documents(schema, DOCUMENTS, settings, seed=draw), (path.name, settings))
        assert compile_all(schema, 3000, seed=2) > 5
