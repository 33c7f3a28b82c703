"""The settings of an index that is made from a table of subscriptions: one value instead of four.

    >>> IndexSettings(namespaces={"x": "urn:x"}).index()
    <Index of 0 subscriptions>

`text` shows whether a saved index was made with the same settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from treecast.document import EntityTexts, Limits
from treecast.index import Index
from treecast.model import DeliveryLimits


@dataclass(frozen=True)
class IndexSettings:
    """The settings of `Index`. None stands for its default."""

    namespaces: Mapping[str, str] | None = None
    limits: Limits | None = None
    entities: EntityTexts = None
    delivery_limits: DeliveryLimits | None = None

    def index(self) -> Index:
        """An empty index with these settings."""
        return Index(**vars(self))

    def text(self) -> str:
        """The same for settings that mean the same."""
        texts = dict(self.entities) if isinstance(self.entities, Mapping) else self.entities
        limits, deliveries = asdict(self.limits or Limits()), asdict(self.delivery_limits or DeliveryLimits())
        return json.dumps([dict(self.namespaces or {}), limits, texts, deliveries], sort_keys=True)


DEFAULTS = IndexSettings()
