"""Rounds of the differential tests for XTrie: tree patterns, ordered or not, and other queries that it supports.

Queries come from the drawers of the other rounds. What the variant does not support is drawn again (`rounds_engines`
sees to it that it is refused), so that each round has as many queries as it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from generators.conditions import ConditionDrawer, draw_valued_document
from generators.paths_and_documents import words_of
from generators.values import draw_samples
from oracles.differential import Query, Setting, compare, ordered, plain
from oracles.engine_support import supported
from oracles.ordered_patterns import draw_pattern, draw_small_document

from support.rounds_conditions import condition_words
from treecast.workload import DocumentSettings, Schema, generate_documents

TRIES = 400


def draw_supported(draw: Callable[[], Query], engine: str, queries: int) -> list[Query]:
    supported_queries: list[Query] = []
    tries = 0
    while len(supported_queries) < queries:
        tries += 1
        assert tries <= TRIES * queries, f"{engine} supports hardly anything of what is drawn"
        query = draw()
        if supported(engine, query.text, dict(query.namespaces), ordered=query.ordered):
            supported_queries.append(query)
    return supported_queries


def round_language(engine: str, random: Random, queries: int, documents: int) -> int:
    """Everything that the language has, as far as the engine goes."""
    namespaces = random.random() < 0.3
    words = condition_words(random, namespaces=namespaces)
    drawer = ConditionDrawer(random, words, depth_max=random.choice((1, 2, 3)))
    sizes = (3, 12, 40)
    drawn_documents = [
        draw_valued_document(random, namespaces=namespaces, elements_max=random.choice(sizes)) for _ in range(documents)
    ]
    return compare(draw_supported(drawer.query, engine, queries), drawn_documents, [Setting.draw(random, engine)])


def round_trees(engine: str, random: Random, queries: int, documents: int) -> int:
    """Tree patterns, read as unordered ones."""
    drawn_documents = [draw_small_document(random, random.choice((10, 20, 40))) for _ in range(documents)]

    def draw() -> Query:
        return plain(draw_pattern(random).written(branch=False))

    return compare(draw_supported(draw, engine, queries), drawn_documents, [Setting.draw(random, engine)])


def round_ordered(engine: str, random: Random, queries: int, documents: int) -> int:
    """Ordered patterns beside unordered ones of the same text; brute force wants small documents."""
    drawn_documents = [draw_small_document(random, random.choice((6, 10, 14))) for _ in range(documents)]

    def draw() -> Query:
        query = ordered(draw_pattern(random))
        return plain(query.text) if random.random() < 0.2 else query

    return compare(draw_supported(draw, engine, queries), drawn_documents, [Setting.draw(random, engine)])


def round_samples(engine: str, random: Random, queries: int, documents: int) -> int:
    """NITF-like documents, and queries about what they say."""
    sizes = DocumentSettings(bytes_target=random.choice((1000, 4000)), depth_max=random.choice((6, 10)))
    drawn_documents = list(generate_documents(Schema.news(), documents, sizes, seed=random.randrange(1 << 30)))
    words = words_of(random, drawn_documents)

    def draw() -> Query:
        return draw_samples(random, drawn_documents, words, 1)[0]

    return compare(draw_supported(draw, engine, queries), drawn_documents, [Setting.draw(random, engine)])


XTRIE_ROUNDS: dict[str, Callable[[str, Random, int, int], int]] = {
    "language": round_language,
    "trees": round_trees,
    "ordered": round_ordered,
    "samples": round_samples,
}
