"""What travels from a publisher to the members of a group: a view, or what has changed in it, sealed and signed.

A package has a header that everybody on the way may read (document, group, version), a manifest that only the group can
open, and elements, each of which has its own key, which is in the manifest. The manifest has the publisher's
signature, and says how elements hang together, by tokens that mean nothing to others. The signature must not be seen on
the way: a former member, who knows the rest of the view, could try out with it what an element says now.

    >>> from treecast.selective.package import Manifest, decode_manifest, encode
    >>> decode_manifest(encode(Manifest(b"s", [b"t"], [])))
    Manifest(signature=b's', fragments=[b't'], entries=[])
"""

from __future__ import annotations

import msgspec

from treecast.selective.keys import join, refusal


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One element in a manifest."""

    token: bytes
    parent: bytes
    """Empty for the root of a fragment."""
    version: int
    key: bytes
    children: list[bytes]


class Manifest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The fragments of a view in order, and the elements that are new or have changed."""

    signature: bytes
    """Of the digest of the whole view, by the publisher."""
    fragments: list[bytes]
    entries: list[Entry]


class Package(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A view, or what has changed in it since `base`."""

    document: str
    group: str
    version: int
    base: int
    """The package contains everything that has changed after this version; 0 is everything."""
    epoch: int
    """Of the group's key that opens the manifest."""
    manifest: bytes
    elements: list[bytes]
    """Sealed records, in the order of the entries of the manifest."""

    def about(self) -> bytes:
        """What the seal of the manifest is bound to."""
        return manifest_about(self.document, self.group, self.version, self.base, self.epoch)


def manifest_about(document: str, group: str, version: int, base: int, epoch: int) -> bytes:
    return join(("manifest", document, group, version, base, epoch))


def element_about(document: str, token: bytes) -> bytes:
    """What the seal of an element is bound to."""
    return join(("element", document, token))


_encoder = msgspec.msgpack.Encoder()
_packages = msgspec.msgpack.Decoder(Package)
_manifests = msgspec.msgpack.Decoder(Manifest)


def encode(value: Package | Manifest) -> bytes:
    return _encoder.encode(value)


def decode_package(data: bytes) -> Package:
    """Raises PeerError (TC492)."""
    try:
        return _packages.decode(data)
    except (msgspec.MsgspecError, ValueError):  # ValueError: a text that is no UTF-8
        raise refusal("TC492", "this is not a package of a view", "it was altered on its way") from None


def decode_manifest(data: bytes) -> Manifest:
    """Raises PeerError (TC492)."""
    try:
        return _manifests.decode(data)
    except msgspec.MsgspecError:
        raise refusal("TC492", "the manifest of a package is broken", "it was altered on its way") from None
