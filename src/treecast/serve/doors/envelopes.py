"""A delivery as JSON: the same envelope for event streams and pulls.

>>> made = envelope("5f1c", 7, 0, "sport", b"<goal/>")
>>> made.document, made.subscription, made.payload, made.published
(7, 'sport', '<goal/>', '1970-01-01T00:00:00.000Z')
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import msgspec

from treecast.catalog.delivery_ids import delivery_id

CONTENT_TYPE = "application/xml"


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """`delivery` is the same whenever this delivery comes again. `payload` is text, or base64 if `payload_encoding`
    says so. `attempt` counts from 1, for deliveries that are acknowledged."""

    delivery: str
    document: int
    subscription: str
    content_type: str
    payload: str
    published: str
    payload_encoding: str = ""
    attempt: int = 0


encode = msgspec.json.Encoder().encode


def envelope(
    store: str, document: int, published_ms: int, subscription: str, payload: bytes, attempt: int = 0
) -> Envelope:
    try:
        text, encoding = payload.decode(), ""
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(payload).decode(), "base64"
    id = delivery_id(store, document, subscription)
    return Envelope(id, document, subscription, CONTENT_TYPE, text, timestamp(published_ms), encoding, attempt)


def timestamp(time_ms: int) -> str:
    """As RFC 3339 writes it, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
