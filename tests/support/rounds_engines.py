"""Rounds of the differential tests for the engines of the papers, as `rounds` has them for ours.

Queries of the whole language are drawn too: what an engine does not support has to be refused, the rest to be matched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from generators.conditions import ConditionDrawer, draw_valued_document
from generators.filters import FilterDrawer
from generators.paths_and_documents import Vocabulary, chain, draw_document, draw_queries
from oracles.differential import Query, Setting, compare, plain
from oracles.engine_support import supported

import treecast
from support.rounds_conditions import condition_words
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries


def takes(engine: str, query: Query) -> bool:
    """Whether the engine supports the query; one that it does not is asserted to be refused."""
    namespaces = dict(query.namespaces)
    if supported(engine, query.text, namespaces, ordered=query.ordered):
        return True
    try:
        treecast.Index(engine=engine).add("q", query.text, namespaces=namespaces, ordered=query.ordered)
    except treecast.QueryError as error:
        assert error.code == "TC150", error
        return False
    raise AssertionError(f"{engine} took {query.text}")


def check_engine(engine: str, random: Random, queries: Sequence[Query], documents: Sequence[bytes]) -> int:
    """All that the engine takes, against lxml; every query counts as a decision for each document."""
    accepted_queries = [query for query in queries if takes(engine, query)]
    compare(accepted_queries, documents, [Setting.draw(random, engine)])
    return len(queries) * len(documents)


def nests(engine: str) -> bool:
    """Whether nested paths are worth drawing."""
    return engine not in ("xfilter", "hybrid")


def drawer(engine: str, random: Random) -> FilterDrawer:
    predicates, deep = random.choice((0.1, 0.3, 0.5)), random.choice((0.2, 0.5, 0.8))
    return FilterDrawer(random, nests(engine), predicates, deep, random.choice((1, 2, 3)))


def round_filters(engine: str, random: Random, queries: int, documents: int) -> int:
    """Predicates on values and nested paths."""
    draw = drawer(engine, random)
    drawn_documents = [draw_valued_document(random, elements_max=random.choice((3, 12, 40))) for _ in range(documents)]
    return check_engine(engine, random, [draw.query() for _ in range(queries)], drawn_documents)


def round_chains(engine: str, random: Random, queries: int, documents: int) -> int:
    """Documents of one long path, where every ancestor can be every step."""
    draw = drawer(engine, random)
    drawn_documents = [chain(random, random.choice((5, 20, 50))) for _ in range(documents)]
    return check_engine(engine, random, [draw.query() for _ in range(queries)], drawn_documents)


def round_paths(engine: str, random: Random, queries: int, documents: int) -> int:
    """Plain paths, in namespaces and without."""
    namespaces = random.random() < 0.5
    drawn_documents = [draw_document(random, namespaces=namespaces) for _ in range(documents)]
    words = Vocabulary.tiny(random, namespaces=namespaces)
    return check_engine(engine, random, draw_queries(random, words, queries), drawn_documents)


def round_language(engine: str, random: Random, queries: int, documents: int) -> int:
    """Everything that the language has, most of it to be refused."""
    namespaces = random.random() < 0.5
    draw = ConditionDrawer(random, condition_words(random, namespaces=namespaces), depth_max=random.choice((1, 2)))
    drawn_documents = [draw_valued_document(random, namespaces=namespaces) for _ in range(documents)]
    return check_engine(engine, random, [draw.query() for _ in range(queries)], drawn_documents)


def round_schema(engine: str, random: Random, queries: int, documents: int) -> int:
    """Documents and queries of a schema, as the benchmarks use them."""
    seed = random.randrange(1 << 30)
    sizes = DocumentSettings(bytes_target=random.choice((1500, 5000)), depth_max=random.choice((6, 10)))
    forms = QuerySettings(attribute=0.1, text=0.1, distinct=random.random() < 0.8)
    drawn_documents = list(generate_documents(Schema.news(), documents, sizes, seed=seed))
    return check_engine(
        engine,
        random,
        [plain(text) for text in generate_queries(Schema.news(), queries, forms, seed=seed)],
        drawn_documents,
    )


ENGINE_ROUNDS: dict[str, Callable[[str, Random, int, int], int]] = {
    "filters": round_filters,
    "chains": round_chains,
    "paths": round_paths,
    "language": round_language,
    "schema": round_schema,
}
