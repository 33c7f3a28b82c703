"""The messages about replicas: between the hosts of a primary and its backup, and from and to the control plane.

A *term* numbers what the control plane has decided about one broker: which host is its primary, and which its backup.
Terms only grow, and each stands for one decision. A message of an older term is answered with `Fenced`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

NAME_CHARS_MAX = 1_000
LINEAGE_MAX = 1_000
TABLES_MAX = 1_000

Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Lineage = Annotated[list[tuple[Number, Number]], msgspec.Meta(max_length=LINEAGE_MAX)]
"""Terms, each with the first group that was made in it, ascending."""
Tables = Annotated[dict[Name, bool], msgspec.Meta(max_length=TABLES_MAX)]
"""Whether the keys of a table are integers."""


class _ReplicaMessage(msgspec.Struct, frozen=True, array_like=True):
    """Array-like: fields travel by position. New fields go to the end, with a default."""


# --- from and to the control plane ------------------------------------------------------------------------------------


class Role(_ReplicaMessage, frozen=True, tag="role"):
    """What the control plane has decided; sent to both hosts, again and again, and answered with `Standing`.

    A new term is needed only if `primary` or `backup` changes. `backup` is empty if the primary is to serve alone.
    `after` is the last term in which another host was the primary, or 0: whoever has not all that was acknowledged up
    to then refuses. A term in which its primary has not served, and never will, does not count: the primary has refused
    it, or says so later (`Standing.idle_since`). `is_new`: no host has ever served this broker. Only then is an empty
    disk a beginning, and not a loss.
    """

    broker: Name
    term: Number
    primary: Name
    backup: Name = ""
    after: Number = 0
    is_new: bool = False
    is_stale: bool = False
    """What was acknowledged is lost: this host has the most of it. It goes on from there, as another store."""
    addresses: Annotated[dict[Name, Name], msgspec.Meta(max_length=2)] = {}
    """Where the two hosts are reached, if the control plane knows."""


State = Literal["asking", "alone", "joining", "paired", "waiting", "deposed", "lost", "refused", "backup"]


class Standing(_ReplicaMessage, frozen=True, tag="standing"):
    """What a host says of a broker that it serves or holds a replica of.

    asking: new, and finding out whether its backup has data. alone: serves without a backup, as it was told. joining:
    serves alone until its backup has everything. paired: acknowledges what both have. waiting: paired, and something
    has waited for the backup for too long. deposed: another host has a higher term. lost: it has no data of a broker
    that is not new, or less than its backup has. refused: it cannot take over, since its replica is not complete in
    the term before. backup: holds a replica; it may take over from terms up to `complete_term`.

    `idle_since`, if it is not 0: in no term from this one to `term` has the host served, and in none of them will it.
    It may have been appointed in some of them, and heard of it too late, or refused, and was not heard.
    """

    broker: Name
    term: Number
    state: State
    group: Number = 0
    complete_term: Number = 0
    idle_since: Number = 0


# --- between a primary and its backup ---------------------------------------------------------------------------------


class Ask(_ReplicaMessage, frozen=True, tag="ask"):
    """Where does the replica stand? `Copied` answers with the same nonce.

    With `complete_at`, the replica is complete in this term once it has that group: the primary acknowledges nothing
    from there on that the backup does not have. 0: it is not said yet.
    """

    broker: Name
    term: Number
    nonce: Number
    transfer: Number = 0
    complete_at: Number = 0


class Copy(_ReplicaMessage, frozen=True, tag="copy"):
    """A group of changes, or a part of one that is large. `lineage` tells which groups come before it."""

    broker: Name
    term: Number
    group: Number
    lineage: Lineage
    data: bytes
    part: Number = 0
    parts: Number = 1


class Chunk(_ReplicaMessage, frozen=True, tag="chunk"):
    """A piece of a snapshot. `number` counts from 1. Groups after `group`, which the last one names, follow."""

    broker: Name
    term: Number
    transfer: Number
    number: Number
    data: bytes
    is_last: bool = False
    group: Number = 0
    lineage: Lineage = []
    tables: Tables = {}


class Copied(_ReplicaMessage, frozen=True, tag="copied"):
    """What the backup has on its disk: all groups up to `group`, the last of them made in `last_term`.

    While a snapshot is taken (`is_coming`), this is about the replica that it will become: all chunks up to `chunk`
    of `transfer` are there, and groups once there are all chunks. The former replica, complete in `complete_term`,
    is kept until then.
    """

    broker: Name
    term: Number
    group: Number
    last_term: Number = 0
    complete_term: Number = 0
    transfer: Number = 0
    chunk: Number = 0
    is_coming: bool = False
    is_filled: bool = False
    nonce: Number = 0


class Fenced(_ReplicaMessage, frozen=True, tag="fenced"):
    """A higher term is known here: whoever acts in a lower one has to stop."""

    broker: Name
    term: Number


ReplicaMessage = Role | Standing | Ask | Copy | Chunk | Copied | Fenced

# --- from a host to itself; they never travel -------------------------------------------------------------------------


class Inner(msgspec.Struct, frozen=True):
    """What a broker that a host serves has said to itself. `life` tells it from the broker that was there before."""

    broker: str
    life: int
    message: Any


class Open(msgspec.Struct, frozen=True):
    """The role in this term is durable, and so is everything before it: the broker can be made from its storage."""

    broker: str
    term: int


class Clean(msgspec.Struct, frozen=True):
    """Everything that was written to slots which are to be emptied is durable, and can be found there."""

    broker: str
