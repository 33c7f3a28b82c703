"""A host of brokers and of replicas: serves some brokers as their primary, backs up others, and takes over.

The control plane decides who is what, with `Role`; a higher term always wins. When a host becomes the primary of a
broker whose replica it holds, it makes the broker from the replica and serves under the broker's name. From the moment
that the new term is on its disk, it answers the former primary with `Fenced`; and as a paired primary acknowledges
nothing without its backup, the former one cannot acknowledge anything any more, whether it hears of this or not. When
it comes back, it becomes the backup: with the groups that it lacks if what it has is a beginning of what is served now,
and else with a snapshot.

    >>> from random import Random
    >>> from treecast.overlay.replica.messages import Role
    >>> from treecast.sim.storage import SimulatedStorage
    >>> host = ReplicaHost("b2", SimulatedStorage(), Random(1), lambda *_: None, ["b1"], "registry")
    >>> (answer,) = host.receive("registry", Role("b1", 7, "b2", "", after=6), now_ms=0)
    >>> answer.message.state  # it has no data of b1
    'lost'

A replica takes over only if it is complete in the term before: see `Ask.complete_at` and `Role.after`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from random import Random
from typing import Any

import msgspec

from treecast.overlay.broker.rows import META, STORE
from treecast.overlay.peer import Effect, Peer, Send, Store
from treecast.overlay.replica.backup import Backup
from treecast.overlay.replica.member import Member, MemberRow, Replica, read_members
from treecast.overlay.replica.messages import (
    Ask,
    Chunk,
    Clean,
    Copied,
    Copy,
    Fenced,
    Inner,
    Lineage,
    Open,
    ReplicaMessage,
    Role,
    Standing,
    State,
)
from treecast.overlay.replica.primary import Replicated
from treecast.overlay.replica.settings import ReplicaSettings
from treecast.overlay.replica.snapshot import KEY_MIN
from treecast.overlay.replica.space import BODIES, LOG, ReplicaError, Space
from treecast.overlay.storage import Change, Delete, DeleteBefore, DropBefore, Storage

Make = Callable[[str, Storage, Random, bool], Peer]
"""Makes a broker of this name from a storage. The last argument: a saved index of the host's own broker is right."""


class Home(msgspec.Struct, frozen=True):
    """The host's own broker: its data has slot 0. What there may be from a time without replicas has to be said."""

    broker: str
    tables: dict[str, bool] = {}
    last_body: int = 0


class ReplicaHost:
    """A `Peer`. `partners` are the hosts with which it shares replicas, and `control` is who decides about roles, one
    peer or several that agree: what others say about replicas is not heard."""

    speaks_as_brokers = False
    """Brokers that are served here send in their own names, and not in that of the host."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        random: Random,
        make: Make,
        partners: Container[str],
        control: str | tuple[str, ...],
        settings: ReplicaSettings | None = None,
        home: Home | None = None,
    ) -> None:
        self.name = name
        self.settings = settings or ReplicaSettings()
        self.refused = 0
        """Messages about replicas that could not be right."""
        self._storage = storage
        self._random = random
        self._make = make
        self._home = home
        self._partners = partners
        self._controls = (control,) if isinstance(control, str) else control
        self._life = 0
        self._members = {member.broker: member for member in read_members(storage, self.settings.replicas_max)}
        self._backups: dict[str, Backup] = {}
        self._primaries: dict[str, Replicated] = {}
        self._asking: dict[str, tuple[Role, int]] = {}
        """Brokers that are new here: the role, and the nonce of a question to the backup."""
        self._waiting: set[str] = set()
        """Primaries that have told the control plane that they wait."""
        for member in self._members.values():
            if member.row.primary == name and member.row.replica is not None:
                self._open(member)
            else:
                self._backups[member.broker] = Backup(member, self.settings, self._next_slot)

    def served(self, broker: str = "") -> Peer | None:
        """The broker of this name if it is served here; without a name, the host's own, or the only one."""
        primary = self._primary(broker)
        return primary.inner if primary is not None else None

    def _primary(self, broker: str) -> Replicated | None:
        if not broker and self._home is not None and self._home.broker in self._primaries:
            broker = self._home.broker
        if not broker and len(self._primaries) == 1:
            (broker,) = self._primaries
        return self._primaries.get(broker)

    @property
    def index(self) -> Any:
        """The index of the host's own broker, for whoever saves it; None if a saved one could not be used."""
        primary = self._primaries.get(self._home.broker) if self._home is not None else None
        return (
            getattr(primary.inner, "index", None)
            if primary is not None and self._members[primary.name].is_own()
            else None
        )

    @property
    def index_version(self) -> int:
        primary = self._primaries.get(self._home.broker) if self._home is not None else None
        return (
            getattr(primary.inner, "index_version", 0)
            if primary is not None and self._members[primary.name].is_own()
            else 0
        )

    def stats(self) -> dict[str, int]:
        """Counts of the broker that is served, and of what waits for its backup."""
        primary = self._primary("")
        if primary is None:
            return {}
        stats: Callable[[], dict[str, int]] = getattr(primary.inner, "stats", dict)
        return {**stats(), **primary.stats()}

    def members(self) -> dict[str, MemberRow]:
        """What this host is, for each broker."""
        return {broker: member.row for broker, member in self._members.items()}

    def space(self, broker: str) -> Space | None:
        """The data that this host has of a broker."""
        return self._members[broker].space if broker in self._members else None

    # --- the peer -----------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        is_own = sender == self.name
        if isinstance(message, ReplicaMessage) and not is_own and not self._may_say(sender, message):
            self.refused += 1
            return []
        match message:
            case Role():
                return self._take_role(sender, message, now_ms)
            case Ask() | Copy() | Chunk():
                return self._take_as_backup(sender, message)
            case Copied():
                return self._take_copied(sender, message, now_ms)
            case Fenced():
                return self._take_fenced(message)
            case Inner() if is_own:
                primary = self._primaries.get(message.broker)
                is_alive = primary is not None and primary.life == message.life
                return primary.receive_own(message.message, now_ms) if primary is not None and is_alive else []
            case Open() if is_own:
                return self._take_open(message, now_ms)
            case Clean() if is_own:
                return self._clean(self._members[message.broker])
        if sender in self._partners or sender in self._controls:
            return []  # they are no clients
        return self.receive_for("", sender, message, now_ms)

    def _may_say(self, sender: str, message: ReplicaMessage) -> bool:
        return sender in self._controls if isinstance(message, Role | Standing) else sender in self._partners

    def receive_for(self, broker: str, sender: str, message: Any, now_ms: int) -> list[Effect]:
        """Handle a message for one of the brokers that are served here."""
        primary = self._primary(broker)
        if primary is None:
            return []
        if sender == self.name:
            return primary.receive_own(message, now_ms)
        return primary.receive(sender, message, now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for broker, primary in list(self._primaries.items()):
            effects += primary.tick(now_ms)
            if not primary.is_waiting(now_ms):
                self._waiting.discard(broker)
            elif broker not in self._waiting:
                self._waiting.add(broker)
                effects += self._say(self._standing(broker, now_ms))
        for role, _ in list(self._asking.values()):
            effects += self._ask(role)
        for member in self._members.values():
            if member.row.garbage:
                effects.append(Send(self.name, Clean(member.broker)))
        return effects

    # --- roles --------------------------------------------------------------------------------------------------------

    def _take_role(self, sender: str, role: Role, now_ms: int) -> list[Effect]:
        member = self._members.get(role.broker)
        effects: list[Effect] = []
        if member is None:
            if len(self._members) >= self.settings.replicas_max:
                return [Send(sender, Standing(role.broker, role.term, "refused"))]
            if role.primary == self.name:
                return self._take_first_role(sender, role)
            if role.backup != self.name:
                return [Send(sender, Standing(role.broker, role.term, "backup"))]  # it could become one
            self._asking.pop(role.broker, None)
            effects += self._become_backup(self._add(role.broker), role)
        elif role.term > member.row.term:
            if role.primary == self.name:
                if self._must_refuse(member, role):
                    return self._refuse(sender, member, role)
                effects += self._become_primary(member, role)
            else:
                effects += self._become_backup(member, role)
        return [*effects, Send(sender, self._standing(role.broker, now_ms))]

    def _standing(self, broker: str, now_ms: int) -> Standing:
        row, group = self._members[broker].row, self._members[broker].group
        primary = self._primaries.get(broker)
        state: State = "backup"
        if primary is not None:
            state = "waiting" if primary.is_waiting(now_ms) else primary.state
        elif row.primary == self.name:
            state = "asking"  # it is being opened
        idle_since = row.idle_since if row.primary != self.name else 0
        return Standing(broker, row.term, state, group, row.complete_term, idle_since)

    def _add(self, broker: str) -> Member:
        member = self._members[broker] = Member(broker, self._storage, MemberRow())
        return member

    def _become_backup(self, member: Member, role: Role) -> list[Effect]:
        """Serve no more, if it was served here. What was stored is kept: perhaps only some groups are missing."""
        row, former = member.row, self._primaries.pop(member.broker, None)
        is_own = row.replica is not None and row.replica.slot == 0
        # Its primary has everything that was acknowledged in its term: should nobody else take over, it can go on.
        was_primary = row.primary == self.name and row.replica is not None and (former is None or former.end != "lost")
        member.set(
            term=role.term,
            primary=role.primary,
            backup=role.backup,
            is_paired=False,
            complete_term=row.term if was_primary else row.complete_term,
            was_backup=row.was_backup or is_own,
            idle_since=member.idle_since(self.name) or role.term,
        )
        self._backups[member.broker] = Backup(member, self.settings, self._next_slot)
        changes: list[Change] = [member.put()]
        if member.space is not None:
            changes.append(DeleteBefore(member.space.table(LOG), member.group + 1))
        return [Store(tuple(changes))]

    def _must_refuse(self, member: Member, role: Role) -> bool:
        """Whether something that was acknowledged may be missing here, or the term was refused before."""
        row, primary = member.row, self._primaries.get(member.broker)
        if row.replica is None or role.term <= row.refused_term:
            return True
        if role.is_stale:
            return False
        # The primary of a later term than that has served since, and nobody else has.
        reign = row.term if row.primary == self.name else row.complete_term
        return reign < role.after or (primary is not None and primary.end == "lost")

    def _refuse(self, sender: str, member: Member, role: Role) -> list[Effect]:
        """For good: the control plane will act as if the term had never been. So a role that comes twice, or late, must
        not be accepted because the replica has become complete meanwhile."""
        idle_since = member.idle_since(self.name)
        standing = Standing(role.broker, role.term, "refused", member.group, idle_since=idle_since)
        if role.term <= member.row.refused_term:
            return [Send(sender, standing)]
        member.set(refused_term=role.term)
        return [Store((member.put(),)), Send(sender, standing)]

    def _become_primary(self, member: Member, role: Role) -> list[Effect]:
        """Go on in a new term, or take over."""
        row = member.row
        assert row.replica is not None
        primary = self._primaries.get(member.broker)
        keeps_pair = row.primary == self.name and row.is_paired and row.backup == role.backup and primary is not None
        lineage = lineage_with(row.replica.lineage, role.term, member.group + 1, self.settings.lineage_max)
        member.discard_coming()
        member.set(
            term=role.term,
            primary=self.name,
            backup=role.backup,
            is_paired=keeps_pair,
            replica=msgspec.structs.replace(row.replica, lineage=lineage),
            idle_since=0,
        )
        changes: list[Change] = []
        if primary is not None and (not row.backup or not role.backup):
            changes += primary.forget_all()
        self._backups.pop(member.broker, None)
        if role.is_stale and member.space is not None:
            # It goes on from an old state: what it numbers from now on must not be taken for what others know.
            changes.append(Delete(member.space.table(META), STORE))
        effects: list[Effect] = [Store((*changes, member.put()))]
        if primary is None or primary.end is not None:
            self._primaries.pop(member.broker, None)
            return [*effects, Send(self.name, Open(member.broker, role.term))]
        primary.start()
        return effects + primary.release()

    def _take_first_role(self, sender: str, role: Role) -> list[Effect]:
        """A broker that this host knows nothing of: it is new, or the disk was lost."""
        if not role.is_new:
            return [Send(sender, Standing(role.broker, role.term, "lost"))]
        known_role, _ = self._asking.get(role.broker, (None, 0))
        if role.backup:
            if known_role is None or role.term > known_role.term:
                self._asking[role.broker] = (role, self._random.getrandbits(62) + 1)
            return [*self._ask(role), Send(sender, Standing(role.broker, role.term, "asking"))]
        return [*self._found_broker(role), Send(sender, Standing(role.broker, role.term, "asking"))]

    def _ask(self, role: Role) -> list[Effect]:
        """Ask the backup whether it knows more about a broker that seems to be new."""
        return [Send(role.backup, Ask(role.broker, role.term, self._asking[role.broker][1]))]

    def _found_broker(self, role: Role) -> list[Effect]:
        """A broker begins, with what the host's own storage may have from a time without replicas."""
        self._asking.pop(role.broker, None)
        home = self._home if self._home is not None and self._home.broker == role.broker else None
        slot = 0 if home is not None else self._next_slot()
        tables, last_body = (home.tables, home.last_body) if home is not None else ({}, 0)
        member = self._add(role.broker)
        # It has one group already, so that a backup which has none gets a snapshot, of nothing or of what there is.
        replica = Replica(slot, 1, [(role.term, 1)], tables, last_body)
        is_new = not any(self._storage.count(table) for table in tables)
        is_paired = bool(role.backup) and is_new
        row = MemberRow(role.term, self.name, role.backup, is_paired, replica=replica, last_slot=slot)
        self._members[role.broker] = member = Member(role.broker, self._storage, row)
        return [Store((member.put(),)), Send(self.name, Open(role.broker, role.term))]

    def _take_open(self, message: Open, now_ms: int) -> list[Effect]:
        member = self._members.get(message.broker)
        if member is None or member.row.term != message.term or member.row.primary != self.name:
            return []
        if message.broker not in self._primaries:
            self._open(member)
        standing = self._standing(message.broker, now_ms)
        return [*self._primaries[message.broker].tick(now_ms), *self._say(standing)]

    def _open(self, member: Member) -> None:
        """Make the broker from what is stored of it, which is all that there is."""
        assert member.space is not None
        self._life += 1
        inner = self._make(member.broker, member.space, self._random, member.is_own())
        primary = Replicated(self.name, member, inner, self._random, self.settings, self._life)
        primary.speaker = member.broker if self.speaks_as_brokers else ""
        self._primaries[member.broker] = primary

    def _say(self, standing: Standing) -> list[Effect]:
        return [Send(control, standing) for control in self._controls]

    # --- from other hosts ---------------------------------------------------------------------------------------------

    def _take_as_backup(self, sender: str, message: Ask | Copy | Chunk) -> list[Effect]:
        effects: list[Effect] = []
        member = self._members.get(message.broker)
        if member is None:
            if not isinstance(message, Ask) or len(self._members) >= self.settings.replicas_max:
                return []
            member = self._add(message.broker)
        row = member.row
        if message.term < row.term:
            return [Send(sender, Fenced(message.broker, row.term))]
        if message.term > row.term:
            # The sender has its role from the control plane, whose word to us is late or lost.
            role = Role(message.broker, message.term, sender, self.name)
            effects += self._become_backup(member, role)
        elif row.primary != sender:
            return []
        try:
            return effects + self._backups[message.broker].receive(sender, message)
        except ReplicaError:
            self.refused += 1
            return effects

    def _take_copied(self, sender: str, message: Copied, now_ms: int) -> list[Effect]:
        primary = self._primaries.get(message.broker)
        if primary is not None:
            is_backup = self._members[message.broker].row.backup == sender
            return primary.take_copied(message, now_ms) if is_backup else []
        role, nonce = self._asking.get(message.broker, (None, 0))
        if role is None or sender != role.backup or message.nonce != nonce or message.term != role.term:
            return []
        if message.complete_term:
            return self._say(Standing(role.broker, role.term, "lost"))
        return self._found_broker(role)

    def _take_fenced(self, message: Fenced) -> list[Effect]:
        primary = self._primaries.get(message.broker)
        if primary is None or message.term <= self._members[message.broker].row.term:
            return []
        primary.end = "deposed"
        return self._say(self._standing(message.broker, 0))

    # --- slots --------------------------------------------------------------------------------------------------------

    def _next_slot(self) -> int:
        return max((member.row.last_slot for member in self._members.values()), default=0) + 1

    def _clean(self, member: Member) -> list[Effect]:
        """Delete some rows of a replica that is no longer needed."""
        if not member.row.garbage:
            return []
        (slot, tables, last_body), *others = member.row.garbage
        space = Space(self._storage, slot)
        every = {**tables, LOG: True, **({BODIES: True} if slot else {})}
        for table, is_integer in sorted(every.items()):
            after: int | str = KEY_MIN if is_integer else ""
            rows = space.scan(table, after, self.settings.clean_rows_max)  # type: ignore[type-var]
            if rows:
                name = space.table(table)
                return [Store(tuple(Delete(name, key) for key, _ in rows))]
        member.set(garbage=others)
        changes: list[Change] = [member.put()]
        return [Store((*changes, DropBefore(last_body + 1)) if not slot else tuple(changes))]


def lineage_with(lineage: Lineage, term: int, first: int, count_max: int) -> Lineage:
    """The terms of a broker's groups when another one begins.

    >>> lineage_with([(5, 1), (6, 41)], 7, 60, 64), lineage_with([(5, 1), (6, 41)], 7, 41, 64)
    ([(5, 1), (6, 41), (7, 60)], [(5, 1), (7, 41)])
    """
    earlier_terms = [(past, begin) for past, begin in lineage if begin < first]
    return [*earlier_terms, (term, first)][-max(count_max, 2) :]  # the last group is of the term before
