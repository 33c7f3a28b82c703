"""The small, frozen values that pass between the parts of treecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from treecast.errors import TreecastError

Deliver = Literal["document", "elements"]
SHOWN_BYTES_MAX = 200
"""What the repr of a delivery shows of its payload."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing query: the arguments of `Index.add` as one value.

    >>> Subscription("q1", "//x:item", namespaces={"x": "urn:x"}).id
    'q1'
    """

    id: str
    """Any text of 1 to 1,024 bytes; treecast only gives it back."""
    query: str
    """A path, a transformation or a list of steps."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Prefixes of the query, which take precedence over those of the index."""
    ordered: bool = False
    """Whether the branches of the pattern have to match in the order in which they are written."""
    deliver: Deliver = "document"
    """What `Index.render` gives the subscriber: the document, or the elements that the query selects."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one subscriber gets for one document."""

    subscription: str
    """Its id."""
    payload: bytes
    """The document itself, the selected elements, or what the transformation built; empty if refused."""
    refused: TreecastError | None = None
    """Why there is no payload: it would exceed a limit, or cannot be well-formed."""

    def __repr__(self) -> str:
        refused = "" if self.refused is None else f", refused={self.refused!r}"
        payload = repr(self.payload[:SHOWN_BYTES_MAX])
        if len(self.payload) > SHOWN_BYTES_MAX:
            payload = f"<{len(self.payload):,} bytes: {payload}…>"
        return f"Delivery(subscription={self.subscription!r}, payload={payload}{refused})"


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """Limits on payloads. A delivery that exceeds one is refused; the others are not affected."""

    payload_bytes_max: int = 16 << 20
    """One payload."""
    document_payload_bytes_max: int = 256 << 20
    """All different payloads of one document together."""
    bindings_max: int = 1_000_000
    """Combinations of `for` variables that one payload may visit, with 128 items of the document for each."""

    def __post_init__(self) -> None:
        for name in ("payload_bytes_max", "document_payload_bytes_max", "bindings_max"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= 1 << 40:
                raise ValueError(f"{name} must be 1-{1 << 40}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Stats:
    """What an index holds; sizes in bytes."""

    subscriptions: int
    paths: int
    """Distinct paths; equal paths are stored once."""
    states: int
    """States of the shared machines."""
    machines: int
    bytes: int
    """Ids, query texts and machines, without the caches."""
    cache_bytes: int
    """The lazily built deterministic machines, at most `cache_bytes_max`."""
