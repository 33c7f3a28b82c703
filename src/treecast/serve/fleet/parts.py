"""Bodies that are too large for one message of NATS: cut into parts, which are stored under the hash of the whole.

NATS takes messages up to `max_payload` (1 MiB, unless it is told otherwise). A body has its parts once, however many
documents and deliveries refer to it.
"""

from __future__ import annotations

import hashlib

from treecast.serve.fleet.backbone import STATUS, Backbone, Outgoing
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.records import PARTS

ROOM_BYTES = 32 << 10
"""In a message, for all that is not the body."""


class Parts:
    """Stores large bodies, and reads them again."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone

    def part_bytes(self) -> int:
        return max(int(self._backbone.client.max_payload) - ROOM_BYTES, 1_024)

    def is_large(self, body: bytes) -> bool:
        return len(body) > self.part_bytes()

    async def put(self, body: bytes, *, within_ms: int = 0) -> str:
        """Store a body; returns its key. Raises BackboneError."""
        size = self.part_bytes()
        hash = hashlib.sha256(body).hexdigest()
        key = f"{hash}-{len(body)}-{size}"
        names = self._backbone.names
        parts = [
            Outgoing(names.part(key, place), body[start : start + size], f"{key}-{place}")
            for place, start in enumerate(range(0, len(body), size))
        ]
        await self._backbone.store(parts, within_ms=within_ms)
        return key

    async def get(self, key: str) -> bytes:
        """Raises BackboneError if it is not there, or not what was stored."""
        hash, _, rest = key.partition("-")
        length, _, size = rest.partition("-")
        stream = self._backbone.names.stream(PARTS)
        body = bytearray()
        for place in range(-(-int(length) // int(size))):
            subject = self._backbone.names.part(key, place)
            message = await self._backbone.request(f"$JS.API.DIRECT.GET.{stream}.{subject}", b"", retries=True)
            if message.headers and STATUS in message.headers:
                raise BackboneError(f"a part of the body {key[:16]} is gone", code="TC424")
            body += message.data
        if hashlib.sha256(body).hexdigest() != hash:
            raise BackboneError(f"the body {key[:16]} is damaged", code="TC422")
        return bytes(body)
