"""Measuring: engines and peers on one workload, each cell in a process of its own, answers compared beside the times.

A cell is one engine (or peer) on one set of queries: build time, memory, what the first document, unseen documents and
documents seen before cost, and how the cost divides into reading, matching and handing over.

    from treecast import measure
    from treecast.workload import Schema, generate_documents, generate_queries

    queries = list(generate_queries(Schema.news(), 10_000))
    documents = list(generate_documents(Schema.news(), 100))
    cell = measure.cell("yfilter", queries, documents)
    print(cell.unseen.cpu * 1e6, "µs a document,", cell.matches, "matches")

Times are in seconds, per document, by two clocks (`Seconds`): the wall's, and the process's own CPU time, which is the
one to compare on a machine that others use too. Use `treecast bench` to measure; use this to build experiments.
"""

from treecast.measure.answers import Answers, differences
from treecast.measure.cell import Cell, Effort, Inputs
from treecast.measure.process import cell, run
from treecast.measure.seconds import Seconds, clock, median, private_bytes, tree_clock

__all__ = [
    "Answers",
    "Cell",
    "Effort",
    "Inputs",
    "Seconds",
    "cell",
    "clock",
    "differences",
    "median",
    "private_bytes",
    "run",
    "tree_clock",
]
