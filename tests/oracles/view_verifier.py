"""A verifier of views, written from the guide page `selective-security` alone: no code of treecast is used."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV


def joined(*fields: Any) -> bytes:
    out = b""
    for field in fields:
        data = field if isinstance(field, bytes) else str(field).encode()
        out += len(data).to_bytes(8, "big") + data
    return out


def opened(key: bytes, box: bytes, about: bytes) -> bytes:
    padded = AESGCMSIV(key).decrypt(box[:12], box[12:], about)
    return padded[: padded.rindex(b"\x80")]


def verify(data: bytes, member: str, member_key: bytes, envelope: bytes, public_key: bytes) -> dict[bytes, list[Any]]:
    """Open a package of everything and verify it. Returns the JSON records by token."""
    document, group, version, base, epoch, signature, box, boxes = msgspec.msgpack.decode(data)
    assert base == 0, "this verifier starts anew every time"
    group_key = opened(member_key, envelope, joined("envelope", group, epoch, member))
    manifest = opened(group_key, box, joined("manifest", document, group, version, base, epoch))
    fragments, entries = msgspec.msgpack.decode(manifest)
    assert len(entries) == len(boxes)
    records = {
        token: opened(key, one, joined("element", document, token))
        for (token, _, _, key, _), one in zip(entries, boxes, strict=True)
    }
    by_token = {entry[0]: entry for entry in entries}

    def digest(token: bytes, above: bytes) -> bytes:
        _, parent, changed, _, children = by_token[token]
        assert parent == above
        below = [digest(child, token) for child in children]
        return hashlib.sha256(
            joined("treecast element 1", document, token, parent, changed, records[token], *below)
        ).digest()

    tops = [digest(token, b"") for token in fragments]
    whole = hashlib.sha256(joined("treecast view 1", document, group, version, *tops)).digest()
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, whole)
    except InvalidSignature:
        raise AssertionError("not what the publisher signed") from None
    return {token: msgspec.json.decode(record) for token, record in records.items()}
