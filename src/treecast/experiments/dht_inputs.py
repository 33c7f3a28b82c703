"""Queries, documents and machines of DHT-NFA, Table 1: NITF and the aggregated workload, random and distinct sets."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from treecast.document import Document, read_many
from treecast.engines.path_nfa import PathMachine
from treecast.errors import QueryLimitError
from treecast.experiments.experiment import Row
from treecast.experiments.inputs import draw_documents, namespaces_of, news_schema, ten_schemas
from treecast.experiments.ring_model import state_places
from treecast.experiments.rules import pick
from treecast.experiments.session import Session
from treecast.workload import QuerySettings, Schema, generate_queries

WORKLOADS = {"NITF": 36_500, "aggregated": 4_800}
"""The average size of a document, by the paper's text."""
SETS = ("random", "distinct")
LEVELS = 12
QUERIES_MIN = 500_000
"""For a verdict: half of what the paper has."""


def main_set(rows: Sequence[Row], **at: object) -> str:
    """The set that a verdict looks at: the paper says distinct. A run without it looks at the random one."""
    return "distinct" if pick(rows, set="distinct", **at) else "random"


def schemas_of(session: Session, workload: str) -> list[Schema]:
    """One DTD, or all ten."""
    if workload == "NITF":
        return [news_schema(session)]
    schemas = ten_schemas(session)
    own_schemas = [schema for schema in schemas if schema.name == workload]
    return own_schemas or schemas


def queries_of(session: Session, workload: str, kind: str, count: int) -> list[str]:
    """A smaller set is a prefix of a larger one. A DTD may have fewer distinct queries than are asked for."""

    def draw() -> list[str]:
        session.say(f"{kind} queries of {workload}")
        settings = QuerySettings(distinct=kind == "distinct")
        schemas = schemas_of(session, workload)
        most = max(session.sizes.queries)
        drawn_queries: list[str] = []
        queries: Iterator[str] = generate_queries(schemas, most, settings, seed=session.seed, note=session.note)
        try:
            drawn_queries.extend(queries)
        except QueryLimitError:
            session.note(f"{workload} has {len(drawn_queries):,} distinct queries that the generator finds")
        return drawn_queries

    return session.last("queries", (workload, kind), draw)[:count]


def machine_of(session: Session, workload: str, kind: str, count: int) -> tuple[PathMachine, int]:
    """The machine of so many queries, made of the one with fewer, and how many of them are distinct."""
    machines: dict[tuple[str, str], tuple[PathMachine, int]] = session.once("machines", dict)
    if machines.get((workload, kind), (None, count + 1))[1] > count:
        machines.clear()
        machines[workload, kind] = (PathMachine(), 0)
    machine, before = machines[workload, kind]
    queries = queries_of(session, workload, kind, count)
    machine.add(queries[before:], namespaces_of(schemas_of(session, workload)))
    machines[workload, kind] = (machine, len(queries))
    return machine, len(set(queries))


def places_of(session: Session, machine: PathMachine, name: str) -> Sequence[int]:
    """By state: where it is on any ring. Kept for the machine of one name, since a million hashes take seconds."""
    return session.last("places", name, lambda: array("Q", state_places(machine)))


def documents_of(session: Session, workload: str) -> list[Document]:
    def draw() -> list[Document]:
        session.say(f"documents of {workload}")
        schemas = schemas_of(session, workload)
        texts = draw_documents(schemas, session.sizes.documents, WORKLOADS[workload], LEVELS, session.seed)
        size = sum(map(len, texts)) / len(texts)
        session.note(f"{workload}: {len(texts):,} documents of {size / 1000:.1f} KB on average")
        documents = read_many(texts)
        return [document for document in documents if isinstance(document, Document)]

    return session.once(f"documents of {workload}", draw)
