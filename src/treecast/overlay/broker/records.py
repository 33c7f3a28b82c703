"""Small durable values of the doors, by kind and key: web hooks, WebSub subscribers, tokens, what else comes.

The broker stores them and does not look inside. They are for doors in the broker's own process: what a stranger may
change through a connection is never kept here (see `treecast.serve.admission`).

A kind is one word; keys are names as those of subscriptions, and may contain slashes:

    >>> record_key("hooks", "a/b")
    'hooks/a/b'
"""

from __future__ import annotations

from collections.abc import Iterator

from treecast.overlay.broker.refused import RequestError, check_name
from treecast.overlay.broker.rows import META, RECORDS, RecordCounts, decode
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import RemoveRecord, SetRecord
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Put

COUNTS = "records"
"""The key of the counts among `meta`."""


def record_key(kind: str, key: str) -> str:
    return f"{kind}/{key}"


class Records:
    """Values by kind and key."""

    def __init__(self, shadow: Shadow, settings: BrokerSettings) -> None:
        self._shadow = shadow
        self._settings = settings
        data = shadow.get(META, COUNTS)
        self._counts: dict[str, int] = dict(decode(data, RecordCounts).kinds) if data else {}

    def set(self, command: SetRecord, turn: Turn) -> None:
        """Add a value, or change it. Raises RequestError: TC413 too many, TC414 a name, TC418 too large."""
        kind = command.kind
        check_name(kind, "kind")
        check_name(command.key, "key")
        settings = self._settings
        if "/" in kind:
            raise RequestError(f"the kind {kind!r} contains a slash", code="TC414")
        if len(command.value) > settings.record_bytes_max:
            hint = f"at most {settings.record_bytes_max} bytes"
            raise RequestError(f"a record of {len(command.value)} bytes", code="TC418", hint=hint)
        if self._shadow.get(RECORDS, record_key(kind, command.key)) is None:
            if self._counts.get(kind, 0) >= settings.records_per_kind_max:
                raise RequestError(f"there are {settings.records_per_kind_max} {kind} already", code="TC413")
            if kind not in self._counts and len(self._counts) >= settings.record_kinds_max:
                raise RequestError(f"there are {settings.record_kinds_max} kinds of records already", code="TC413")
            self._count(kind, 1, turn)
        turn.changes.append(Put(RECORDS, record_key(kind, command.key), command.value))

    def remove(self, command: RemoveRecord, turn: Turn) -> None:
        """No error if there is none."""
        key = record_key(command.kind, command.key)
        if self._shadow.get(RECORDS, key) is not None:
            turn.delete(RECORDS, key)
            self._count(command.kind, -1, turn)

    def _count(self, kind: str, more: int, turn: Turn) -> None:
        count = self._counts.get(kind, 0) + more
        if count:
            self._counts[kind] = count
        else:
            del self._counts[kind]
        turn.put(META, COUNTS, RecordCounts(dict(self._counts)))

    def get(self, kind: str, key: str) -> bytes | None:
        return self._shadow.get(RECORDS, record_key(kind, key))

    def all(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Keys and values of a kind, by their keys."""
        prefix = record_key(kind, "")
        for key, value in self._shadow.rows(RECORDS, prefix):
            if not key.startswith(prefix):
                return
            yield key.removeprefix(prefix), value
