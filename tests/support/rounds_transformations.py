"""treecast against Saxon: drawn transformations on drawn documents, every delivery compared.

A pair is one (transformation, document). All transformations of a round stand in one index, with plain subscriptions
between them: `render` must name exactly what `match` names, and give what a renderer gives that shares nothing between
them. Payloads are compared as canonical XML inside a wrapper, both inclusive and exclusive. The first difference is
shrunk and fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import pytest
from generators.constructors import PREFIXES, URIS, draw_material
from generators.transformation_pieces import Drawn
from generators.transformations import TransformationDrawer
from lxml import etree
from oracles.differential import simpler
from oracles.saxon import MADE_UP, SaxonOracle, Verdict, canonical, likeness, wrapped

from treecast import Index, QueryError, TreecastError, _native

QUERIES, DOCUMENTS = 25, 20
# What XQuery calls an attribute after other content, and one given twice: a refused delivery here.
MISPLACED = {"XQTY0024", "XQDY0025"}
PLAIN = ("//a", "/*/b", "//num[. > 1]/@n", "//*[@x]")


@dataclass(frozen=True)
class Made:
    """What was made of a transformation that matches."""

    payload: bytes
    refused: str = ""  # the code of the error


@cache
def saxon() -> SaxonOracle:
    """The one oracle of this process."""
    return SaxonOracle()


def draw_round(seed: str, queries: int, documents: int, *, related: bool = False) -> tuple[list[Drawn], list[bytes]]:
    """Transformations and documents; `related` ones are made of each other, so that most of their parts are shared."""
    random = Random(seed)
    namespaces = {prefix: random.choice(URIS) for prefix in PREFIXES[:2] if random.random() < 0.7}
    if random.random() < 0.2:
        namespaces[""] = random.choice(URIS)
    drawer = TransformationDrawer(random, namespaces)
    drawn_queries = [drawer.query() for _ in range(3 if related else queries)]
    while len(drawn_queries) < queries:
        drawn_queries.append(relative(random, random.choice(drawn_queries)))
    return drawn_queries, [draw_material(random, namespaces) for _ in range(documents)]


def relative(random: Random, query: Drawn) -> Drawn:
    """With something left out, as long as the same clauses bind."""
    for _ in range(random.randint(0, 3)):
        fewer = [less for less in query.smaller() if less.bound != "false()"]
        query = random.choice(fewer) if fewer else query
    return query


def round_transformations(
    seed: str, queries: int = QUERIES, documents: int = DOCUMENTS, *, related: bool = False
) -> Counter[str]:
    """What was found: `pairs`, and how many of them were bound, refused, undecided."""
    drawn_queries, material = draw_round(seed, queries, documents, related=related)
    index = filled(Random(seed), drawn_queries)
    alone = _native.testing.TextRenderer(share=False)
    tally: Counter[str] = Counter()
    for document, verdicts in zip(material, saxon().results(drawn_queries, material), strict=True):
        results = delivered(index, len(drawn_queries), document)
        assert results == rendered_alone(alone, drawn_queries, document), "sharing changes a payload"
        for number, (result, verdict) in enumerate(zip(results, verdicts, strict=True)):
            outcome = agreement(result, verdict)
            if outcome not in FINE:
                pytest.fail(smallest(drawn_queries[number], document, outcome))
            tally["pairs"] += 1
            tally[outcome] += 1
    return tally


def filled(random: Random, drawn_queries: Sequence[Drawn]) -> Index:
    """The queries in one index, whose prefixes come from the index or with each; plain subscriptions in between."""
    namespaces = dict(drawn_queries[0].namespaces)
    index = Index(namespaces=namespaces) if random.random() < 0.5 else Index()
    for number, query in enumerate(drawn_queries):
        index.add(f"q{number}", query.text, namespaces=namespaces)
        if random.random() < 0.2:
            index.add(f"p{number}", random.choice(PLAIN), deliver="elements")
        if random.random() < 0.1:
            index.add(f"d{number}", random.choice(PLAIN))
    return index


def delivered(index: Index, queries: int, document: bytes) -> list[Made | None]:
    """Of each query what it delivers, if it does."""
    deliveries = index.render(document)
    assert [delivery.subscription for delivery in deliveries] == index.match(document)
    assert all(delivery.payload == b"" for delivery in deliveries if delivery.refused)
    result_by_id = {
        delivery.subscription: Made(delivery.payload, delivery.refused.code if delivery.refused else "")
        for delivery in deliveries
    }
    return [result_by_id.get(f"q{number}") for number in range(queries)]


def rendered_alone(
    renderer: _native.testing.TextRenderer, drawn_queries: Sequence[Drawn], document: bytes
) -> list[Made | None]:
    """The same by the renderer itself, which knows as well as the matcher what is bound."""
    results: list[Made | None] = []
    for answer in renderer.render(
        document, [query.text for query in drawn_queries], list(drawn_queries[0].namespaces.items())
    ):
        if isinstance(answer, TreecastError):
            results.append(Made(b"", answer.code))
        else:
            results.append(Made(answer[1]) if isinstance(answer, tuple) else None)
    return results


# --- comparing -------------------------------------------------------------------------------------------------------

# In the last two only declarations differ. XQuery lets a copied element with a prefix inherit the default namespace
# around it although its own document had none there; a copy of bytes cannot, for elements without prefix may stand in
# it. And Saxon takes back, on a constructor with a prefix, a default namespace that its prolog has bound.
FINE = {"equal", "nothing bound", "refused", "undecided", "made-up prefix", "default namespace"}


def agreement(delivery: Made | None, verdict: Verdict | None) -> str:
    """One of FINE, or what is wrong."""
    if verdict is None or (verdict.error and verdict.error not in MISPLACED):
        return "undecided"
    if delivery is None or not verdict.bound:
        return "nothing bound" if delivery is None and not verdict.bound else "delivered or not"
    if delivery.refused.startswith("TC33"):  # a product of many fors
        return "undecided"
    if delivery.refused or verdict.error:
        is_agreed = verdict.error and delivery.refused == "TC119"
        return "refused" if is_agreed else "refused or not"
    try:
        payload = wrapped(delivery.payload)
    except etree.XMLSyntaxError:
        return "not well formed"
    result = likeness(payload, verdict.result)
    # Where an attribute's prefix means something else in its new element, any free prefix will do.
    if result == "prefixes" and (MADE_UP.search(delivery.payload) or MADE_UP.search(etree.tostring(verdict.result))):
        return "made-up prefix"
    return result


# --- shrinking -------------------------------------------------------------------------------------------------------


def made_of(query: Drawn, document: bytes) -> Made | None:
    return delivered(filled(Random(0), [query]), 1, document)[0]


def outcome_of(query: Drawn, document: bytes) -> str:
    try:
        result = made_of(query, document)
    except QueryError as error:
        return f"{error.code} when added"
    return agreement(result, saxon().results([query], [document])[0][0])


def smallest(query: Drawn, document: bytes, outcome: str) -> str:
    """The report of a failure, with as little query and document as still show it."""
    has_shrunk = outcome_of(query, document) == outcome
    while has_shrunk:
        has_shrunk = False
        for fewer in query.smaller():
            if outcome_of(fewer, document) == outcome:
                query, has_shrunk = fewer, True
                break
        for less in simpler(document):
            if len(less) < len(document) and outcome_of(query, less) == outcome:
                document, has_shrunk = less, True
                break
    return report(query, document, outcome)


def report(query: Drawn, document: bytes, outcome: str) -> str:
    lines = [f"treecast and Saxon differ: {outcome}", f"  query:    {query.text}", f"  as XQuery: {query.oracle}"]
    lines += [f"  prefixes: {dict(query.namespaces)}", f"  document: {document!r}"]
    try:
        lines.append(f"  treecast: {made_of(query, document)}")
    except QueryError as error:
        lines.append(f"  treecast: {error}")
    verdict = saxon().results([query], [document])[0][0]
    if verdict is not None:
        result = verdict.error if verdict.result is None else canonical(verdict.result, exclusive=False)
        lines.append(f"  Saxon:    bound {verdict.bound}, {result!r}")
    return "\n".join(lines)
