"""The peer that everybody has: lxml, one compiled XPath after the other on each parsed document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sampled_cell import Compilation, measure_sampled
from treecast.measure.seconds import Seconds, clock


def measure_lxml(inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    """Figures and answers; a query that lxml cannot compile counts as refused."""
    cell, answers = measure_sampled(_Lxml(inputs), inputs, effort)
    return replace(cell, lxml_parse=cell.parse), answers


@dataclass(frozen=True)
class _Lxml:
    inputs: Inputs
    name: str = "lxml"
    probe_size: int = 100

    def compile(self, numbers: Sequence[int]) -> Compilation:
        from lxml import etree

        tests = []
        for number in numbers:
            text = f"boolean({self.inputs.queries[number]})"
            try:
                tests.append((number, etree.XPath(text, namespaces=self.inputs.namespaces)))
            except etree.XPathSyntaxError:
                continue
        return Compilation(tests, [number for number, _ in tests])

    def one(self, queries: Any, document: bytes) -> tuple[Seconds, Seconds, list[int]]:
        from lxml import etree

        trees: list[Any] = []
        numbers: list[int] = []
        reading = clock(lambda: trees.append(etree.fromstring(document)))
        matching = clock(lambda: numbers.extend([number for number, test in queries if test(trees[0])]))
        return reading, matching, numbers
