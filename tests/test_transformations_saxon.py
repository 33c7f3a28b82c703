"""Transformations give what XQuery says, with Saxon as the oracle: see tests/long/test_full_transformations.py."""

from __future__ import annotations

import pytest
from generators.transformation_pieces import Pair, drawn
from support.rounds_transformations import draw_round, outcome_of, report, round_transformations, saxon, smallest

from treecast import _native

ROUNDS = 4  # of 500 pairs


@pytest.mark.parametrize("number", range(ROUNDS))
def test_drawn_round(number: int) -> None:
    tally = round_transformations(f"twin {number}", related=number == ROUNDS - 1)
    assert tally["pairs"] == 500
    assert tally["undecided"] < 10
    assert tally["equal"] > 50


# --- differences that were found -------------------------------------------------------------------------------------

FOUND = [
    # string() of nothing is an empty string, which is not the same as no key
    ("for $x in $msg//b order by string($x/@k) empty greatest return $x", b'<a><b k=""/><b k="1"/><b/></a>'),
    ("for $x in $msg//b order by $x/@k empty greatest return $x", b'<a><b k=""/><b k="1"/><b/></a>'),
    # a prefix that only a name further out has is free for an attribute
    ("for $x in $msg//@q:n return <p:a><b>{$x}</b></p:a>", b'<a xmlns:p="urn:2" p:n="1"/>'),
    ('for $x in $msg//@q:n return <a xmlns:p="urn:1"><b>{$x}</b></a>', b'<a xmlns:p="urn:2" p:n="1"/>'),
]


def test_what_goes_wrong_before_anything_is_bound_is_no_delivery() -> None:
    """Nor is it a refused one, which a subscriber would hear of."""
    text = "<a>{$msg//b}{$msg//@x}{for $x in $msg//c[position() = last()] return $x}</a>"
    query = drawn(text, ["exists($msg//c)"])
    assert outcome_of(query, b'<a x="1"><b/></a>') == "nothing bound"
    assert outcome_of(query, b'<a x="1"><b/><c/></a>') == "refused"


@pytest.mark.parametrize(("text", "document"), FOUND)
def test_found(text: str, document: bytes) -> None:
    query = drawn(text, ["true()"], {"p": "urn:1", "q": "urn:2"})
    assert outcome_of(query, document) == "equal"


# --- the harness itself ----------------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_round() -> None:
    first, second = (draw_round("again", 20, 5) for _ in range(2))
    assert [query.text for query in first[0]] == [query.text for query in second[0]]
    assert first[1] == second[1]


def test_related_queries_share_their_parts() -> None:
    queries, documents = draw_round("rel 3", 25, 20, related=True)
    renderer = _native.testing.TextRenderer()
    for document in documents:
        renderer.render(document, [query.text for query in queries], list(queries[0].namespaces.items()))
    assert renderer.work()[3] > 0


def test_what_is_drawn_compiles_and_binds() -> None:
    """Saxon takes nearly all of it, and a fair share binds something."""
    queries, documents = draw_round("compiles", 40, 10)
    verdicts = [verdict for row in saxon().results(queries, documents) for verdict in row]
    assert sum(verdict is None for verdict in verdicts) < 8
    assert sum(verdict is not None and verdict.bound for verdict in verdicts) > 60


WRONG = [
    (Pair("$msg//b", "$msg//c"), "delivered or not"),
    (Pair("$msg//a", "$msg//b"), "content"),
    (Pair("$msg//b/@x", "$msg//b"), "content"),
]


@pytest.mark.parametrize(("path", "outcome"), WRONG)
def test_a_wrong_answer_is_found_and_shrunk(path: Pair, outcome: str) -> None:
    """An oracle that is asked for something else stands for a wrong answer."""
    where = drawn(["for $x in ", path, " return <r>{$x}</r>"], ["exists(", path, ")"])
    document = b'<a><b x="1">text</b><d><a/></d></a>'
    assert outcome_of(where, document) == outcome
    text = smallest(where, document, outcome)
    assert "text" not in text or outcome == "content"
    assert report(where, document, outcome).startswith(f"treecast and Saxon differ: {outcome}")
