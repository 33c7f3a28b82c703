"""treecast on Spark: documents and subscriptions as DataFrames in, matches as a DataFrame out.

    from treecast.spark import match, split

    matches = match(documents, subscriptions)     # the other columns of documents, and subscription
    good, bad = split(match(documents, subscriptions, on_error="report"))
    deliveries = render(documents, subscriptions)     # the same, and payload: what each subscriber gets

Batch and Structured Streaming, classic and Connect sessions. `matches` is the same as a column, for plans of your own,
and `register` makes it a function of SQL; `match_stream` runs for long, with subscriptions that change, and survives
kills. `refused` lists the subscriptions that treecast does not accept, `check` also those that never match; `explain`
says why documents match or do not, `describe_matches` counts matches by subscription. `documents` reads files, archives
and record files, `broker_documents` what a broker has; `match_files` reads, splits and matches files in one pass.
`write_directories`, `write_payloads`, `PayloadFiles` and `JetStream` take answers away. For whole populations: `pep`
and `aggregate` work on millions of subscriptions, `generate_documents` and `generate_queries` draw workloads.
Needs the extra `spark` and Java 17 or newer.
"""

from treecast.spark.batch.check import check
from treecast.spark.batch.describe_matches import describe_matches
from treecast.spark.batch.explain import explain
from treecast.spark.batch.files import match_files
from treecast.spark.batch.generate import generate_documents, generate_queries
from treecast.spark.batch.match import match, matches, refused, register, split
from treecast.spark.batch.population import aggregate, pep
from treecast.spark.batch.render import render
from treecast.spark.batch.sinks import PayloadFiles, path_of, stream_directories, write_directories, write_payloads
from treecast.spark.sources.broker_documents import broker_documents
from treecast.spark.sources.documents import documents
from treecast.spark.stream.jetstream import JetStream
from treecast.spark.stream.match_stream import match_stream

__all__ = [
    "JetStream",
    "PayloadFiles",
    "aggregate",
    "broker_documents",
    "check",
    "describe_matches",
    "documents",
    "explain",
    "generate_documents",
    "generate_queries",
    "match",
    "match_files",
    "match_stream",
    "matches",
    "path_of",
    "pep",
    "refused",
    "register",
    "render",
    "split",
    "stream_directories",
    "write_directories",
    "write_payloads",
]
