"""The hosts of subscriptions: chosen when one is placed, and changed when brokers have become uneven.

A subscription lives at its host, with its deliveries; the registry only knows where. To move one, the registry tells
the old host to hand it over, again and again until that has been done, and then says the new host to whoever asks. Only
brokers that take part hand over: what is on the disk of one that is away stays there, and is there when it comes back.

How many may move is bounded, in a minute and at a time, so that moving never costs more than it brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from treecast.errors import QueryError
from treecast.model import Subscription
from treecast.overlay.broker.refused import RequestError, check_name
from treecast.overlay.broker.rows import decode
from treecast.overlay.broker.settings import MINUTE_MS
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import PlaceSubscription, RegisterSubscriber
from treecast.overlay.onyx.control_messages import ENTRIES_MAX, Migrate, Migrated
from treecast.overlay.onyx.registry.placing import choose_host, hosts_of_partitions
from treecast.overlay.onyx.registry.rows import PLACED, SUBSCRIBERS, PlacedRow, SubscriberRow
from treecast.overlay.onyx.registry.settings import RegistrySettings
from treecast.overlay.onyx.view import BrokerInfo
from treecast.overlay.shadow import Shadow
from treecast.placement import Pep


class _Move(msgspec.Struct):
    """A subscription that has to go to another host."""

    source: str
    to: str
    begun_ms: int
    told_ms: int | None = None


class Hosts:
    """Where subscriptions and subscribers are."""

    def __init__(self, shadow: Shadow, settings: RegistrySettings) -> None:
        self._shadow = shadow
        self._settings = settings
        self._held: dict[str, dict[str, None]] = {}
        self._subscribers = sum(1 for _ in shadow.rows(SUBSCRIBERS, ""))
        self._pep: Pep | None = None
        self._home_names: tuple[str, ...] = ()
        self._home_brokers: list[str] = []
        self._looked_at: str | None = None  # the last subscription of a look that is under way
        self._moves: dict[str, _Move] = {}
        self._looked_ms: int | None = None
        self._minute_ms: int | None = None
        self._moved_this_minute = 0
        self.moved = 0
        for id, data in shadow.rows(PLACED, ""):
            self._held.setdefault(decode(data, PlacedRow).host, {})[id] = None
        if settings.policy == "content":
            self._pep = Pep(settings.partitions + 1)
            if self._held:
                self._pep.add_many(self._queries())

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def loads(self, brokers: Mapping[str, BrokerInfo]) -> dict[str, int]:
        """What each broker has, as far as the registry knows or the broker says."""
        return {name: max(info.load, len(self._held.get(name, ()))) for name, info in brokers.items()}

    @property
    def open_moves(self) -> int:
        return len(self._moves)

    # --- placing ------------------------------------------------------------------------------------------------------

    def row(self, id: str) -> PlacedRow | None:
        data = self._shadow.get(PLACED, id)
        return decode(data, PlacedRow) if data else None

    def subscriber(self, name: str) -> SubscriberRow | None:
        data = self._shadow.get(SUBSCRIBERS, name)
        return decode(data, SubscriberRow) if data else None

    def register(
        self,
        command: RegisterSubscriber,
        brokers: Mapping[str, BrokerInfo],
        new_id: Callable[[], int],
        turn: Turn,
    ) -> SubscriberRow:
        """Give a subscriber an id, and a broker near it. One that has moved gets another broker. Raises
        RequestError."""
        check_name(command.subscriber, "subscriber")
        known = self.subscriber(command.subscriber)
        if known is not None and known.location == command.location and known.host in brokers:
            return known
        if known is None and self._subscribers >= self._settings.subscribers_max:
            raise RequestError(f"there are {self._settings.subscribers_max} subscribers already", code="TC413")
        host = choose_host(brokers, command.location, self.loads(brokers), self._settings.near_slack)
        row = SubscriberRow(known.number if known else new_id(), command.location, host)
        self._subscribers += known is None
        turn.put(SUBSCRIBERS, command.subscriber, row)
        return row

    def place(
        self,
        command: PlaceSubscription,
        brokers: Mapping[str, BrokerInfo],
        new_id: Callable[[], int],
        turn: Turn,
        old_ids: int = 0,
    ) -> PlacedRow:
        """Choose the host of a subscription. One that is placed stays where it is, and may have another query: then its
        place is looked at again later. Numbers up to `old_ids` are of a disk that was put back: it gets another one.
        Raises RequestError, QueryError."""
        check_name(command.id, "subscription")
        known = self.row(command.id)
        if known is None and len(self) >= self._settings.subscriptions_max:
            raise RequestError(f"there are {self._settings.subscriptions_max} subscriptions already", code="TC413")
        partition = self._enter(command)
        if known is not None:
            host = known.host
        elif partition is not None:
            host = self._homes(brokers)[partition]
        else:
            near = command.location if self._settings.policy == "near" else None
            host = choose_host(brokers, near, self.loads(brokers), self._settings.near_slack)
        query, namespaces = (command.query, command.namespaces) if self._pep is not None else ("", {})
        number = known.number if known is not None and known.number > old_ids else new_id()
        row = PlacedRow(number, host, command.location, query, namespaces)
        self._held.setdefault(host, {})[command.id] = None
        turn.put(PLACED, command.id, row)
        return row

    def restore(self, id: str, host: str, number: int, turn: Turn) -> None:
        """A broker says that it hosts this subscription. If it is not known here, nor is for where, and for which query
        it was placed."""
        known = self.row(id) or PlacedRow(number, host, (0.0, 0.0), "", {})
        self._held.get(known.host, {}).pop(id, None)
        self._moves.pop(id, None)
        self._held.setdefault(host, {})[id] = None
        turn.put(PLACED, id, msgspec.structs.replace(known, number=number, host=host))

    def forget_missing(self, host: str, old_ids: int, turn: Turn) -> None:
        """A broker has said all that it hosts. What has a number up to `old_ids` is not among it."""
        for id in list(self._held.get(host, ())):
            row = self.row(id)
            if row is not None and row.number <= old_ids:
                self.remove(id, turn)

    def _homes(self, brokers: Mapping[str, BrokerInfo]) -> list[str]:
        """The broker of each partition; the last answer is kept, as brokers seldom come and go."""
        names = tuple(sorted(brokers))
        if self._home_names != names:
            self._home_names = names
            self._home_brokers = hosts_of_partitions(names, self._settings.partitions)
        return self._home_brokers

    def _enter(self, command: PlaceSubscription) -> int | None:
        """The partition of a query; None if queries do not decide, or if this one compares nothing with a value."""
        if self._pep is None:
            return None
        old = self.row(command.id)
        if old is not None and old.query:
            self._pep.remove(command.id)
            try:
                (partition,) = self._pep.add(command.id, command.query, namespaces=command.namespaces)
            except QueryError:
                self._pep.add(command.id, old.query, namespaces=old.namespaces)
                raise
        else:
            (partition,) = self._pep.add(command.id, command.query, namespaces=command.namespaces)
        return partition if partition < self._settings.partitions else None

    def remove(self, id: str, turn: Turn) -> None:
        """Raises RequestError: TC412 no such subscription."""
        row = self.row(id)
        if row is None:
            raise RequestError(f"there is no subscription {id[:80]!r}", code="TC412")
        self._held[row.host].pop(id, None)
        self._moves.pop(id, None)
        if self._pep is not None and row.query:
            self._pep.remove(id)
        turn.delete(PLACED, id)

    def listed(self, after: str, count: int) -> list[dict[str, str | int]]:
        """Rows for whoever looks."""
        rows = ((id, decode(data, PlacedRow)) for id, data in self._shadow.scan(PLACED, after, count))
        return [{"key": id, "number": row.number, "host": row.host, "query": row.query} for id, row in rows]

    # --- moving -------------------------------------------------------------------------------------------------------

    def tick(self, brokers: Mapping[str, BrokerInfo], epoch: int, turn: Turn) -> None:
        """Plan moves now and then, and tell old hosts of them until they are done."""
        settings, now_ms = self._settings, turn.now_ms
        for id, move in list(self._moves.items()):
            is_old = not move.begun_ms <= now_ms < move.begun_ms + settings.migration_ms
            if is_old or move.source not in brokers or move.to not in brokers:
                del self._moves[id]
        if self._looked_ms is None or not self._looked_ms <= now_ms < self._looked_ms + settings.rebalance_ms:
            self._looked_ms = now_ms
            self._looked_at = ""
            if self._pep is not None and self._pep.unbalanced:
                # The patterns are chosen anew for the queries of today.
                self._pep.rebalance(self._queries())
        if self._looked_at is not None and len(brokers) > 1:
            self._plan(brokers, now_ms)
        told: dict[str, list[tuple[str, str]]] = {}
        for id, move in self._moves.items():
            if move.told_ms is None or not move.told_ms <= now_ms < move.told_ms + settings.repeat_ms:
                move.told_ms = now_ms
                told.setdefault(move.source, []).append((id, move.to))
        for source, moves in told.items():
            for begin in range(0, len(moves), ENTRIES_MAX):
                turn.send(source, Migrate(moves[begin : begin + ENTRIES_MAX], epoch))

    def _plan(self, brokers: Mapping[str, BrokerInfo], now_ms: int) -> None:
        if self._minute_ms is None or not self._minute_ms <= now_ms < self._minute_ms + MINUTE_MS:
            self._minute_ms, self._moved_this_minute = now_ms, 0
        wanted = self._wanted_by_content(brokers) if self._pep is not None else self._wanted_by_load(brokers)
        for id, source, to in wanted:
            if (
                self._moved_this_minute >= self._settings.migrations_per_minute_max
                or len(self._moves) >= self._settings.migrations_open_max
            ):
                return
            if id not in self._moves:
                self._moved_this_minute += 1
                self._moves[id] = _Move(source, to, now_ms)

    def _wanted_by_content(self, brokers: Mapping[str, BrokerInfo]) -> Iterator[tuple[str, str, str]]:
        """Those that are not with the broker of their partition. Those without a value to compare stay, and so do
        those that were placed when queries did not matter, until somebody places them again."""
        pep, homes = self._pep, self._homes(brokers)
        assert pep is not None and self._looked_at is not None
        rows = self._shadow.scan(PLACED, self._looked_at, self._settings.looked_at_max)
        for id, data in rows:
            row = decode(data, PlacedRow)
            partition = pep.holders(id)[0] if row.query else self._settings.partitions
            if row.host in brokers and partition < self._settings.partitions and homes[partition] != row.host:
                yield id, row.host, homes[partition]
            self._looked_at = id
        if not rows:
            self._looked_at = None

    def _queries(self) -> list[Subscription]:
        """Of all whose queries are known: those that were placed under another policy have none here."""
        rows = ((id, decode(data, PlacedRow)) for id, data in self._shadow.rows(PLACED, ""))
        return [Subscription(id, row.query, row.namespaces) for id, row in rows if row.query]

    def _wanted_by_load(self, brokers: Mapping[str, BrokerInfo]) -> Iterator[tuple[str, str, str]]:
        """From brokers that have clearly more than the mean to those that have less; the last ones that came."""
        self._looked_at = None
        counts = {name: len(self._held.get(name, ())) for name in sorted(brokers)}
        for move in self._moves.values():
            counts[move.source] -= 1
            counts[move.to] += 1
        mean = sum(counts.values()) / len(counts)
        for source in sorted(counts, key=lambda name: (-counts[name], name)):
            if counts[source] <= max(self._settings.skew_max * mean, mean + 1):
                return
            for id in reversed(list(self._held[source])):
                if counts[source] <= mean + 1:
                    break
                if id not in self._moves:
                    to = min(counts, key=lambda name: (counts[name], name))
                    counts[source] -= 1
                    counts[to] += 1
                    yield id, source, to

    def take_migrated(
        self, broker: str, message: Migrated, turn: Turn, new_id: Callable[[], int] | None = None
    ) -> None:
        """The old host has handed these over. `new_id` is for those of which nobody has told yet where they are."""
        for id, to in message.moves:
            row = self.row(id)
            if row is None and new_id is not None:
                self.restore(id, to, new_id(), turn)
                continue
            if row is None or row.host != broker:
                continue  # an answer that came twice, or of a subscription that is gone
            # One that was given up may have been done all the same: what counts is where the subscription is.
            self._moves.pop(id, None)
            self._held[broker].pop(id, None)
            self._held.setdefault(to, {})[id] = None
            turn.put(PLACED, id, msgspec.structs.replace(row, host=to))
            self.moved += 1
