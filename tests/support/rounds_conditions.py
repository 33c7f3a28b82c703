"""Rounds of the differential tests with predicates, as `rounds` has them for paths.

Each round takes the number of queries that share an index: what is shared between queries shows with many, what a query
gets for itself alone with one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from generators.conditions import ConditionDrawer, draw_valued_document
from generators.paths_and_documents import Vocabulary, chain, words_of
from generators.values import DOCUMENT_VALUES, ValueDrawer, draw_samples
from oracles.differential import Query, compare, ordered, plain
from oracles.ordered_patterns import draw_pattern, draw_small_document

from support.rounds import settings
from treecast.workload import DocumentSettings, Schema, generate_documents

YFILTER_FORMS = ("simple", "pred1", "nested1", "mixed")
# The documents of each DTD whose queries YFilter's generator drew.
YFILTER_DOCUMENTS = {
    "nitf-2-5": "nitf-yfilter-500",
    "auction": "xmark",
    "dblp": "dblp-sample",
    "play": "shakespeare-exist",
}


def condition_words(random: Random, *, namespaces: bool) -> Vocabulary:
    """As the valued documents have them: attributes are x and y."""
    tiny = Vocabulary.tiny(random, namespaces=namespaces)
    return Vocabulary(tiny.elements, tuple((uri, name) for uri, name in tiny.attributes if name != "a"), tiny.prefixes)


def round_language(random: Random, queries: int, documents: int) -> int:
    """Everything that the language has, on three names."""
    drawer = ConditionDrawer(random, condition_words(random, namespaces=False), depth_max=random.choice((1, 2, 3, 4)))
    drawn_documents = [draw_valued_document(random, elements_max=random.choice((3, 12, 40))) for _ in range(documents)]
    return compare([drawer.query() for _ in range(queries)], drawn_documents, settings(random, 1))


def round_language_namespaces(random: Random, queries: int, documents: int) -> int:
    """The same in three namespaces, the queries under two sets of bindings."""
    drawers = [ConditionDrawer(random, condition_words(random, namespaces=True), depth_max=2) for _ in range(2)]
    drawn_documents = [draw_valued_document(random, namespaces=True) for _ in range(documents)]
    return compare([random.choice(drawers).query() for _ in range(queries)], drawn_documents, settings(random, 1))


def round_values(random: Random, queries: int, documents: int) -> int:
    """Comparisons of few labels with a grid of values."""
    drawer = ValueDrawer(random, narrow=random.random() < 0.5)
    drawn_documents = [
        draw_valued_document(random, elements_max=random.choice((3, 10, 25)), values=DOCUMENT_VALUES)
        for _ in range(documents)
    ]
    return compare([drawer.query() for _ in range(queries)], drawn_documents, settings(random, 1))


def round_deep_conditions(random: Random, queries: int, documents: int) -> int:
    """Chains of one path, where every ancestor sees what is below."""
    drawer = ConditionDrawer(random, condition_words(random, namespaces=False), depth_max=2)
    drawn_documents = [chain(random, random.choice((5, 20, 50))) for _ in range(documents)]
    return compare([drawer.query() for _ in range(queries)], drawn_documents, settings(random, 1))


def round_samples(random: Random, queries: int, documents: int, schema: Schema | None = None) -> int:
    """NITF-like documents, and queries about what they say."""
    sizes = DocumentSettings(bytes_target=random.choice((1000, 4000)), depth_max=random.choice((6, 10)))
    drawn_documents = list(
        generate_documents(schema or Schema.news(), documents, sizes, seed=random.randrange(1 << 30))
    )
    return compare(
        draw_samples(random, drawn_documents, words_of(random, drawn_documents), queries),
        drawn_documents,
        settings(random, 1),
    )


def round_ordered(random: Random, queries: int, documents: int) -> int:
    """Ordered patterns beside unordered ones of the same text; brute force wants small documents."""
    drawn_documents = [draw_small_document(random, random.choice((6, 10))) for _ in range(documents)]
    several: list[Query] = []
    while len(several) < queries:
        query = ordered(draw_pattern(random))
        several += [query, plain(query.text)] if random.random() < 0.3 else [query]
    return compare(several[:queries], drawn_documents, settings(random, 1))


CONDITION_ROUNDS: dict[str, Callable[[Random, int, int], int]] = {
    "language": round_language,
    "namespaces": round_language_namespaces,
    "values": round_values,
    "deep": round_deep_conditions,
    "samples": round_samples,
    "ordered": round_ordered,
}


def yfilter_queries(data: Path, dtd: str) -> list[Query]:
    """The queries that YFilter's generator drew from a DTD: paths, one predicate, one nested path, all of these."""
    directory = data / "queries" / "yfilter-workloads"
    texts = [(directory / f"{dtd}-{form}.txt").read_text().splitlines() for form in YFILTER_FORMS]
    return [plain(text) for text in dict.fromkeys(text.strip() for lines in texts for text in lines) if text]
