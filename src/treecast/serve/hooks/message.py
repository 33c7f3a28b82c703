"""A delivery as the request that carries it: body, headers, signatures.

The body is the same for every attempt, and so is `webhook-id`: whoever acts once for each id acts exactly once.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from treecast.overlay.receiver import Delivery
from treecast.serve.doors.envelopes import CONTENT_TYPE, Envelope, envelope_of, timestamp
from treecast.serve.hooks.rows import HookRow
from treecast.serve.hooks.signing import sign

EVENT_TYPE = "delivery"


class HookMessage(msgspec.Struct, frozen=True):
    """What is sent: `data` is the envelope of the delivery, `timestamp` when its document was published."""

    type: str
    timestamp: str
    data: Envelope


_encode = msgspec.json.Encoder().encode


def request_of(delivery: Delivery, row: HookRow, now_ms: int) -> tuple[dict[str, str], bytes]:
    """Headers and body, signed with all secrets that sign at this time."""
    headers = {"webhook-timestamp": str(now_ms // 1000)}
    if row.format == "raw":
        id, body = delivery.id, delivery.payload
        headers["content-type"] = CONTENT_TYPE
        headers["treecast-document"] = str(delivery.document)
        headers["treecast-subscription"] = quote(delivery.subscription, safe="")
        headers["treecast-published"] = timestamp(delivery.published_ms)
    else:
        envelope = envelope_of(delivery)
        id, body = envelope.delivery, _encode(HookMessage(EVENT_TYPE, envelope.published, envelope))
        headers["content-type"] = "application/json"
    headers["webhook-id"] = id
    headers["webhook-signature"] = sign(row.signing_secrets(now_ms), id, now_ms // 1000, body)
    return headers, body
