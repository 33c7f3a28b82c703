"""Shared by XTrie's experiments: ten document types, messages of a hundred tags, expressions with 10 % * and //."""

from __future__ import annotations

from collections.abc import Sequence

from treecast.experiments.inputs import draw_documents, ten_schemas
from treecast.experiments.session import Session
from treecast.workload import QuerySettings, Schema, generate_queries

LEVELS = 20
MESSAGE_BYTES = 5_000


def schemas_of(session: Session) -> list[Schema]:
    schemas = ten_schemas(session)
    session.note(f"document types: {', '.join(f'{one.name} ({len(one.reachable)} elements)' for one in schemas)}")
    return schemas


def expressions(session: Session, count: int, *, nested: float = 0.0) -> list[str]:
    """Distinct expressions, evenly over the types; a smaller set is a prefix of a larger one."""

    def read() -> list[str]:
        settings = QuerySettings(depth_max=10, wildcard=0.1, descendant=0.1, nested=nested)
        most = max(session.sizes.queries)
        return list(generate_queries(schemas_of(session), most, settings, seed=session.seed, note=session.note))

    return session.once(f"expressions {nested}", read)[:count]


def messages(session: Session, size: int = MESSAGE_BYTES) -> list[bytes]:
    def read() -> list[bytes]:
        return draw_documents(schemas_of(session), session.sizes.documents, size, LEVELS, session.seed)

    return session.once(f"messages {size}", read)


def tags_of(documents: Sequence[bytes]) -> float:
    """Start tags and empty elements per document, on average."""
    tags = sum(text.count(b"<") - text.count(b"</") - text.count(b"<!") - text.count(b"<?") for text in documents)
    return tags / len(documents)
