"""The peer that everybody has: lxml, one compiled XPath after the other on each parsed document.

Measured as far as the budget goes, on a fair sample of the queries; see treecast.measure.sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sample import Costs, sample_sizes, scale, shuffled
from treecast.measure.seconds import ZERO, Seconds, clock, private_bytes

PROBED = 100


def measure_lxml(inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    """Figures and answers; a query that lxml cannot compile counts as refused, in proportion to the sample."""
    order = shuffled(len(inputs.queries))
    _, unseen = effort.divide(inputs.documents)
    each = _probe(inputs, unseen, order[:PROBED])
    wanted, documents = sample_sizes(len(order), len(unseen), effort.budget_seconds, each)
    memory = private_bytes()
    compiled: list[tuple[int, Any]] = []
    build = clock(lambda: compiled.extend(_compile(inputs, order[:wanted])))
    memory = max(0, private_bytes() - memory)
    refused = round((wanted - len(compiled)) * scale(wanted, len(order)))
    taken = len(order) - refused
    factor = scale(len(compiled), taken)
    pairs: list[tuple[int, int]] = []
    firsts, parse, match = ZERO, ZERO, ZERO
    for number, document in enumerate(unseen[:documents]):
        reading, matching = _one(document, number, compiled, pairs)
        parse, match = parse + reading, match + matching
        firsts = firsts if number else reading + matching * factor
    parse, match = parse / documents, match * factor / documents
    answers = Answers.of(pairs, documents=documents, queries=[number for number, _ in compiled])
    return Cell(
        engine="lxml",
        queries=len(order),
        refused=refused,
        sampled=len(compiled),
        documents=documents,
        offered=len(unseen),
        document_bytes=inputs.document_bytes,
        matches=len(pairs) * factor / documents,
        build=build * factor,
        memory_bytes=round(memory * factor),
        first=firsts,
        unseen=parse + match,
        warm=parse + match,
        parse=parse,
        match=match,
        lxml_parse=parse,
    ), answers


def _compile(inputs: Inputs, numbers: Sequence[int]) -> list[tuple[int, Any]]:
    from lxml import etree

    compiled = []
    for number in numbers:
        try:
            compiled.append((number, etree.XPath(f"boolean({inputs.queries[number]})", namespaces=inputs.namespaces)))
        except etree.XPathSyntaxError:
            continue
    return compiled


def _one(
    document: bytes, number: int, compiled: Sequence[tuple[int, Any]], pairs: list[tuple[int, int]]
) -> tuple[Seconds, Seconds]:
    """Parsing and evaluating one document; what matched goes to `pairs`."""
    from lxml import etree

    trees: list[Any] = []
    reading = clock(lambda: trees.append(etree.fromstring(document)))
    matching = clock(lambda: pairs.extend([(number, query) for query, test in compiled if test(trees[0])]))
    return reading, matching


def _probe(inputs: Inputs, documents: Sequence[bytes], numbers: Sequence[int]) -> Costs:
    """What a few queries cost on two documents, the second of which is not burdened by what the first call does."""
    compiled: list[tuple[int, Any]] = []
    build = clock(lambda: compiled.extend(_compile(inputs, numbers)))
    reading = matching = ZERO
    for document in documents[:2]:
        reading, matching = _one(document, 0, compiled, [])
    return Costs(build.wall / len(numbers), reading.wall, matching.wall / max(1, len(compiled)))
