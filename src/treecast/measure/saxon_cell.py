"""A peer that optimises: SaxonC through saxonche, all queries in one stylesheet, so that it may share what it can.

The stylesheet is of version 1.0, whose comparisons are those of XPath 1.0: in later versions `@x=1` is an error for an
attribute that holds no number. It writes the number of each query that holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sample import Costs, sample_sizes, scale, shuffled
from treecast.measure.seconds import ZERO, Seconds, clock, private_bytes

PROBED = 50
# One template of a great many tests takes more than proportional time to compile.
TESTS_PER_TEMPLATE = 200


def measure_saxon(inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    """Figures and answers. A query that it cannot compile fails the whole stylesheet, and so the cell."""
    from saxonche import PySaxonProcessor

    order = shuffled(len(inputs.queries))
    processor = PySaxonProcessor(license=False)
    _, unseen = effort.divide(inputs.documents)
    each = _probe(processor, inputs, unseen, order[:PROBED])
    wanted, documents = sample_sizes(len(order), len(unseen), effort.budget_seconds, each)
    memory = private_bytes()
    compiled: list[Any] = []
    build = clock(lambda: compiled.append(_compile(processor, inputs, order[:wanted])))
    memory = max(0, private_bytes() - memory)
    factor = scale(wanted, len(order))
    pairs: list[tuple[int, int]] = []
    first, parse, match = ZERO, ZERO, ZERO
    for number, document in enumerate(unseen[:documents]):
        reading, matching, found = _one(processor, compiled[0], document)
        parse, match = parse + reading, match + matching
        pairs += [(number, query) for query in found]
        first = first if number else reading + matching * factor
    parse, match = parse / documents, match * factor / documents
    return Cell(
        engine="saxonche",
        queries=len(order),
        sampled=wanted,
        documents=documents,
        offered=len(unseen),
        document_bytes=inputs.document_bytes,
        matches=len(pairs) * factor / documents,
        build=build * factor,
        memory_bytes=round(memory * factor),
        first=first,
        unseen=parse + match,
        warm=parse + match,
        parse=parse,
        match=match,
    ), Answers.of(pairs, documents=documents, queries=order[:wanted])


def stylesheet(inputs: Inputs, numbers: Sequence[int]) -> str:
    """One that writes the numbers of the queries that hold."""
    bound = "".join(f" xmlns:{prefix}={quoteattr(uri)}" for prefix, uri in inputs.namespaces.items())
    parts = [numbers[begin : begin + TESTS_PER_TEMPLATE] for begin in range(0, len(numbers), TESTS_PER_TEMPLATE)]
    calls = "".join(f'<xsl:call-template name="part{place}"/>' for place in range(len(parts)))
    templates = "".join(
        f'<xsl:template name="part{place}">'
        + "".join(f"<xsl:if test={quoteattr(inputs.queries[number])}>{number} </xsl:if>" for number in part)
        + "</xsl:template>"
        for place, part in enumerate(parts)
    )
    return (
        f'<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"{bound}>'
        f'<xsl:output method="text"/><xsl:template match="/">{calls}</xsl:template>{templates}</xsl:stylesheet>'
    )


def _compile(processor: Any, inputs: Inputs, numbers: Sequence[int]) -> Any:
    return processor.new_xslt30_processor().compile_stylesheet(stylesheet_text=stylesheet(inputs, numbers))


def _one(processor: Any, compiled: Any, document: bytes) -> tuple[Seconds, Seconds, list[int]]:
    trees: list[Any] = []
    found: list[str] = []
    reading = clock(lambda: trees.append(processor.parse_xml(xml_text=document.decode())))
    source = {"xdm_node": trees[0]}  # its word, not ours
    matching = clock(lambda: found.append(compiled.transform_to_string(**source)))
    return reading, matching, [int(number) for number in (found[0] or "").split()]


def _probe(processor: Any, inputs: Inputs, documents: Sequence[bytes], numbers: Sequence[int]) -> Costs:
    compiled: list[Any] = []
    build = clock(lambda: compiled.append(_compile(processor, inputs, numbers)))
    reading = matching = ZERO
    for document in documents[:2]:
        reading, matching, _ = _one(processor, compiled[0], document)
    return Costs(build.wall / len(numbers), reading.wall, matching.wall / len(numbers))
