"""A single registry that has lost its disk learns from the brokers what it had told them.

Theory of operation. What a registry sends is on its disk before. So if a broker has a later view or a later catalog
than the registry itself, the registry has lost something. With two registries the other one has it (`pair.py`); a
single one asks the brokers, in two steps.

1. **What counts.** It asks every broker that it hears for its view, and one of those with the latest catalog for
   that. Meanwhile it decides nothing and answers no request. It goes on when all brokers of the latest view have
   answered, and waits `doubt_ms` for those that are away. Then it makes a view of the same brokers with a higher
   epoch. Numbers that it gives away, and versions of the catalog, begin so far above all that brokers know that none
   is used twice.
2. **Where subscriptions are.** It is in charge again, and each broker tells the ids of those that it hosts, part by
   part. While a broker that is there has not told all, nobody is told that an id has no host, and none is placed.
   What a broker hosts that is away is learnt when it comes back, and so are sources that only this one had heard of.

What is gone: where subscribers are, what sources are expected to send, and queries that decide about hosts, until they
are placed again; and the latest change of the catalog, if no broker had it yet. Who serves brokers with replicas, their
hosts say (`roles.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import msgspec

from treecast.overlay.broker.rows import META, decode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Inspect, Inspected, PlaceSubscription, RemovePlace, Request
from treecast.overlay.onyx.control_messages import (
    ENTRIES_MAX,
    AskCatalog,
    AskView,
    CatalogEntry,
    CatalogPart,
    Heartbeat,
    NewView,
    WhereIs,
)
from treecast.overlay.onyx.registry.rows import BROKERS, BrokerRow, Counters, RelearningRow, SourceRow, ViewRow
from treecast.overlay.onyx.view import EMPTY_VIEW, View, problem_of, term_of
from treecast.overlay.retry import is_due

if TYPE_CHECKING:
    from treecast.overlay.onyx.registry.registry import Registry

ASK_MS = 500
"""A question without an answer is asked again after so long."""
LEAP = 1 << 32
"""Numbers and versions that the lost registry may have given away, and no broker has heard of, are fewer."""


EPOCHS = 1 << 16
"""And so are its views."""
TOO_MUCH = 1 << 61
"""What no registry ever reaches, a broker makes up."""
TERMS_MAX = 1 << 29
ASKED_MAX = 3
"""A broker that was asked so often for its catalog, and gave no answer, makes room for another one."""


class Relearnt(msgspec.Struct, frozen=True):
    """An event: a registry that had lost what it knew is in charge again."""

    brokers: int
    sources: int


class _Question(msgspec.Struct):
    """What a broker is asked for its subscriptions."""

    after: str = ""
    number: int = 0
    asked_ms: int | None = None
    heard_ms: int | None = None
    """When it was asked first, or answered last."""


class Relearning:
    """The part of a registry that does it."""

    def __init__(self, registry: Registry, row: RelearningRow) -> None:
        self._registry = registry
        self._row = row
        self._waits_from_ms: int | None = None  # the first request that came before any broker was heard
        self._begun_ms: int | None = None
        self._asked_ms: int | None = None
        self._views: dict[str, View] = {}
        self._catalog_of = ""
        self._version = 0
        self._entries: dict[str, CatalogEntry] = {}
        self._after = ""
        self._has_catalog = False
        self._asked = 0  # how often for this part of its catalog
        self._mute: set[str] = set()
        self._questions: dict[str, _Question] = {}
        self._stale: dict[str, _Question] = {}  # brokers with a catalog from before
        self._up_to_date: set[str] = set()
        self._numbers = (registry.view.epoch % (1 << 20)) << 40  # answers to questions of an earlier life are none
        self.subscriptions = 0
        """Subscriptions of which brokers have said that they host them."""

    @classmethod
    def load(cls, registry: Registry, data: bytes | None) -> Relearning:
        return cls(registry, decode(data, RelearningRow) if data else RelearningRow())

    @property
    def is_under_way(self) -> bool:
        """What counts is not known: nothing may be decided."""
        return self._begun_ms is not None

    @property
    def old_ids(self) -> int:
        """Numbers up to this one were given away before."""
        return self._row.ids

    # --- what counts --------------------------------------------------------------------------------------------------

    def hear(self, broker: str, beat: Heartbeat, now_ms: int) -> None:
        """Begin if brokers know more than the registry ever said: more of them than follow what it says."""
        registry = self._registry
        if registry.pair.partner or self.is_under_way or max(beat.epoch, beat.catalog) >= TOO_MUCH:
            return
        if self._knows_more(beat):
            here = registry.roster.here(now_ms) | {broker: beat}
            following = [name for name in here.keys() & registry.view.brokers.keys() if self._follows(here[name])]
            if len(following) >= sum(map(self._knows_more, here.values())):
                return  # of another network, or made up
            self._begun_ms, self._asked_ms = now_ms, None
            self._views.clear()
            self._mute.clear()
            self._catalog_of = ""

    def _knows_more(self, beat: Heartbeat) -> bool:
        return beat.epoch > self._registry.view.epoch or beat.catalog > self._registry.catalog.version

    def _follows(self, beat: Heartbeat) -> bool:
        return beat.epoch == self._registry.view.epoch and not self._knows_more(beat)

    def receive(self, sender: str, message: NewView | CatalogPart | Inspected, turn: Turn) -> None:
        """An answer of a broker. Others are old."""
        if not self._registry.pair.is_active or not self._registry.pair.has_room():
            return
        match message:
            case NewView():
                if self.is_under_way and problem_of(message.view) is None:
                    self._views[sender] = message.view
            case CatalogPart():
                if self.is_under_way:
                    if (sender, message.after) == (self._catalog_of, self._after):
                        self._take_catalog(sender, message, turn)
                elif sender in self._stale and self._stale[sender].after == message.after:
                    self._merge(sender, message, turn)
            case Inspected():
                self._take_subscriptions(sender, message, turn)
            case _:
                assert_never(message)

    def _take_catalog(self, sender: str, message: CatalogPart, turn: Turn) -> None:
        if message.version != self._version:
            self._catalog_of = ""  # it has changed: from the beginning
            return
        self._entries.update((entry.source, entry) for entry in message.entries if entry.number < TOO_MUCH)
        self._has_catalog = not message.entries
        if message.entries and message.entries[-1].source > self._after:
            self._after, self._asked = message.entries[-1].source, 0
            turn.send(sender, AskCatalog(self._after))

    def tick(self, turn: Turn) -> None:
        """Ask, and go on when everything is known."""
        if not self._registry.pair.is_active or not self._registry.pair.has_room():
            return
        if not self.is_under_way:
            if self._row.floor:
                self._ask_for_subscriptions(turn)
                self._ask_for_stale_catalogs(turn)
            return
        if is_due(self._asked_ms, ASK_MS, turn.now_ms):
            self._asked_ms = turn.now_ms
            self._ask(turn)
        views = sorted(self._views.values(), key=lambda one: one.epoch)
        # A view without brokers is what the last one that left was told.
        view = next((one for one in reversed(views) if one.brokers), EMPTY_VIEW)
        if self._has_all(view, turn.now_ms):
            self._adopt(view, max((one.epoch for one in views), default=0), turn)

    def _ask(self, turn: Turn) -> None:
        here = self._registry.roster.here(turn.now_ms)
        for broker, beat in here.items():
            if broker not in self._views and beat.epoch:
                turn.send(broker, AskView(0))
        self._asked += 1
        if self._asked > ASKED_MAX and not self._has_catalog:
            self._mute.add(self._catalog_of)
        if self._mute >= here.keys():
            self._mute.clear()
        candidates = {name: beat.catalog for name, beat in here.items() if name not in self._mute}
        if self._catalog_of not in candidates:
            self._version, self._has_catalog = -1, False
        latest = max(candidates, key=lambda name: (candidates[name], name), default="")
        if latest and candidates[latest] > self._version:
            self._catalog_of, self._version, self._after, self._asked = latest, candidates[latest], "", 0
            self._entries.clear()
            self._has_catalog = False
        if self._catalog_of in here and not self._has_catalog:
            turn.send(self._catalog_of, AskCatalog(self._after))

    def _has_all(self, view: View, now_ms: int) -> bool:
        settings, begun_ms = self._registry.settings, self._begun_ms
        has_answered = bool(view.brokers) and view.brokers.keys() <= self._views.keys()
        wait_ms = settings.silent_ms // 2 if has_answered else settings.doubt_ms
        return self._has_catalog and is_due(begun_ms, wait_ms, now_ms)

    def _adopt(self, view: View, epoch: int, turn: Turn) -> None:
        """This view has the brokers; the latest one has this epoch."""
        registry = self._registry
        heard = registry.roster.heard.values()
        promised = max((one.beat.promised for one in heard if one.beat.promised < TERMS_MAX), default=0)
        epoch = max(epoch, registry.view.epoch) + EPOCHS
        if max(term_of(epoch), promised) > registry.pair.row.term:
            registry.pair.begin_above(max(term_of(epoch), promised))
        # What was said since the disk was lost counts as well.
        rows = {name: msgspec.structs.replace(row, broker_version=0) for name, row in registry.catalog.rows.items()}
        rows |= {name: SourceRow(entry, 0, broker_version=self._version) for name, entry in self._entries.items()}
        version = max(self._version, registry.catalog.version) + LEAP
        numbers = [info.number for info in view.brokers.values() if info.number < TOO_MUCH]
        numbers += [row.entry.number for row in rows.values()]
        registry.restore_counters(Counters(max([registry.last_id, version, *numbers]) + LEAP, -1))
        for name in registry.known_brokers():
            turn.delete(BROKERS, name)
        for name, info in view.brokers.items():
            turn.put(BROKERS, name, BrokerRow(info.number))
        registry.catalog.restore(rows.values(), version, turn)
        registry.forget_clients(turn)
        registry.view_row = ViewRow(msgspec.structs.replace(view, epoch=epoch))
        self._begun_ms = None
        self._entries.clear()
        self._stale.clear()
        self._up_to_date.clear()
        self._questions.clear()
        self._row = RelearningRow(self._version, version, registry.last_id, [], sorted(view.trees), turn.now_ms)
        turn.put(META, "relearnt", self._row)
        registry.restore_view(dict(view.brokers), turn)
        turn.events.append(Relearnt(len(view.brokers), len(registry.catalog.live())))

    def former_roots(self, now_ms: int) -> set[str]:
        """Brokers that had a tree before, and may have documents that others still lack."""
        at_ms = self._row.at_ms
        return set(self._row.roots) if at_ms <= now_ms < at_ms + self._registry.settings.former_ms else set()

    # --- catalogs from before -----------------------------------------------------------------------------------------

    def may_update(self, broker: str, version: int) -> bool:
        """Whether a broker may get changes of the catalog: one that has another catalog from before is asked first."""
        if not 0 < version <= self._row.floor or version == self._row.version or broker in self._up_to_date:
            return True
        self._stale.setdefault(broker, _Question())
        return False

    def _ask_for_stale_catalogs(self, turn: Turn) -> None:
        here = self._registry.roster.here(turn.now_ms) if self._stale else {}
        for broker, question in self._stale.items():
            if broker in here and is_due(question.asked_ms, ASK_MS, turn.now_ms):
                question.asked_ms = turn.now_ms
                turn.send(broker, AskCatalog(question.after))

    def _merge(self, sender: str, message: CatalogPart, turn: Turn) -> None:
        """Sources that nobody else knew; and what is later than what was learnt, unless it has changed since."""
        catalog = self._registry.catalog
        for entry in message.entries:
            known = catalog.rows.get(entry.source)
            is_later = known is not None and 0 < known.broker_version < message.version
            if entry.number < TOO_MUCH and ((known is None and entry.root) or is_later):
                catalog.put(entry, message.version, turn)
        question = self._stale[sender]
        if not message.entries:
            del self._stale[sender]
            self._up_to_date.add(sender)
        elif message.entries[-1].source > question.after:
            question.after = message.entries[-1].source
            turn.send(sender, AskCatalog(question.after))

    # --- where subscriptions are --------------------------------------------------------------------------------------

    def has_to_wait(self, message: Request | WhereIs, now_ms: int) -> bool:
        """No broker was heard yet, and some may know more; or it is about a subscription that is not known, or only
        from an older disk, while a broker that is there may host it."""
        if self._has_heard_nobody(now_ms):
            return True
        match message.command if isinstance(message, Request) else message:
            case PlaceSubscription(id=id) | RemovePlace(id=id) | WhereIs(thing="subscription", name=id):
                row = self._registry.hosts.row(id)
                return (row is None or row.number <= self.old_ids) and self.is_asking(now_ms)
            case _:
                return False

    def _has_heard_nobody(self, now_ms: int) -> bool:
        """Since it started. Its disk may be empty, or older than what brokers know: the first heartbeat tells."""
        registry = self._registry
        if registry.pair.partner or registry.roster.heard:
            return False
        if self._waits_from_ms is None:
            self._waits_from_ms = now_ms
        return not is_due(self._waits_from_ms, registry.settings.silent_ms, now_ms)

    def learns_from(self, broker: str, now_ms: int) -> bool:
        """What this broker says of places may be new."""
        return bool(self._row.floor) and (broker not in self._row.hosts or self.is_asking(now_ms))

    def is_asking(self, now_ms: int) -> bool:
        """A broker that is there has still to say what it hosts. One that gives no answer is not waited for."""
        if not self._row.floor:
            return False
        silent_ms = self._registry.settings.doubt_ms
        for broker in self._registry.roster.here(now_ms):
            question = self._questions.get(broker)
            heard_ms = question.heard_ms if question is not None else None
            if broker not in self._row.hosts and (heard_ms is None or heard_ms <= now_ms < heard_ms + silent_ms):
                return True
        return False

    def _ask_for_subscriptions(self, turn: Turn) -> None:
        now_ms = turn.now_ms
        for broker in sorted(self._registry.roster.here(now_ms).keys() - set(self._row.hosts)):
            question = self._questions.setdefault(broker, _Question())
            if is_due(question.asked_ms, ASK_MS, now_ms):
                question.heard_ms = now_ms if question.heard_ms is None else question.heard_ms
                self._ask_one(broker, question, turn)

    def _ask_one(self, broker: str, question: _Question, turn: Turn) -> None:
        self._numbers += 1
        question.number, question.asked_ms = self._numbers, turn.now_ms
        turn.send(broker, Inspect(question.number, "subscriptions", question.after, ENTRIES_MAX))

    def _take_subscriptions(self, sender: str, message: Inspected, turn: Turn) -> None:
        question = self._questions.get(sender)
        if question is None or question.number != message.question or question.asked_ms is None:
            return
        ids = [id for row in message.rows if isinstance(id := row.get("key"), str) and id > question.after]
        if len(ids) < len(message.rows) or ids != sorted(ids):
            return  # it makes no sense, and is asked for again
        hosts, registry = self._registry.hosts, self._registry
        for id in ids:
            known = hosts.row(id)
            if len(hosts) < registry.settings.subscriptions_max and (known is None or known.number <= self._row.ids):
                hosts.restore(id, sender, registry.new_id(), turn)
                self.subscriptions += 1
        question.heard_ms = turn.now_ms
        if ids:
            question.after = ids[-1]
            self._ask_one(sender, question, turn)
        else:
            del self._questions[sender]
            hosts.forget_missing(sender, self._row.ids, turn)
            self._row = msgspec.structs.replace(self._row, hosts=sorted({*self._row.hosts, sender}))
            turn.put(META, "relearnt", self._row)
