"""Measures a peer that evaluates queries on one document after the other, as far as the budget goes, on a fair sample.

All such peers are measured the same way: a probe, the sample that fits (`treecast.measure.sample`), the build, the
documents, and figures scaled up to all queries. A `SampledPeer` holds what differs between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from treecast.measure.answers import Answers
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.sample import Costs, sample_sizes, scale, shuffle_numbers
from treecast.measure.seconds import ZERO, Seconds, clock, private_bytes


class Compilation(NamedTuple):
    """Queries in the form of the peer, and the numbers of those that it accepted."""

    queries: Any
    taken: Sequence[int]


class SampledPeer(Protocol):
    """The interface of a peer."""

    @property
    def name(self) -> str:
        """The name of its cell."""

    @property
    def probe_size(self) -> int:
        """The number of queries in the probe that estimates the cost of one."""

    def compile(self, numbers: Sequence[int]) -> Compilation:
        """Compile the queries with these numbers; those that fail are not among the accepted ones."""

    def one(self, queries: Any, document: bytes) -> tuple[Seconds, Seconds, Sequence[int]]:
        """The times to parse a document and to evaluate all queries on it, and the numbers of those that match."""


def measure_sampled(peer: SampledPeer, inputs: Inputs, effort: Effort) -> tuple[Cell, Answers]:
    """Figures and answers; queries that the peer does not accept count as refused, in proportion to the sample."""
    order = shuffle_numbers(len(inputs.queries))
    _, unseen = effort.divide(inputs.documents)
    each = _probe(peer, unseen, order[: peer.probe_size])
    query_count, documents = sample_sizes(len(order), len(unseen), effort.budget_seconds, each)
    memory = private_bytes()
    compilations: list[Compilation] = []
    build = clock(lambda: compilations.append(peer.compile(order[:query_count])))
    memory = max(0, private_bytes() - memory)
    queries, accepted_numbers = compilations[0]
    refused_count = round((query_count - len(accepted_numbers)) * scale(query_count, len(order)))
    factor = scale(len(accepted_numbers), len(order) - refused_count)
    pairs: list[tuple[int, int]] = []
    first, parse, match = ZERO, ZERO, ZERO
    for number, document in enumerate(unseen[:documents]):
        reading, matching, matching_queries = peer.one(queries, document)
        parse, match = parse + reading, match + matching
        pairs += [(number, query) for query in matching_queries]
        first = first if number else reading + matching * factor
    parse, match = parse / documents, match * factor / documents
    return Cell(
        engine=peer.name,
        queries=len(order),
        refused=refused_count,
        sampled=len(accepted_numbers),
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
    ), Answers.of(pairs, documents=documents, queries=accepted_numbers)


def _probe(peer: SampledPeer, documents: Sequence[bytes], numbers: Sequence[int]) -> Costs:
    """The cost of a few queries on two documents; the second one is free of first-call costs."""
    compilations: list[Compilation] = []
    build = clock(lambda: compilations.append(peer.compile(numbers)))
    queries, accepted_numbers = compilations[0]
    reading = matching = ZERO
    for document in documents[:2]:
        reading, matching, _ = peer.one(queries, document)
    return Costs(build.wall / len(numbers), reading.wall, matching.wall / max(1, len(accepted_numbers)))
