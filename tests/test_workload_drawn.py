"""DTDs drawn at random: whatever they declare, their documents are valid and their queries match or compile.

A content model names each element once, for then it is deterministic, which lxml asks for.
"""

from __future__ import annotations

from random import Random

import pytest
from lxml import etree
from oracles.dtd_validation import grammar_of, validate

from treecast import DocumentError, Index, LimitError
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries
from treecast.workload.schema import UNFIT

pytestmark = pytest.mark.house

NAMES = [f"e{number}" for number in range(7)]
TYPES = ["CDATA", "NMTOKEN", "NMTOKENS", "IDREF", "IDREFS", "(x | y | z)", "(one)", "ENTITY", "NOTATION (n)"]


def draw_model(random: Random, names: list[str], depth: int = 0) -> str:
    """A group over these names, each of them once."""
    parts = []
    while names:
        if len(names) > 1 and depth < 3 and random.random() < 0.3:
            size = random.randint(1, len(names) - 1)
            parts.append(draw_model(random, names[:size], depth + 1))
            names = names[size:]
        else:
            parts.append(names[0] + random.choice(("", "", "?", "*", "+")))
            names = names[1:]
    return f"({random.choice((', ', ' | ')).join(parts)}){random.choice(('', '', '?', '*', '+'))}"


def draw_element(random: Random, name: str) -> str:
    chosen = random.sample(NAMES, random.randint(1, 4))
    kind = random.random()
    if kind < 0.15:
        model = "EMPTY"
    elif kind < 0.2:
        model = "ANY"
    elif kind < 0.35:
        model = "(#PCDATA)"
    elif kind < 0.5:
        model = f"(#PCDATA | {' | '.join(chosen)})*"
    else:
        model = draw_model(random, chosen)
    lines = [f"<!ELEMENT {name} {model}>"]
    if random.random() < 0.4:
        lines.append(f"<!ATTLIST {name} id ID {random.choice(('#REQUIRED', '#IMPLIED'))}>")
    for number in range(random.randint(0, 2)):
        type_ = random.choice(TYPES[:-1] if model == "EMPTY" or number else TYPES)
        default = random.choice(("#REQUIRED", "#IMPLIED", "#IMPLIED"))
        if type_ == "CDATA" and random.random() < 0.3:
            default = random.choice(('"d"', '#FIXED " f \'"'))
        lines.append(f"<!ATTLIST {name} a{number} {type_} {default}>")
    return "\n".join(lines)


def draw_dtd(random: Random) -> str:
    lines = ['<!NOTATION n SYSTEM "n">']
    if random.random() < 0.5:
        lines.append('<!ENTITY picture SYSTEM "p" NDATA n>')
    return "\n".join([*lines, *(draw_element(random, name) for name in NAMES)])


def draw_settings(random: Random) -> DocumentSettings:
    return DocumentSettings(
        bytes_target=random.choice((None, 1, 1000)),
        bytes_max=3000,
        depth_max=random.choice((1, 3, 6)),
        recursion_max=random.choice((None, 0, 1)),
        optional=random.choice((0, 0.5, 1)),
        attributes=random.choice((0, 0.5, 1)),
    )


@pytest.mark.parametrize("part", range(4))
def test_drawn_dtds(part: int) -> None:
    check_drawn(part, 50)


def check_drawn(part: int, count: int) -> None:
    """Check documents and queries of so many DTDs; tests/long/test_full_workload.py does more."""
    random = Random(f"drawn/{part}")
    checked = unfit = 0
    while checked < count:
        text = draw_dtd(random)
        settings = draw_settings(random)
        try:
            schema = Schema.from_text(text, root="e0")
            documents = list(generate_documents(schema, 4, settings, seed=part))
        except DocumentError as error:
            assert error.code == "TC282"  # endless, or a reference that nothing can satisfy
            unfit += 1
            continue
        if schema.heights["e0"] >= UNFIT:
            unfit += 1  # no document of this DTD is valid
            continue
        trees = validate(grammar_of(text, schema), documents, (text, settings))
        checked += 1
        check_queries(schema, documents, trees, part)
    assert unfit < 5 * checked


def check_queries(schema: Schema, documents: list[bytes], trees: list[etree._Element], seed: int) -> None:
    settings = QuerySettings(predicates=0.5, nested=0.5, kinds={"attribute": 1, "text": 1, "position": 1})
    index, queries = Index(), []
    try:
        for query in generate_queries(schema, 8, settings, seed=seed):
            queries.append(query)
    except LimitError:
        pass  # a tiny schema: what it gave will do
    index.add_many((query, query) for query in queries)
    for document, tree in zip(documents, trees, strict=True):
        assert index.match(document) == [query for query in queries if tree.getroottree().xpath(query)]
