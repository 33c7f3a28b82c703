"""Bugs for the simulator to find in replicas: hosts that are wrong in one place each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treecast.overlay.messages import Confirmation
from treecast.overlay.peer import Effect, Send
from treecast.overlay.replica import ReplicaHost
from treecast.overlay.replica.backup import Backup
from treecast.overlay.replica.member import Member, Replica
from treecast.overlay.replica.messages import Ask, Chunk, Copied, Copy
from treecast.overlay.replica.primary import Replicated
from treecast.overlay.replica.space import encode_changes
from treecast.overlay.storage import Change
from treecast.sim.replica.scenario import ReplicaScenario


class _EarlyHost(ReplicaHost):
    """Acknowledges when its own disk has it, whatever the backup has."""

    def _open(self, member: Member) -> None:
        super()._open(member)
        self._primaries[member.broker]._may_leave = lambda: True  # type: ignore[method-assign]


class _HurryingReplicated(Replicated):
    """Confirms acknowledgements of deliveries when its own disk has them."""

    def _wrap(self, effects: Sequence[Effect], now_ms: int) -> list[Effect]:
        hurried = [e for e in effects if isinstance(e, Send) and isinstance(e.message, Confirmation)]
        return [*super()._wrap([e for e in effects if e not in hurried], now_ms), *hurried]


class _HurryingHost(ReplicaHost):
    def _open(self, member: Member) -> None:
        super()._open(member)
        self._primaries[member.broker].__class__ = _HurryingReplicated


class _UnfencedHost(ReplicaHost):
    """Goes on answering the former primary after it has taken over."""

    def _take_as_backup(self, sender: str, message: Ask | Copy | Chunk) -> list[Effect]:
        member = self._members.get(message.broker)
        if member is None or message.term >= member.row.term or not isinstance(message, Copy):
            return super()._take_as_backup(sender, message)
        last_term = message.lineage[-1][0]
        return [Send(sender, Copied(message.broker, message.term, message.group, last_term, message.term))]


class _PlantedBackup(ReplicaHost):
    """With another backup than the right one."""

    kind: type[Backup]

    def _take_as_backup(self, sender: str, message: Ask | Copy | Chunk) -> list[Effect]:
        backup = self._backups.get(message.broker)
        if backup is not None and type(backup) is not self.kind:
            planted_backup = self.kind(backup._member, self.settings, self._next_slot)
            self._backups[message.broker] = planted_backup
        return super()._take_as_backup(sender, message)


class _ForgetfulBackup(Backup):
    """Says that it has a chunk of a snapshot, and has lost it."""

    def _take_chunk(self, sender: str, message: Chunk) -> list[Effect]:
        if message.number == 2:
            message = msgspec.structs.replace(message, data=encode_changes([]))
        return super()._take_chunk(sender, message)


class _DisorderlyBackup(Backup):
    """Applies groups as they come."""

    def _take_copy(self, sender: str, message: Copy) -> list[Effect]:
        row = self._member.row
        replica = row.coming or row.replica
        if replica is not None and message.group > replica.group + 1 and message.parts == 1:
            name = "replica" if row.coming is None else "coming"
            self._member.set(**{name: msgspec.structs.replace(replica, group=message.group - 1)})
        return super()._take_copy(sender, message)


class _EagerBackup(Backup):
    """Answers before it has written."""

    def _apply(self, sender: str, replica: Replica, message: Copy, changes: list[Change]) -> list[Effect]:
        return list(reversed(super()._apply(sender, replica, message, changes)))


class _EagerHost(_PlantedBackup):
    kind = _EagerBackup


class _ForgetfulHost(_PlantedBackup):
    kind = _ForgetfulBackup


class _DisorderlyHost(_PlantedBackup):
    kind = _DisorderlyBackup


class _LaxReplicated(Replicated):
    """Lets the backup call itself complete, and still serves as if it were alone."""

    def _ask(self, now_ms: int) -> Send:
        ask = super()._ask(now_ms)
        return Send(ask.to, msgspec.structs.replace(ask.message, complete_at=max(self._position, 1)))


class _LaxHost(ReplicaHost):
    def _open(self, member: Member) -> None:
        super()._open(member)
        self._primaries[member.broker].__class__ = _LaxReplicated


PLANTED = {
    "acknowledgement before the backup's": ReplicaScenario(_EarlyHost),
    "an answer before the backup's write": ReplicaScenario(_EagerHost),
    "a confirmation before the backup's": ReplicaScenario(_HurryingHost),
    "no fencing": ReplicaScenario(_UnfencedHost),
    "a lost chunk of a snapshot": ReplicaScenario(_ForgetfulHost),
    "groups out of order": ReplicaScenario(_DisorderlyHost),
    "acknowledgements while pairing": ReplicaScenario(_LaxHost),
}
