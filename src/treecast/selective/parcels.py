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

from collections.abc import Mapping
from hashlib import sha256
from typing import TypeVar

import msgspec

from treecast.errors import AccessError, PeerError
from treecast.selective.group_view import GroupView
from treecast.selective.key_chain import chain_key
from treecast.selective.keys import join, refusal, seal
from treecast.selective.package import Entry, element_about
from treecast.selective.publisher import Publisher
from treecast.selective.view import TOP

VERSION_BYTES = 8
VERSION_SHIFT = 16
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


def pass_of(publisher: Publisher, tree: str, member: str, epoch: int) -> bytes:
    """A pass: the epoch, and a signature."""
    return epoch.to_bytes(VERSION_BYTES, "big") + publisher.sign(pass_digest(tree, member, epoch))


def pass_epoch(proof: bytes) -> int:
    """The epoch of a pass; 0 if it is none."""
    return int.from_bytes(proof[:VERSION_BYTES], "big") if len(proof) > VERSION_BYTES else 0


def pass_signature(proof: bytes) -> bytes:
    return proof[VERSION_BYTES:]


class Parcels:
    """The view of one group as parcels.

    Versions in a network leave room between those of the view: a seal may come between two of them, when somebody asks
    for its own subtree, and the others in the group are not sent anything for that.
    """

    def __init__(self, publisher: Publisher, group: str, watches: Mapping[int, int] | None = None) -> None:
        self._publisher = publisher
        self._group = group
        self.watches: dict[int, int] = dict(watches or {})
        """Elements of the view whose subtrees have seals of their own, and the versions since which they have."""

    @property
    def view(self) -> GroupView:
        return self._publisher.view(self._group)

    @property
    def tree(self) -> str:
        return tree_name(self._publisher.name, self._group)

    @property
    def version(self) -> int:
        return max([self.view.version << VERSION_SHIFT, *self.watches.values()])

    def epoch(self) -> int:
        return self._publisher.policies.epoch(self._group)

    def watch(self, id: int) -> bool:
        """Give a subtree a seal of its own; says whether it is new. Raises AccessError (TC633)."""
        if id in self.watches:
            return False
        if len(self.watches) >= WATCHES_MAX:
            hint = "ask for larger subtrees, or for the whole view"
            message = f"TC633 {WATCHES_MAX} subtrees of this view are asked for already\n  hint: {hint}"
            raise AccessError(message, code="TC633", hint=hint)
        self.watches[id] = self.version + 1
        return True

    def forget_removed(self) -> None:
        """Watches of elements that are no longer there end."""
        self.watches = {id: version for id, version in self.watches.items() if id in self.view.outline}

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
        """Version and payload of the parcels that have changed after a version of these parcels."""
        view = self.view
        group_key = chain_key(self._publisher.keys, self._publisher.name, self._group, self.epoch())
        parcels: dict[int, tuple[int, bytes]] = {}
        for one in view.changes(since >> VERSION_SHIFT):
            parcels[body_id(one.id)] = (one.version << VERSION_SHIFT, self._parcel(one.id, group_key))
        if view.version << VERSION_SHIFT > since:
            tops = [one.token for one in view.fragments()]
            signed = Signed(view.version, self._publisher.sign(view.digest()), tops)
            parcels[seal_id(TOP)] = (view.version << VERSION_SHIFT, self._seal(TOP, signed, group_key))
        for id, first in sorted(self.watches.items()):
            changed_in = max(view.entry(one).version for one in view.outline.subtree(id))
            version = max(changed_in << VERSION_SHIFT, first)
            if version > since:
                parcels[seal_id(id)] = (version, self._seal(id, self._sign(id, changed_in), group_key))
        return parcels

    def _sign(self, id: int, version: int) -> Signed:
        publisher, token = self._publisher, self.view.entry(id).token
        digest = subtree_digest(publisher.name, self._group, version, token, self.view.subtree_digest(id))
        return Signed(version, publisher.sign(digest), [token])

    def _seal(self, id: int, signed: Signed, group_key: bytes) -> bytes:
        epoch = self.epoch()
        context = seal_about(self._publisher.name, self._group, epoch, id)
        return encode(Seal(epoch, seal(group_key, encode(signed), context)))

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
            context = letter_about(publisher.name, group, epoch, member)
            proof = pass_of(publisher, tree_name(publisher.name, group), member, epoch)
            letters[group] = Letter(epoch, seal(publisher.keys.member(member), key, context), proof)
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
    except (msgspec.MsgspecError, ValueError):  # ValueError: a text that is no UTF-8
        raise alteration_error() from None


def alteration_error() -> PeerError:
    return refusal("TC492", "a parcel of a view cannot be opened", "it was altered on its way, or is for others")


Payloads = Mapping[int, tuple[int, bytes]]
"""Version and payload of parcels, by their numbers in the tree."""
