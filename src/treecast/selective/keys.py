"""Keys of selective publishing: one secret of the publisher, and what is derived from it for whom.

    publisher's secret ──HKDF──► the key of a group of a document, by epoch   opens the manifests of the group's view
                       ├─HKDF──► the key of a member                          opens the member's envelopes
                       └─HKDF──► the key of an element of a view, by version  opens that element

A member gets its key once, by a safe way of its own. Everything else travels through brokers that nobody trusts: the
key of a group in *envelopes*, one for each member and epoch, and the keys of elements in manifests. Whoever is taken
out of a group gets no envelope of its next epoch. An envelope also says which version the view has, so that a new
member notices if it is given an older one.

    >>> from treecast.selective.keys import Keys, open_envelope
    >>> keys = Keys(bytes(32))
    >>> envelope = keys.envelope("paper", "news", epoch=1, member="ann", version=7)
    >>> key, version = open_envelope(keys.member("ann"), "paper", "news", 1, "ann", envelope)
    >>> key == keys.group("paper", "news", 1), version
    (True, 7)
    >>> open_envelope(keys.member("bob"), "paper", "news", 1, "bob", envelope)
    Traceback (most recent call last):
    treecast.errors.PeerError: TC492 the envelope for bob cannot be opened
      hint: it was altered on its way, or is not for this key

AES-256-GCM-SIV, HKDF and Ed25519 are those of `cryptography`. Nothing is random here: nonces are derived from what is
encrypted, which GCM-SIV allows, so that equal calls give equal bytes. They are derived with the key: a nonce travels in
clear, and a plain hash of the content would let anybody who knows the rest try out what an element says.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from treecast.errors import PeerError

KEY_BYTES = 32
TOKEN_BYTES = 16
NONCE_BYTES = 12
VERSION_BYTES = 8
PAD_BYTES = 32
"""What is encrypted is filled up to a multiple of this, so that its length tells less."""


def join(fields: Iterable[str | bytes | int]) -> bytes:
    """Fields as bytes, each behind its length: no two lists of fields give the same bytes."""
    parts: list[bytes] = []
    for field in fields:
        data = field if isinstance(field, bytes) else str(field).encode()
        parts += (len(data).to_bytes(8, "big"), data)
    return b"".join(parts)


def derive(secret: bytes, *purpose: str | bytes | int, length: int = KEY_BYTES) -> bytes:
    """A key for one purpose."""
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=join(("treecast selective 1", *purpose))).derive(
        secret
    )


def seal(key: bytes, data: bytes, about: bytes) -> bytes:
    """Encrypt. `about` is not part of it, but must be the same when it is opened."""
    padded_data = data + b"\x80" + b"\x00" * (-(len(data) + 1) % PAD_BYTES)
    nonce = derive(key, "nonce", sha256(join((about, data))).digest(), length=NONCE_BYTES)
    return nonce + AESGCMSIV(key).encrypt(nonce, padded_data, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes | None:
    """Decrypt; None if the key is another one or anything was altered."""
    try:
        padded_data = AESGCMSIV(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], about)
    except (InvalidTag, ValueError):
        return None
    return padded_data.rstrip(b"\x00")[:-1]


class Keys:
    """What a publisher derives from its secret."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < KEY_BYTES:
            raise ValueError(f"the secret of a publisher has {KEY_BYTES} bytes or more")
        self._secret = secret

    def member(self, member: str) -> bytes:
        """The key that a member gets, once, on a way that is safe."""
        return derive(self._secret, "member", member)

    def group(self, document: str, group: str, epoch: int) -> bytes:
        """The key of a group. Groups of the same name have nothing to do with each other in two documents."""
        return derive(self._secret, "group", document, group, epoch)

    def envelope(self, document: str, group: str, epoch: int, member: str, version: int) -> bytes:
        """The key of a group, for the eyes of a member, with the version that the view of the group has."""
        data = self.group(document, group, epoch) + version.to_bytes(VERSION_BYTES, "big")
        return seal(self.member(member), data, envelope_about(document, group, epoch, member))

    def token(self, document: str, group: str, id: int) -> bytes:
        """The name of an element for everybody else: it tells nothing, neither its place nor how many there are."""
        return derive(self._secret, "token", document, group, id, length=TOKEN_BYTES)

    def chain(self, document: str, group: str) -> bytes:
        """The end of the chain of a group's keys in a network (`treecast.selective.key_chain`)."""
        return derive(self._secret, "chain", document, group)

    def mailbox(self, document: str, member: str) -> bytes:
        """Where a member finds its letters in a network: a number that nobody can guess."""
        return derive(self._secret, "mailbox", document, member, length=TOKEN_BYTES)

    def element(self, document: str, token: bytes, version: int) -> bytes:
        """The key of an element of a view, from the version in which it changed until it changes again."""
        return derive(self._secret, "element", document, token, version)


def envelope_about(document: str, group: str, epoch: int, member: str) -> bytes:
    """What the seal of an envelope is bound to."""
    return join(("envelope", document, group, epoch, member))


def open_envelope(key: bytes, document: str, group: str, epoch: int, member: str, envelope: bytes) -> tuple[bytes, int]:
    """The key of a group, and the version that its view had, from an envelope."""
    content = unseal(key, envelope, envelope_about(document, group, epoch, member))
    if content is None or len(content) != KEY_BYTES + VERSION_BYTES:
        raise refusal(
            "TC492", f"the envelope for {member} cannot be opened", "it was altered on its way, or is not for this key"
        )
    return content[:KEY_BYTES], int.from_bytes(content[KEY_BYTES:], "big")


def refusal(code: str, message: str, hint: str) -> PeerError:
    """What a subscriber raises about something that did not come from the publisher as it is."""
    return PeerError(f"{code} {message}\n  hint: {hint}", code=code, hint=hint)
