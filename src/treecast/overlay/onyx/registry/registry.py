"""The registry: gives ids, knows who takes part, says where sources and subscriptions go, makes views. A `Peer`.

ONYX, section 3.1. We differ: a user brings its profile to its host itself, after the registry has said which broker
that is; so the host's acknowledgement is the one that counts, and the registry carries no queries of the data plane.

What clients ask for are numbered requests, as a broker has them: `treecast.overlay.client.Client` is the client, with
the registry as its broker. Sources get a root (`catalog.py`), subscriptions a host (`hosts.py`). Brokers send
heartbeats (`roster.py`), and the answer is what they lack. A second registry can take over (`pair.py`).

Every call ends with one group of changes. What follows it leaves when the group is durable, here and at the other
registry.
"""

from __future__ import annotations

from random import Random
from typing import Any, assert_never

import msgspec

from treecast.errors import TreecastError
from treecast.overlay.broker.clients import Clients
from treecast.overlay.broker.refused import RequestError, refusal
from treecast.overlay.broker.rows import CLIENTS, META, decode
from treecast.overlay.broker.schemas import Schemas
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import (
    Answer,
    Command,
    Durable,
    Hello,
    Inspect,
    Inspected,
    Place,
    PlaceSubscription,
    RegisterSource,
    RegisterSubscriber,
    RemovePlace,
    RemoveSource,
    Request,
)
from treecast.overlay.onyx.control_messages import (
    Broadcast,
    CatalogPart,
    Collected,
    Grant,
    Heartbeat,
    HostBeat,
    Located,
    Migrated,
    Moved,
    NewView,
    Renew,
    Ship,
    ShipPart,
    Shipped,
    WhereIs,
)
from treecast.overlay.onyx.registry.admission import Admission
from treecast.overlay.onyx.registry.catalog import Catalog
from treecast.overlay.onyx.registry.hosts import Hosts
from treecast.overlay.onyx.registry.pair import Pair
from treecast.overlay.onyx.registry.placing import choose_root
from treecast.overlay.onyx.registry.relearning import Relearning
from treecast.overlay.onyx.registry.roles import Roles
from treecast.overlay.onyx.registry.roster import Roster
from treecast.overlay.onyx.registry.rows import BROKERS, BrokerRow, Counters, ViewRow
from treecast.overlay.onyx.registry.settings import RegistrySettings
from treecast.overlay.onyx.registry.status import inspect
from treecast.overlay.onyx.registry.waiting import Waiting
from treecast.overlay.onyx.trees import cost_by_location, tree_of
from treecast.overlay.onyx.view import EMPTY_VIEW, BrokerInfo, View, certificates_of
from treecast.overlay.peer import Deliver, Effect, Send, Store
from treecast.overlay.replica.messages import Standing
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Storage


class Registry:
    """One of `registries`, the names of one or two. It is made from what its storage holds."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        random: Random,
        settings: RegistrySettings | None = None,
        registries: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.settings = settings or RegistrySettings()
        self._shadow = Shadow(storage)
        self.pair = Pair(name, registries or (name,), self._shadow, random, self.settings)
        self.roster = Roster(self.settings)
        self.admission = Admission(self.settings.allow, registries)
        self._view_ms: int | None = None
        self._away: dict[str, int] = {}  # roots that are not there, and since when
        self.spread = 0
        """The last version of the catalog that a broadcast has brought to all brokers."""
        self.ignored = 0
        """Messages that would have changed something while too much waited: for the other registry, or for brokers."""
        self._waiting = Waiting()
        self._load()

    def _load(self) -> None:
        """Read what is stored: at the beginning, and whenever the other registry has written something."""
        self._load_view()
        data = self._shadow.get(META, "counters")
        self._counters = decode(data, Counters) if data else Counters()
        self.catalog = Catalog(self._shadow, self.settings, self._counters.catalog)
        self.hosts = Hosts(self._shadow, self.settings)
        self.roles = Roles(self._shadow, self.settings)
        limits = BrokerSettings(clients_max=self.settings.clients_max, client_ms=self.settings.client_ms)
        self.relearning = Relearning.load(self, self._shadow.get(META, "relearnt"))
        self._clients = Clients(self._shadow, self._shadow.stored_count(CLIENTS), limits)
        self._schemas = Schemas(limits)

    def _load_view(self) -> None:
        data = self._shadow.get(META, "view")
        self.view_row = decode(data, ViewRow) if data else ViewRow(EMPTY_VIEW)

    @property
    def is_in_charge(self) -> bool:
        """It may decide something: it is in charge of the two, and knows what it has said before."""
        return self.pair.is_active and not self.relearning.is_under_way

    @property
    def view(self) -> View:
        return self.view_row.view

    # --- the peer ----------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        """Handle a message. What makes no sense is ignored: it may be old, or from a stranger."""
        if isinstance(message, Durable):
            if sender == self.name:
                self._shadow.durable(message.group)
            return []
        turn = Turn(now_ms)
        term = self.pair.row.term
        match message:
            case Heartbeat():
                if self.admission.let_in(sender, sender, turn):
                    self._hear(sender, message, turn)
            case HostBeat():
                may_join = self.admission.let_in(sender, message.broker, turn)
                if may_join and self.pair.is_active and self.pair.has_room() and self.roles.hear(sender, message, turn):
                    self.roles.answer(sender, turn)
            case Ship() | ShipPart() if sender == self.pair.partner:
                self.pair.take_ship(message, now_ms)
            case Renew() if sender == self.pair.partner:
                self.pair.take_renew(message, now_ms)
            case Shipped() if sender == self.pair.partner:
                self.pair.take_shipped(message, now_ms)
            case Grant():
                self.pair.take_grant(sender, message, self.view_row, now_ms)
            case Inspect():
                turn.send(sender, Inspected(message.question, inspect(message, self)))
            case NewView() | CatalogPart() | Inspected() if self.roster.heard.get(sender) is not None:
                self.relearning.receive(sender, message, turn)
            case Standing():
                # What hosts say is all that a registry knows of replicas, whatever else it has lost.
                if self.pair.is_active and self.pair.has_room():
                    self.roles.take(sender, message, turn)
            case Hello() | Request() | WhereIs() if not self.is_in_charge:
                if self.pair.partner:
                    turn.send(sender, Moved("registry", "", self.pair.partner, "", self.view.epoch))
                elif not isinstance(message, Hello):  # an old one would end the lease of a newer one
                    self._put_off(sender, message)
            case _:
                if self.is_in_charge:
                    self._receive_in_charge(sender, message, turn)
        effects = self._finish(turn, term)
        if self._waiting and isinstance(message, Heartbeat | Inspected):
            effects += self._take_waiting(now_ms)
        return effects

    def _put_off(self, sender: str, message: Request | WhereIs) -> None:
        self.ignored += not self._waiting.put(sender, message)

    def _take_waiting(self, now_ms: int) -> list[Effect]:
        """What need not wait any more: one group of changes each."""
        effects: list[Effect] = []
        if self.is_in_charge:
            for sender, message in self._waiting.take(lambda message: not self.relearning.has_to_wait(message, now_ms)):
                effects += self.receive(sender, message, now_ms)
        return effects

    def _receive_in_charge(self, sender: str, message: Any, turn: Turn) -> None:
        match message:
            case Hello() | Request() | Migrated() if not self.pair.has_room():
                self.ignored += 1  # it will come again
            case Request() | WhereIs() if self.relearning.has_to_wait(message, turn.now_ms):
                self._put_off(sender, message)
            case Hello():
                self._clients.welcome(self.name, "", sender, message.nonce, turn)
            case Request():
                self._request(sender, message, turn)
            case WhereIs():
                self._locate(sender, message, turn)
            case Migrated():
                new_id = self.new_id if self.relearning.learns_from(sender, turn.now_ms) else None
                self.hosts.take_migrated(sender, message, turn, new_id)
            case Collected() if message.root == sender and message.count >= len(self.view.brokers):
                self.spread = max(self.spread, message.number)

    def tick(self, now_ms: int) -> list[Effect]:
        turn = Turn(now_ms)
        self.relearning.tick(turn)
        term = self.pair.row.term
        self.pair.tick(self.view_row, now_ms)
        if self.pair.is_active and self.pair.has_room():
            self.roles.tick(turn)
        if self.is_in_charge and self.pair.has_room():
            self._keep_view(turn)
            self._reroot(turn)
            self.hosts.tick(self.view.brokers, self.view.epoch, turn)
        effects = self._finish(turn, term)
        return effects + self._take_waiting(now_ms) if self._waiting else effects

    def _finish(self, turn: Turn, term: int) -> list[Effect]:
        if self.pair.is_primary and self.pair.row.term != term:
            self._take_charge(turn)
        counters = Counters(self._counters.ids, self.catalog.version)
        if turn.changes and counters != self._counters:
            self._counters = counters
            turn.put(META, "counters", counters)
        if turn.changes:
            self.pair.write(turn.changes)
        own, self.pair.changes = self.pair.changes, []
        changes = turn.changes + own
        effects: list[Effect] = []
        if changes:
            group = self._shadow.apply(changes)
            effects += (Store(tuple(changes)), Send(self.name, Durable(group)))
        if self.pair.must_reload:
            self.pair.must_reload = False
            self._load_view()
            self.roles.load(self._shadow)
        urgent, self.pair.sends = self.pair.sends, []
        return [*effects, *urgent, *self.pair.release(turn.sends), *map(Deliver, turn.events)]

    def _take_charge(self, turn: Turn) -> None:
        """What the other registry has written is all that counts; and brokers get time to be heard."""
        self._load()
        self.roster.expect_all(self.view.brokers, turn.now_ms)
        self.pair.base_epoch = self.view.epoch
        if self.view.brokers:
            # The same brokers: see pair.py.
            previous = sorted(self.view.brokers) if self.pair.row.is_paired else self.view_row.previous
            self._put_view(dict(self.view.brokers), previous, turn)

    def broker(self, name: str) -> BrokerInfo | None:
        """What a broker has said of itself last, or what the view has of it."""
        heard = self.roster.heard.get(name)
        return heard.beat.info if heard is not None else self.view.brokers.get(name)

    def certificates_of(self, name: str) -> tuple[str, ...]:
        """Whose certificates a peer may show, besides its own."""
        return certificates_of(name, [BrokerInfo(host=self.roles.primary_of(name))])

    # --- brokers and views --------------------------------------------------------------------------------------------

    def _hear(self, broker: str, beat: Heartbeat, turn: Turn) -> None:
        """Answer a heartbeat with what the broker lacks. One that another host should serve is not heard."""
        self.relearning.hear(broker, beat, turn.now_ms)
        knows = self.pair.is_primary and not self.relearning.is_under_way
        if knows and beat.info.host != self.roles.primary_of(broker):
            return
        if not self.roster.hear(broker, beat, turn.now_ms) or self.relearning.is_under_way:
            return
        pair = self.pair
        if pair.partner:  # a single one gives way to nobody
            pair.hear_broker(beat.epoch, beat.promised, turn.now_ms)
        if not pair.is_primary:
            return
        if not pair.row.is_established:
            pair.establish(self.view_row, self.roster.epochs())
        if beat.epoch < self.view.epoch:
            turn.send(broker, NewView(self.view))
        is_member = self.is_in_charge and broker in self.view.brokers
        if is_member and self.relearning.may_update(broker, beat.catalog):
            delta = self.catalog.since(beat.catalog)
            if delta is not None:
                turn.send(broker, delta)

    def _keep_view(self, turn: Turn) -> None:
        """Make another view if somebody has come or gone."""
        if self.view_row.previous is not None:
            if not self.pair.is_settled():
                return  # one after the other: see pair.py
            self.view_row = ViewRow(self.view)
            turn.put(META, "view", self.view_row)
        now_ms, last_ms = turn.now_ms, self._view_ms
        if last_ms is not None and last_ms <= now_ms < last_ms + self.settings.view_ms:
            return
        coming, leaving = self.roster.look(self.view.brokers, now_ms)
        brokers = {name: info for name, info in self.view.brokers.items() if name not in leaving}
        for name in coming:
            brokers[name] = self._info_of(name, turn)
        for name, heard in self.roster.heard.items():
            if name in brokers:
                brokers[name] = self._updated(brokers[name], heard.beat.info)
        if brokers != self.view.brokers or self._roots(brokers, now_ms) != self.view.roots():
            self._change_view(brokers, turn)

    def _info_of(self, name: str, turn: Turn) -> BrokerInfo:
        """What a broker that comes says of itself, with its number: that of last time, or a new one."""
        data = self._shadow.get(BROKERS, name)
        if data is None:
            number = self.new_id()
            turn.put(BROKERS, name, BrokerRow(number))
        else:
            number = decode(data, BrokerRow).number
        return msgspec.structs.replace(self.roster.heard[name].beat.info, number=number)

    @staticmethod
    def _updated(known: BrokerInfo, said: BrokerInfo) -> BrokerInfo:
        """Loads change all the time, and are no reason for another view."""
        return msgspec.structs.replace(said, number=known.number, load=known.load)

    def _roots(self, brokers: dict[str, BrokerInfo], now_ms: int) -> tuple[str, ...]:
        """The brokers that need a tree: those with sources, and those that had some; without any, one for what the
        registry spreads."""
        roots = self.catalog.roots()
        former = (self.catalog.former_roots(now_ms) | self.relearning.former_roots(now_ms)).difference(roots)
        kept = [name for name in (*roots, *sorted(former)) if name in brokers][: self.settings.roots_max]
        return tuple(sorted(kept) or sorted(brokers)[:1])

    def _change_view(self, brokers: dict[str, BrokerInfo], turn: Turn) -> None:
        previous = sorted(self.view.brokers) if self.pair.row.is_paired else None
        self._put_view(brokers, previous, turn)

    def _put_view(self, brokers: dict[str, BrokerInfo], previous: list[str] | None, turn: Turn) -> None:
        costs = cost_by_location(brokers)
        old = self.view
        trees = {
            root: tree_of(root, brokers, costs, self.settings.fan_out_max, old.trees.get(root))
            for root in self._roots(brokers, turn.now_ms)
        }
        epoch = max(old.epoch, self.pair.epoch_floor) + 1
        ordered = {name: brokers[name] for name in sorted(brokers)}
        self.view_row = ViewRow(View(epoch, ordered, trees), previous)
        turn.put(META, "view", self.view_row)
        self._view_ms = turn.now_ms
        for name in sorted({*old.brokers, *brokers}):
            turn.send(name, NewView(self.view))

    # --- requests ----------------------------------------------------------------------------------------------------

    @property
    def last_id(self) -> int:
        return self._counters.ids

    def known_brokers(self) -> list[str]:
        """Those that have a number."""
        return [str(name) for name, _ in self._shadow.rows(BROKERS, "")]

    def restore_counters(self, counters: Counters) -> None:
        """Numbers begin anew, above those that brokers know."""
        self._counters = counters  # stored with the group: see _finish

    def forget_clients(self, turn: Turn) -> None:
        """Numbers of their requests are from before."""
        self._clients.forget_answers(turn)

    def restore_view(self, brokers: dict[str, BrokerInfo], turn: Turn) -> None:
        """Brokers that were the last view's get time to be heard."""
        self.roster.expect_all(brokers, turn.now_ms)
        self._put_view(brokers, None, turn)

    def new_id(self) -> int:
        self._counters = Counters(self._counters.ids + 1, -1)  # stored with the group: see _finish
        return self._counters.ids

    def _request(self, sender: str, request: Request, turn: Turn) -> None:
        client = self._clients.take(sender, request, turn)
        if client is None:
            return
        done, ids = len(turn.changes), self._counters.ids
        try:
            answer = self._do(request.number, request.command, turn)
        except TreecastError as error:
            del turn.changes[done:]
            self._counters = Counters(ids, self._counters.catalog)
            answer = Answer(request.number, [], [refusal(error, -1)])
        self._clients.answer(sender, client, answer, turn)

    def _do(self, number: int, command: Command, turn: Turn) -> Answer:
        brokers = self.view.brokers
        match command:
            case RegisterSource():
                if command.schema:
                    self._schemas.validator(command.schema)  # its root refuses a wrong one too, when nobody listens
                row = self.catalog.register(command, lambda: self._choose_root(command), self.new_id, turn)
                root = row.entry.root
                if root in brokers and root not in self.view.trees and self.view_row.previous is None:
                    self._change_view(dict(brokers), turn)  # so that it has a tree before anything is published
                self._spread(root, turn)
                return Answer(number, places=[self._place_of(row.entry.number, root)])
            case RemoveSource():
                root = self.catalog.rows[command.source].entry.root if command.source in self.catalog.rows else ""
                self.catalog.remove(command.source, turn)
                self._spread(root, turn)
            case RegisterSubscriber():
                self._expect_brokers()
                subscriber = self.hosts.register(command, brokers, self.new_id, turn)
                return Answer(number, places=[self._place_of(subscriber.number, subscriber.host)])
            case PlaceSubscription():
                self._expect_brokers()
                placed = self.hosts.place(command, brokers, self.new_id, turn, self.relearning.old_ids)
                return Answer(number, places=[self._place_of(placed.number, placed.host)])
            case RemovePlace():
                self.hosts.remove(command.id, turn)
            case _:
                raise RequestError(
                    f"a registry does not do {type(command).__name__}", code="TC480", hint="send it to a broker"
                )
        return Answer(number)

    def _expect_brokers(self) -> None:
        if not self.view.brokers:
            raise RequestError("no broker takes part in the network", code="TC481", hint="start one, then try again")

    def _choose_root(self, command: RegisterSource) -> str:
        self._expect_brokers()
        used: dict[str, int] = {}
        for row in self.catalog.live().values():
            used[row.entry.root] = used.get(row.entry.root, 0) + row.bytes_per_second
        brokers = self.view.brokers
        if len(roots := self.catalog.roots()) >= self.settings.roots_max:
            brokers = {name: info for name, info in brokers.items() if name in roots}
            if not brokers:
                message = f"there are {self.settings.roots_max} roots already, and none of them takes part"
                raise RequestError(message, code="TC481", hint="wait until one is back, or raise roots_max")
        volume = command.messages_per_second * command.message_bytes
        copies = max(1, min(self.settings.fan_out_max, len(brokers) - 1))
        return choose_root(brokers, command.location, volume, used, copies)

    def _place_of(self, number: int, broker: str) -> Place:
        info = self.view.brokers.get(broker)
        return Place(number, broker, info.address if info else "", self.view.epoch)

    def _spread(self, root: str, turn: Turn) -> None:
        """Send the last change of the catalog along the tree of a root, or of another one if that has none yet."""
        if not self.view.trees:
            return
        root = root if root in self.view.trees else self.view.roots()[0]
        delta = self.catalog.since(self.catalog.version - 1)
        assert delta is not None, "something has changed"
        turn.send(root, Broadcast(root, self.view.epoch, delta.version, delta))

    def _reroot(self, turn: Turn) -> None:
        """Sources whose root has been away for too long get another one."""
        if not self.settings.reroot_ms or not self.view.brokers:
            return
        for root in self.catalog.roots():
            if root in self.view.brokers:
                self._away.pop(root, None)
                continue
            since_ms = self._away.setdefault(root, turn.now_ms)
            if since_ms <= turn.now_ms < since_ms + self.settings.reroot_ms:
                continue
            for source, row in self.catalog.live().items():
                if row.entry.root == root:
                    command = RegisterSource(source, location=row.location, message_bytes=row.bytes_per_second)
                    self.catalog.move(source, self._choose_root(command), turn)
                    self._spread(root, turn)

    # --- where things are ---------------------------------------------------------------------------------------------

    def _locate(self, sender: str, message: WhereIs, turn: Turn) -> None:
        broker = ""
        match message.thing:
            case "source":
                row = self.catalog.rows.get(message.name)
                broker = row.entry.root if row else ""
            case "subscription":
                placed = self.hosts.row(message.name)
                broker = placed.host if placed else ""
            case "subscriber":
                subscriber = self.hosts.subscriber(message.name)
                broker = subscriber.host if subscriber else ""
            case _:
                assert_never(message.thing)
        place = self._place_of(0, broker)
        turn.send(sender, Located(message.question, place.broker, place.address, place.epoch))

    def stats(self) -> dict[str, int]:
        """Counts for metrics."""
        return {
            "epoch": self.view.epoch,
            "term": self.pair.row.term,
            "in_charge": int(self.is_in_charge),
            "paired": int(self.pair.is_ready),
            "takeovers": self.pair.takeovers,
            "brokers": len(self.view.brokers),
            "roots": len(self.view.trees),
            "depth": max((self.view.depth(root) for root in self.view.trees), default=0),
            "sources": len(self.catalog.live()),
            "catalog": self.catalog.version,
            "spread": self.spread,
            "ignored": self.ignored,
            "subscriptions": len(self.hosts),
            "moves": self.hosts.open_moves,
            "moved": self.hosts.moved,
            "replicated": len(self.roles.rows),
            "host_takeovers": self.roles.takeovers,
            "losses": self.roles.losses,
            "relearnt": self.relearning.subscriptions,
            "not_allowed": self.admission.refused,
        }
