"""A broker of a network: a `Broker` with its clients, and beside it the part that it has in every root's tree.

One peer, one storage, one group of changes for each call. What comes by a tree is matched here, stored with the
position that it stands for, and passed on from memory at once; what only travels through is never stored. The tree is
for speed; a root repairs what the tree loses. `tree.py` says when a range is complete, `repair.py` what is asked for,
`wants.py` when a subscription counts.

    >>> from random import Random
    >>> from treecast.overlay.onyx.control_messages import NewView
    >>> from treecast.overlay.onyx.view import BrokerInfo, View
    >>> from treecast.sim import SimulatedStorage
    >>> broker = NetworkBroker("b1", SimulatedStorage(), Random(1))
    >>> effects = broker.receive("registry", NewView(View(1, {"b1": BrokerInfo()}, {"b1": {}})), now_ms=0)
    >>> broker.stats()["epoch"], broker.stats()["trees"]
    (1, 1)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from random import Random
from typing import Any, assert_never

import msgspec

from treecast import _native
from treecast.errors import PeerError, TreecastError
from treecast.index import Index
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.broker import Beside, at_once
from treecast.overlay.broker.rows import META, SUBSCRIPTIONS, SubscriptionRow, decode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Attach, Durable, Hello, Inspect, Inspected, RegisterSource, Request
from treecast.overlay.onyx.announces import Announces
from treecast.overlay.onyx.client_requests import objection_to, objection_to_source, take_request
from treecast.overlay.onyx.control_messages import ControlMessage
from treecast.overlay.onyx.early_index import EarlyIndexes
from treecast.overlay.onyx.early_plan import is_restructured
from treecast.overlay.onyx.forward_runs import runs
from treecast.overlay.onyx.history import Histories, older_disk
from treecast.overlay.onyx.link_formats import Arrival, Forms
from treecast.overlay.onyx.link_rows import link_rows, network_stats
from treecast.overlay.onyx.membership import CatalogChanged, Membership, MembershipSettings, MovesAsked, ViewAdopted
from treecast.overlay.onyx.migration import Migration
from treecast.overlay.onyx.move_messages import MoveMessage
from treecast.overlay.onyx.network_messages import (
    Announce,
    BeginAnew,
    CatchUp,
    Covered,
    DictionaryKnown,
    Forward,
    History,
    Latest,
    LinkDictionary,
    NetworkMessage,
    Resync,
    ServeLocal,
    Taken,
)
from treecast.overlay.onyx.network_messages import Positions as PositionsMessage
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.path_routing import PathRouting
from treecast.overlay.onyx.positions import POSITIONS, Positions
from treecast.overlay.onyx.publication import pass_published, prepare
from treecast.overlay.onyx.repair import Repair
from treecast.overlay.onyx.routing_protocol import Routing
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.tree import Tree
from treecast.overlay.onyx.view import BrokerInfo, View, certificates_of
from treecast.overlay.onyx.wants import Wants
from treecast.overlay.peer import Effect
from treecast.overlay.storage import Put, Storage

LIFE = "life"
"""`meta["life"]`: how often the broker has started, at least."""
_TURNING = NetworkMessage | ControlMessage | MoveMessage | Request
"""What may change for whom a document is, or where it comes from: before it, what came earlier is served."""


class Gone(msgspec.Struct, frozen=True):
    """An event: documents of a root that this broker had not got yet are not kept any more."""

    root: str
    after: int
    upto: int


class NetworkBroker:
    """A `Peer`. Arguments are those of `Broker`, with the settings of its part in the network."""

    tree_class = Tree
    wants_class = Wants
    migration_class = Migration

    def __init__(
        self,
        name: str,
        storage: Storage,
        random: Random,
        settings: BrokerSettings | None = None,
        network: NetworkSettings | None = None,
        index: Index | None = None,
        index_version: int = 0,
        beside: Beside = at_once,
        *,
        registries: tuple[str, ...] = (),
        membership: MembershipSettings | None = None,
        routing: Routing | None = None,
    ) -> None:
        self.name = name
        self.broker = broker = Broker(name, storage, random, settings, index, index_version, beside)
        self._random = random
        self.routing: Routing = routing or PathRouting(seed=random.getrandbits(32))
        routing = self.routing
        self._settings = network = network or NetworkSettings()
        self.now_ms = 0
        self.info = BrokerInfo()
        """What others are told of this broker: where it is reached, and where it is."""
        self.life = int.from_bytes(broker.shadow.get(META, LIFE) or b"", "big")
        self._is_alive = False
        self._is_settled = False  # the number of this life is stored
        self._turn = Turn(0)
        self.membership = Membership(name, registries, broker.shadow, random, membership, self._info)
        broker.objection_to = lambda command: objection_to(self.membership, command)
        broker.objection_to_source = lambda source: objection_to_source(self.membership, source)
        self.trees: dict[str, Tree] = {}
        self._last_version = 0  # the highest of trees that are gone
        self.positions = Positions(broker.shadow.rows(POSITIONS, ""))
        self.repairs: dict[str, Repair] = {}
        self._root_lives: dict[str, int] = {}
        self._histories = Histories(broker.tail, routing, network, broker.index.limits)
        self._local: deque[tuple[str, int, int, Sequence[Arrival]]] = deque()
        """What was passed on, and is still to be served here: root, after, upto, documents."""
        self._local_bytes = 0
        broker.keep_documents(self._publish)
        broker.retention.needed_by_others = lambda: self._histories.needed_from(self.now_ms)
        self.wants = self.wants_class(
            broker, routing, network, self.trees, self.positions.number, lambda: self.epoch > 0
        )
        self.wants.load(decode(data, SubscriptionRow) for _, data in broker.shadow.rows(SUBSCRIPTIONS, ""))
        self.migration = self.migration_class(self, network)
        self._early = EarlyIndexes(self._subscription_rows, broker.index.limits)
        self._announces = Announces(network, self.trees)
        self._taken: dict[str, tuple[int, int]] = {}  # by root: the last number that came, and bytes since
        self._positions_ms = 0
        self.gone = 0
        """Documents that were not kept long enough for this broker to get them, at most."""
        self.forwarded = self.repaired = self.taken_documents = self.refused_sources = 0
        self.taken_parts = 0
        """Documents of which only what is needed here came."""
        self.unfit = 0
        """Ranges with documents that were changed on the way, so that they cannot be used here: the root is asked."""
        self.misread = 0
        """Messages with documents that could not be read in their format."""

    # --- the peer ----------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Durable):
            self._is_settled = self._is_settled or sender == self.name
            return self.broker.receive(sender, message, now_ms)
        turn = self._begin(now_ms)
        self._handle(sender, message, turn)
        return self._finish(turn)

    def receive_all(self, sender: str, messages: Sequence[Any], now_ms: int) -> list[Effect]:
        """Messages of another peer that came together: one turn, and one look at documents that follow each other."""
        turn = self._begin(now_ms)
        for run in runs(messages):
            self.broker.apply(turn)  # what follows reads what was changed
            if isinstance(run, list):
                self._take(sender, run[0], turn, run)
            else:
                self._handle(sender, run, turn)
        return self._finish(turn)

    def _handle(self, sender: str, message: Any, turn: Turn) -> None:
        if self._local and isinstance(message, _TURNING) and not isinstance(message, Forward):
            self._serve_local(turn)
        if isinstance(message, NetworkMessage):
            self._take(sender, message, turn)
        elif isinstance(message, ServeLocal) and sender == self.name:
            self._serve_local(turn)
        elif isinstance(message, BeginAnew) and sender == self.name:
            raise older_disk()
        elif isinstance(message, ControlMessage):
            for event in self.membership.receive(sender, message, turn):
                match event:
                    case ViewAdopted():
                        self._place_in(event.view)
                    case CatalogChanged():
                        self._register(event, turn)
                    case MovesAsked():
                        self.migration.ask(event.moves, turn)
                    case _:
                        assert_never(event)
        elif isinstance(message, MoveMessage):
            if self.membership.broker(sender) is not None:
                self.migration.receive(sender, message, turn)
        elif isinstance(message, Request):
            take_request(self, sender, message, turn)
        elif isinstance(message, Inspect) and message.kind == "trees":
            turn.send(sender, Inspected(message.question, link_rows(message, self)))
        else:
            if isinstance(message, Hello):
                self.wants.abandon(sender)
            elif isinstance(message, Attach):
                self.migration.point_out(sender, message.subscriptions, turn)
            self.broker.handle(sender, message, turn)

    def tick(self, now_ms: int) -> list[Effect]:
        turn = self._begin(now_ms)
        self.wants.refine()  # before anything is stored, since it may look at what is
        self._serve_local(turn)
        self.broker.do_due(turn)
        self.membership.tick(turn)
        self.wants.expired(turn)
        self.wants.refuse_late(turn)
        self._announces.take_waiting(now_ms)
        for tree in self.trees.values():
            tree.claim_all()
            tree.tick()
        for root, repair in self.repairs.items():
            repair.watch(self.positions.number(root), now_ms)
        for root in list(self._taken):
            self._tell_taken(root)
        self.migration.tick(turn)
        is_covered = all(tree.is_covered() for tree in self.trees.values())
        pause_ms = self._settings.positions_ms if is_covered else self._settings.uncovered_ms
        if not 0 <= now_ms - self._positions_ms < pause_ms:
            self._positions_ms = now_ms
            self._tell_positions(turn)
        return self._finish(turn)

    def send(self, to: str, message: Any) -> None:
        """For the trees. In those of other roots nothing depends on what this broker stores, nor waits for it."""
        if message.root != self.name and self._is_settled:
            self._turn.send_at_once(to, message)
        else:
            self._turn.send(to, message)

    def _begin(self, now_ms: int) -> Turn:
        self._turn = turn = Turn(now_ms)
        self.now_ms = now_ms
        if not self._is_alive:
            # A life has a higher number than all before it, also if the disk was lost.
            self._is_alive = True
            self.life = max(self.life + 1, now_ms)
            turn.changes.append(Put(META, LIFE, self.life.to_bytes(8, "big")))
            self._place_in(self.membership.view, lives_again=True)
        return turn

    def _finish(self, turn: Turn) -> list[Effect]:
        if len(self.wants):
            self.wants.release(turn)
        if turn.published and self.name in self.trees:
            pass_published(self.trees[self.name], turn)
        for tree in self.trees.values():
            tree.flush()
        for root, repair in self.repairs.items():
            position = self.positions.number(root)
            question = repair.next_question(position, self.wants.version, self.wants.needed, turn.now_ms)
            if question:
                formats = [] if repair.is_plain else list(self._settings.link_reads)
                query = self.wants.history_query(repair, position)
                turn.send(root, CatchUp(root, self.epoch, question, position, query, formats))
        if turn.changes:
            self.positions.store(turn)
        return self.broker.finish(turn)

    # --- the view ----------------------------------------------------------------------------------------------------

    def _place_in(self, view: View, *, lives_again: bool = False) -> None:
        for root in [root for root in self.trees if root not in view.trees]:
            self._last_version = max(self._last_version, self.trees.pop(root).version)
            self.repairs.pop(root, None)
            self._taken.pop(root, None)
        for root, parents in view.trees.items():
            tree = self.trees.get(root)
            if tree is None:
                tree = self._new_tree(root)
            children = [child for child, parent in parents.items() if parent == self.name]
            tree.place_in(parents.get(self.name), children, lives_again=lives_again)
        self._histories.set_members((name for name in view.brokers if name != self.name), self.now_ms)

    def _new_tree(self, root: str) -> Tree:
        tree = self.tree_class(
            *(root, self, self.routing, self._settings, self._random),
            lambda: self.broker.last_document,
            self._last_version,
            self.broker.index.limits,
            self.wants,
        )
        self.trees[root] = tree
        if tree.is_root:
            tree.store = self.broker.store_id
            tree.passed = self.broker.last_document
        else:
            self.repairs[root] = Repair(self._settings, self._random)
        tree.change_plan(self.wants.early.plan)
        return tree

    @property
    def epoch(self) -> int:
        """Of the view that counts."""
        return self.membership.epoch

    def _info(self) -> BrokerInfo:
        """What the registry is told."""
        return msgspec.structs.replace(self.info, load=len(self.broker.index))

    # --- requests of clients -----------------------------------------------------------------------------------------

    def _register(self, event: CatalogChanged, turn: Turn) -> None:
        """Sources that the registry has given to this broker, or taken from it."""
        for entry in event.entries:
            if entry.root == self.name:
                command = RegisterSource(entry.source, entry.schema, entry.description)
                try:
                    self.broker.register_source(command, turn)
                except TreecastError:
                    self.refused_sources += 1  # too many, or its DTD is beyond the limits of this broker
            else:
                self.broker.remove_source(entry.source, turn)

    def _publish(self, index: Index, texts: list[bytes]) -> tuple[_native.DeliveryBatch, object] | None:
        tree = self.trees.get(self.name)
        return prepare(tree, index, texts) if tree is not None else None

    # --- messages of brokers -----------------------------------------------------------------------------------------

    def _take(self, sender: str, message: NetworkMessage, turn: Turn, run: Sequence[Forward] = ()) -> None:
        """`run`: the message, and those that continue it."""
        if self.membership.broker(sender) is None:
            return  # a stranger, or a broker that has to come back first
        if message.epoch != self.epoch:
            self.membership.hear_epoch(sender, message.epoch, turn)
        if isinstance(message, CatchUp | PositionsMessage):
            if message.root == self.name:
                own = Latest(self.name, self.broker.store_id, self.epoch, self.life, self.broker.last_document)
                with suppress(PeerError):  # its query makes no sense
                    self._histories.take(sender, message, own, turn)
            return
        tree = self.trees.get(message.root)
        if tree is None:
            return
        match message:
            case Forward():
                self._take_forwards(tree, sender, run or (message,), turn)
            case Taken():
                tree.take_taken(sender, message.upto)
            case Announce():
                self._announces.take(tree, sender, message)
            case Covered():
                if self._is_of_root(tree.root, message.store) and tree.take_covered(sender, message):
                    self._begin_position(tree, message.store, tree.since)
                    self.repairs[tree.root].want(tree.since)
                    self.repairs[tree.root].want(tree.latest_since)
            case Resync():
                tree.take_resync(sender)
            case LinkDictionary():
                try:
                    tree.take_dictionary(sender, message)
                except PeerError:
                    self.misread += 1  # documents come without it
            case DictionaryKnown():
                tree.take_known(sender, message)
            case History():
                if sender == message.root:
                    self._take_history(message, turn)
            case Latest():
                if sender == message.root and self._know_root(message.root, message.store, message.life):
                    self._begin_position(tree, message.store, message.number)
                    position = self.positions.number(message.root)
                    self._hear_of(tree, message.number, position)
            case _:
                assert_never(message)

    def _is_of_root(self, root: str, store: str) -> bool:
        """A message is about the data that the root has, as far as is known."""
        return store != "" and self.positions.store_of(root) in ("", store)

    def _know_root(self, root: str, store: str, life: int) -> bool:
        """A root speaks for itself. If its data is not that of before, it has lost that, and begins anew."""
        if root == self.name or not store or life < self._root_lives.get(root, 0):
            return False
        self._root_lives[root] = life
        if not self._is_of_root(root, store):
            self.positions.begin(root, store, 0)
            self.repairs[root].forget()
            self.trees[root].announce_all()
        return True

    def _begin_position(self, tree: Tree, store: str, number: int) -> None:
        """The first that is heard of a root. A broker without subscriptions need not have what was before."""
        if not self.positions.is_known(tree.root):
            self.positions.begin(tree.root, store, 0 if len(self.broker.index) else number)

    # --- documents ---------------------------------------------------------------------------------------------------

    def _take_forwards(self, tree: Tree, sender: str, run: Sequence[Forward], turn: Turn) -> None:
        """Documents that came by a tree: in one message, or in several, each of which continues the one before."""
        if tree.is_root or not self._is_of_root(tree.root, run[0].store):
            return
        root, upto, repair = tree.root, run[-1].upto, self.repairs[tree.root]
        try:
            parcels = Parcels.read(*(message.documents for message in run))
        except PeerError:
            self._take_readable(tree, sender, run, turn)
            return
        size = parcels.body_bytes
        last, before = self._taken.get(root, (0, 0))
        self._taken[root] = (max(last, upto), before + size)
        begin = tree.accept(sender, run[0], upto)
        if begin is None:
            repair.hear_of(upto, self.positions.number(root), turn.now_ms)
            return
        if not tree.plan.understands(parcels):
            self.unfit += 1
            repair.want(upto)
            return
        parcels = parcels.after(begin)
        passed_on = len(turn.urgent)
        try:
            arrivals = self._pass_on(tree, begin, upto, parcels)
        except PeerError:
            self._take_readable(tree, sender, run, turn)
            return
        self.forwarded += len(parcels)
        is_waiting = bool(self._local)
        self._local.append((root, begin, upto, arrivals))
        self._local_bytes += size
        if self._local_bytes < self._settings.local_bytes_max and self._settings.routes_first:
            if is_waiting:
                return  # behind what waits already
            if arrivals and len(turn.urgent) > passed_on:
                turn.send_at_once(self.name, ServeLocal())
                return
        self._serve_local(turn)

    def _take_readable(self, tree: Tree, sender: str, run: Sequence[Forward], turn: Turn) -> None:
        """A document of a run cannot be read: its message has to be repaired, and no other."""
        if len(run) == 1:
            self._misread(tree.root, run[0].upto)
            return
        for message in run:
            self._take_forwards(tree, sender, (message,), turn)

    def _pass_on(self, tree: Tree, begin: int, upto: int, parcels: Parcels) -> Sequence[Arrival]:
        """Returns those that may concern the broker's own subscriptions: as they came, where nobody has to look at them
        one by one. Raises PeerError."""
        if parcels and self.broker.reads_forms and (forms := tree.formats.forms(parcels)) is not None:
            index = self.broker.index
            own = index if 0 < len(index) <= self._settings.own_at_once_max else None
            local = tree.pass_on_forms(begin, upto, forms, own)
            if local is not None:
                return local
        return tree.pass_on(begin, upto, tree.formats.take(parcels))

    def _misread(self, root: str, upto: int) -> None:
        """Documents came in a format that cannot be read here: the root is asked for them, as text."""
        self.misread += 1
        self.repairs[root].is_plain = True
        self.repairs[root].want(upto)

    def _serve_local(self, turn: Turn) -> None:
        """The broker's own subscribers get what was passed on before."""
        if not self._local:
            return
        while self._local:
            root, begin, upto, arrivals = self._local.popleft()
            repair = self.repairs.get(root)
            if repair is None:
                continue  # the root has left meanwhile
            if begin > self.positions.number(root):
                repair.want(begin)
                self._keep_early(root, begin, upto, arrivals)
            else:
                self._take_parcels(root, upto, arrivals, turn)
            if root in self._taken and self._taken[root][1] >= self._settings.bytes_per_taken:
                self._tell_taken(root)
        self._local_bytes = 0
        self.broker.apply(turn)  # what else this turn does may deliver it

    def _keep_early(self, root: str, begin: int, upto: int, arrivals: Sequence[Arrival]) -> None:
        """A range that cannot be taken before those that are missing."""
        try:
            self.repairs[root].keep(begin, upto, list(arrivals))
        except PeerError:
            self._misread(root, upto)

    def _take_parcels(self, root: str, upto: int, arrivals: Sequence[Arrival], turn: Turn) -> None:
        """A range that continues the position of this broker: what its subscribers get is stored with it."""
        if self.broker.is_full():
            self.repairs[root].want(upto)
            return
        position = self.positions.number(root)
        fresh: Sequence[Arrival]
        if isinstance(arrivals, Forms):
            fresh = arrivals.after(position)
        else:
            fresh = [arrival for arrival in arrivals if arrival.number > position]
        try:
            is_taken = self._take_fresh(root, fresh, turn)
        except PeerError:
            self._misread(root, upto)
            return
        if not is_taken:
            self.unfit += 1
            self.repairs[root].want(upto)
            return
        self.taken_documents += len(fresh)
        self.positions.advance(root, upto)

    def _take_fresh(self, root: str, arrivals: Sequence[Arrival], turn: Turn) -> bool:
        """Match and store what is new, each document by what is left to do with it. False: for some there is no way.
        Raises PeerError for what cannot be read."""
        if isinstance(arrivals, Forms):
            self.broker.take_parcels(self.positions.store_of(root), arrivals.codec, arrivals.parcels, turn)
            return True
        resolve = self.trees[root].plan.resolve
        groups: list[tuple[Index | None, list[Arrival]]] = []
        for mark, group in groupby(arrivals, lambda arrival: arrival.early if is_restructured(arrival.early) else ""):
            plan = resolve(mark) if mark else None
            index = self._early.find(mark, plan, self.broker.index_version) if plan else None
            if mark and index is None:
                return False
            groups.append((index, list(group)))
        self.taken_parts += sum(arrival.early != "" for arrival in arrivals)
        for index, some in groups:
            self.broker.take(self.positions.store_of(root), some, turn, resolve, index)
        return True

    def _take_history(self, message: History, turn: Turn) -> None:
        root = message.root
        if not self._know_root(root, message.store, message.life):
            return
        # A question may follow a range that could not be taken, before anything is covered.
        self._begin_position(self.trees[root], message.store, message.after)
        repair = self.repairs[root]
        if not repair.is_answer(message.question, self.wants.needed):
            return
        position = self.positions.number(root)
        if message.after > position:
            return
        if message.gone_until > position:
            self.gone += message.gone_until - position
            turn.events.append(Gone(root, position, message.gone_until))
        try:
            arrivals = self.trees[root].formats.read(message.documents)
        except PeerError:
            self._misread(root, message.upto)
            return
        self.repaired += len(arrivals)
        self._take_parcels(root, message.upto, arrivals, turn)
        while (early := repair.take_early(self.positions.number(root))) is not None:
            self._take_parcels(root, *early, turn)
        self._hear_of(self.trees[root], message.last, self.positions.number(root))

    def _hear_of(self, tree: Tree, number: int, position: int) -> None:
        """The root has this document. A tree that does not cover this broker brings nothing: no need to wait for it."""
        repair = self.repairs[tree.root]
        repair.hear_of(number, position, self.now_ms)
        if not tree.is_covered():
            repair.want(number)

    def _tell_taken(self, root: str) -> None:
        upto, _ = self._taken.pop(root)
        tree = self.trees.get(root)
        if tree is not None and tree.parent is not None:
            self._turn.send(tree.parent, Taken(root, self.epoch, upto))

    def _tell_positions(self, turn: Turn) -> None:
        """Say how far we are, once that is durable."""
        self.positions.store(turn)
        for root in self.trees:
            if root != self.name:
                number = self.positions.number(root)
                turn.send(root, PositionsMessage(root, self.positions.store_of(root), self.epoch, number))

    def certificates_of(self, name: str) -> tuple[str, ...]:
        """Whose certificates a peer may show, besides its own."""
        info = self.membership.broker(name)
        return certificates_of(name, [info] if info is not None else [])

    # --- looking at it -----------------------------------------------------------------------------------------------

    @property
    def index(self) -> Index:
        """Of this broker's own subscriptions, to be saved: see `SaveIndex`."""
        return self.broker.index

    @property
    def index_version(self) -> int:
        return self.broker.index_version

    def stats(self) -> dict[str, int]:
        return network_stats(self)

    def _subscription_rows(self) -> Iterator[tuple[str, SubscriptionRow]]:
        for id, data in self.broker.shadow.rows(SUBSCRIPTIONS, ""):
            yield id, decode(data, SubscriptionRow)
