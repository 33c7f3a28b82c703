"""Measures engines and peers on one workload, each cell in its own process, and compares their answers.

A cell is one engine (or peer) on one set of queries. It has the build time, the memory, the cost of the first document,
of unseen documents and of documents seen before, and how that cost divides into reading, matching and emitting.

    from treecast import measure
    from treecast.workload import Schema, generate_documents, generate_queries

    queries = list(generate_queries(Schema.news(), 10_000))
    documents = list(generate_documents(Schema.news(), 100))
    cell = measure.cell("yfilter", queries, documents)
    print(cell.unseen.cpu * 1e6, "µs a document,", cell.matches, "matches")

Times are in seconds per document, on two clocks (`Seconds`): wall-clock time, and the CPU time of the process. Compare
CPU times on a machine that others use too. Use `treecast bench` to measure; use this package to build experiments.
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
