"""The messages between the source of a document, brokers of all levels, and subscribers. Each may be lost or doubled.

presence, outline             who is there, and what the document looks like
inquiry, offer                which neighbour upwards is the best to ask for a subtree
wants, grant                  all that one neighbour asks of another, and that it will come
update, receipt               elements that have changed, and up to which version they have arrived
of tree                       any of these, in a network that carries several trees; and how their outlines change
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from treecast.overlay.messages import ITEMS_MAX, Number

_MANY = msgspec.Meta(max_length=ITEMS_MAX)
ELEMENTS_MAX = 2_000_000
"""Elements of a document, and in one message."""
_ELEMENTS = msgspec.Meta(max_length=ELEMENTS_MAX)


class _Message(msgspec.Struct, frozen=True, array_like=True):
    """Array-like: fields travel by position. New fields go to the end, with a default."""


class Presence(_Message, frozen=True, tag="sel-presence"):
    """I am here. Sent now and then; `incarnation` is another one after a restart."""

    rank: Number
    incarnation: Number
    asks: bool
    """Whether the other one should say at once that it is there, too."""
    needs_outline: bool = False
    address: Annotated[str, msgspec.Meta(max_length=300)] = ""
    """Where the sender can be reached, if that is known."""


class OutlineParents(_Message, frozen=True, tag="sel-outline"):
    """The structure of the document: the parent of each element in document order."""

    parents: Annotated[list[int], _ELEMENTS]


class Rights(_Message, frozen=True):
    """What brokers that face subscribers go by: a pass must be signed with this key, for this epoch."""

    epoch: Number = 0
    key: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """Empty: no pass is asked for, but nobody may ask for the whole tree."""


class Inquiry(_Message, frozen=True, tag="sel-inquiry"):
    """How near is this subtree to what you have? `round` is unique for the one who asks."""

    round: Number
    root: Number


class Offer(_Message, frozen=True, tag="sel-offer"):
    """The answer: edges between the subtree and the nearest one that is there; 0 if that contains it."""

    round: Number
    distance: Number


class Want(_Message, frozen=True):
    """A subtree without some inside it, and the version up to which it is known already."""

    root: Number
    without: Annotated[list[int], _MANY]
    position: Number


class Wants(_Message, frozen=True, tag="sel-wants"):
    """All that the sender asks of the receiver, in place of what it asked before. Repeated now and then."""

    incarnation: Number
    serial: Number
    wants: Annotated[list[Want], _MANY]
    edition: Number = 0
    """Of the outline that the sender speaks of."""
    proof: Annotated[bytes, msgspec.Meta(max_length=1_000)] = b""
    """A subscriber's pass."""


class Grant(_Message, frozen=True, tag="sel-grant"):
    """The wants of this serial will be served, except for those that are refused."""

    incarnation: Number
    serial: Number
    refused: Annotated[list[Want], _MANY]


class ElementState(_Message, frozen=True):
    """An element as it is since a version of the document. What its payload means is the publisher's affair."""

    id: Number
    version: Number
    payload: bytes


class Update(_Message, frozen=True, tag="sel-update"):
    """What has changed in a subtree after `base`, up to `upto`."""

    root: Number
    without: Annotated[list[int], _MANY]
    base: Number
    upto: Number
    elements: Annotated[list[ElementState], _ELEMENTS]
    edition: Number = 0
    """Of the outline that the elements are part of."""


class Receipt(_Message, frozen=True, tag="sel-receipt"):
    """The subtree is known up to this version."""

    root: Number
    without: Annotated[list[int], _MANY]
    position: Number


class OutlineAsk(_Message, frozen=True, tag="sel-outline-ask"):
    """How has the outline of this tree changed after that edition? 0: what is it?"""

    edition: Number


class OutlineRows(_Message, frozen=True, tag="sel-outline-rows"):
    """A whole outline: (id, parent) of each element in document order, -1 for the parent of the root."""

    edition: Number
    rights: Rights
    rows: Annotated[list[tuple[int, int]], _ELEMENTS]


class OutlineChange(_Message, frozen=True):
    """From one edition to the next: subtrees that are removed, then (id, parent, position) that are inserted."""

    removed: Annotated[list[int], _ELEMENTS]
    inserted: Annotated[list[tuple[int, int, int]], _ELEMENTS]


class OutlineChanges(_Message, frozen=True, tag="sel-outline-changes"):
    """The changes after an edition, in order; each leads to the next edition."""

    base: Number
    rights: Rights
    changes: Annotated[list[OutlineChange], _MANY]


TreeMessage = Inquiry | Offer | Wants | Grant | Update | Receipt | OutlineAsk | OutlineRows | OutlineChanges


class OfTree(_Message, frozen=True, tag="sel-tree"):
    """A message that concerns one of the trees that a network carries."""

    tree: Annotated[str, msgspec.Meta(max_length=5_000)]
    message: TreeMessage


SelectiveMessage = Presence | OutlineParents | Inquiry | Offer | Wants | Grant | Update | Receipt | OfTree
