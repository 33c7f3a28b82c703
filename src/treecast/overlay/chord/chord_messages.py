"""The messages of a ring: questions with a nonce, and answers that repeat it. Any of them may be lost."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from treecast.overlay.chord.identifiers import place_of_member
from treecast.overlay.messages import ITEMS_MAX, Name, Number, Text

MEMBERS_MAX = 1_000
_ENTRIES = msgspec.Meta(max_length=ITEMS_MAX)


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A place on the ring, and whose it is."""

    place: Number
    peer: Name
    index: Number = 0


def member_of(peer: str, index: int = 0) -> Member:
    return Member(place_of_member(peer, index), peer, index)


def is_genuine(member: Member) -> bool:
    """Nobody chooses a place: it follows from the name."""
    return member.place == place_of_member(member.peer, member.index)


Members = Annotated[list[Member], msgspec.Meta(max_length=MEMBERS_MAX)]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A value under a key. Whoever writes an entry is its only writer, and gives it growing versions."""

    key: Text
    id: Text
    version: Number
    value: bytes = b""
    is_removed: bool = False


Entries = Annotated[list[Entry], _ENTRIES]


class _ChordMessage(msgspec.Struct, frozen=True, array_like=True):
    """Array-like: fields travel by position. New fields go to the end, with a default."""


# --- the ring ---------------------------------------------------------------------------------------------------------


class AskNeighbours(_ChordMessage, frozen=True, tag="ring-ask"):
    """To a member: who are your neighbours? Also: are you there?"""

    nonce: Number
    index: Number


class Neighbours(_ChordMessage, frozen=True, tag="ring-neighbours"):
    nonce: Number
    is_member: bool
    predecessor: Member | None = None
    successors: Members = []


class Notify(_ChordMessage, frozen=True, tag="ring-notify"):
    """To a successor: I believe that I am your predecessor."""

    index: Number
    member: Member


class Leaving(_ChordMessage, frozen=True, tag="ring-leaving"):
    """To whoever may name me as a successor: I am a member no more."""

    member: Member


class Find(_ChordMessage, frozen=True, tag="ring-find"):
    """Who owns this place, or who is nearer to it than you?"""

    nonce: Number
    place: Number


class Step(_ChordMessage, frozen=True, tag="ring-step"):
    """`via` is the owner's predecessor and `members` its successors, the owner first; or, if `via` is None, members
    that are nearer, the nearest first."""

    nonce: Number
    via: Member | None
    members: Members


# --- entries ----------------------------------------------------------------------------------------------------------


class Write(_ChordMessage, frozen=True, tag="ring-write"):
    """To the owner of a key: store entries of that key, and say so when enough peers have them on disk."""

    nonce: Number
    key: Text
    entries: Entries


Answer = Literal["stored", "misplaced", "busy", "unsafe"]


class Written(_ChordMessage, frozen=True, tag="ring-written"):
    """stored: durable on `replicas` peers. misplaced: not my key. busy: too much at once. unsafe: too few copies."""

    nonce: Number
    answer: Answer


class CopyEntries(_ChordMessage, frozen=True, tag="ring-copy"):
    """From an owner, whose range begins after `after`, to one who is to hold copies."""

    nonce: Number
    owner: Member
    after: Number
    entries: Entries


class Copied(_ChordMessage, frozen=True, tag="ring-copied"):
    """They are on disk."""

    nonce: Number


class Claim(_ChordMessage, frozen=True, tag="ring-claim"):
    """From an owner to one who is to hold copies: is this what you have in (begin, end], a part of my range?"""

    nonce: Number
    owner: Member
    after: Number
    begin: Number
    end: Number
    digest: Number
    count: Number


class Holding(_ChordMessage, frozen=True, tag="ring-holding"):
    """same: yes. many: no, and it is too much for one message. differs: no, this is what I have there."""

    nonce: Number
    answer: Literal["same", "many", "differs"]
    entries: Entries = []


RingMessage = (
    AskNeighbours | Neighbours | Notify | Leaving | Find | Step
    | Write | Written | CopyEntries | Copied | Claim | Holding
)  # fmt: skip
ANSWERS = (Neighbours, Step, Written, Copied, Holding)
