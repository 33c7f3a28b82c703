"""At the host of subscriptions: what was matched is joined, and delivered once for each document and subscription.

Whoever matches a part tells the host, and tells it again until it answers. The host remembers on disk which documents
it has delivered for which subscriptions. A match is handed to the application before that is written: a crash between
the two may repeat it, and never loses it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from treecast.overlay.chord.nfa_messages import HostNotified, NotifyHost, Satisfied
from treecast.overlay.chord.routes import Chain, join
from treecast.overlay.storage import Delete, Put, Storage

if TYPE_CHECKING:
    from treecast.overlay.chord.nfa_peer import NfaPeer

TABLE = "delivered"
READ_ROWS = 1_000


class Match(msgspec.Struct, frozen=True):
    """To the application: a document matches a subscription."""

    document: str
    publisher: str
    subscription: str


class Notifying:
    """What a host does when it hears of matches."""

    def __init__(self, peer: NfaPeer, storage: Storage) -> None:
        self._peer = peer
        self._recent: OrderedDict[str, int] = OrderedDict()
        """Documents and subscriptions, with the number of the row that says so."""
        self._next_row = 1
        self._joins: OrderedDict[tuple[str, str], dict[int, list[Chain]]] = OrderedDict()
        after = 0
        while rows := storage.scan(TABLE, after, READ_ROWS):
            for number, value in rows:
                self._recent[value.decode("utf-8", "surrogatepass")] = number
                self._next_row = number + 1
            after = rows[-1][0]

    def take_notify(self, sender: str, message: NotifyHost) -> None:
        for satisfied in message.satisfied:
            subscription = self._peer.indexing.subscriptions.get(satisfied.subscription)
            if subscription is None or subscription.row.is_removed:
                continue
            text = f"{len(message.document)} {message.document} {satisfied.subscription}"
            if text not in self._recent and self._is_match(message.document, satisfied):
                self._deliver(text, Match(message.document, message.publisher, satisfied.subscription))
        self._peer.send(sender, HostNotified(message.nonce))

    def _is_match(self, document: str, satisfied: Satisfied) -> bool:
        plan = self._peer.indexing.subscriptions[satisfied.subscription].plan
        group = next((group for group in plan.groups if satisfied.part in group), ())
        if not satisfied.chain:
            return len(group) == 1
        place = (document, satisfied.subscription)
        chains = self._joins.setdefault(place, {})
        chains.setdefault(satisfied.part, []).append(tuple(satisfied.chain))
        if len(self._joins) > self._peer.nfa_settings.joins_max:
            self._joins.popitem(last=False)
            self._peer.counts["joins dropped"] += 1
        return join(plan.parts, group, chains)

    def _deliver(self, text: str, match: Match) -> None:
        self._joins.pop((match.document, match.subscription), None)
        self._peer.counts["matches"] += 1
        self._peer.deliver(match)
        self._recent[text] = self._next_row
        changes: list[Put | Delete] = [Put(TABLE, self._next_row, text.encode("utf-8", "surrogatepass"))]
        self._next_row += 1
        if len(self._recent) > self._peer.nfa_settings.recent_max:
            _, row = self._recent.popitem(last=False)
            changes.append(Delete(TABLE, row))
        self._peer.store(changes)
