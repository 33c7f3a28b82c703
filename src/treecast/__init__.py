"""treecast matches XML documents against many standing XPath subscriptions at once."""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from treecast.async_index import AsyncIndex
    from treecast.inputs.records import records
    from treecast.inputs.subscriptions import read_subscriptions
    from treecast.transcoding import transcode

__version__ = VERSION

__all__ = [
    "AccessError",
    "AsyncIndex",
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
    "read_subscriptions",
    "records",
    "transcode",
]

# Public name -> its module. These bring asyncio, Arrow or tables of encodings, so they are imported when asked for.
_IMPORTED_LATER = {
    "AsyncIndex": "treecast.async_index",
    "read_subscriptions": "treecast.inputs.subscriptions",
    "records": "treecast.inputs.records",
    "transcode": "treecast.transcoding",
}

if not TYPE_CHECKING:  # a type checker would take every name for one that is there

    def __getattr__(name: str) -> object:
        if name not in _IMPORTED_LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_IMPORTED_LATER[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"]
