"""treecast matches XML documents against many standing XPath subscriptions at once."""

from treecast import engines
from treecast.document import Document, Limits, Reader, read
from treecast.errors import (
    AccessError,
    DocumentError,
    LimitError,
    PeerError,
    PipelineError,
    QueryError,
    SnapshotError,
    TreecastError,
    UndecidedWarning,
)
from treecast.index import Index
from treecast.model import Delivery, DeliveryLimits, Subscription
from treecast.query import Query, parse
from treecast.version import VERSION

__version__ = VERSION

__all__ = [
    "AccessError",
    "Delivery",
    "DeliveryLimits",
    "Document",
    "DocumentError",
    "Index",
    "LimitError",
    "Limits",
    "PeerError",
    "PipelineError",
    "Query",
    "QueryError",
    "Reader",
    "SnapshotError",
    "Subscription",
    "TreecastError",
    "UndecidedWarning",
    "engines",
    "parse",
    "read",
]
