"""The messages of the distributed NFA: queries on their way to their states, documents on theirs, and notifications."""

from __future__ import annotations

from typing import Annotated

import msgspec

from treecast.overlay.chord.chord_messages import _ChordMessage
from treecast.overlay.chord.events import Events
from treecast.overlay.chord.fragment import Passage
from treecast.overlay.messages import ITEMS_MAX, Name, Number, Text

_MANY = msgspec.Meta(max_length=ITEMS_MAX)
Element = tuple[Number, tuple[str, str]]
Places = Annotated[list[Number], _MANY]
Keys = Annotated[list[Text], _MANY]
Elements = Annotated[list[Element], _MANY]


class IndexQuery(_ChordMessage, frozen=True, tag="nfa-index"):
    """To the owner of the state at `passage.depth` of a route: store it, and send it on to the next state.

    `walk` is the number that the host hears when the last state has it. `is_removed`: take it out instead.
    """

    walk: Number
    id: Text
    version: Number
    passage: Passage
    is_removed: bool = False


class Indexed(_ChordMessage, frozen=True, tag="nfa-indexed"):
    """To the host: all states of a route have it, on enough disks."""

    walk: Number


class Visits(_ChordMessage, frozen=True, tag="nfa-visits"):
    """Recursive: states that were reached, each with an element, at the peer that is responsible for them.

    A small document travels whole, as `body`; of a large one `events` has what is needed. `document` is its id, and
    `publisher` who has it. `serial` counts documents, `chain` the hops so far. `from_copy`: the owner does not answer.
    """

    nonce: Number
    document: Name
    publisher: Name
    serial: Number
    chain: Number
    items: Annotated[list[tuple[Text, Number]], _MANY]
    body: bytes = b""
    events: Events | None = None
    from_copy: bool = False


class VisitsWork(_ChordMessage, frozen=True, tag="nfa-work"):
    """Visits have arrived, and are not at their end. Who asks waits longer."""

    nonce: Number


class VisitsEnd(_ChordMessage, frozen=True, tag="nfa-end"):
    """All that followed from them is done. `misplaced`: these of the items are not ours. `unreachable`: keys of states
    and names of hosts that did not answer. `chain`: the longest chain of hops."""

    nonce: Number
    misplaced: Places
    unreachable: Keys
    chain: Number


class Expand(_ChordMessage, frozen=True, tag="nfa-expand"):
    """Iterative: the publisher asks what follows from states that it has reached."""

    nonce: Number
    document: Name
    serial: Number
    items: Annotated[list[tuple[Text, Number]], _MANY]
    events: Events
    from_copy: bool = False


class Expansion(msgspec.Struct, frozen=True, array_like=True):
    """What follows from one item."""

    accepted: Annotated[list[tuple[Text, Passage, Number]], _MANY]
    targets: Annotated[list[tuple[Text, Number]], _MANY]


class Expanded(_ChordMessage, frozen=True, tag="nfa-expanded"):
    """For each item, or None where it is misplaced."""

    nonce: Number
    expansions: Annotated[list[Expansion | None], _MANY]
    serial: Number = 0


class FetchDocument(_ChordMessage, frozen=True, tag="nfa-fetch"):
    """To the publisher: a predicate needs more of the document than has travelled."""

    nonce: Number
    document: Name


class Fetched(_ChordMessage, frozen=True, tag="nfa-fetched"):
    """None: it is not there any more. The rest is what its publisher has said of it."""

    nonce: Number
    body: bytes | None
    source: Name = ""
    id: Name = ""
    published_ms: Number = 0


class Satisfied(msgspec.Struct, frozen=True, array_like=True):
    """A part of a subscription was matched. `chain`: by these elements, where parts are joined."""

    subscription: Text
    part: Number
    chain: Elements = []


class NotifyHost(_ChordMessage, frozen=True, tag="nfa-notify"):
    """To the host of subscriptions. Asked again until it answers."""

    nonce: Number
    document: Name
    publisher: Name
    satisfied: Annotated[list[Satisfied], _MANY]


class HostNotified(_ChordMessage, frozen=True, tag="nfa-notified"):
    nonce: Number


class Shed(_ChordMessage, frozen=True, tag="nfa-shed"):
    """To all peers: a state has copies, choose one of them at random. The place `index` passes it on to those that are
    between it and `end`."""

    key: Text
    copies: Number
    end: Number
    index: Number


NfaMessage = (
    IndexQuery | Indexed | Visits | VisitsWork | VisitsEnd | Expand | Expanded
    | FetchDocument | Fetched | NotifyHost | HostNotified | Shed
)  # fmt: skip
NFA_ANSWERS = (VisitsEnd, Expanded, Fetched, HostNotified)
