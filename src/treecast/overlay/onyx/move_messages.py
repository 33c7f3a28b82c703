"""The messages by which a subscription goes from one broker of a network to another. All of them are repeated.

`Offer` is answered with `Accept` when the new host is covered, or with `Cancel`; `Accept` with `Hand` when the old host
has all that it has to deliver itself, or with `Cancel` if it does not want to any more; `Hand` with `Handed`, and that
with `Close`: before it, the new host does not hand the subscription on.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from treecast.overlay.messages import Name, Number

ITEMS_MAX = 10_000
STORES_MAX = 1_000


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """Array-like: fields travel by position. New fields go to the end, with a default."""


class HandItem(_Message, frozen=True):
    """A delivery that the old host has not done: a document of the store `origin`, which has this number there."""

    origin: Name
    origin_number: Number
    published_ms: Number
    payload: bytes


class Offer(_Message, frozen=True, tag="offer"):
    """From the old host: will you have this subscription? `row` is what it stores of it; `move` names this attempt."""

    id: Name
    move: Number
    row: bytes


class Accept(_Message, frozen=True, tag="accept"):
    """From the new host: from now on it delivers what the subscription matches, of each store after this number.
    What is before that, and not delivered, is to come from the old host."""

    id: Name
    move: Number
    cuts: Annotated[dict[Name, Number], msgspec.Meta(max_length=STORES_MAX)]


class Hand(_Message, frozen=True, tag="hand"):
    """From the old host, which does not have the subscription any more: what it has not delivered, in order."""

    id: Name
    move: Number
    row: bytes
    items: Annotated[list[HandItem], msgspec.Meta(max_length=ITEMS_MAX)]


class Handed(_Message, frozen=True, tag="handed"):
    """From the new host: it has everything, durably."""

    id: Name
    move: Number


class Close(_Message, frozen=True, tag="close-move"):
    """From the old host: nothing more comes of this move."""

    id: Name
    move: Number


class Cancel(_Message, frozen=True, tag="cancel"):
    """The subscription stays with its old host."""

    id: Name
    move: Number


MoveMessage = Offer | Accept | Hand | Handed | Close | Cancel
