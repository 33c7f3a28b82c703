"""`Index`: subscriptions in, the ids and deliveries of each document out."""

from treecast.index.index import CACHE_BYTES_MAX, Index, Part, RenderedPart

__all__ = ["CACHE_BYTES_MAX", "Index", "Part", "RenderedPart"]
