"""The named workloads, and any DTD: what documents and queries `treecast bench` draws.

    nitf        the NITF 2.5 DTD of a data directory, else the built-in news schema
    aggregated  ten DTDs of a data directory, in turn, else the two built-in schemas
    record      the built-in record schema: flat and regular, as an export from a database
    values      as nitf, every query with one value predicate
    trees       as nitf, every query with one or two nested paths

A data directory holds DTDs in `dtd/`, listed in DTDS. Missing ones are replaced, and the notes of the workload say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from treecast.errors import PipelineError, QueryLimitError
from treecast.measure.cell import Inputs
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

NAMES = ("nitf", "aggregated", "record", "values", "trees")
NITF = "nitf-2.5/nitf-2-5.lf.dtd"
DTDS = (
    NITF,
    "auction/auction.dtd",
    "dblp/dblp-2019.dtd",
    "ebxml-derived/cpp-cpa-2_0.derived.dtd",
    "ncbi/NCBI_BlastOutput.dtd",
    "rss-0.91/rss-0.91.dtd",
    "shakespeare/play.dtd",
    "tei-simple/teisimple.dtd",
    "unicode-cldr-core/ldmlSupplemental.dtd",
    "xhtml1/xhtml1-strict.dtd",
)
QUERY_SETTINGS = {
    "values": QuerySettings(predicates=1),
    "trees": QuerySettings(nested=1.5, depth_max=6),
    "record": QuerySettings(predicates=1, kinds={"attribute": 1, "text": 2}, depth_max=6),
}


@dataclass(frozen=True)
class Workload:
    """Schemas and how queries are drawn from them; `notes` say what was replaced."""

    name: str
    schemas: tuple[Schema, ...]
    settings: QuerySettings
    notes: tuple[str, ...] = ()

    def inputs(self, queries: int, documents: int, bytes_target: int, seed: int, note: Callable[[str], None]) -> Inputs:
        """Draw documents and queries. If the schemas have fewer distinct queries, all of them are used, with a note."""
        drawn_queries = []
        try:
            for query in generate_queries(self.schemas, queries, self.settings, seed=seed, note=note):
                drawn_queries.append(query)
        except QueryLimitError as error:
            if not drawn_queries:
                raise
            note(f"{str(error).splitlines()[0].partition(' ')[2]}; these are measured")
        settings = DocumentSettings(bytes_target=bytes_target)
        texts = list(generate_documents(self.schemas, documents, settings, seed=seed))
        return Inputs(drawn_queries, texts, _namespaces(self.schemas))


def named(name: str, data: Path | None) -> Workload:
    """One of NAMES, with the DTDs of the data directory if they exist."""
    settings = QUERY_SETTINGS.get(name, QuerySettings())
    if name == "record":
        return Workload(name, (Schema.records(),), settings, ("schema: the built-in record schema",))
    if data is not None and not data.is_dir():
        message = f"the data directory {str(data)[:200]!r} does not exist"
        raise PipelineError(message, code="TC780", hint="give --data DIR, or leave it out to use the built-in schemas")
    if name == "aggregated":
        return _aggregated_workload(settings, data)
    path = None if data is None else data / "dtd" / NITF
    if path is not None and path.exists():
        return Workload(name, (Schema.from_dtd(path),), settings, ("schema: NITF 2.5",))
    where = "no data directory was given" if data is None else f"there is no dtd/{NITF} in the data directory"
    return Workload(name, (Schema.news(),), settings, (f"schema: the built-in news schema, for {where}",))


def of_dtd(path: Path) -> Workload:
    """A DTD of your own, with the settings of `nitf`."""
    schema = Schema.from_dtd(path)
    notes = [f"schema: {schema.summary()}; the root is {schema.root}"]
    if schema.missing:
        notes.append(f"parts of the DTD are not on disk and left out: {', '.join(schema.missing)[:200]}")
    return Workload(path.stem, (schema,), QuerySettings(), tuple(notes))


def _aggregated_workload(settings: QuerySettings, data: Path | None) -> Workload:
    paths = [path for path in DTDS if data is not None and (data / "dtd" / path).exists()]
    if data is None or not paths:
        where = "no data directory was given" if data is None else "the data directory has none of the DTDs"
        built_in = f"schemas: the built-in news and record schemas, for {where}"
        return Workload("aggregated", (Schema.news(), Schema.records()), settings, (built_in,))
    notes: tuple[str, ...] = (f"schemas: {len(paths)} DTDs: {', '.join(path.partition('/')[0] for path in paths)}",)
    if len(paths) < len(DTDS):
        notes += (f"left out, for they are not there: {', '.join(path for path in DTDS if path not in paths)}",)
    return Workload("aggregated", tuple(Schema.from_dtd(data / "dtd" / path) for path in paths), settings, notes)


def _namespaces(schemas: Sequence[Schema]) -> dict[str, str]:
    uri_by_prefix: dict[str, str] = {}
    for schema in schemas:
        for prefix, uri in schema.namespaces.items():
            if uri_by_prefix.setdefault(prefix, uri) != uri:
                message = f"the DTDs bind the prefix '{prefix}' to different namespaces"
                raise PipelineError(message, code="TC781", hint="measure them apart")
    return uri_by_prefix
