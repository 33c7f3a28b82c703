"""The catalog of a network: its sources, their schemas and roots, with a version for each change.

A broker says which version it has, and gets the entries that have changed since: only those, in messages of bounded
size. A source that was removed stays as an entry without a root, so that a broker that was away for long hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from treecast.overlay.broker.refused import RequestError, check_name
from treecast.overlay.broker.rows import decode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import RegisterSource
from treecast.overlay.onyx.control_messages import ENTRIES_MAX, CatalogDelta, CatalogEntry
from treecast.overlay.onyx.registry.rows import CHANGES, SOURCES, SourceRow
from treecast.overlay.onyx.registry.settings import RegistrySettings
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Delete, Put


class Catalog:
    """Sources, in memory and stored."""

    def __init__(self, shadow: Shadow, settings: RegistrySettings, version: int) -> None:
        self._settings = settings
        self.version = version
        self.rows: dict[str, SourceRow] = {name: decode(data, SourceRow) for name, data in shadow.rows(SOURCES, "")}
        self._by_version = dict(sorted((row.version, name) for name, row in self.rows.items()))

    def live(self) -> dict[str, SourceRow]:
        """Those that were not removed."""
        return {name: row for name, row in self.rows.items() if row.entry.root}

    def roots(self) -> list[str]:
        return sorted({row.entry.root for row in self.rows.values() if row.entry.root})

    def former_roots(self, now_ms: int) -> set[str]:
        """Brokers that others may still have to get documents from, though they take none now."""
        since_ms = now_ms - self._settings.former_ms
        return {row.former_root for row in self.rows.values() if row.former_root and row.left_ms > since_ms}

    def register(
        self, command: RegisterSource, root: Callable[[], str], new_id: Callable[[], int], turn: Turn
    ) -> SourceRow:
        """Add a source, which gets an id and a root, or change one, which keeps them. Raises RequestError."""
        check_name(command.source, "source")
        known = self.rows.get(command.source)
        if known is None and len(self.rows) >= self._settings.sources_max:
            raise RequestError(f"there are {self._settings.sources_max} sources already", code="TC413")
        is_live = known is not None and bool(known.entry.root)
        entry = CatalogEntry(
            command.source,
            known.entry.root if known is not None and is_live else root(),
            known.entry.number if known is not None and is_live else new_id(),
            command.schema,
            command.description,
        )
        volume = command.messages_per_second * command.message_bytes
        return self._store(SourceRow(entry, 0, command.location, volume), turn)

    def remove(self, source: str, turn: Turn) -> None:
        """Raises RequestError: TC410 no such source."""
        known = self.rows.get(source)
        if known is None or not known.entry.root:
            raise RequestError(f"there is no source {source[:80]!r}", code="TC410")
        self._store(SourceRow(CatalogEntry(source, "", known.entry.number), 0), turn)

    def move(self, source: str, root: str, turn: Turn) -> None:
        """Give a source another root."""
        row = self.rows[source]
        entry = CatalogEntry(source, root, row.entry.number, row.entry.schema, row.entry.description)
        self._store(SourceRow(entry, 0, row.location, row.bytes_per_second), turn)

    def _store(self, row: SourceRow, turn: Turn) -> SourceRow:
        name = row.entry.source
        known = self.rows.get(name)
        former, left_ms = "", 0
        if known is not None:
            del self._by_version[known.version]
            turn.changes.append(Delete(CHANGES, known.version))
            former, left_ms = known.former_root, known.left_ms
            if known.entry.root not in ("", row.entry.root):
                former, left_ms = known.entry.root, turn.now_ms
        self.version += 1
        row = SourceRow(
            row.entry, self.version, row.location, row.bytes_per_second, former, left_ms, row.broker_version
        )
        self.rows[name] = row
        self._by_version[self.version] = name
        turn.put(SOURCES, name, row)
        turn.changes.append(Put(CHANGES, self.version, name.encode()))
        return row

    def restore(self, rows: Iterable[SourceRow], version: int, turn: Turn) -> None:
        """What brokers had of it, as changes after a version that is above any of theirs."""
        for name, row in self.rows.items():
            turn.delete(SOURCES, name)
            turn.delete(CHANGES, row.version)
        self.rows.clear()
        self._by_version.clear()
        self.version = version
        for row in rows:
            self._store(row, turn)

    def put(self, entry: CatalogEntry, broker_version: int, turn: Turn) -> None:
        """What a broker had of a source, in this version of its catalog."""
        self._store(SourceRow(entry, 0, broker_version=broker_version), turn)

    def since(self, version: int) -> CatalogDelta | None:
        """What has changed after a version, as much as fits into a message; None if nothing has."""
        if version >= self.version:
            return None
        entries: list[CatalogEntry] = []
        size = 0
        # Versions ascend in this dictionary; the newest are looked at first, as they are what is asked for mostly.
        wanted = []
        for number in reversed(self._by_version):
            if number <= version:
                break
            wanted.append(number)
        for number in reversed(wanted):
            entry = self.rows[self._by_version[number]].entry
            size += len(entry.schema) + len(entry.description) + len(entry.source)
            if entries and (size > self._settings.catalog_bytes_max or len(entries) == ENTRIES_MAX):
                return CatalogDelta(version, number - 1, entries)
            entries.append(entry)
        return CatalogDelta(version, self.version, entries)
