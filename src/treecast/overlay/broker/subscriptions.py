"""The catalog of a broker: its sources, and its subscriptions with the index that matches them.

A subscription is a row, and an entry of the index. Changes are numbered, so that an index saved long ago can be brought
up to date: only what changed since is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from treecast.index import Index
from treecast.model import Subscription
from treecast.overlay.broker.archive import add_row
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.refused import RequestError, check_name, check_subscription
from treecast.overlay.broker.rows import (
    CHANGES,
    EXPIRING,
    LETTERS,
    REDELIVERIES,
    SOURCES,
    SUBSCRIPTIONS,
    ChangeRow,
    LetterRow,
    SourceRow,
    SubscriptionRow,
    decode,
    decode_many,
)
from treecast.overlay.broker.schemas import Schemas
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Pause, RegisterSource, RemoveSource, Subscribe
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import DeleteBefore, Put
from treecast.workload.validator import Validator

ADDED_AT_ONCE = 250_000
"""When an index is built or brought up to date. Few large batches are faster than many small ones."""


def _item(id: str, row: SubscriptionRow | ChangeRow) -> Subscription | tuple[str, str]:
    """What an index takes. A pair is enough for most."""
    if row.namespaces or row.ordered or row.deliver != "document":
        return Subscription(id, row.query, row.namespaces, row.ordered, row.deliver)  # type: ignore[arg-type]
    return id, row.query


class Subscriptions:
    """What may be published, and who wants it."""

    def __init__(self, shadow: Shadow, index: Index, settings: BrokerSettings) -> None:
        self._shadow = shadow
        self.index = index
        self._settings = settings
        self.schemas = Schemas(settings)
        self.sources: dict[str, SourceRow] = {}
        self.last_change = 0
        self.last_seen: dict[str, int] = {}
        """When somebody last received from a subscription that expires."""

    # --- after a restart ---------------------------------------------------------------------------------------------

    def load(self, index_version: int) -> Callable[[], None]:
        """Read what is stored. The index contains all changes up to `index_version`.

        Returns what is left to do: bring the index up to date. That takes long, and touches nothing but the index.
        """
        for id, data in self._shadow.rows(SOURCES, ""):
            self.sources[id] = decode(data, SourceRow)
        for id, data in self._shadow.rows(EXPIRING, ""):
            self.last_seen[id] = int.from_bytes(data, "big")
        if not index_version and not len(self.index):
            rows = self._shadow.rows(SUBSCRIPTIONS, "")
            return lambda: self._add_all((id, decode(data, SubscriptionRow)) for id, data in rows)
        changed: dict[str, ChangeRow] = {}
        # PERF: bench/broker_restart.py. All that the index needs is in these rows, one behind the other.
        after = index_version
        while changes := self._shadow.scan(CHANGES, after, 10_000):
            after = changes[-1][0]
            changed.update((row.id, row) for row in decode_many([data for _, data in changes], ChangeRow))
        gone = [id for id, row in changed.items() if not row.query]
        added = [_item(id, row) for id, row in changed.items() if row.query]
        # An added one may be there already: the saved index is never older than it says.
        return partial(self.index.catch_up, gone, added) if changed else lambda: None

    def _add_all(self, rows: Iterable[tuple[str, SubscriptionRow]]) -> None:
        batch: list[Subscription | tuple[str, str]] = []
        for id, row in rows:
            batch.append(_item(id, row))
            if len(batch) == ADDED_AT_ONCE:
                self.index.add_many(batch)
                batch.clear()
        if batch:
            self.index.add_many(batch)

    # --- sources -----------------------------------------------------------------------------------------------------

    def register_source(self, command: RegisterSource, turn: Turn) -> None:
        check_name(command.source, "source")
        if command.schema:
            self.schemas.validator(command.schema)
        if command.source not in self.sources and len(self.sources) >= self._settings.sources_max:
            raise RequestError(f"there are {self._settings.sources_max} sources already", code="TC413")
        row = self.sources[command.source] = SourceRow(command.schema, command.description)
        turn.put(SOURCES, command.source, row)

    def remove_source(self, command: RemoveSource, turn: Turn) -> None:
        self.check_source(command.source)
        del self.sources[command.source]
        turn.delete(SOURCES, command.source)

    def check_source(self, source: str) -> None:
        if source not in self.sources:
            raise RequestError(f"no source is called {source!r}", code="TC410", hint="register it first")

    def validator(self, source: str) -> Validator | None:
        """What documents of this source, which is registered, are checked by. Raises DocumentError: a wrong DTD."""
        schema = self.sources[source].schema
        return self.schemas.validator(schema) if schema else None

    # --- subscriptions -----------------------------------------------------------------------------------------------

    def row(self, id: str) -> SubscriptionRow | None:
        data = self._shadow.get(SUBSCRIPTIONS, id)
        return None if data is None else decode(data, SubscriptionRow)

    def rows(self, ids: Iterable[str]) -> dict[str, SubscriptionRow]:
        """Of those that exist, in this order."""
        ids = list(ids)
        stored = self._shadow.get_many(SUBSCRIPTIONS, ids)
        known = [id for id in ids if id in stored]
        return dict(zip(known, decode_many([stored[id] for id in known], SubscriptionRow), strict=True))

    def expect(self, id: str) -> SubscriptionRow:
        row = self.row(id)
        if row is None:
            raise RequestError(f"no subscription has the id {id!r}", code="TC412")
        return row

    def subscribe(self, command: Subscribe, backlog: Backlog, turn: Turn) -> None:
        """Add a subscription or change one. What it matched before it changed is delivered as it was matched."""
        check_subscription(command)
        before = self.row(command.id)
        if before is None and len(self.index) >= self._settings.subscriptions_max:
            raise RequestError(f"there are {self._settings.subscriptions_max} subscriptions already", code="TC413")
        row = SubscriptionRow(
            command.query,
            command.namespaces,
            command.ordered,
            command.deliver,
            command.options,
            self.last_change + 1,
            before.since if before else backlog.last_document,
            before.paused if before else False,
        )
        if before is None:
            add_row(self.index, command.id, row)
        else:
            self._replace(command.id, row)
        self._store(command.id, before, row, turn)
        backlog.change(command.id, row)

    def subscribe_many(self, commands: list[Subscribe], backlog: Backlog, turn: Turn) -> None:
        """Add new subscriptions, all or none."""
        if len(self.index) + len(commands) > self._settings.subscriptions_max:
            raise RequestError(f"at most {self._settings.subscriptions_max} subscriptions", code="TC413")
        for command in commands:
            check_subscription(command)
        rows = [
            SubscriptionRow(c.query, c.namespaces, c.ordered, c.deliver, c.options, 0, backlog.last_document)
            for c in commands
        ]
        self._add_all((command.id, row) for command, row in zip(commands, rows, strict=True))
        for command, row in zip(commands, rows, strict=True):
            self._store(command.id, None, msgspec.structs.replace(row, change=self.last_change + 1), turn)

    def _replace(self, id: str, row: SubscriptionRow) -> None:
        self.index.replace(id, row.query, namespaces=row.namespaces, ordered=row.ordered, deliver=row.deliver)  # type: ignore[arg-type]

    def _store(self, id: str, before: SubscriptionRow | None, row: SubscriptionRow, turn: Turn) -> None:
        self.last_change += 1
        turn.changed_subscriptions.append((before, row))
        turn.put(SUBSCRIPTIONS, id, row)
        turn.put(CHANGES, self.last_change, ChangeRow(id, row.query, row.namespaces, row.ordered, row.deliver))
        if row.options.expires_ms:
            self.see(id, turn)
        elif self.last_seen.pop(id, None) is not None:
            turn.delete(EXPIRING, id)

    def unsubscribe(self, id: str, backlog: Backlog, turn: Turn) -> None:
        turn.changed_subscriptions.append((self.expect(id), None))
        self.index.remove(id)
        self.last_change += 1
        turn.delete(SUBSCRIPTIONS, id)
        turn.put(CHANGES, self.last_change, ChangeRow(id))
        if self.last_seen.pop(id, None) is not None:
            turn.delete(EXPIRING, id)
        backlog.remove(id, turn)

    def pause(self, command: Pause, backlog: Backlog, turn: Turn) -> None:
        before = self.expect(command.id)
        if before.paused != command.paused:
            row = msgspec.structs.replace(before, paused=command.paused)
            turn.put(SUBSCRIPTIONS, command.id, row)
            backlog.change(command.id, row)

    def redeliver(self, letters: list[int], backlog: Backlog, turn: Turn) -> None:
        """All of them, or none."""
        found: list[tuple[int, LetterRow, SubscriptionRow]] = []
        for number in letters:
            data = self._shadow.get(LETTERS, number)
            if data is None:
                raise RequestError(f"there is no dead letter {number}", code="TC416")
            letter = decode(data, LetterRow)
            if not letter.payload and letter.reason.startswith("TC"):
                raise RequestError(f"dead letter {number} has no payload: {letter.reason}", code="TC416")
            found.append((number, letter, self.expect(letter.subscription)))
        for number, letter, row in found:
            turn.changes.append(Put(REDELIVERIES, number, letter.subscription.encode()))
            backlog.redeliver(number, letter, row)

    def advance(self, positions: list[tuple[str, int]], backlog: Backlog, turn: Turn) -> None:
        for id, document in positions:
            if (row := self.row(id)) is not None:
                backlog.advance(id, row, document, turn)

    # --- those that nobody receives from any more ---------------------------------------------------------------------

    def see(self, id: str, turn: Turn) -> None:
        """Somebody receives from a subscription, or just did."""
        self.last_seen[id] = turn.now_ms
        turn.changes.append(Put(EXPIRING, id, turn.now_ms.to_bytes(8, "big")))

    def expire(self, attached: set[str], backlog: Backlog, turn: Turn) -> None:
        """Remove subscriptions that were abandoned."""
        for id, seen_ms in list(self.last_seen.items()):
            if id in attached:
                continue
            row = self.row(id)
            if row is not None and turn.now_ms - seen_ms > row.options.expires_ms:
                self.unsubscribe(id, backlog, turn)

    def saved(self, version: int, turn: Turn) -> None:
        """An index with all changes up to this one is saved: they need not be applied again."""
        turn.changes.append(DeleteBefore(CHANGES, version + 1))
