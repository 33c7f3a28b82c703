"""Rounds of the differential tests: each draws documents and queries of one kind, and compares some configurations.

The small tests and their full-size twins run the same rounds, only more or fewer of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from generators.paths_and_documents import Vocabulary, chain, draw_document, draw_queries, paths_of, words_of
from lxml import etree
from oracles.differential import PARSER, Query, Setting, compare, plain

from treecast import DocumentError, Index
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

REAL_BYTES_MAX = 60_000


def settings(random: Random, count: int) -> list[Setting]:
    return [Setting.draw(random) for _ in range(count)]


def round_tiny(random: Random, queries: int, documents: int) -> int:
    """Three names, random trees."""
    drawn_documents = [draw_document(random) for _ in range(documents)]
    return compare(draw_queries(random, Vocabulary.tiny(random), queries), drawn_documents, settings(random, 2))


def round_namespaces(random: Random, queries: int, documents: int) -> int:
    """The same names in three namespaces and none, prefixes rebound on the way."""
    drawn_documents = [draw_document(random, namespaces=True) for _ in range(documents)]
    several: list[Query] = []
    for _ in range(random.choice((1, 1, 4))):
        several += draw_queries(random, Vocabulary.tiny(random, namespaces=True), queries)
    return compare(several[:queries], drawn_documents, settings(random, 2))


def round_deep(random: Random, queries: int, documents: int) -> int:
    """Documents of one long path, and longer queries."""
    drawn_documents = [chain(random, random.choice((5, 20, 60, 120))) for _ in range(documents)]
    return compare(
        draw_queries(random, Vocabulary.tiny(random), queries, steps_max=9), drawn_documents, settings(random, 2)
    )


def round_schema(random: Random, queries: int, documents: int, schema: Schema | None = None) -> int:
    """Documents and queries of a schema, as the benchmarks use them."""
    schema = schema or Schema.news()
    seed = random.randrange(1 << 30)
    sizes = DocumentSettings(bytes_target=random.choice((1500, 5000, 15_000)), depth_max=random.choice((6, 10)))
    forms = QuerySettings(attribute=0.1, text=0.1, distinct=random.random() < 0.8)
    drawn_documents = list(generate_documents(schema, documents, sizes, seed=seed))
    texts = generate_queries(schema, queries, forms, seed=seed)
    return compare([plain(text) for text in texts], drawn_documents, settings(random, 2))


ROUNDS: dict[str, Callable[[Random, int, int], int]] = {
    "tiny": round_tiny,
    "namespaces": round_namespaces,
    "deep": round_deep,
    "schema": round_schema,
}


def real_documents(data: Path) -> list[bytes]:
    """Real documents up to a size that both sides read; those that either refuses are the reader's business."""
    reader = Index()
    documents = []
    for path in sorted((data / "docs").rglob("*.xml")):
        document = path.read_bytes()
        if len(document) > REAL_BYTES_MAX:
            continue
        try:
            reader.match(document)
            etree.fromstring(document, PARSER)
        except (DocumentError, etree.XMLSyntaxError):
            continue
        documents.append(document)
    return documents


def round_real(random: Random, everything: Sequence[bytes], queries: int, documents: int) -> int:
    """Some real documents, queried with paths of their own."""
    sample = random.sample(everything, documents)
    words = words_of(random, sample)
    drawn_queries = [
        query for document in sample for query in paths_of(random, document, words, 1 + queries // documents)
    ]
    return compare(drawn_queries, sample, settings(random, 2))


def published_answers(data: Path) -> tuple[list[str], list[tuple[bytes, set[int]]]]:
    """YFilter's test queries, and for each of its documents the numbers of the queries that its authors say match.

    Answers are numbered by the rank of the document's file name; in each, a line `Qn:` precedes what query n found.
    """
    directory = data / "queries" / "test_simple_paths"
    queries = (directory / "queries.txt").read_text().split()
    answers = []
    for rank, path in enumerate(sorted((directory / "xmldocs").iterdir()), start=1):
        text = (directory / "expected" / f"output{rank}.txt").read_text()
        answers.append((path.read_bytes(), {int(number) for number in re.findall(r"^Q(\d+):", text, re.MULTILINE)}))
    return queries, answers
