"""The documents and queries of the papers, as far as a data directory has them; replacements are noted.

A data directory holds `dtd/`, `docs/` and `queries/`: the NITF 2.5 DTD with the 500 documents and 153,928 distinct
queries of the YFilter release, and other useful DTDs. Without one, the two schemas that ship with treecast are used.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from treecast.experiments.session import Session
from treecast.workload import DocumentSettings, QuerySettings, Schema, generate_documents, generate_queries

NITF = "dtd/nitf-2.5/nitf-2-5.lf.dtd"
RELEASE_QUERIES = "queries/benchmark_simple_paths/queries-153928-d.txt.gz"
RELEASE_DOCUMENTS = "docs/nitf-yfilter-500"
# Documents of the release have 3.8 KB on average; its queries have up to six steps and end where the walk ends.
DOCUMENT_BYTES = 3_800
QUERY_STEPS = 6

# YFilter's: news, an auction site, a bibliography; then others that differ from them.
SEVERAL = (
    ("NITF", NITF, None),
    ("auction", "dtd/auction/auction.dtd", None),
    ("DBLP", "dtd/dblp/dblp-2016-odcby.dtd", "dblp"),
    ("plays", "dtd/shakespeare/play.dtd", None),
    ("MusicXML", "dtd/musicxml/partwise.dtd", "score-partwise"),
    ("MEDLINE", "dtd/ncbi/nlmmedlinecitationset_150101.dtd", None),
)
# XTrie used ten commercial document types of 77 to 2,727 elements; these have as many, or nearly.
TEN = (
    ("NITF", NITF, None),
    ("auction", "dtd/auction/auction.dtd", None),
    ("MusicXML by part", "dtd/musicxml/partwise.dtd", "score-partwise"),
    ("MusicXML by time", "dtd/musicxml/timewise.dtd", "score-timewise"),
    ("MEDLINE", "dtd/ncbi/nlmmedlinecitationset_150101.dtd", None),
    ("TEI Simple", "dtd/tei-simple/teisimple.dtd", "TEI"),
    ("XHTML", "dtd/xhtml1/xhtml1-strict.dtd", "html"),
    ("ebXML CPA", "dtd/ebxml-derived/cpp-cpa-2_0.derived.dtd", None),
    ("CLDR", "dtd/unicode-cldr-core/ldml.dtd", "ldml"),
    ("JATS", "dtd/jats-1.1/JATS-journalpublishing1.dtd", "article"),
)


def news_schema(session: Session) -> Schema:
    """The NITF DTD, or the news schema that ships with treecast."""

    def read() -> Schema:
        path = session.data and session.data / NITF
        if path and path.exists():
            session.note("DTD: NITF 2.5")
            return Schema.from_dtd(path)
        session.note("DTD: the news schema that ships with treecast, for want of a data directory with NITF 2.5")
        return Schema.news()

    return session.once("news schema", read)


def news_documents(session: Session, count: int | None = None) -> list[bytes]:
    """Documents of the YFilter release, or documents of the same size drawn from the schema."""

    def read() -> list[bytes]:
        documents_wanted = count or session.sizes.documents
        directory = session.data and session.data / RELEASE_DOCUMENTS
        if directory and directory.is_dir():
            files = sorted(directory.glob("*.xml"))
            if len(files) >= documents_wanted:
                session.note(f"documents: {documents_wanted} of the {len(files)} of the YFilter release")
                return [file.read_bytes() for file in Random(session.seed).sample(files, documents_wanted)]
        session.note(f"documents: {documents_wanted} drawn from the DTD, about {DOCUMENT_BYTES / 1000:.1f} KB each")
        return draw_documents(news_schema(session), documents_wanted, seed=session.seed)

    return session.once("news documents", read)


def news_queries(session: Session, count: int) -> list[str]:
    """Distinct queries of the YFilter release in random order, or queries as its generator draws them. A smaller set is
    a prefix of a larger one."""

    def read() -> list[str]:
        most = max(session.sizes.queries) + session.sizes.queries[0]
        file = session.data and session.data / RELEASE_QUERIES
        if file and file.exists():
            with gzip.open(file, "rt", encoding="utf-8") as lines:
                texts = lines.read().split()
            if len(texts) >= most:
                session.note(f"queries: drawn from the {len(texts):,} distinct ones of the YFilter release")
                return Random(session.seed).sample(texts, len(texts))
        session.note("queries: distinct, drawn from the DTD, up to 6 steps, 20 % * and 20 % //")
        return list(generate_queries(news_schema(session), most, query_settings(), seed=session.seed))

    return session.once("news queries", read)[:count]


def query_settings(**changes: object) -> QuerySettings:
    """As in YFilter's generator: paths end at a leaf or after six steps."""
    return QuerySettings(**{"depth_max": QUERY_STEPS, "stop": 0.0, **changes})  # type: ignore[arg-type]


def draw_documents(
    schema: Schema | Sequence[Schema], count: int, size: int = DOCUMENT_BYTES, depth: int = 8, seed: int = 1
) -> list[bytes]:
    return list(generate_documents(schema, count, DocumentSettings(bytes_target=size, depth_max=depth), seed=seed))


def several_schemas(session: Session) -> list[Schema]:
    """Different kinds of DTDs, always including the two that ship with treecast."""
    return session.once("several", lambda: [*read_schemas(session, SEVERAL), Schema.news(), Schema.records()])


def ten_schemas(session: Session) -> list[Schema]:
    """Ten document types with at least 77 elements each; without a data directory, the two that ship with treecast."""

    def read() -> list[Schema]:
        schemas = read_schemas(session, TEN)
        return schemas or [Schema.news(), Schema.records()]

    return session.once("ten", read)


def namespaces_of(schemas: Sequence[Schema]) -> Mapping[str, str]:
    return {prefix: uri for schema in schemas for prefix, uri in schema.namespaces.items()}


def read_schemas(session: Session, files: Sequence[tuple[str, str, str | None]]) -> list[Schema]:
    """Those that a data directory has: labels, files, and roots where a DTD has several."""
    schemas, missing_labels = [], []
    for label, name, root in files:
        path = session.data and session.data / name
        if path and path.exists():
            schemas.append(replace(Schema.from_dtd(path, root=root), name=label))
        else:
            missing_labels.append(label)
    if missing_labels:
        session.note(f"left out, for want of a data directory that has them: the DTDs {', '.join(missing_labels)}")
    return schemas
