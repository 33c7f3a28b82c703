"""Rounds of the differential tests over the whole of XPath 1.0, as `rounds` has them for paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from generators.columns import ColumnDrawer
from generators.explained_conditions import ExplainedConditionDrawer
from generators.expressions import draw_expressions
from generators.marks import MarkDrawer
from generators.mixed_documents import draw_mixed_document
from oracles.differential import Query, Setting, compare, lxml_matches
from oracles.explanations import AmbiguousPathError, ExplanationOracle
from oracles.saxon_expressions import saxon_holds

from support.rounds import settings
from treecast import parse
from treecast.index.explain import explain

BOTH = ("lxml", "saxon")


def round_grammar(random: Random, queries: int, documents: int) -> int:
    """Everything, on documents with everything."""
    drawn_documents = [draw_mixed_document(random, elements_max=random.choice((3, 12, 30))) for _ in range(documents)]
    return compare(draw_expressions(random, queries), drawn_documents, settings(random, 1))


def round_plain_names(random: Random, queries: int, documents: int) -> int:
    """The same without namespaces, so that more matches; expressions of one level alone, in larger documents."""
    drawn_documents = [draw_mixed_document(random, namespaces=False, elements_max=60) for _ in range(documents)]
    queries_drawn = draw_expressions(random, queries, namespaces=False, depth_max=random.choice((1, 1, 2)))
    return compare(queries_drawn, drawn_documents, settings(random, 1))


def round_edges(random: Random, queries: int, documents: int) -> int:
    """Numbers at the edges of what a double holds."""
    drawn_documents = [draw_mixed_document(random, elements_max=12, edges=True) for _ in range(documents)]
    return compare(draw_expressions(random, queries, edges=True), drawn_documents, settings(random, 1))


def round_canonical(random: Random, queries: int, documents: int) -> int:
    """The canonical texts of everything, which are read again."""
    drawn = [draw_mixed_document(random, elements_max=random.choice((3, 12, 30))) for _ in range(documents)]
    asked = draw_expressions(random, queries)
    again = [replace(query, text=str(parse(query.text, namespaces=dict(query.namespaces)))) for query in asked]
    return compare(again, drawn, settings(random, 1))


def round_explanations(random: Random, queries: int, documents: int) -> int:
    """Explanations, which evaluate by themselves and say what is missing."""
    asked = draw_expressions(random, min(queries, 200))
    for _ in range(documents):
        document = draw_mixed_document(random, elements_max=12)
        expected = lxml_matches(asked, document)
        for place, query in enumerate(asked):
            said = explain(document, query.text, namespaces=dict(query.namespaces))
            assert said.matched == (place in expected), f"{query.text!r} {query.namespaces} on {document!r}: {said}"
    return len(asked) * documents


def round_reasons(random: Random, queries: int, documents: int) -> int:
    """The values that reasons name, of as many conditions on each document; lxml computes each of them."""
    for _ in range(documents):
        document = draw_mixed_document(random, namespaces=random.random() < 0.3, elements_max=12)
        prefixes = (("p", "urn:1"), ("q", "urn:2")) if random.random() < 0.4 else ()
        oracle = ExplanationOracle(document, dict(prefixes))
        drawer = ExplainedConditionDrawer(random, prefixes, depth_max=random.choice((1, 2, 2, 3)))
        left = queries
        while left:
            drawn = drawer.drawn()
            said = explain(document, drawn.query, namespaces=dict(prefixes))
            try:
                wrong = list(oracle.contradictions(said, drawn))
            except AmbiguousPathError:
                continue
            left -= 1
            assert not wrong, f"{drawn.query!r} {prefixes} on {document!r}: {said}\n{wrong}"
    return queries * documents


def round_columns(random: Random, queries: int, documents: int) -> int:
    """Predicates of one shape with many constants."""
    drawer = ColumnDrawer(random, edges=random.random() < 0.3)
    drawn_documents = [drawer.document() for _ in range(documents)]
    return compare(drawer.queries(queries), drawn_documents, settings(random, 1))


def round_marks(random: Random, queries: int, documents: int) -> int:
    """Comments, instructions and children of any kind."""
    drawer = MarkDrawer(random)
    drawn_documents = [drawer.document() for _ in range(documents)]
    return compare(drawer.queries(queries), drawn_documents, settings(random, 1))


EXPRESSION_ROUNDS: dict[str, Callable[[Random, int, int], int]] = {
    "grammar": round_grammar,
    "plain names": round_plain_names,
    "edges": round_edges,
    "canonical texts": round_canonical,
    "explanations": round_explanations,
    "reasons": round_reasons,
    "columns": round_columns,
    "marks": round_marks,
}


def oracles_agree(random: Random, queries: int, documents: int) -> tuple[int, int, list[tuple[str, bytes]]]:
    """How many decisions lxml and Saxon both made, how many Saxon did not make, and where they differ."""
    drawn_queries = draw_expressions(random, queries, oracles=BOTH)
    decisions = refusals = 0
    differences: list[tuple[str, bytes]] = []
    for _ in range(documents):
        document = draw_mixed_document(random, elements_max=12, oracles=BOTH)
        expected = lxml_matches(drawn_queries, document)
        for place, query in enumerate(drawn_queries):
            answer = saxon_holds(query, document)
            if answer is None:
                refusals += 1
                continue
            decisions += 1
            if answer != (place in expected):
                differences.append((query.oracle, document))
    return decisions, refusals, differences


def round_saxon(random: Random, queries: int, documents: int) -> int:
    """With Saxon for an oracle, where libxml2 deviates: what follows an attribute, what precedes a last comment."""
    drawn_documents = [draw_mixed_document(random, elements_max=12, oracles=("saxon",)) for _ in range(documents)]
    drawn_queries = draw_expressions(random, queries, oracles=("saxon",))
    setting = Setting.draw(random)
    answers = setting.answers(drawn_queries, drawn_documents)
    decisions = 0
    for document, places in zip(drawn_documents, answers, strict=True):
        for place, query in enumerate(drawn_queries):
            expected = saxon_holds(query, document)
            if expected is not None:
                decisions += 1
                assert (place in places) == expected, report(query, document, expected, setting)
    return decisions


def report(query: Query, document: bytes, expected: bool, setting: Setting) -> str:
    lxml = bool(lxml_matches([query], document))
    return f"Saxon says {expected}, lxml {lxml}: {query.text!r} {query.namespaces} on {document!r}, {setting}"
