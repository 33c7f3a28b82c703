"""The primary's side: a peer around a broker that lets nothing out before the backup has what it follows.

Each `Store` of the broker is a *group*, with a number. It is stored here first, and sent to the backup when it is
durable: so what the backup has is always the beginning of what is stored here. Whatever the broker asks for after a
`Store` waits until the backup says that the group is on its disk too. Groups are sent one behind the other, as many as
the window allows; when answers are missing, the primary asks where the backup stands and goes on from there.

Groups that the backup may not have are in a log beside the data, without their bodies, which are in the storage anyway.
So after a restart of either side only those groups travel that are missing. If the log does not reach back far enough,
the backup gets a snapshot first (`snapshot.py`).

Three modes, and the control plane decides (`Role`):

- **alone**: there is no backup. Nothing waits for one, and no log is kept.
- **joining**: the backup does not have everything yet. The broker serves as if it were alone, meanwhile.
- **paired**: the backup has everything, or nothing leaves here until it has. The way back leads through a new term.

A backup that does not answer stops a paired primary. After `alone_ms` it says so, and only the control plane can let it
go on: otherwise two hosts could both acknowledge, without knowing of each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from treecast.overlay.peer import Deliver, Effect, Peer, SaveIndex, Send, Store
from treecast.overlay.replica.member import Member, is_prefix
from treecast.overlay.replica.messages import Ask, Chunk, Copied, Copy, Inner, State
from treecast.overlay.replica.settings import ReplicaSettings
from treecast.overlay.replica.snapshot import Transfer
from treecast.overlay.replica.space import LOG, decode_changes, encode_changes
from treecast.overlay.retry import Retry
from treecast.overlay.storage import Change, DeleteBefore, DropBefore, Put, one_by_one

TRANSFER_BITS = 20
"""Of a transfer's number that are drawn. The others count."""
OVERTAKEN_MAX = 40
"""Limits are not doubled more often."""


class _Begin:
    """To itself: all groups up to this one are durable, and can be read."""

    __slots__ = ("group", "transfer")

    def __init__(self, group: int, transfer: int) -> None:
        self.group = group
        self.transfer = transfer


class Replicated:
    """A `Peer` for the broker's clients, on the host that is its primary."""

    def __init__(
        self, host: str, member: Member, inner: Peer, random: Random, settings: ReplicaSettings, life: int
    ) -> None:
        assert member.space is not None
        self.name = member.broker
        self.inner = inner
        self.end: State | None = None
        """Why nothing is done here any more: deposed, or lost."""
        self.dropped = 0
        """Messages that were not taken, because too much waits for the backup."""
        self.overtaken = 0
        """How often the broker has run away from a backup that was being filled, since one was filled last."""
        self._host = host
        self._member = member
        self._space = member.space
        self._random = random
        self._settings = settings
        self.life = life
        self.speaker = ""
        """In whose name the broker sends; empty: in that of the host."""
        self._retry = Retry(random, settings.resend_ms, settings.resend_ms_max)
        self._held_effects: deque[tuple[int, Effect]] = deque()
        self._held_since_ms: int | None = None
        self._drops: deque[tuple[int, DropBefore]] = deque()
        self._log: deque[tuple[int, int]] = deque()  # groups in the log, with their bytes, as far as is known
        self._log_bytes = 0
        rows = self._space.scan(LOG, 0, 1)
        self._log_first = rows[0][0] if rows else member.group + 1
        self.start()

    def start(self) -> None:
        """A term begins, or a life: nothing is known about the backup."""
        self.safe = 0
        """The backup has all groups up to this one, and is complete."""
        self._position = 0  # the last group that the backup has said it has
        self._last_group_sent = 0
        self._flight: deque[tuple[int, int]] = deque()  # groups that were sent, with their bytes
        self._flight_bytes = 0
        self._is_streaming = False
        self._transfer: Transfer | None = None
        self._transfer_id = 0
        self._is_beginning = False  # a transfer waits for what it will read to be durable
        self._complete_at = self._member.group
        self._nonce = 0
        self._retry.reset()

    @property
    def state(self) -> State:
        row = self._member.row
        if self.end is not None:
            return self.end
        if not row.backup:
            return "alone"
        return "paired" if row.is_paired else "joining"

    def stats(self) -> dict[str, int]:
        """How far the backup is behind, for metrics."""
        row, group = self._member.row, self._member.group
        return {
            "replica_groups_behind": group - self._position if row.backup else 0,
            "replica_effects_held": len(self._held_effects),
            "replica_dropped": self.dropped,
            "replica_overtaken": self.overtaken,
            "replica_is_paired": int(row.is_paired),
        }

    def is_waiting(self, now_ms: int) -> bool:
        """Something has waited for the backup for too long."""
        since = self._held_since_ms
        return self.state == "paired" and since is not None and now_ms - since >= self._settings.alone_ms

    def is_full(self) -> bool:
        """Too much waits for the backup: no requests are taken."""
        settings = self._settings
        return self.state == "paired" and (len(self._held_effects) >= settings.held_effects_max or self._is_far_ahead())

    def _is_far_ahead(self) -> bool:
        settings = self._settings
        groups_max, bytes_max = settings.behind_groups_max, settings.behind_bytes_max
        if not self._member.row.is_paired:
            # A broker that is never idle would run away from every snapshot if the limits stayed the same.
            groups_max = max(groups_max, min(groups_max << self.overtaken, settings.joining_groups_max))
            bytes_max = max(bytes_max, min(bytes_max << self.overtaken, settings.joining_bytes_max))
        return len(self._log) >= groups_max or self._log_bytes >= bytes_max

    # --- the peer -----------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        """A message for the broker."""
        if self.end is not None:
            return []
        if self.is_full():
            self.dropped += 1  # it will be sent again
            return []
        return self._wrap(self.inner.receive(sender, message, now_ms), now_ms)

    def receive_own(self, message: Any, now_ms: int) -> list[Effect]:
        """What the broker has said to itself comes back; so does what this part has."""
        if isinstance(message, _Begin):
            return self._begin_transfer(message)
        return [] if self.end is not None else self._wrap(self.inner.receive(self.name, message, now_ms), now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        if self.end is not None:
            return []
        effects: list[Effect] = []
        if not self.is_full():
            effects += self._wrap(self.inner.tick(now_ms), now_ms)
        if self._needs_answer() and self._retry.is_due(now_ms):
            effects.append(self._ask(now_ms))
        return effects

    def _needs_answer(self) -> bool:
        row = self._member.row
        return bool(row.backup) and (not row.is_paired or self.safe < self._member.group)

    # --- what the broker asks for -------------------------------------------------------------------------------------

    def _wrap(self, effects: Sequence[Effect], now_ms: int) -> list[Effect]:
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Store):
                out += self._store(effect.changes)
                continue
            if isinstance(effect, Send) and effect.to == self.name:
                effect = Send(self._host, Inner(self.name, self.life, effect.message))
            elif self.speaker and isinstance(effect, Send | Deliver):
                effect = msgspec.structs.replace(effect, sender=self.speaker)
            elif isinstance(effect, SaveIndex) and not self._member.is_own():
                continue  # the file of the saved index belongs to the host's own broker
            is_urgent = isinstance(effect, Send) and effect.is_urgent  # it depends on nothing that is stored
            if is_urgent or self._may_leave():
                out.append(effect)
            else:
                self._held_effects.append((self._member.group, effect))
                self._held_since_ms = now_ms if self._held_since_ms is None else self._held_since_ms
        return out

    def _may_leave(self) -> bool:
        """Nothing waits, and the backup has all groups."""
        return not self._member.row.is_paired or (not self._held_effects and self.safe >= self._member.group)

    def _store(self, requested_changes: Sequence[Change]) -> list[Effect]:
        changes = list(one_by_one(requested_changes))
        member = self._member
        group = member.group + 1
        member.advance(changes, group)
        has_backup = bool(member.row.backup)
        own = [change for change in changes if type(change) is not DropBefore]
        # A body is dropped when the backup has the group that says so, or will have it from a snapshot: until then,
        # earlier groups may need it.
        self._drops += ((group, change) for change in changes if type(change) is DropBefore)
        copied_group = max(self._position, self._log_first - 1) if has_backup else group
        while self._drops and self._drops[0][0] <= copied_group:
            own.append(self._drops.popleft()[1])
        translated_changes = self._space.translate(own)
        translated_changes += self._log_group(group, changes) if has_backup else []
        translated_changes.append(member.put())
        effects: list[Effect] = [Store(tuple(translated_changes))]
        if self._is_streaming and self._last_group_sent == group - 1 and self._has_room():
            effects += self._copy(group, encode_changes(changes))
        return effects

    def _log_group(self, group: int, changes: Sequence[Change]) -> list[Change]:
        """Remember a group until the backup has it."""
        log = self._space.table(LOG)
        data = encode_changes(changes, with_bodies=False)
        self._log.append((group, len(data)))
        self._log_bytes += len(data)
        log_changes: list[Change] = [Put(log, group, data)]
        kept_from = self._position + 1
        if not self._member.row.is_paired and self._is_far_ahead():
            # The broker goes on; the backup begins with another snapshot.
            kept_from = group + 1
            if self._is_filling():
                self.overtaken = min(self.overtaken + 1, OVERTAKEN_MAX)
            self.start()
        if kept_from > self._log_first:
            self._log_first = kept_from
            self._uncount(kept_from)
            log_changes.append(DeleteBefore(log, kept_from))
        return log_changes

    def _is_filling(self) -> bool:
        """The backup is there, and gets a snapshot or groups."""
        return self._transfer is not None or self._is_beginning or self._is_streaming

    def _uncount(self, kept_from: int) -> None:
        """Groups before this one need not be in the log any more. They are deleted with the next group."""
        while self._log and self._log[0][0] < kept_from:
            self._log_bytes -= self._log.popleft()[1]

    def forget_all(self) -> list[Change]:
        """A backup comes that has no need of the log, or there is none from now on."""
        self._log_first = self._member.group + 1
        self._uncount(self._log_first)
        return [DeleteBefore(self._space.table(LOG), self._log_first)]

    def release(self) -> list[Effect]:
        """Release what waited for nothing but what the backup has now."""
        safe = self.safe if self._member.row.is_paired else self._member.group
        effects: list[Effect] = []
        while self._held_effects and self._held_effects[0][0] <= safe:
            effects.append(self._held_effects.popleft()[1])
        if effects or not self._held_effects:
            self._held_since_ms = None
        return effects

    # --- talking to the backup ----------------------------------------------------------------------------------------

    def _ask(self, now_ms: int) -> Send:
        self._retry.start(now_ms)
        self._nonce = self._random.getrandbits(62) + 1
        row = self._member.row
        complete_at = self._complete_at if row.is_paired else 0
        return Send(row.backup, Ask(self.name, row.term, self._nonce, self._transfer_id, complete_at))

    def take_copied(self, message: Copied, now_ms: int) -> list[Effect]:
        """The backup says where it stands."""
        row, group = self._member.row, self._member.group
        if self.end is not None or message.term != row.term:
            return []
        assert row.replica is not None
        is_complete = message.complete_term == row.term and not message.is_coming
        if is_complete and message.group > group:
            self.end = "lost"  # it has what was stored here before, and is not any more
            return []
        has_prefix = is_prefix(row.replica.lineage, message.last_term, message.group)
        if row.is_paired and is_complete and has_prefix:
            self.safe = max(message.group, self.safe)
        effects = self.release()
        is_answer = message.nonce != 0 and message.nonce == self._nonce
        if is_answer:
            self._nonce = 0
            self._go_on_from(message, has_prefix, effects)
        elif self._is_streaming and has_prefix and message.group > self._position:
            self._advance(message.group, now_ms)
        elif self._transfer is not None and message.transfer == self._transfer.id:
            if message.chunk > self._transfer.acknowledged:
                self._retry.reset()
                self._retry.start(now_ms)
            self._transfer.acknowledge(message.chunk)
        effects += self._pump()
        if self._transfer is not None and message.transfer == self._transfer.id and message.is_filled:
            self._transfer = None
            self._stream_from(message)
            effects += self._pump()
        if self._is_streaming and not row.is_paired:
            effects += self._pair(now_ms)
        elif row.is_paired and not is_complete and self._position >= self._complete_at and not self._nonce:
            effects.append(self._ask(now_ms))
        return effects

    def _go_on_from(self, message: Copied, has_prefix: bool, effects: list[Effect]) -> None:
        """Decide what the backup needs: groups, chunks of the snapshot that is under way, or another snapshot."""
        transfer = self._transfer
        if transfer is not None and message.transfer == transfer.id and message.is_coming:
            transfer.acknowledge(message.chunk)
            effects += (self._chunk(*chunk) for chunk in transfer.unacknowledged_chunks())
        elif has_prefix and message.group + 1 >= self._log_first and (message.is_filled or not message.is_coming):
            self._stream_from(message)
        elif self._is_beginning:
            pass
        elif transfer is None or message.transfer >= transfer.id or transfer.acknowledged:
            self._is_streaming = False
            self._transfer = None
            self._is_beginning = True
            count = (max(message.transfer, self._transfer_id) >> TRANSFER_BITS) + 1
            self._transfer_id = count << TRANSFER_BITS | self._random.getrandbits(TRANSFER_BITS)
            begin = _Begin(self._member.group, self._transfer_id)
            effects.append(Send(self._host, Inner(self.name, self.life, begin)))
        else:
            effects += (self._chunk(*chunk) for chunk in transfer.unacknowledged_chunks())  # its first one is lost

    def _stream_from(self, message: Copied) -> None:
        self._transfer = None
        self._transfer_id = message.transfer
        self._is_streaming = True
        self._position = self._last_group_sent = message.group
        self._uncount(self._position + 1)
        self._flight.clear()
        self._flight_bytes = 0

    def _advance(self, group: int, now_ms: int) -> None:
        self._position = group
        self._uncount(group + 1)
        self._last_group_sent = max(group, self._last_group_sent)
        while self._flight and self._flight[0][0] <= group:
            self._flight_bytes -= self._flight.popleft()[1]
        self._retry.reset()
        self._retry.start(now_ms)

    def _pair(self, now_ms: int) -> list[Effect]:
        """The backup has nearly everything, and the rest is on its way: from now on, what it does not have waits."""
        member = self._member
        behind = member.group - self._position
        if self._last_group_sent < member.group or behind > self._settings.window_groups_max // 10:
            # Were more than a window missing, answers could wait for so long that the backup is given up.
            return []
        self._complete_at = max(member.group, self._complete_at)
        member.set(is_paired=True)
        self.overtaken = 0
        return [Store((member.put(),)), self._ask(now_ms)]

    # --- groups and chunks --------------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        settings = self._settings
        return len(self._flight) < settings.window_groups_max and self._flight_bytes < settings.window_bytes_max

    def _pump(self) -> list[Effect]:
        """Send what may be sent: chunks, or groups from the log."""
        effects: list[Effect] = []
        if self._transfer is not None:
            for number, data in self._transfer.more():
                effects.append(self._chunk(number, data))
            return effects
        while self._is_streaming and self._last_group_sent < self._member.group and self._has_room():
            group_data = self._space.get(LOG, self._last_group_sent + 1)
            if group_data is None:
                break  # it is not durable yet
            effects += self._copy(self._last_group_sent + 1, encode_changes(decode_changes(group_data, self._space)))
        return effects

    def _copy(self, group: int, data: bytes) -> list[Effect]:
        row, size_max = self._member.row, self._settings.part_bytes_max
        assert row.replica is not None
        if len(data) > self._settings.group_bytes_max:
            self._is_streaming = False
            self._log_first = group + 1  # as if the log did not have it: a snapshot will
            return []
        self._last_group_sent = group
        self._flight.append((group, len(data)))
        self._flight_bytes += len(data)
        parts = [data[begin : begin + size_max] for begin in range(0, len(data), size_max)]
        lineage = row.replica.lineage
        return [
            Send(row.backup, Copy(self.name, row.term, group, lineage, part, number, len(parts)))
            for number, part in enumerate(parts)
        ]

    def _begin_transfer(self, message: _Begin) -> list[Effect]:
        replica = self._member.row.replica
        if self.end is not None or not self._is_beginning or message.transfer != self._transfer_id:
            return []
        self._is_beginning = False
        assert replica is not None
        self._transfer = Transfer(message.transfer, message.group, self._space, replica.tables, self._settings)
        return self._pump()

    def _chunk(self, number: int, data: bytes) -> Send:
        row, transfer = self._member.row, self._transfer
        assert transfer is not None and row.replica is not None
        if number != transfer.last:
            return Send(row.backup, Chunk(self.name, row.term, transfer.id, number, data))
        # Chunks show traces of groups up to this one: the replica is complete when it has them all.
        self._complete_at = max(self._member.group, self._complete_at)
        lineage = row.replica.lineage
        chunk = Chunk(self.name, row.term, transfer.id, number, data, True, transfer.base, lineage, transfer.tables)
        return Send(row.backup, chunk)
