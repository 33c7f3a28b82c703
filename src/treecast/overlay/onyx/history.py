"""What the tree did not bring is asked for at the root: the root's side, for all who ask.

A root keeps its documents until all brokers of the network have them, and for a while for those that have left; within
what retention allows. What is not kept any more is said to be gone.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable

from treecast.document import Limits
from treecast.overlay.broker.rows import META, STORE
from treecast.overlay.broker.tail import Tail
from treecast.overlay.broker.turn import Turn
from treecast.overlay.onyx.link_formats import TEXT, Arrival, LinkFormats
from treecast.overlay.onyx.network_messages import BeginAnew, CatchUp, History, Latest, Parcel, Positions
from treecast.overlay.onyx.routing_protocol import Routing, RoutingTable
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.storage import Delete, StorageError


def older_disk() -> StorageError:
    """What a root raises to be made again, with its data under another name."""
    hint = "nothing has to be done: it goes on as a broker with other data, and all get what it has"
    return StorageError("other brokers have later documents of this broker than its disk", code="TC428", hint=hint)


class Histories:
    """Answers questions about the documents that were published here."""

    def __init__(self, tail: Tail, routing: Routing, settings: NetworkSettings, limits: Limits | None = None) -> None:
        self._tail = tail
        self._formats = LinkFormats(settings, limits)
        self._routing = routing
        self._settings = settings
        self._filters: OrderedDict[bytes, RoutingTable] = OrderedDict()
        self._members: dict[str, tuple[int, int]] = {}
        """By broker: its position, and when it was heard of."""
        self._present: dict[str, None] = {}
        self.unreadable = 0

    # --- who has what -------------------------------------------------------------------------------------------------

    def set_members(self, names: Iterable[str], now_ms: int) -> None:
        """A view: these have to get everything. One that left is waited for as long as the settings say."""
        for name in self._present:
            self._members[name] = (self._members.get(name, (0, 0))[0], now_ms)
        self._present = dict.fromkeys(names)

    def hear(self, name: str, number: int, now_ms: int) -> None:
        """A broker has everything up to this number; later messages may arrive earlier."""
        known = self._members.get(name, (0, 0))[0]
        self._members[name] = (max(known, number), now_ms)

    def needed_from(self, now_ms: int) -> int:
        """The first document that some broker may still ask for."""
        for name, (_, heard_ms) in list(self._members.items()):
            if name not in self._present and now_ms - heard_ms > self._settings.absent_ms_max:
                del self._members[name]
        positions = [self._members.get(name, (0, 0))[0] for name in self._present]
        positions += [position for name, (position, _) in self._members.items() if name not in self._present]
        return min(positions, default=self._tail.last_document()) + 1

    def position_of(self, name: str) -> int:
        return self._members.get(name, (0, 0))[0]

    # --- answers ------------------------------------------------------------------------------------------------------

    def take(self, sender: str, message: CatchUp | Positions, own: Latest, turn: Turn) -> None:
        """A question, or how far a broker has come. `own` is what this root says of itself. Raises PeerError if the
        query of a question makes no sense."""
        if isinstance(message, CatchUp):
            history = self.answer(message, own.store, own.epoch, own.life)
            self.hear(sender, 0, turn.now_ms)  # it may be about data that this root had before: only positions count
            turn.send(sender, history)
            return
        number = message.number if message.store == own.store else 0
        if number > own.number:
            turn.changes.append(Delete(META, STORE))
            turn.send(own.root, BeginAnew())
        self.hear(sender, number, turn.now_ms)
        if number < own.number:
            turn.send(sender, own)

    def answer(self, message: CatchUp, store: str, epoch: int, life: int) -> History:
        last = self._tail.last_document()
        first = self._tail.first_document()
        gone_until = first - 1 if message.after + 1 < first else 0
        after = max(message.after, gone_until)
        settings = self._settings
        parcels: list[Parcel] = []
        upto = after
        size = count = 0
        for number, row, body in self._tail.kept(after, last, settings.history_rows_max, settings.history_bytes_max):
            count += 1
            upto = number
            size += row.bytes
            if row.origin:
                continue  # it came here from another root
            if isinstance(body, StorageError):
                self.unreadable += 1
                continue  # damaged: nobody can get it
            parcels.append(Parcel(number, row.source, row.id, row.published_ms, TEXT, body))
        format = self._formats.choose_plain(message.formats)
        if message.query or format != TEXT:
            arrivals = self._formats.read(parcels)  # once, for both
            if message.query:
                arrivals = self._filter(message.query, arrivals)
            parcels = self._formats.write(arrivals, format)
        if not count:
            upto = last
        return History(
            message.root, store, epoch, life, message.question, message.after, upto, last, gone_until, parcels
        )

    def _filter(self, query: bytes, arrivals: list[Arrival]) -> list[Arrival]:
        """Those that a routing query matches."""
        if not arrivals:
            return arrivals
        key = hashlib.blake2b(query, digest_size=16).digest()
        table = self._filters.pop(key, None)
        if table is None:
            table = self._routing.root_table()
            table.update("asker", self._routing.decode(query), self._routing.empty())
        self._filters[key] = table
        if len(self._filters) > self._settings.history_filters_max:
            self._filters.popitem(last=False)
        targets = table.route([arrival.content for arrival in arrivals])
        return [arrival for arrival, found in zip(arrivals, targets, strict=True) if found]
