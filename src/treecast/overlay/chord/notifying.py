"""At the host of subscriptions: what was matched is joined, and delivered once for each document and subscription.

Whoever matches a part tells the host, and tells it again until it answers. The host remembers on disk which documents
it has delivered for which subscriptions. A match is handed to the application before that is written: a crash between
the two may repeat it, and never loses it. Parts that wait for others are on disk before they are answered.

`take_matches` is for an application that stores what it delivers: the answer waits until it has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from treecast.overlay.chord.nfa_messages import HostNotified, NotifyHost, Satisfied
from treecast.overlay.chord.routes import Chain, join
from treecast.overlay.storage import Change, Delete, Put, Storage

if TYPE_CHECKING:
    from treecast.overlay.chord.nfa_peer import NfaPeer

TABLE = "delivered"
JOINS = "joins"
"""`joins[document and subscription]`: the parts of a pattern that were matched, and by which elements."""
READ_ROWS = 1_000


class Match(msgspec.Struct, frozen=True):
    """To the application: a document matches a subscription."""

    document: str
    publisher: str
    subscription: str


class _JoinRow(msgspec.Struct, frozen=True, array_like=True):
    document: str
    subscription: str
    chains: dict[int, list[Chain]]


TakeMatches = Callable[[NotifyHost, list[Match], Callable[[], None]], None]
"""Gets what was matched for the first time, and calls the last argument when it will not be lost any more."""


class Notifying:
    """What a host does when it hears of matches."""

    def __init__(self, peer: NfaPeer, storage: Storage) -> None:
        self._peer = peer
        self._recent: OrderedDict[str, int] = OrderedDict()
        """Documents and subscriptions, with the number of the row that says so."""
        self._next_row = 1
        self._joins: OrderedDict[tuple[str, str], dict[int, list[Chain]]] = OrderedDict()
        self.take_matches: TakeMatches | None = None
        """None: matches are delivered to the application as they come."""
        self._load(storage)

    def _load(self, storage: Storage) -> None:
        name = ""
        while joins := storage.scan(JOINS, name, READ_ROWS):
            for _, value in joins:
                row = msgspec.msgpack.decode(value, type=_JoinRow)
                self._joins[row.document, row.subscription] = row.chains
            name = joins[-1][0]
        after = 0
        while rows := storage.scan(TABLE, after, READ_ROWS):
            for number, value in rows:
                self._recent[value.decode("utf-8", "surrogatepass")] = number
                self._next_row = number + 1
            after = rows[-1][0]

    def take_notify(self, sender: str, message: NotifyHost) -> None:
        matches: dict[str, Match] = {}
        for notice in message.satisfied:
            subscription = self._peer.indexing.subscriptions.get(notice.subscription)
            if subscription is None or subscription.row.is_removed:
                continue
            text = _text_of(message.document, notice.subscription)
            if text not in self._recent and self._is_match(message.document, notice):
                matches[text] = Match(message.document, message.publisher, notice.subscription)

        def answer() -> None:
            self._peer.send(sender, HostNotified(message.nonce))

        if self.take_matches is None:
            for text, match in matches.items():
                self._peer.deliver(match)
                self._remember(text, match)
            answer()
            return

        def end() -> None:
            for text, match in matches.items():
                if text not in self._recent:
                    self._remember(text, match)
            answer()

        self.take_matches(message, list(matches.values()), end)

    def _is_match(self, document: str, notice: Satisfied) -> bool:
        plan = self._peer.indexing.subscriptions[notice.subscription].plan
        group = next((group for group in plan.groups if notice.part in group), ())
        if not notice.chain:
            return len(group) == 1
        place = (document, notice.subscription)
        chains = self._joins.setdefault(place, {})
        chain = tuple(notice.chain)
        if chain not in chains.setdefault(notice.part, []):
            chains[notice.part].append(chain)
            row = msgspec.msgpack.encode(_JoinRow(*place, chains))
            self._peer.store([Put(JOINS, _text_of(*place), row)])
        if len(self._joins) > self._peer.nfa_settings.joins_max:
            oldest_place, _ = self._joins.popitem(last=False)
            self._peer.store([Delete(JOINS, _text_of(*oldest_place))])
            self._peer.counts["joins dropped"] += 1
        return join(plan.parts, group, chains)

    def _remember(self, text: str, match: Match) -> None:
        """It is delivered: not again."""
        changes: list[Change] = []
        if self._joins.pop((match.document, match.subscription), None) is not None:
            changes.append(Delete(JOINS, text))
        self._peer.counts["matches"] += 1
        self._recent[text] = self._next_row
        changes.append(Put(TABLE, self._next_row, text.encode("utf-8", "surrogatepass")))
        self._next_row += 1
        if len(self._recent) > self._peer.nfa_settings.recent_max:
            _, row = self._recent.popitem(last=False)
            changes.append(Delete(TABLE, row))
        self._peer.store(changes)


def _text_of(document: str, subscription: str) -> str:
    return f"{len(document)} {document} {subscription}"
