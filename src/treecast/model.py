"""The small, frozen things that pass between the parts of treecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
