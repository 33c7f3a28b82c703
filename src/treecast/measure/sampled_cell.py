"""Measures a peer that evaluates queries on one document after the other, as far as the budget goes, on a fair sample.

All such peers are measured the same way: a probe, the sample that fits (`treecast.measure.sample`), the build, the
documents, and figures scaled up to all queries. A `Sampled` holds what differs between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sample import Costs, sample_sizes, scale, shuffled
from treecast.measure.seconds import ZERO, Seconds, clock, private_bytes


class Compiled(NamedTuple):
    """Queries in the form of the peer, and the numbers of those that it accepted."""

    queries: Any
    taken: Sequence[int]


class Sampled(Protocol):
    """The interface of a peer."""

    @property
    def name(self) -> str:
        """The name of its cell."""

    @property
    def probed(self) -> int:
        """The number of queries in the probe that estimates the cost of one."""

    def compile(self, numbers: Sequence[int]) -> Compiled:
        """Compile the queries with these numbers; those that fail are not among the accepted ones."""

    def one(self, queries: Any, document: bytes) -> tuple[Seconds, Seconds, Sequence[int]]:
        """The times to parse a document and to evaluate all queries on it, and the numbers of those that match."""


def measure_sampled(peer: Sampled, inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    """Figures and answers; queries that the peer does not accept count as refused, in proportion to the sample."""
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
    """The cost of a few queries on two documents; the second one is free of first-call costs."""
    made: list[Compiled] = []
    build = clock(lambda: made.append(peer.compile(numbers)))
    queries, taken = made[0]
    reading = matching = ZERO
    for document in documents[:2]:
        reading, matching, _ = peer.one(queries, document)
    return Costs(build.wall / len(numbers), reading.wall, matching.wall / max(1, len(taken)))
