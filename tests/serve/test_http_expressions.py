"""Expressions of the whole of XPath 1.0 at the HTTP door: what is delivered is what lxml says matches."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from generators.expressions import draw_expressions
from generators.mixed_documents import draw_mixed_document
from oracles.differential import lxml_matches
from support.served_http import Service

pytestmark = pytest.mark.house


def test_drawn_expressions_are_delivered(service: Service) -> None:
    random = Random("door")
    queries = draw_expressions(random, 30)
    documents = [draw_mixed_document(random, elements_max=12) for _ in range(6)]
    expected: Counter[tuple[int, str]] = Counter()
    ids = [f"expression {place}" for place in range(len(queries))]
    for id, query in zip(ids, queries, strict=True):
        service.subscribe(id, query.text, namespaces=dict(query.namespaces))
    with service.events(*ids) as events:
        for document in documents:
            number = service.publish(document.decode())
            expected.update((number, ids[place]) for place in lxml_matches(queries, document))
        assert len(expected) > 20
        assert Counter((event["document"], event["subscription"]) for event in events.take(len(expected))) == expected
    for id in ids:
        assert service.ask("DELETE", f"/v1/subscriptions/{id.replace(' ', '%20')}").status in (200, 204)


def test_an_expression_that_is_refused_says_so(service: Service) -> None:
    for query in ("count(a) > 1", "$x > 1", "unknown(/a)", "a or /b"):
        status, code = service.problem("PUT", "/v1/subscriptions/refused", {"query": query})
        assert (status, code[:3]) == (422, "TC1"), query
