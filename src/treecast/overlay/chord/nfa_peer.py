"""A peer that filters: part of a ring, responsible for some states of the distributed NFA, publisher and host.

    >>> from random import Random
    >>> from treecast.sim.storage import SimulatedStorage
    >>> peer = NfaPeer("p1", SimulatedStorage(), Random(1), ChordSettings(base=("p1", "p2", "p3", "p4")))
    >>> effects = peer.subscribe("titles", "/news//title", now_ms=0)
    >>> type(effects[0]).__name__  # its host remembers a subscription before anybody hears of it
    'Store'

Publish and subscribe at any peer. `SubscriptionChange`, `Published` and `Match` are delivered to its application.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Literal

import msgspec

from treecast.overlay.chord.chord_messages import Entry
from treecast.overlay.chord.chord_peer import ChordPeer
from treecast.overlay.chord.filtering import Batch, Filtering
from treecast.overlay.chord.indexing import Indexing
from treecast.overlay.chord.iterative import IterativeRun, answer_expand
from treecast.overlay.chord.nfa_messages import (
    NFA_ANSWERS,
    Expand,
    FetchDocument,
    Fetched,
    Indexed,
    IndexQuery,
    NotifyHost,
    Shed,
    Visits,
    VisitsWork,
)
from treecast.overlay.chord.nfa_settings import NfaSettings
from treecast.overlay.chord.notifying import Notifying
from treecast.overlay.chord.ring import Watch
from treecast.overlay.chord.settings import ChordSettings
from treecast.overlay.chord.shedding import Shedding
from treecast.overlay.peer import Effect
from treecast.overlay.storage import Storage

Method = Literal["recursive", "iterative"]


class Published(msgspec.Struct, frozen=True):
    """To the application: a document is through. `unreachable` names states and hosts that did not answer.

    `chain` is the longest chain of messages, one after the other, that filtering took.
    """

    document: str
    unreachable: tuple[str, ...]
    chain: int

    @property
    def is_complete(self) -> bool:
        return not self.unreachable


class NfaPeer(ChordPeer):
    """A `Peer` of a ring that filters documents."""

    def __init__(
        self, name: str, storage: Storage, random: Random, settings: ChordSettings, watch: Watch | None = None,
        nfa_settings: NfaSettings | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, storage, random, settings, watch)
        self.nfa_settings = nfa_settings or NfaSettings()
        self.counts: Counter[str] = Counter()
        """Messages by kind: the paper's traffic is `visits`, or `expands` and `answers`."""
        self.shedding = Shedding(self)
        self.filtering = Filtering(self)
        self.indexing = Indexing(self, storage)
        self.notifying = Notifying(self, storage)
        self._documents: dict[str, bytes] = {}
        """Those that are published here and not through."""
        self.find_document: Callable[[str], Fetched | None] = lambda id: None
        """Where an application keeps what it publishes: for those who ask when it is through, or after a crash."""
        self.entries.on_change = self._see_entries
        self.handlers |= {
            IndexQuery: self.indexing.take_index,
            Indexed: self.indexing.take_indexed,
            Visits: self.filtering.take_visits,
            VisitsWork: self.filtering.take_work,
            Expand: lambda sender, message: answer_expand(self, sender, message),
            FetchDocument: self._answer_fetch,
            NotifyHost: self.notifying.take_notify,
            Shed: self.shedding.take_shed,
        }
        self.answer_types |= set(NFA_ANSWERS)

    def subscribe(
        self, id: str, query: str, *, namespaces: Mapping[str, str] | None = None, ordered: bool = False, now_ms: int
    ) -> list[Effect]:
        """Add or change a subscription of this host. Raises QueryError."""
        self._advance(now_ms)
        self.indexing.subscribe(id, query, namespaces or {}, ordered)
        return self._take_effects()

    def unsubscribe(self, id: str, now_ms: int) -> list[Effect]:
        self._advance(now_ms)
        self.indexing.unsubscribe(id)
        return self._take_effects()

    def walk_again(self, id: str, now_ms: int) -> list[Effect]:
        """Try again what `SubscriptionChange` has called failed."""
        self._advance(now_ms)
        self.indexing.walk_again(id)
        return self._take_effects()

    def publish(self, body: bytes, *, id: str = "", method: Method = "recursive", now_ms: int) -> list[Effect]:
        """Filter a document. Raises DocumentError. A second one with the same id is not delivered again."""
        self._advance(now_ms)
        id = id or f"{self.name} {self.random.getrandbits(62)}"
        if len(self._documents) >= self.nfa_settings.documents_max:
            # Too many are on their way: nobody has seen this one.
            self.deliver(Published(id, (self.name,), 0))
            return self._take_effects()

        def end(batch: Batch) -> None:
            self._documents.pop(id, None)
            self.deliver(Published(id, tuple(batch.unreachable), batch.chain))

        if method == "recursive":
            self.filtering.publish(id, body, end)
        else:
            IterativeRun(self, self.filtering.begin_document(id, body), end).step()
        self._documents[id] = body
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        self.filtering.flush()
        return super()._take_effects()

    def _see_entries(self, entries: list[Entry]) -> None:
        for entry in entries:
            self.filtering.forget_fragment(entry.key)

    def _answer_fetch(self, sender: str, message: FetchDocument) -> None:
        document = self.find_document(message.document) or Fetched(0, self._documents.get(message.document))
        self.send(sender, msgspec.structs.replace(document, nonce=message.nonce))
