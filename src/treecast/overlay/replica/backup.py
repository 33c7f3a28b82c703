"""The backup's side: a replica of another host's broker, group by group.

Groups are applied strictly in order, each together with the row that says how far the replica is; the answer follows
that. A group that comes too early is ignored, and the primary sends it again. A snapshot goes into its own slot,
chunk by chunk, and replaces the replica when it is complete. Until then the former one could still take over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from treecast.overlay.peer import Effect, Send, Store
from treecast.overlay.replica.member import Member, Replica, is_prefix, last_term_of, with_tables
from treecast.overlay.replica.messages import Ask, Chunk, Copied, Copy
from treecast.overlay.replica.settings import ReplicaSettings
from treecast.overlay.replica.space import ReplicaError, decode_changes
from treecast.overlay.storage import Change


class Backup:
    """Takes what the primary of a broker sends. Terms were checked before."""

    def __init__(self, member: Member, settings: ReplicaSettings, next_slot: Callable[[], int]) -> None:
        self._member = member
        self._settings = settings
        self._next_slot = next_slot
        self._parts: list[bytes] = []  # of the group that comes next
        self._parts_bytes = 0

    def receive(self, sender: str, message: Ask | Copy | Chunk) -> list[Effect]:
        """Raises ReplicaError if the message cannot be right; then nothing has changed."""
        match message:
            case Ask():
                return [*self._complete(message), Send(sender, self._copied_message(message.nonce))]
            case Copy():
                return self._take_copy(sender, message)
            case Chunk():
                return self._take_chunk(sender, message)
            case _:
                assert_never(message)

    def _copied_message(self, nonce: int = 0) -> Copied:
        row = self._member.row
        replica = row.coming or row.replica
        return Copied(
            self._member.broker,
            row.term,
            replica.group if replica else 0,
            last_term_of(replica),
            row.complete_term,
            row.transfer,
            row.chunk,
            row.coming is not None,
            row.coming is not None and row.is_filled,
            nonce,
        )

    def _complete(self, message: Ask) -> list[Effect]:
        """The primary acknowledges nothing any more that this replica will not have. So it may take over."""
        member = self._member
        row = member.row
        replica = row.coming or row.replica
        if not message.complete_at or message.transfer != row.transfer or replica is None:
            return []
        is_filled = row.coming is None or row.is_filled
        if not is_filled or replica.group < message.complete_at or (row.complete_term == row.term and not row.coming):
            return []
        if row.coming is not None:
            member.adopt_coming()
        member.set(complete_term=row.term)
        return [Store((member.put(),))]

    # --- groups -------------------------------------------------------------------------------------------------------

    def _take_copy(self, sender: str, message: Copy) -> list[Effect]:
        row = self._member.row
        replica = row.coming or row.replica
        if replica is None or (row.coming is not None and not row.is_filled):
            return []
        is_end = message.part == message.parts - 1
        if message.group <= replica.group:
            return [Send(sender, self._copied_message())] if is_end else []
        if message.group != replica.group + 1 or not self._fits(replica, message):
            return []
        data = self._join_parts(message)
        if data is None:
            return []
        changes = decode_changes(data)
        return self._apply(sender, replica, message, changes)

    def _fits(self, replica: Replica, message: Copy) -> bool:
        """The group follows what is here, and is not one of another primary's."""
        return is_prefix(message.lineage, last_term_of(replica), replica.group)

    def _join_parts(self, message: Copy) -> bytes | None:
        """The whole group, when this is its last part. Parts come in order, or the primary sends all of them again."""
        if message.part == 0:
            self._parts, self._parts_bytes = [], 0
        if message.part != len(self._parts):
            return None
        self._parts.append(message.data)
        self._parts_bytes += len(message.data)
        if self._parts_bytes > self._settings.group_bytes_max:
            self._parts, self._parts_bytes = [], 0
            raise ReplicaError(f"group {message.group} has more than {self._settings.group_bytes_max} bytes")
        if len(self._parts) < message.parts:
            return None
        data, self._parts, self._parts_bytes = b"".join(self._parts), [], 0
        return data

    def _apply(self, sender: str, replica: Replica, message: Copy, changes: list[Change]) -> list[Effect]:
        member = self._member
        name = "replica" if member.row.coming is None else "coming"
        space = member.space if member.row.coming is None else member.coming
        assert space is not None
        tables = with_tables(replica.tables, changes)
        member.set(**{name: Replica(replica.slot, message.group, message.lineage, tables)})
        translated_changes = space.translate(changes)
        translated_changes.append(member.put())
        return [Store(tuple(translated_changes)), Send(sender, self._copied_message())]

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def _take_chunk(self, sender: str, message: Chunk) -> list[Effect]:
        member = self._member
        changes = decode_changes(message.data)
        if message.number == 1 and message.transfer > member.row.transfer:
            member.begin(self._next_slot(), message.transfer)
            self._parts, self._parts_bytes = [], 0
        row = member.row
        if row.coming is None or message.transfer != row.transfer or message.number > row.chunk + 1:
            return []
        if message.number <= row.chunk:
            return [Send(sender, self._copied_message())]
        assert member.coming is not None
        coming = row.coming
        tables = with_tables({**coming.tables, **message.tables}, changes)
        if message.is_last:
            coming = Replica(coming.slot, message.group, message.lineage, tables)
        else:
            coming = Replica(coming.slot, 0, [], tables)
        member.set(coming=coming, chunk=message.number, is_filled=message.is_last)
        translated_changes = member.coming.translate(changes)
        translated_changes.append(member.put())
        return [Store(tuple(translated_changes)), Send(sender, self._copied_message())]
