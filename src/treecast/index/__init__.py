"""`Index`: subscriptions in, the ids and deliveries of each document out."""

from treecast.index.index import CACHE_BYTES_MAX, Index
from treecast.index.matching import Part
from treecast.index.rendering import RenderedPart

__all__ = ["CACHE_BYTES_MAX", "Index", "Part", "RenderedPart"]
