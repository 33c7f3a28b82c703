"""Rounds of drawn queries that are said to match nothing: no document may match one, for lxml nor for treecast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from generators.conditions import draw_valued_document
from generators.contradictory_queries import draw_contradictory_query
from generators.expressions import draw_expressions
from generators.mixed_documents import draw_mixed_document
from oracles.differential import Query, lxml_matches

import treecast
from treecast.query.impossible import matches_nothing


def count_impossible(queries: Sequence[Query], documents: Sequence[bytes]) -> int:
    """How many of the queries are said to match nothing; asserts that none of the documents matches one."""
    reasons = {place: _reason(query) for place, query in enumerate(queries)}
    impossible = [queries[place] for place, reason in reasons.items() if reason]
    index = treecast.Index()
    for query in impossible:
        index.add(str(len(index)), query.text, namespaces=dict(query.namespaces))
    for document in documents:
        found = {int(id) for id in index.match(document)} | lxml_matches(impossible, document)
        shown = [(impossible[place].text, _reason(impossible[place])) for place in found]
        assert not shown, f"{shown} on {document!r}"
    return len(impossible)


def _reason(query: Query) -> str | None:
    return matches_nothing(treecast.parse(query.text, namespaces=dict(query.namespaces)).matching)


def round_contradictions(random: Random, queries: int, documents: int) -> int:
    """Conditions that exclude one another, and some that only seem to."""
    drawn = [draw_valued_document(random, elements_max=random.choice((3, 8, 30))) for _ in range(documents)]
    return count_impossible([draw_contradictory_query(random) for _ in range(queries)], drawn)


def round_expressions(random: Random, queries: int, documents: int) -> int:
    """The whole language."""
    drawn = [draw_mixed_document(random) for _ in range(documents)]
    return count_impossible(draw_expressions(random, queries, depth_max=random.choice((1, 1, 2, 2, 3))), drawn)


IMPOSSIBLE_ROUNDS: dict[str, Callable[[Random, int, int], int]] = {
    "contradictions": round_contradictions,
    "expressions": round_expressions,
}
