"""A member's side of selective publishing, from the guide page `selective-security`: no code of treecast is used.

Slow and plain: every digest is computed anew for every package. It checks what a member may leave unchecked as well:
nonces, paddings, lengths, and the form of records.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV


class RefusalError(Exception):
    """The package is not accepted; the argument is the code that the page names."""


def joined(*fields: str | int | bytes) -> bytes:
    out = b""
    for field in fields:
        data = field if isinstance(field, bytes) else str(field).encode("utf-8")
        out += len(data).to_bytes(8, "big") + data
    return out


def derive(key: bytes, length: int, *purpose: str | int | bytes) -> bytes:
    """HKDF-SHA-256 of RFC 5869 for up to 32 bytes: one block is enough."""
    assert length <= 32
    extracted = hmac.digest(bytes(32), key, "sha256")
    return hmac.digest(extracted, joined("treecast selective 1", *purpose) + b"\x01", "sha256")[:length]


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def open_box(key: bytes, box: bytes, about: bytes) -> bytes:
    """Raises RefusalError (TC492)."""
    try:
        padded = AESGCMSIV(key).decrypt(box[:12], box[12:], about)
    except (InvalidTag, ValueError):
        raise RefusalError("TC492") from None
    assert len(padded) % 32 == 0, "boxes are filled up"
    data = padded[: padded.rindex(b"\x80")]
    assert not padded[len(data) + 1 :].strip(b"\x00") and len(padded) - len(data) <= 32
    assert box[:12] == derive(key, 12, "nonce", sha256(joined(about, data))), "nonces are derived"
    return data


def is_array(value: Any, *types: type) -> bool:
    return isinstance(value, list) and len(value) == len(types) and all(map(isinstance, value, types))


def is_all(values: list[Any], type: type) -> bool:
    return all(isinstance(value, type) for value in values)


class View:
    """What a member has of the view of its group."""

    def __init__(self, member: str, key: bytes, document: str, group: str, public_key: bytes) -> None:
        self.member, self.key, self.document, self.group = member, key, document, group
        self.public_key = Ed25519PublicKey.from_public_bytes(public_key)
        self.version = self.newest = 0
        self.group_keys: dict[int, bytes] = {}
        self.roots: list[bytes] = []
        self.entries: dict[bytes, list[Any]] = {}
        self.records: dict[bytes, bytes] = {}

    def take_envelope(self, epoch: int, box: bytes) -> None:
        data = open_box(self.key, box, joined("envelope", self.document, self.group, epoch, self.member))
        assert len(data) == 40
        self.group_keys[epoch] = data[:32]
        self.newest = max(self.newest, int.from_bytes(data[32:], "big"))

    def take_package(self, data: bytes) -> bool:
        """Whether there is something new. Raises RefusalError."""
        try:
            package = msgspec.msgpack.decode(data)
        except msgspec.MsgspecError:
            raise RefusalError("TC492") from None
        if not is_array(package, str, str, int, int, int, bytes, list) or not is_all(package[6], bytes):
            raise RefusalError("TC492")
        document, group, version, base, epoch, box, boxes = package
        if (document, group) != (self.document, self.group):
            raise RefusalError("TC492")
        if version and version == self.version:
            return False
        if version < self.version:
            raise RefusalError("TC494")
        if base > self.version:
            raise RefusalError("TC495")
        if epoch not in self.group_keys:
            raise RefusalError("TC496")
        about = joined("manifest", document, group, version, base, epoch)
        self._take_manifest(version, open_box(self.group_keys[epoch], box, about), boxes)
        return True

    def _take_manifest(self, version: int, data: bytes, boxes: list[bytes]) -> None:
        manifest = msgspec.msgpack.decode(data)
        if not is_array(manifest, bytes, list, list) or not is_all(manifest[1], bytes):
            raise RefusalError("TC492")
        signature, roots, new = manifest
        if len(new) != len(boxes):
            raise RefusalError("TC492")
        entries, records = dict(self.entries), dict(self.records)
        for entry, box in zip(new, boxes, strict=True):
            if not is_array(entry, bytes, bytes, int, bytes, list):
                raise RefusalError("TC492")
            token, _, _, key, _ = entry
            entries[token] = entry
            records[token] = open_box(key, box, joined("element", self.document, token))
        digests: dict[bytes, bytes] = {}
        for root in roots:
            self._compute_digests(root, entries, records, digests)
        whole = sha256(joined("treecast view 1", self.document, self.group, version, *(digests[one] for one in roots)))
        try:
            self.public_key.verify(signature, whole)
        except InvalidSignature:
            raise RefusalError("TC493") from None
        self.version, self.roots = version, roots
        self.entries = {token: entries[token] for token in digests}
        self.records = {token: records[token] for token in digests}

    def _compute_digests(
        self, root: bytes, entries: dict[bytes, list[Any]], records: dict[bytes, bytes], digests: dict[bytes, bytes]
    ) -> None:
        order: list[bytes] = []
        waiting = [(root, b"")]
        while waiting:
            token, above = waiting.pop()
            # An element that one comes by twice cannot have been signed: it would have two places.
            if token not in entries or entries[token][1] != above or len(order) > len(entries):
                raise RefusalError("TC493")
            order.append(token)
            waiting.extend((child, token) for child in entries[token][4])
        for token in reversed(order):
            _, above, version, _, children = entries[token]
            below = [digests[child] for child in children]
            digests[token] = sha256(
                joined("treecast element 1", self.document, token, above, version, records[token], *below)
            )

    # -- what is seen

    def fragments(self) -> list[bytes]:
        return [self._write(root, {"": ""}).encode("utf-8") for root in self.roots]

    def _write(self, token: bytes, in_force: dict[str, str]) -> str:
        name, attributes, spaces, gaps = json.loads(self.records[token])
        children = self.entries[token][4]
        assert len(gaps) == len(children) + 1 and sorted(spaces) == spaces
        new = {prefix: uri for prefix, uri in spaces if in_force.get(prefix) != uri}
        tag = "<" + name
        for prefix, uri in sorted(new.items()):
            tag += f' xmlns{":" + prefix if prefix else ""}="{escaped(uri)}"'
        tag += "".join(f' {attribute}="{escaped(value)}"' for attribute, value in attributes) + ">"
        inner = gaps[0]
        for child, gap in zip(children, gaps[1:], strict=True):
            inner += self._write(child, in_force | new) + gap
        return f"{tag}{inner}</{name}>"


def escaped(value: str) -> str:
    for plain, written in (
        ("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;"), ("\t", "&#x9;"), ("\n", "&#xA;"), ("\r", "&#xD;"),
    ):  # fmt: skip
        value = value.replace(plain, written)
    return value
