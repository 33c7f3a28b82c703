"""The messages of the control plane: between brokers and the registry, between brokers, and between the two registries.

What clients ask a registry for are requests like those to a broker (`treecast.overlay.messages`): `RegisterSource`,
`RegisterSubscriber`, `PlaceSubscription`. Everything here may be lost, and is sent again by whoever needs it:

- A broker sends `Heartbeat` to both registries all the time. It says what the broker has, so the registry in charge
  sends what is missing: a view, changes of the catalog, subscriptions that have to move.
- Views and catalog also travel from broker to broker: `Gossip` tells an epoch, `AskView` asks for the view, `Broadcast`
  carries changes along the tree of a root, and `Collected` comes back along it.
- The registry in charge copies its store to the other one with `Ship`, and one that wants to take charge asks the
  brokers with `Stand`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from treecast.overlay.messages import Name, Number, Text
from treecast.overlay.onyx.view import BrokerInfo, Location, View
from treecast.overlay.replica.messages import Standing

ENTRIES_MAX = 1_000
"""Entries of the catalog, or subscriptions that move, in one message."""
ROWS_MAX = 100_000
"""Rows of a store in one message."""
_FEW = msgspec.Meta(max_length=ENTRIES_MAX)
_MANY = msgspec.Meta(max_length=ROWS_MAX)
Key = Name | Number
"""Of a row of a store."""

State = Literal["here", "restarting", "leaving"]


class _Control(msgspec.Struct, frozen=True, array_like=True):
    """Array-like: fields travel by position. New fields go to the end, with a default."""


# --- brokers and the registry -----------------------------------------------------------------------------------------


class Heartbeat(_Control, frozen=True, tag="heartbeat"):
    """From a broker: it is there, or wants to be. The first one is how it joins."""

    life: Number
    """Drawn when the broker starts."""
    epoch: Number
    """Of the view that it has."""
    promised: Number
    """The term that it has promised to follow, or a lower one that it follows."""
    catalog: Number
    """The version of the catalog that it has."""
    info: BrokerInfo = BrokerInfo()
    state: State = "here"


class HostBeat(_Control, frozen=True, tag="host-beat"):
    """From a host that serves brokers with replicas: it is there, and this is what it has of each broker.

    The registry in charge answers with a `Role` for each broker of which the host does not know the latest.
    """

    broker: Name
    """Its own: the one that it is started for."""
    life: Number
    """Drawn when the host starts: it has to be told again where the others are."""
    address: Name
    location: Location = (0.0, 0.0)
    standings: Annotated[list[Standing], _FEW] = []


class NewView(_Control, frozen=True, tag="view"):
    """From a registry, or from a broker that has it."""

    view: View


class AskView(_Control, frozen=True, tag="ask-view"):
    """Whoever has a view above this epoch sends it."""

    epoch: Number


class Gossip(_Control, frozen=True, tag="gossip"):
    """From a broker to another one that it drew: this is the epoch of the view that it has."""

    epoch: Number


# --- the catalog ------------------------------------------------------------------------------------------------------


class CatalogEntry(_Control, frozen=True):
    """A source. Without a root it has been removed."""

    source: Name
    root: Name = ""
    number: Number = 0
    """Its id, which the registry gives. Never used twice."""
    schema: Text = ""
    description: Text = ""


class CatalogDelta(_Control, frozen=True, tag="catalog"):
    """What has changed after version `base`, up to `version`. Base 0: what the receiver has is out of date; it begins
    with an empty catalog."""

    base: Number
    version: Number
    entries: Annotated[list[CatalogEntry], _FEW]


class Broadcast(_Control, frozen=True, tag="broadcast"):
    """Along the tree of a root, to everybody. From the registry to the root, and from each broker to its children."""

    root: Name
    epoch: Number
    number: Number
    delta: CatalogDelta


class Collected(_Control, frozen=True, tag="collected"):
    """Back along the tree, when all that are below have answered: so many brokers have applied a broadcast."""

    root: Name
    epoch: Number
    number: Number
    count: Number


class AskCatalog(_Control, frozen=True, tag="ask-catalog"):
    """From a registry that has lost its own: what a broker knows of the sources after this one, by name."""

    after: Name = ""


class CatalogPart(_Control, frozen=True, tag="catalog-part"):
    """From a broker: sources in the order of their names, those that were removed too. None: there are no more."""

    version: Number
    after: Name
    entries: Annotated[list[CatalogEntry], _FEW]


# --- where things are -------------------------------------------------------------------------------------------------

Thing = Literal["source", "subscription", "subscriber"]


class WhereIs(_Control, frozen=True, tag="where"):
    """To a registry, or to any broker, which asks the registry if it does not know. If no answer comes, ask again."""

    question: Number
    thing: Thing
    name: Name


class Located(_Control, frozen=True, tag="located"):
    """The broker of a thing; without a broker: there is no such thing."""

    question: Number
    broker: Name
    address: Name
    epoch: Number


class Moved(_Control, frozen=True, tag="moved"):
    """What was asked for is not here: go there. From a registry that is not in charge, or a broker."""

    thing: Thing | Literal["registry"]
    name: Name
    to: Name
    address: Name
    epoch: Number


# --- migration --------------------------------------------------------------------------------------------------------


class Migrate(_Control, frozen=True, tag="migrate"):
    """To the host of subscriptions: hand these over, each to its new host. Repeated until it has been done."""

    moves: Annotated[list[tuple[Name, Name]], _FEW]
    epoch: Number = 0


class Migrated(_Control, frozen=True, tag="migrated"):
    """From the old host: the new one has them."""

    moves: Annotated[list[tuple[Name, Name]], _FEW]


# --- the two registries -----------------------------------------------------------------------------------------------


class Written(_Control, frozen=True):
    """A row of a store as it is now. Without a value it is gone."""

    table: Name
    key: Key
    value: bytes | None


class Ship(_Control, frozen=True, tag="ship"):
    """From the registry in charge: the groups of its store after `base`, up to `number`. Without rows: it is alive.

    With term 0 it is a question of a registry whose store is empty: what does the other one have?
    """

    term: Number
    base: Number
    number: Number
    rows: Annotated[list[Written], _MANY] = []
    is_paired: bool = False
    """Nothing is acknowledged any more before the other registry has it: it may take over."""


class ShipPart(_Control, frozen=True, tag="ship-part"):
    """A part of a copy of the whole store, as it was when it had `number` groups: all rows of a table after a key."""

    term: Number
    number: Number
    part: Number
    """From 1. Each is sent when the one before it has arrived."""
    table: Name
    after: Key
    rows: Annotated[list[Written], _MANY]
    is_end: bool
    """The table has no more rows."""
    is_last: bool
    """There are no more parts."""
    copy: Number
    """Drawn for each copy: parts of two copies are never put together."""


class Renew(_Control, frozen=True, tag="renew"):
    """From the registry in charge: brokers have promised to follow no term as low as `old`. Let it be `term`
    instead."""

    term: Number
    old: Number
    number: Number
    """Groups of its store. The other one agrees if it has all of them, and is not in charge itself."""


class Shipped(_Control, frozen=True, tag="shipped"):
    """From the other registry: what it has, durably. `log_term` is the term in which it got that."""

    term: Number
    log_term: Number
    number: Number
    part: Number = 0
    """The last part of a whole copy that it has got."""
    is_complete: bool = True
    """What it has is a whole store."""
    copy: Number = 0
    """The copy that `part` belongs to."""
    may_stand: bool = False
    """It knows that they are paired, and takes over if the one in charge is silent."""


class Stand(_Control, frozen=True, tag="stand"):
    """From a registry to all brokers that it knows: it wants to be in charge, in this term. Its last view is
    `epoch`."""

    term: Number
    epoch: Number


class Grant(_Control, frozen=True, tag="grant"):
    """From a broker: it follows no lower term from now on. Or, if not `is_granted`: it follows this term already, or
    has this epoch, which is above that of the candidate."""

    term: Number
    epoch: Number
    is_granted: bool = True


ControlMessage = (
    Heartbeat
    | HostBeat
    | NewView
    | AskView
    | Gossip
    | CatalogDelta
    | Broadcast
    | Collected
    | AskCatalog
    | CatalogPart
    | WhereIs
    | Located
    | Moved
    | Migrate
    | Migrated
    | Ship
    | ShipPart
    | Renew
    | Shipped
    | Stand
    | Grant
)
CATALOG_MESSAGES = (CatalogDelta, Broadcast, Collected, AskCatalog, CatalogPart)
"""Those of the catalog flow; the others are control packets."""
