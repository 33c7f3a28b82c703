"""A broker's part of the control plane: it joins, follows views and the catalog, and votes for a registry.

`NetworkBroker` has one, hands it every `ControlMessage`, and calls `tick`. It answers with events: what is new.

    >>> from random import Random
    >>> from treecast.overlay.broker.turn import Turn
    >>> from treecast.overlay.shadow import Shadow
    >>> from treecast.sim import SimulatedStorage
    >>> membership = Membership("b1", ("registry",), Shadow(SimulatedStorage()), Random(1))
    >>> turn = Turn(now_ms=0)
    >>> membership.tick(turn)
    >>> type(turn.sends[0].message).__name__
    'Heartbeat'
    >>> view = View(first_epoch(2), {"b1": BrokerInfo()}, {"b1": {}})
    >>> [type(event).__name__ for event in membership.receive("registry", NewView(view), turn)]
    ['ViewAdopted']
    >>> membership.receive("registry", NewView(view), turn)
    []

What it must remember is stored with the changes of the turn: the view, the catalog, and the term that it has promised
to follow. A view of a lower term is refused, even if the broker has not seen one of the promised term yet. So once most
brokers have promised a term to the backup of a registry, nothing that the old one says counts any more.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from treecast.overlay.broker.rows import Row, decode, encode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.onyx.control_messages import (
    ENTRIES_MAX,
    AskCatalog,
    AskView,
    Broadcast,
    CatalogDelta,
    CatalogEntry,
    CatalogPart,
    Collected,
    Gossip,
    Grant,
    Heartbeat,
    Located,
    Migrate,
    Migrated,
    Moved,
    NewView,
    Stand,
    State,
    WhereIs,
)
from treecast.overlay.onyx.tree_broadcast import TreeBroadcast, TreeBroadcastSettings
from treecast.overlay.onyx.view import EMPTY_VIEW, BrokerInfo, View, first_epoch, problem_of, term_of
from treecast.overlay.retry import is_due
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Put

__all__ = ["CatalogChanged", "Membership", "MembershipSettings", "MovesAsked", "ViewAdopted", "first_epoch"]

CONTROL, CATALOG = "control", "catalog"
"""`control["view"]`, `control["state"]`; `catalog[source]`."""
_VIEW_DECODER = msgspec.msgpack.Decoder(View)
_ENTRY_DECODER = msgspec.msgpack.Decoder(CatalogEntry)
_ENCODER = msgspec.msgpack.Encoder()


class MembershipSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and limits of a broker's part of the control plane."""

    heartbeat_ms: int = 300
    """Between two heartbeats. One is sent at once when something has changed."""
    gossip_ms: int = 1_000
    """Between two messages to another broker that is drawn."""
    questions_max: int = 1_000
    """Questions of clients that wait for the registry's answer. More are not answered."""
    question_ms: int = 5_000
    """And for so long at most."""
    broadcast: TreeBroadcastSettings = TreeBroadcastSettings()
    catalog_bytes_max: int = 1 << 20
    """Of the sources in one message to a registry that has lost its own, unless a single one is larger."""


class ViewAdopted(msgspec.Struct, frozen=True):
    """An event: this view counts from now on."""

    view: View
    previous: View


class CatalogChanged(msgspec.Struct, frozen=True):
    """An event: these sources are new, have changed, or have been removed."""

    entries: list[CatalogEntry]


class MovesAsked(msgspec.Struct, frozen=True):
    """An event: hand these subscriptions over, each to its new host; then call `migrated`. It may come again."""

    moves: list[tuple[str, str]]


Event = ViewAdopted | CatalogChanged | MovesAsked


class _StateRow(Row, frozen=True):
    """`control["state"]`."""

    promised: int = 0
    catalog: int = 0


class _Question(msgspec.Struct, frozen=True):
    client: str
    question: int
    asked_ms: int


class Membership:
    """Follows the registry that is in charge, of `registries`. `info` is asked for what the broker says of itself."""

    def __init__(
        self,
        name: str,
        registries: tuple[str, ...],
        shadow: Shadow,
        random: Random,
        settings: MembershipSettings | None = None,
        info: Callable[[], BrokerInfo] = BrokerInfo,
    ) -> None:
        self.name = name
        self.registries = registries
        self.settings = settings or MembershipSettings()
        self.catalog: dict[str, CatalogEntry] = {}
        """Sources by name, without those that were removed."""
        self.refused_views = 0
        """Views of a term that is over."""
        self._shadow = shadow
        self._random = random
        self._info = info
        self._life = random.getrandbits(62)
        self._state: State = "here"
        self._beat_ms: int | None = None
        self._gossip_ms: int | None = None
        self._questions: dict[int, _Question] = {}
        self._question_count = 0
        self._trees = TreeBroadcast(name, self.settings.broadcast)
        row = shadow.get(CONTROL, "state")
        self._row = decode(row, _StateRow) if row else _StateRow()
        data = shadow.get(CONTROL, "view")
        self._view = _VIEW_DECODER.decode(data) if data else EMPTY_VIEW
        for source, value in shadow.rows(CATALOG, ""):
            if (entry := _ENTRY_DECODER.decode(value)).root:
                self.catalog[source] = entry
        self._roots = {source: entry.root for source, entry in self.catalog.items()}

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The view that counts, with the roots of all sources that the catalog has."""
        return msgspec.structs.replace(self._view, sources=self._roots)

    @property
    def epoch(self) -> int:
        return self._view.epoch

    @property
    def catalog_version(self) -> int:
        return self._row.catalog

    @property
    def promised(self) -> int:
        """No view of a lower term is adopted."""
        return max(self._row.promised, term_of(self._view.epoch))

    def broker(self, name: str) -> BrokerInfo | None:
        """What the view has of a broker."""
        return self._view.brokers.get(name)

    def is_member(self) -> bool:
        """The view that counts has this broker."""
        return self.name in self._view.brokers

    # --- what happens -------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, turn: Turn) -> list[Event]:
        """Handle a message of the control plane; others are ignored. Returns what is new."""
        match message:
            case NewView() if self._may_bring_views(sender):
                return self._adopt(message.view, turn)
            case AskView():
                if self._view.epoch > message.epoch:
                    turn.send(sender, NewView(self._view))
            case Gossip():
                self.hear_epoch(sender, message.epoch, turn)
            case CatalogDelta() if sender in self.registries:
                return self._apply(message, turn)
            case Broadcast():
                return self._broadcast(sender, message, turn)
            case AskCatalog() if sender in self.registries:
                turn.send(sender, CatalogPart(self._row.catalog, message.after, self._entries_after(message.after)))
            case Collected():
                self._trees.collect(sender, message, turn)
            case Stand() if sender in self.registries:
                self._vote(sender, message, turn)
            case Migrate() if sender in self.registries and message.moves:
                return [MovesAsked(list(message.moves))]
            case WhereIs():
                self._locate(sender, message, turn)
            case Located() if sender in self.registries:
                self._pass_on(message, turn)
        return []

    def tick(self, turn: Turn) -> None:
        now_ms = turn.now_ms
        if is_due(self._beat_ms, self.settings.heartbeat_ms, now_ms):
            self._beat(turn)
        if is_due(self._gossip_ms, self.settings.gossip_ms, now_ms):
            self._gossip_ms = now_ms
            others = [name for name in sorted(self._view.brokers) if name != self.name]
            if others:
                turn.send(self._random.choice(others), Gossip(self._view.epoch))
        self._trees.tick(turn)
        for number, asked in list(self._questions.items()):
            if is_due(asked.asked_ms, self.settings.question_ms, now_ms):
                del self._questions[number]

    def hear_epoch(self, sender: str, epoch: int, turn: Turn) -> None:
        """Another broker has a view of this epoch: ask for it if it is newer, tell of the own one if that is."""
        if epoch > self._view.epoch:
            turn.send(sender, AskView(self._view.epoch))
        elif epoch < self._view.epoch:
            turn.send(sender, NewView(self._view))

    def leave(self, turn: Turn, *, is_restarting: bool = False) -> None:
        """Say goodbye. A broker that restarts is missed only if it is not back soon."""
        self._state = "restarting" if is_restarting else "leaving"
        self._beat(turn)

    def migrated(self, moves: list[tuple[str, str]], turn: Turn) -> None:
        """These subscriptions are with their new hosts."""
        for registry in self.registries:
            turn.send(registry, Migrated(moves))

    def moved_source(self, source: str) -> Moved | None:
        """What to tell a publisher whose root is another broker; None if it is this one, or nobody's."""
        entry = self.catalog.get(source)
        if entry is None or entry.root == self.name:
            return None
        return Moved("source", source, entry.root, self._address(entry.root), self._view.epoch)

    # --- views --------------------------------------------------------------------------------------------------------

    def _beat(self, turn: Turn) -> None:
        self._beat_ms = turn.now_ms
        beat = Heartbeat(self._life, self._view.epoch, self.promised, self._row.catalog, self._info(), self._state)
        for registry in self.registries:
            turn.send(registry, beat)

    def _may_bring_views(self, sender: str) -> bool:
        """A registry, or another broker. One that knows no registry gets its views from whoever runs it."""
        return sender in self.registries or sender in self._view.brokers or not self.registries

    def _adopt(self, view: View, turn: Turn) -> list[Event]:
        if view.epoch <= self._view.epoch or problem_of(view) is not None:
            return []
        if term_of(view.epoch) < self._row.promised:
            self.refused_views += 1
            return []
        previous = self.view
        self._view = msgspec.structs.replace(view, sources={})
        turn.changes.append(Put(CONTROL, "view", _ENCODER.encode(self._view)))
        self._trees.forget()
        self._beat(turn)
        return [ViewAdopted(self.view, previous)]

    def _vote(self, sender: str, message: Stand, turn: Turn) -> None:
        """Promise a term, unless a higher one was promised, or the candidate lacks a view that was adopted here.

        A broker that has never had a view does not vote: its disk may be a new one, and its promises forgotten.
        """
        is_newer = message.term >= self._row.promised and message.term > term_of(self._view.epoch)
        if not self._view.epoch or not is_newer or self._view.epoch > message.epoch:
            turn.send(sender, Grant(self.promised, self._view.epoch, False))
            return
        if message.term > self._row.promised:
            self._put(turn, promised=message.term)
        turn.send(sender, Grant(message.term, self._view.epoch))

    def _put(self, turn: Turn, **changes: int) -> None:
        self._row = msgspec.structs.replace(self._row, **changes)
        turn.changes.append(Put(CONTROL, "state", encode(self._row)))

    # --- the catalog --------------------------------------------------------------------------------------------------

    def _apply(self, delta: CatalogDelta, turn: Turn) -> list[Event]:
        """Changes are those since `base`: if it knows some of them already, nothing is wrong with the rest."""
        if not delta.base <= self._row.catalog < delta.version:
            return []
        for entry in delta.entries:
            turn.changes.append(Put(CATALOG, entry.source, _ENCODER.encode(entry)))
            if entry.root:
                self.catalog[entry.source] = entry
            else:
                self.catalog.pop(entry.source, None)
        self._roots = {source: entry.root for source, entry in self.catalog.items()}
        self._put(turn, catalog=delta.version)
        self._beat(turn)  # there may be more
        return [CatalogChanged(list(delta.entries))]

    def _entries_after(self, name: str) -> list[CatalogEntry]:
        """What fits into a message, but one at least."""
        entries: list[CatalogEntry] = []
        size = 0
        for _, value in self._shadow.scan(CATALOG, name, ENTRIES_MAX):
            size += len(value)
            if entries and size > self.settings.catalog_bytes_max:
                break
            entries.append(_ENTRY_DECODER.decode(value))
        return entries

    def _broadcast(self, sender: str, message: Broadcast, turn: Turn) -> list[Event]:
        view = self._view
        if message.epoch != view.epoch:
            self.hear_epoch(sender, message.epoch, turn)
            return []
        upstream = view.parent(message.root, self.name)
        is_root = message.root == self.name and sender in self.registries
        if not is_root and sender != upstream:
            return []
        events = self._apply(message.delta, turn)
        has_it = self._row.catalog >= message.delta.version
        self._trees.spread(sender, message, view.children(message.root, self.name), int(has_it), turn)
        return events

    # --- where things are ---------------------------------------------------------------------------------------------

    def _address(self, broker: str) -> str:
        info = self._view.brokers.get(broker)
        return info.address if info else ""

    def _locate(self, client: str, message: WhereIs, turn: Turn) -> None:
        """Sources are in the catalog; the rest is for the registry to say."""
        entry = self.catalog.get(message.name) if message.thing == "source" else None
        if entry is not None:
            turn.send(client, Located(message.question, entry.root, self._address(entry.root), self._view.epoch))
        elif len(self._questions) < self.settings.questions_max:
            self._question_count += 1
            self._questions[self._question_count] = _Question(client, message.question, turn.now_ms)
            for registry in self.registries:
                turn.send(registry, WhereIs(self._question_count, message.thing, message.name))

    def _pass_on(self, message: Located, turn: Turn) -> None:
        asked = self._questions.pop(message.question, None)
        if asked is not None:
            turn.send(asked.client, msgspec.structs.replace(message, question=asked.question))
