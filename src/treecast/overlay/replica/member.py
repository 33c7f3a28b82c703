"""What a host stores about a broker that it serves or holds a replica of: one row, written with every group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from treecast.overlay.replica.messages import Lineage
from treecast.overlay.replica.space import Space
from treecast.overlay.storage import Append, Change, DropBefore, Put, Storage, one_by_one

MEMBERS = "replica_members"
"""`replica_members[broker]`."""


class Replica(msgspec.Struct, frozen=True, array_like=True):
    """The data of a broker after one of its groups."""

    slot: int
    group: int = 0
    lineage: Lineage = []
    tables: dict[str, bool] = {}
    """All tables that were ever written to, and whether their keys are integers."""
    last_body: int = 0
    body_end: int = 0


class MemberRow(msgspec.Struct, frozen=True, array_like=True):
    """What this host is for the broker, and what it has of it."""

    term: int = 0
    primary: str = ""
    backup: str = ""
    is_paired: bool = False
    """The primary acknowledges nothing that the backup does not have. Durable before the backup may call itself
    complete."""
    complete_term: int = 0
    """Of a backup: in this term, and only then, the replica has everything that was acknowledged."""
    replica: Replica | None = None
    coming: Replica | None = None
    """A snapshot that is being taken. It replaces the replica when it is complete."""
    transfer: int = 0
    """Which snapshot `coming`, or else `replica`, came from;"""
    chunk: int = 0
    """and how much of it is there."""
    is_filled: bool = False
    """All chunks are there: groups follow."""
    was_backup: bool = False
    """Indexes that were saved here may lack what another host has changed."""
    garbage: list[tuple[int, dict[str, bool], int]] = []
    """Slots that are to be emptied, with their tables and their last bodies."""
    last_slot: int = 0
    """Slots up to this one were used, and never are again."""
    refused_term: int = 0
    """In no term up to this one does the host become the primary."""
    idle_since: int = 0
    """Of a host that does not serve: it has not from this term on. 0: it serves, or does not know."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(MemberRow)


class Member:
    """A broker on this host, as it will be when everything that was asked for is stored."""

    def __init__(self, broker: str, storage: Storage, row: MemberRow) -> None:
        self.broker = broker
        self.row = row
        self._storage = storage
        self.space = self._space(row.replica)
        """Of the replica,"""
        self.coming = self._space(row.coming)
        """and of the one that is coming."""

    def _space(self, replica: Replica | None) -> Space | None:
        if replica is None:
            return None
        return Space(self._storage, replica.slot, replica.last_body, replica.body_end)

    def set(self, **fields: Any) -> None:
        """Change some fields of the row."""
        self.row = msgspec.structs.replace(self.row, **fields)

    def put(self) -> Put:
        """The row, as it is now."""
        row = self.row
        fields = {}
        for name, space, replica in (("replica", self.space, row.replica), ("coming", self.coming, row.coming)):
            if space is not None and replica is not None:
                fields[name] = msgspec.structs.replace(replica, last_body=space.last_body, body_end=space.body_end)
        self.row = row = msgspec.structs.replace(row, **fields)
        return Put(MEMBERS, self.broker, _ENCODER.encode(row))

    @property
    def group(self) -> int:
        """The last group of the replica."""
        return self.row.replica.group if self.row.replica else 0

    def idle_since(self, host: str) -> int:
        """The first term in which this host has certainly not served, up to the present one or one that it refuses."""
        return self.row.term + 1 if self.row.primary == host else self.row.idle_since

    def is_own(self) -> bool:
        """It is the host's own broker, and no other host ever changed its data: an index that was saved is right."""
        return self.row.replica is not None and self.row.replica.slot == 0 and not self.row.was_backup

    def advance(self, changes: Iterable[Change], group: int) -> None:
        """The replica, or the one that is coming, has this group now."""
        name = "coming" if self.row.coming is not None else "replica"
        replica: Replica = getattr(self.row, name)
        self.set(**{name: msgspec.structs.replace(replica, group=group, tables=with_tables(replica.tables, changes))})

    def begin(self, slot: int, transfer: int) -> None:
        """A snapshot will be written to this slot."""
        self.discard_coming()
        self.set(coming=Replica(slot), transfer=transfer, chunk=0, is_filled=False, last_slot=slot)
        self.coming = self._space(self.row.coming)

    def discard_coming(self) -> None:
        if self.row.coming is not None:
            self.set(garbage=[*self.row.garbage, _garbage(self.row.coming)], coming=None)
            self.coming = None

    def adopt_coming(self) -> None:
        """The snapshot is complete, and replaces what was there."""
        self.put()  # with what its space knows
        old, new = self.row.replica, self.row.coming
        assert new is not None
        garbage = self.row.garbage if old is None else [*self.row.garbage, _garbage(old)]
        self.set(replica=new, coming=None, garbage=garbage)
        self.space, self.coming = self.coming, None


def _garbage(replica: Replica) -> tuple[int, dict[str, bool], int]:
    return replica.slot, replica.tables, replica.last_body


def with_tables(tables: dict[str, bool], changes: Iterable[Change]) -> dict[str, bool]:
    """The tables, and those that these changes write to."""
    more = {
        change.table: isinstance(change.key, int)
        for change in one_by_one(changes)
        if not isinstance(change, Append | DropBefore) and change.table not in tables
    }
    return {**tables, **more} if more else tables


def read_members(storage: Storage, count_max: int) -> list[Member]:
    return [Member(broker, storage, _DECODER.decode(data)) for broker, data in storage.scan(MEMBERS, "", count_max)]


def is_prefix(lineage: Lineage, last_term: int, group: int) -> bool:
    """Whether a replica whose last group, made in `last_term`, is `group` has the beginning of what `lineage` has.

    A term has one primary, which sends only what is on its own disk. So a group is told by its number and its term.

    >>> [is_prefix([(5, 1), (6, 41)], term, group) for term, group in [(5, 40), (5, 41), (6, 41), (4, 7)]]
    [True, False, True, False]
    """
    for place, (term, first) in enumerate(lineage):
        if term == last_term:
            end = lineage[place + 1][1] if place + 1 < len(lineage) else None
            return group >= first - 1 and (end is None or group < end)
    return False


def last_term_of(replica: Replica | None) -> int:
    """The term in which the last group was made.

    >>> last_term_of(Replica(1, 40, [(5, 1), (6, 41)])), last_term_of(Replica(1, 41, [(5, 1), (6, 41)]))
    (5, 6)
    """
    if replica is None:
        return 0
    return max((term for term, first in replica.lineage if first <= replica.group), default=0)
