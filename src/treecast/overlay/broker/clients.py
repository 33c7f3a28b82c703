"""What a broker remembers of each client: how far its requests are answered, and the last answers.

A client that has not been heard from for `client_ms` may be forgotten to make room for another one. If it comes back,
it starts with request 1 again, as it learns from `Welcome`.
"""

from __future__ import annotations

from treecast.overlay.broker.refused import RequestError, check_name
from treecast.overlay.broker.row_cache import RowCache
from treecast.overlay.broker.rows import CLIENTS, ClientRow, decode
from treecast.overlay.broker.settings import MINUTE_MS, BrokerSettings
from treecast.overlay.broker.turn import Turn
from treecast.overlay.shadow import Shadow

CACHED_MAX = 4_096


class Clients:
    """Rows of clients, with a bounded cache."""

    def __init__(self, shadow: Shadow, count: int, settings: BrokerSettings) -> None:
        self._shadow = shadow
        self._settings = settings
        self._rows: RowCache[str, ClientRow] = RowCache(shadow, CLIENTS, ClientRow, CACHED_MAX)
        self.count = count
        self._swept_ms = -MINUTE_MS

    def row(self, name: str, turn: Turn) -> ClientRow:
        """A new client gets an empty row, which is not stored yet. Raises if there are too many."""
        row = self._rows.get(name)
        if row is not None:
            return row
        check_name(name, "client")
        if self.count >= self._settings.clients_max:
            self._sweep(turn)
        if self.count >= self._settings.clients_max:
            raise RequestError(f"there are {self._settings.clients_max} clients already", code="TC413")
        return ClientRow()

    def store(self, name: str, row: ClientRow, turn: Turn) -> None:
        self.count += self._rows.get(name) is None
        self._rows.remember(name, row)
        turn.put(CLIENTS, name, row)

    def _sweep(self, turn: Turn) -> None:
        """Forget clients that have been silent for long; looked for once a minute at most."""
        if turn.now_ms - self._swept_ms < MINUTE_MS:
            return
        self._swept_ms = turn.now_ms
        for name, data in self._shadow.rows(CLIENTS, ""):
            if turn.now_ms - decode(data, ClientRow).heard_ms > self._settings.client_ms:
                turn.delete(CLIENTS, name)
                self._rows.forget(name)
                self.count -= 1
