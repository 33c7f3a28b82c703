"""treecast on Spark: documents and subscriptions as DataFrames in, matches as a DataFrame out.

    from treecast.spark import match, split

    matches = match(documents, subscriptions)     # the other columns of documents, and subscription
    good, bad = split(match(documents, subscriptions, on_error="report"))
    deliveries = render(documents, subscriptions)     # the same, and payload: what each subscriber gets

Batch and Structured Streaming, classic and Connect sessions. `matches` is the same as a column, for plans of your own;
`match_stream` runs for long, with subscriptions that change, and survives kills; `refused` lists the subscriptions that
treecast does not accept; `documents` reads files, archives and record files. For whole populations: `pep` and
`aggregate` work on millions of subscriptions, `generate_documents` and `generate_queries` draw workloads.
Needs `pip install 'treecast[spark]'` and Java 17.
"""

from treecast.spark.documents import documents
from treecast.spark.generate import generate_documents, generate_queries
from treecast.spark.match import match, matches, refused, split
from treecast.spark.population import aggregate, pep
from treecast.spark.render import render
from treecast.spark.stream import match_stream

__all__ = [
    "aggregate",
    "documents",
    "generate_documents",
    "generate_queries",
    "match",
    "match_stream",
    "matches",
    "pep",
    "refused",
    "render",
    "split",
]
