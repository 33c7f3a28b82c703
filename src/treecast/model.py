"""The small, frozen things that pass between the parts of treecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from treecast.errors import TreecastError

Deliver = Literal["document", "elements"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing query: what `Index.add` takes, in one piece.

    >>> Subscription("q1", "//x:item", namespaces={"x": "urn:x"}).id
    'q1'
    """

    id: str
    query: str
    namespaces: Mapping[str, str] = field(default_factory=dict)
    ordered: bool = False
    deliver: Deliver = "document"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one subscriber gets of one document."""

    subscription: str
    payload: bytes
    """The document as given, the elements asked for, or what the transformation built; empty where it was refused."""
    refused: TreecastError | None = None
    """Why there is no payload: it would have gone over a limit, or cannot be well-formed."""


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """How much rendering may give; what goes over it is a refused delivery, and the others go on."""

    payload_bytes_max: int = 16 << 20
    document_payload_bytes_max: int = 256 << 20
    """All different payloads of one document together."""
    bindings_max: int = 1_000_000
    """Combinations of `for` variables that one payload may look at; and for each of them, 128 items of the document."""

    def __post_init__(self) -> None:
        for name in ("payload_bytes_max", "document_payload_bytes_max", "bindings_max"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= 1 << 40:
                raise ValueError(f"{name} must be a number from 1 to {1 << 40}, not {value!r}")


@dataclass(frozen=True, slots=True)
class Stats:
    """What an index holds; sizes in bytes."""

    subscriptions: int
    paths: int
    """Distinct paths: equal ones are stored once."""
    states: int
    """States of the shared machines."""
    machines: int
    bytes: int
    """Ids, query texts and machines, without the caches."""
    cache_bytes: int
    """The lazily built deterministic machines, at most `cache_bytes_max`."""
