"""What a broker remembers of each client: how far its requests are answered, and the last answers.

A client that has not been heard from for `client_ms` may be forgotten to make room for another one. If it comes back,
it starts with request 1 again, as it learns from `Welcome`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from treecast.overlay.broker.refused import RequestError, check_name, refusal
from treecast.overlay.broker.row_cache import RowCache
from treecast.overlay.broker.rows import CLIENTS, ClientRow, decode
from treecast.overlay.broker.settings import MINUTE_MS, BrokerSettings
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import WINDOW_MAX, Answer, Request, Welcome
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

    # --- each request once, in order ---------------------------------------------------------------------------------

    def welcome(self, peer: str, store: str, name: str, nonce: int, turn: Turn) -> None:
        """Begin a lease, unless this is the `Hello` of the one that the client has."""
        try:
            row = self.row(name, turn)
        except RequestError:
            return  # there is no room for another client: it will try again
        if not row.lease or row.nonce != nonce:
            row = ClientRow(row.answered, row.answers, row.lease + 1, nonce, turn.now_ms)
            self.store(name, row, turn)
        turn.send(name, Welcome(peer, store, row.answered, nonce=nonce, lease=row.lease))

    def take(self, name: str, request: Request, turn: Turn) -> ClientRow | None:
        """The row of a client whose request is to be done now. A repeated one is answered as it was: None."""
        try:
            client = self.row(name, turn)
        except RequestError as error:
            turn.send(name, Answer(request.number, [], [refusal(error, -1)], request.lease))
            return None
        if request.lease != client.lease:
            return None  # of an earlier life of the client
        if request.number <= client.answered:
            for answer in client.answers:
                if answer.number == request.number:
                    turn.send(name, msgspec.structs.replace(answer, lease=client.lease))
            return None
        # If one before it was lost, its client will send them again.
        return client if request.number == client.answered + 1 else None

    def answer(self, name: str, client: ClientRow, answer: Answer, turn: Turn) -> None:
        """The request that `take` let pass has been done, or refused."""
        answers = [*client.answers, answer][-WINDOW_MAX:]
        self.store(name, ClientRow(answer.number, answers, client.lease, client.nonce, turn.now_ms), turn)
        turn.send(name, msgspec.structs.replace(answer, lease=client.lease))

    def _sweep(self, turn: Turn) -> None:
        """Forget clients that have been silent for long; looked for once a minute at most."""
        if turn.now_ms - self._swept_ms < MINUTE_MS:
            return
        self._swept_ms = turn.now_ms
        self._forget(lambda row: turn.now_ms - row.heard_ms > self._settings.client_ms, turn)

    def forget_answers(self, turn: Turn) -> None:
        """Those that were given may be of other requests with the same numbers: who got some begins anew."""
        self._forget(lambda row: bool(row.answered), turn)

    def _forget(self, is_over: Callable[[ClientRow], bool], turn: Turn) -> None:
        for name, data in self._shadow.rows(CLIENTS, ""):
            if is_over(decode(data, ClientRow)):
                turn.delete(CLIENTS, name)
                self._rows.forget(name)
                self.count -= 1
