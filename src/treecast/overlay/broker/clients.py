"""What a broker remembers of each client: how far its requests are answered, and the last answers.

A client that has not been heard from for `client_ms` may be forgotten to make room for another one. If it comes back,
it starts with request 1 again, as it learns from `Welcome`.
"""

from __future__ import annotations

from collections import OrderedDict

from treecast.overlay.broker.refused import RequestError, check_name
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
        self._cache: OrderedDict[str, ClientRow] = OrderedDict()
        self.count = count
        self._swept_ms = -MINUTE_MS

    def find(self, name: str) -> ClientRow | None:
        row = self._cache.get(name)
        if row is None:
            data = self._shadow.get(CLIENTS, name)
            if data is None:
                return None
            row = decode(data, ClientRow)
            self._remember(name, row)
        return row

    def row(self, name: str, turn: Turn) -> ClientRow:
        """A new client gets an empty row, which is not stored yet. Raises if there are too many."""
        row = self.find(name)
        if row is not None:
            return row
        check_name(name, "client")
        if self.count >= self._settings.clients_max:
            self._sweep(turn)
        if self.count >= self._settings.clients_max:
            raise RequestError(f"there are {self._settings.clients_max} clients already", code="TC413")
        return ClientRow()

    def store(self, name: str, row: ClientRow, turn: Turn) -> None:
        self.count += self.find(name) is None
        self._remember(name, row)
        turn.put(CLIENTS, name, row)

    def _remember(self, name: str, row: ClientRow) -> None:
        self._cache[name] = row
        self._cache.move_to_end(name)
        if len(self._cache) > CACHED_MAX:
            self._cache.popitem(last=False)

    def _sweep(self, turn: Turn) -> None:
        """Forget clients that have been silent for long; looked for once a minute at most."""
        if turn.now_ms - self._swept_ms < MINUTE_MS:
            return
        self._swept_ms = turn.now_ms
        after = ""
        while rows := self._shadow.scan(CLIENTS, after, 1_000):
            for name, data in rows:
                if turn.now_ms - decode(data, ClientRow).heard_ms > self._settings.client_ms:
                    turn.delete(CLIENTS, name)
                    self._cache.pop(name, None)
                    self.count -= 1
            after = rows[-1][0]
