"""Subscriptions on their way into the distributed NFA: the host sends a query from state to state (Procedure 1).

The peer that is responsible for a state stores the entry, with copies, and sends the query on to the next state; the
last one answers the host. So indexing takes as many messages as the query has states, whatever `l` is, and the answer
means that all of them are on enough disks. A query that gets lost on the way is sent again: nothing happens twice,
because entries merge. Removing goes the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from treecast.overlay.chord.chord_messages import Answer, Entry, Step
from treecast.overlay.chord.fragment import Check, Passage
from treecast.overlay.chord.identifiers import place_of_key
from treecast.overlay.chord.nfa_messages import Indexed, IndexQuery
from treecast.overlay.chord.routes import Plan, keys_of, plan_query
from treecast.overlay.storage import Delete, Put, Storage
from treecast.query import parse

if TYPE_CHECKING:
    from treecast.overlay.chord.nfa_peer import NfaPeer

TABLE = "subscriptions"
READ_ROWS = 1_000


class SubscriptionChange(msgspec.Struct, frozen=True):
    """To the application: `subscribed`, `unsubscribed`, or `failed`: too few peers could be reached."""

    id: str
    change: str


class _Row(msgspec.Struct, array_like=True):
    """A subscription as its host stores it."""

    query: str
    namespaces: dict[str, str]
    ordered: bool
    version: int
    is_removed: bool = False
    is_confirmed: bool = False


class _Walk(msgspec.Struct):
    """A part of a subscription on its way."""

    id: str
    part: int
    version: int
    attempts: int = 0


class HostedSubscription:
    """A subscription of this host."""

    __slots__ = ("plan", "row", "waiting")

    def __init__(self, row: _Row) -> None:
        self.row = row
        self.plan: Plan = plan_query(parse(row.query, namespaces=row.namespaces), row.ordered)
        self.waiting: set[int] = set()


class Indexing:
    """What a peer does about subscriptions: as their host, and as one who is responsible for states."""

    def __init__(self, peer: NfaPeer, storage: Storage) -> None:
        self._peer = peer
        self.subscriptions: dict[str, HostedSubscription] = {}
        self._walks: dict[int, _Walk] = {}
        self._version = 0
        after = ""
        while rows := storage.scan(TABLE, after, READ_ROWS):
            for id, value in rows:
                row = msgspec.msgpack.decode(value, type=_Row)
                self._version = max(self._version, row.version)
                subscription = self.subscriptions[id] = HostedSubscription(row)
                if not row.is_confirmed:
                    # It is not known how far it got.
                    peer.after(0, lambda id=id, each=subscription: self._start_walks(id, each))  # type: ignore[misc]
            after = rows[-1][0]

    # -- at the host

    def subscribe(self, id: str, query: str, namespaces: Mapping[str, str], ordered: bool) -> None:
        """Raises QueryError. `SubscriptionChange` is delivered when all peers have it."""
        row = _Row(query, dict(namespaces), ordered, self._next_version())
        subscription = HostedSubscription(row)
        present = self.subscriptions.get(id)
        if present is None and len(self.subscriptions) >= self._peer.nfa_settings.subscriptions_max:
            self._peer.deliver(SubscriptionChange(id, "failed"))
            return
        if present is not None and not present.row.is_removed:
            # The old one goes. Where both pass the same state, the higher version wins.
            self._send_removals(id, present)
            subscription.row.version = self._next_version()
        self.subscriptions[id] = subscription
        self._save(id, subscription)
        self._start_walks(id, subscription)

    def unsubscribe(self, id: str) -> None:
        present = self.subscriptions.get(id)
        if present is None or present.row.is_removed:
            return
        present.row.version, present.row.is_removed = self._next_version(), True
        present.row.is_confirmed = False
        self._save(id, present)
        self._start_walks(id, present)

    def walk_again(self, id: str) -> None:
        subscription = self.subscriptions.get(id)
        if subscription is not None and not subscription.row.is_confirmed:
            self._start_walks(id, subscription)

    def _send_removals(self, id: str, old: HostedSubscription) -> None:
        """Not waited for: a part of it that remains is ignored when it is matched, for its version is not ours."""
        for part in range(len(old.plan.parts)):
            message = self._message(id, old, part, 0, self._version, is_removed=True)
            self._send_to_owner(message)

    def _next_version(self) -> int:
        self._version = max(self._peer.wall_ms, self._version + 1)
        return self._version

    def _save(self, id: str, subscription: HostedSubscription) -> None:
        self._peer.store([Put(TABLE, id, msgspec.msgpack.encode(subscription.row))])

    def _start_walks(self, id: str, subscription: HostedSubscription) -> None:
        subscription.waiting = set(range(len(subscription.plan.parts)))
        for part in sorted(subscription.waiting):
            number = self._peer.random.getrandbits(62)
            self._walks[number] = _Walk(id, part, subscription.row.version)
            self._walk(number)

    def _walk(self, number: int) -> None:
        walk = self._walks.get(number)
        if walk is None:
            return
        subscription = self.subscriptions.get(walk.id)
        settings = self._peer.nfa_settings
        if (
            subscription is None
            or subscription.row.version != walk.version
            or walk.attempts >= settings.walk_attempts_max
        ):
            del self._walks[number]
            if subscription is not None and subscription.row.version == walk.version:
                self._peer.deliver(SubscriptionChange(walk.id, "failed"))
            return
        walk.attempts += 1
        row = subscription.row
        self._send_to_owner(self._message(walk.id, subscription, walk.part, number, row.version, row.is_removed))
        self._peer.after(settings.walk_ms, lambda: self._walk(number))

    def _message(
        self, id: str, subscription: HostedSubscription, part: int, walk: int, version: int, is_removed: bool
    ) -> IndexQuery:
        host, row, plan = self._peer.name, subscription.row, subscription.plan
        check = Check(row.query, row.namespaces, row.ordered) if plan.needs_check else None
        is_joined = any(part in group and len(group) > 1 for group in plan.groups)
        passage = Passage(host, id, part, 0, plan.parts[part].route, check, is_joined)
        return IndexQuery(walk, f"{len(host)} {host} {part} {id}", version, passage, is_removed)

    def take_indexed(self, sender: str, message: Indexed) -> None:
        walk = self._walks.pop(message.walk, None)
        subscription = self.subscriptions.get(walk.id) if walk is not None else None
        if walk is None or subscription is None or subscription.row.version != walk.version:
            return
        subscription.waiting.discard(walk.part)
        if subscription.waiting:
            return
        subscription.row.is_confirmed = True
        if subscription.row.is_removed:
            del self.subscriptions[walk.id]
            self._peer.store([Delete(TABLE, walk.id)])
            self._peer.deliver(SubscriptionChange(walk.id, "unsubscribed"))
        else:
            self._save(walk.id, subscription)
            self._peer.deliver(SubscriptionChange(walk.id, "subscribed"))

    # -- at the peers that are responsible for the states

    def _send_to_owner(self, message: IndexQuery) -> None:
        key = keys_of(message.passage.route)[message.passage.depth]

        def send(step: Step | None, hops: int) -> None:
            if step is not None:
                self._peer.counts["index messages"] += 1
                self._peer.send(step.members[0].peer, message)

        self._peer.lookup(place_of_key(key), send)

    def take_index(self, sender: str, message: IndexQuery) -> None:
        passage = message.passage
        if passage.depth > len(passage.route):
            return
        key = keys_of(passage.route)[passage.depth]
        ring = self._peer.entries.owner_of(key)
        if ring is None:
            return  # the host will send it again
        value = b"" if message.is_removed else msgspec.msgpack.encode(passage)
        entry = Entry(key, message.id, message.version, value, message.is_removed)

        def on_stored(answer: Answer) -> None:
            if answer == "stored":
                self._peer.shedding.copy_entry(entry, lambda: self._send_on(message))

        self._peer.entries.store_entries(ring, [entry], on_stored)

    def _send_on(self, message: IndexQuery) -> None:
        passage = message.passage
        if passage.depth == len(passage.route):
            if message.walk:
                self._peer.send(passage.host, Indexed(message.walk))
            return
        following = msgspec.structs.replace(passage, depth=passage.depth + 1)
        self._send_to_owner(msgspec.structs.replace(message, passage=following))
