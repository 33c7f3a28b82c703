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
from treecast.overlay.receiver import Delivery

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
    store: str,
    document: int,
    published_ms: int,
    subscription: str,
    payload: bytes,
    attempt: int = 0,
    origin: tuple[str, int] = ("", 0),
) -> Envelope:
    """`origin`: in a network, the store and number of the document where it was published, if not at this broker."""
    try:
        text, encoding = payload.decode(), ""
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(payload).decode(), "base64"
    id = delivery_id(origin[0] or store, origin[1] or document, subscription)
    return Envelope(id, document, subscription, CONTENT_TYPE, text, timestamp(published_ms), encoding, attempt)


def envelope_of(delivery: Delivery, attempt: int = 0) -> Envelope:
    """That of a delivery of a session."""
    d = delivery
    origin = (d.origin, d.origin_number)
    return envelope(d.store, d.document, d.published_ms, d.subscription, d.payload, attempt, origin)


def timestamp(time_ms: int) -> str:
    """As RFC 3339 writes it, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
