"""A peer that optimises: SaxonC through saxonche, with all queries in one stylesheet so that it can share work.

The stylesheet is version 1.0, with the comparisons of XPath 1.0: in later versions `@x=1` is an error for an attribute
that is not a number. It writes the number of each query that matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sampled_cell import Compilation, measure_sampled
from treecast.measure.seconds import Seconds, clock

# A template with very many tests takes more than proportional time to compile.
TESTS_PER_TEMPLATE = 200


def measure_saxon(inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    """Figures and answers. A query that it cannot compile fails the whole stylesheet, and so the cell."""
    from saxonche import PySaxonProcessor

    return measure_sampled(_Saxon(inputs, PySaxonProcessor(license=False)), inputs, effort)


@dataclass(frozen=True)
class _Saxon:
    inputs: Inputs
    processor: Any
    name: str = "saxonche"
    probe_size: int = 50

    def compile(self, numbers: Sequence[int]) -> Compilation:
        text = stylesheet(self.inputs, numbers)
        return Compilation(self.processor.new_xslt30_processor().compile_stylesheet(stylesheet_text=text), numbers)

    def one(self, queries: Any, document: bytes) -> tuple[Seconds, Seconds, list[int]]:
        trees: list[Any] = []
        outputs: list[str] = []
        reading = clock(lambda: trees.append(self.processor.parse_xml(xml_text=document.decode())))
        source = {"xdm_node": trees[0]}  # its word, not ours
        matching = clock(lambda: outputs.append(queries.transform_to_string(**source)))
        return reading, matching, [int(number) for number in (outputs[0] or "").split()]


def stylesheet(inputs: Inputs, numbers: Sequence[int]) -> str:
    """A stylesheet that writes the numbers of the queries that match."""
    declarations = "".join(f" xmlns:{prefix}={quoteattr(uri)}" for prefix, uri in inputs.namespaces.items())
    parts = [numbers[begin : begin + TESTS_PER_TEMPLATE] for begin in range(0, len(numbers), TESTS_PER_TEMPLATE)]
    calls = "".join(f'<xsl:call-template name="part{place}"/>' for place in range(len(parts)))
    templates = "".join(
        f'<xsl:template name="part{place}">'
        + "".join(f"<xsl:if test={quoteattr(inputs.queries[number])}>{number} </xsl:if>" for number in part)
        + "</xsl:template>"
        for place, part in enumerate(parts)
    )
    return (
        f'<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"{declarations}>'
        f'<xsl:output method="text"/><xsl:template match="/">{calls}</xsl:template>{templates}</xsl:stylesheet>'
    )
