"""What of a group's view travels through a network: every element a parcel of its own, which stands alone.

A package (`treecast.selective.package`) goes to one group as a whole. Brokers of a network route *subtrees*, so here
each element is sealed by itself, and brokers see a tree of numbers with boxes:

    0          the view: no box
    1            its seal: the version and the signature of the whole view
    2 * id       an element: its place (tokens of parent and children) and its record
    2 * id + 1     the seal of its subtree, if somebody asked for that subtree alone

The record has the key of the element; the place, with that key in it, has the key of the group and epoch
(`key_chain`). A seal has the same signature as a package has, or that of a subtree.

    >>> from treecast.selective.parcels import body_id, seal_id
    >>> body_id(0), seal_id(0), body_id(7), seal_id(7)
    (0, 1, 14, 15)

Ids count the elements of the view, as its versions count its changes: neither tells anything of what is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TypeVar

import msgspec

from treecast.errors import PeerError
from treecast.selective.group_view import TOP, GroupView
from treecast.selective.key_chain import chain_key
from treecast.selective.keys import join, refusal, seal
from treecast.selective.package import Entry, element_about
from treecast.selective.publisher import Publisher

VERSION_BYTES = 8
WATCHES_MAX = 10_000
"""Subtrees of one group's view that are sealed for themselves."""


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """An element on its way."""

    epoch: int
    place: bytes
    """An `Entry`, sealed with the key of the group."""
    record: bytes


class Signed(msgspec.Struct, frozen=True, array_like=True):
    """What a seal holds."""

    version: int
    signature: bytes
    tops: list[bytes]
    """The tokens of the fragments, or of the root of the subtree."""


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """A seal on its way."""

    epoch: int
    signed: bytes


class Letter(msgspec.Struct, frozen=True, array_like=True):
    """What a member gets for one group: its key in an epoch, sealed for the member, and a pass for brokers."""

    epoch: int
    key: bytes
    """Sealed: the key, and the version of the view as it was written, so that an older one is not taken for new."""
    proof: bytes


class Mail(msgspec.Struct, frozen=True, array_like=True):
    """All letters of a member, by group."""

    letters: dict[str, Letter]


def body_id(id: int) -> int:
    return 2 * id


def seal_id(id: int) -> int:
    return 2 * id + 1


def tree_name(document: str, group: str) -> str:
    """The name of the tree of a group's view in a network; with no group, that of the mail."""
    return join((document, group)).hex() if group else join((document,)).hex()


def place_about(document: str, group: str, epoch: int) -> bytes:
    return join(("place", document, group, epoch))


def seal_about(document: str, group: str, epoch: int, id: int) -> bytes:
    return join(("seal", document, group, epoch, id))


def letter_about(document: str, group: str, epoch: int, member: str) -> bytes:
    return join(("letter", document, group, epoch, member))


def subtree_digest(document: str, group: str, version: int, token: bytes, digest: bytes) -> bytes:
    """What is signed for a subtree that is asked for alone."""
    return sha256(join(("treecast subtree 1", document, group, version, token, digest))).digest()


def pass_digest(tree: str, member: str, epoch: int) -> bytes:
    """What a pass signs: this member may have this tree, in this epoch."""
    return sha256(join(("treecast pass 1", tree, member, epoch))).digest()


class Parcels:
    """The view of one group as parcels."""

    def __init__(self, publisher: Publisher, group: str, watches: Iterable[int] = ()) -> None:
        self._publisher = publisher
        self._group = group
        self.watches: set[int] = set(watches)
        """Ids of elements of the view whose subtrees have seals of their own."""

    @property
    def view(self) -> GroupView:
        return self._publisher.view(self._group)

    @property
    def tree(self) -> str:
        return tree_name(self._publisher.name, self._group)

    def epoch(self) -> int:
        return self._publisher.policies.epoch(self._group)

    def rows(self) -> list[tuple[int, int]]:
        """The tree that brokers see: (id, parent) in document order."""
        rows = [(body_id(TOP), -1), (seal_id(TOP), body_id(TOP))]
        outline = self.view.outline
        for id in outline:
            parent = outline.parent(id)
            if parent is None:
                continue
            rows.append((body_id(id), body_id(parent)))
            if id in self.watches:
                rows.append((seal_id(id), body_id(id)))
        return rows

    def changes(self, since: int) -> dict[int, tuple[int, bytes]]:
        """Version and payload of the parcels that have changed after a version of the view."""
        view = self.view
        self.watches.intersection_update(view.outline)
        group_key = chain_key(self._publisher.keys, self._publisher.name, self._group, self.epoch())
        found = {body_id(one.id): (one.version, self._parcel(one.id, group_key)) for one in view.changes(since)}
        if view.version > since:
            tops = [one.token for one in view.fragments()]
            signature = self._publisher.sign(view.digest())
            found[seal_id(TOP)] = (view.version, self._seal(TOP, Signed(view.version, signature, tops), group_key))
        for id, version in self._watch_versions():
            if version > since:
                found[seal_id(id)] = (version, self._seal(id, self._sign(id, version), group_key))
        return found

    def _watch_versions(self) -> Iterator[tuple[int, int]]:
        """The version in which the subtree of each watch last changed."""
        for id in sorted(self.watches):
            yield id, max(self.view.entry(one).version for one in self.view.outline.subtree(id))

    def watch_seal(self, id: int) -> tuple[int, bytes]:
        """Version and payload of the seal of one watch."""
        version = max(self.view.entry(one).version for one in self.view.outline.subtree(id))
        group_key = chain_key(self._publisher.keys, self._publisher.name, self._group, self.epoch())
        return version, self._seal(id, self._sign(id, version), group_key)

    def _sign(self, id: int, version: int) -> Signed:
        publisher, token = self._publisher, self.view.entry(id).token
        digest = subtree_digest(publisher.name, self._group, version, token, self.view.subtree_digest(id))
        return Signed(version, publisher.sign(digest), [token])

    def _seal(self, id: int, signed: Signed, group_key: bytes) -> bytes:
        epoch = self.epoch()
        about = seal_about(self._publisher.name, self._group, epoch, id)
        return encode(Seal(epoch, seal(group_key, encode(signed), about)))

    def _parcel(self, id: int, group_key: bytes) -> bytes:
        view, name, epoch = self.view, self._publisher.name, self.epoch()
        one = view.entry(id)
        place = Entry(
            one.token, view.parent_token(id), one.version, one.key, [child.token for child in view.children(id)]
        )
        box = seal(group_key, encode(place), place_about(name, self._group, epoch))
        return encode(Parcel(epoch, box, seal(one.key, one.record, element_about(name, one.token))))


def mail_for(publisher: Publisher, member: str) -> bytes:
    """The letters of a member for all groups that it belongs to."""
    letters: dict[str, Letter] = {}
    for group in publisher.policies.groups():
        if member in publisher.policies.members(group):
            epoch = publisher.policies.epoch(group)
            version = publisher.version(group) if publisher.has_view(group) else 0
            key = chain_key(publisher.keys, publisher.name, group, epoch) + version.to_bytes(VERSION_BYTES, "big")
            about = letter_about(publisher.name, group, epoch, member)
            proof = publisher.sign(pass_digest(tree_name(publisher.name, group), member, epoch))
            letters[group] = Letter(epoch, seal(publisher.keys.member(member), key, about), proof)
    return encode(Mail(letters))


def mailbox(publisher: Publisher, member: str) -> int:
    """The number of a member's mailbox. Only the member is told; it is no number that can be guessed."""
    return 1 + int.from_bytes(publisher.keys.mailbox(publisher.name, member)[:6], "big")


_encoder = msgspec.msgpack.Encoder()
Kind = TypeVar("Kind", Parcel, Seal, Signed, Mail, Entry)


def encode(value: Parcel | Seal | Signed | Mail | Entry) -> bytes:
    return _encoder.encode(value)


def decode(data: bytes, kind: type[Kind]) -> Kind:
    """Raises PeerError (TC492)."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError:
        raise altered() from None


def altered() -> PeerError:
    return refusal("TC492", "a parcel of a view cannot be opened", "it was altered on its way, or is for others")


Payloads = Mapping[int, tuple[int, bytes]]
"""Version and payload of parcels, by their numbers in the tree."""
