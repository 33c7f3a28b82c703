"""A peer that evaluates queries on one document after the other: measured as far as the budget goes, on a fair sample.

What such peers share is the way to measure them: a probe, the sample that fits (`treecast.measure.sample`), the build,
the documents, and figures scaled up to all queries. What they differ in is a `Sampled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sample import Costs, sample_sizes, scale, shuffled
from treecast.measure.seconds import ZERO, Seconds, clock, private_bytes


class Compiled(NamedTuple):
    """Queries as the peer wants them, and the numbers of those that it took."""

    queries: Any
    taken: Sequence[int]


class Sampled(Protocol):
    """What a peer has to know of itself."""

    @property
    def name(self) -> str:
        """What its cell is called."""

    @property
    def probed(self) -> int:
        """So many queries tell what one costs."""

    def compile(self, numbers: Sequence[int]) -> Compiled:
        """The queries of these numbers; those that it cannot compile are not among the taken ones."""

    def one(self, queries: Any, document: bytes) -> tuple[Seconds, Seconds, Sequence[int]]:
        """Parsing one document, evaluating all queries on it, and the numbers of those that match."""


def measure_sampled(peer: Sampled, inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    """Figures and answers; queries that the peer does not take count as refused, in proportion to the sample."""
    order = shuffled(len(inputs.queries))
    _, unseen = effort.divide(inputs.documents)
    each = _probe(peer, unseen, order[: peer.probed])
    wanted, documents = sample_sizes(len(order), len(unseen), effort.budget_seconds, each)
    memory = private_bytes()
    made: list[Compiled] = []
    build = clock(lambda: made.append(peer.compile(order[:wanted])))
    memory = max(0, private_bytes() - memory)
    queries, taken = made[0]
    refused = round((wanted - len(taken)) * scale(wanted, len(order)))
    factor = scale(len(taken), len(order) - refused)
    pairs: list[tuple[int, int]] = []
    first, parse, match = ZERO, ZERO, ZERO
    for number, document in enumerate(unseen[:documents]):
        reading, matching, found = peer.one(queries, document)
        parse, match = parse + reading, match + matching
        pairs += [(number, query) for query in found]
        first = first if number else reading + matching * factor
    parse, match = parse / documents, match * factor / documents
    return Cell(
        engine=peer.name,
        queries=len(order),
        refused=refused,
        sampled=len(taken),
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
    ), Answers.of(pairs, documents=documents, queries=taken)


def _probe(peer: Sampled, documents: Sequence[bytes], numbers: Sequence[int]) -> Costs:
    """What a few queries cost on two documents, the second of which is not burdened by what the first call does."""
    made: list[Compiled] = []
    build = clock(lambda: made.append(peer.compile(numbers)))
    queries, taken = made[0]
    reading = matching = ZERO
    for document in documents[:2]:
        reading, matching, _ = peer.one(queries, document)
    return Costs(build.wall / len(numbers), reading.wall, matching.wall / max(1, len(taken)))
