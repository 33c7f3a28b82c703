"""treecast finds, for every XML document, every standing XPath subscription that it concerns."""

from treecast.errors import (
    AccessError,
    DocumentError,
    LimitError,
    PeerError,
    QueryError,
    SnapshotError,
    TreecastError,
)
from treecast.query import Query, parse

__version__ = "0.1.0"

__all__ = [
    "AccessError",
    "DocumentError",
    "LimitError",
    "PeerError",
    "Query",
    "QueryError",
    "SnapshotError",
    "TreecastError",
    "parse",
]
