"""A ring as data: what `GET /v1/ring` answers."""

from __future__ import annotations

import msgspec


class PlacePicture(msgspec.Struct, frozen=True):
    """A place of a peer: how far round the ring it is (0 to 1), and how many keys it owns there."""

    index: int
    turn: float
    owned: int


class PeerPicture(msgspec.Struct, frozen=True):
    """A peer. `load` is its share of all visits to states, `keys` counts the states it stores, copies among them."""

    name: str
    is_up: bool
    is_base: bool
    is_settled: bool
    """It is a member, and has the entries of its places."""
    places: list[PlacePicture]
    load: float = 0.0
    visits: int = 0
    visits_per_second: float = 0.0
    messages: int = 0
    keys: int = 0
    subscriptions: int = 0
    matches: int = 0
    underway: int = 0
    """Documents that were published there, and are not through."""
    copies: int = 0
    """States that it has given copies to, because too many documents visit them."""
    complete: int = 0
    partial: int = 0
    given_up: int = 0


class StatePicture(msgspec.Struct, frozen=True):
    """A state, where it is, and how many documents have visited it there."""

    state: str
    peer: str
    documents: int


class RingPicture(msgspec.Struct, frozen=True):
    """All of it. `states` are the hottest."""

    replicas: int
    places_per_peer: int
    fragment_length: int
    peers: list[PeerPicture]
    states: list[StatePicture]
