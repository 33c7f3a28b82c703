"""What the subscribers of one broker want together, and the requests that wait until the network knows of it.

A `Subscribe` is not done when it arrives. First the routing queries of what it asks for go up every tree. When each
tree has covered them, and the broker has got what was published before that, the request is done: stored, indexed and
answered, as by a broker alone. So a subscription that was acknowledged gets every document that is published from then
on, wherever. It may also get some that were on their way when it was made, and one that is changed gets those by its
new query: where an aggregate contains a query already, nobody asks the root how far it is, and only what the tree has
brought so far has to be here.

Requests of one client are done in order, so whatever follows such a request waits with it. A crash forgets what waits;
its client asks again. A client that gets no answer for a while begins anew as well, and may do so sooner than a large
network answers. So what it asked for stays announced until it asks for something else, or too late: otherwise an
impatient client would never be answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from treecast.errors import TreecastError
from treecast.model import Subscription
from treecast.overlay.broker.broker import Broker
from treecast.overlay.broker.refused import RequestError
from treecast.overlay.broker.rows import SUBSCRIPTIONS, SubscriptionRow, decode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Request, Subscribe, SubscribeMany
from treecast.overlay.onyx.early_wants import EarlyWants
from treecast.overlay.onyx.repair import Repair
from treecast.overlay.onyx.routing_protocol import LOCAL, Delta, Routing
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.onyx.tree import Tree

_Item = SubscriptionRow | Subscribe


class Waiting:
    """A request that is not done yet."""

    __slots__ = ("client", "is_announced", "marks", "queries", "request", "since_ms", "version", "versions")

    def __init__(self, client: str, request: Request, now_ms: int) -> None:
        self.client = client
        self.request = request
        self.since_ms = now_ms
        self.queries: list[Any] = []
        """Routing queries that were announced for it."""
        self.version = 0
        self.is_announced = False
        self.versions: dict[str, int] = {}
        """By root, once it is announced: the version of the aggregate that has to be covered."""
        self.marks: dict[str, int] = {}
        """By root: the document up to which everything has to be here. What the tree brought before the request was
        chosen without its queries, and some of that may still wait for what is before it."""

    @property
    def items(self) -> Sequence[Subscribe]:
        """What it asks for."""
        command = self.request.command
        if isinstance(command, SubscribeMany):
            return command.subscriptions
        return [command] if isinstance(command, Subscribe) else []


class Wants:
    """The aggregate of a broker's own subscriptions. `trees` are those of the present view, by root."""

    def __init__(
        self,
        broker: Broker,
        routing: Routing,
        settings: NetworkSettings,
        trees: dict[str, Tree],
        position: Callable[[str], int],
        has_view: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._routing = routing
        self._settings = settings
        self._trees = trees
        self._position = position
        self._has_view = has_view
        self.table = routing.table()
        self.early = EarlyWants(settings)
        """What may be done to documents before they come here. It changes with the table, in the same turns."""
        self._unloaded: deque[SubscriptionRow] = deque()
        """What is not in the table yet, after a restart."""
        self._queues: dict[str, deque[Waiting]] = {}
        self._abandoned: dict[str, deque[Waiting]] = {}  # of clients that have begun anew since, and may ask again
        self._moves: dict[str, Waiting] = {}  # subscriptions that are to come from another host
        self._count = 0
        self.version = 0
        """Grows when something is added."""
        self.needed = 0
        """The version of the last subscription that counts."""
        self._encoded: bytes | None = None

    def __len__(self) -> int:
        """Requests that wait."""
        return self._count

    def rebuilt(self, rows: Iterable[SubscriptionRow]) -> Any:
        """What these subscriptions want together, computed anew: for checks."""
        table = self._routing.table()
        table.update_many(LOCAL, self._routing.parts(map(self._map, rows)), [])
        return table.aggregate()

    def load(self, rows: Iterable[SubscriptionRow]) -> None:
        """After a restart: what is stored counts already. It is put into the table with the next ticks: meanwhile
        nobody is told what this broker wants, and subscribers get what the roots are asked for."""
        self._unloaded = deque(self.early.load(rows))

    @property
    def is_loaded(self) -> bool:
        """The table has all that counts."""
        return not self._unloaded

    def _load_some(self) -> None:
        # PERF: bench/network_kill.py. At once it takes most of the time that a broker needs to start again.
        count = min(len(self._unloaded), self._settings.load_rows_max)
        some = [self._unloaded.popleft() for _ in range(count)]
        if some:
            self._spread(self.table.update_many(LOCAL, self._routing.parts(map(self._map, some)), []))

    def _load_all(self) -> None:
        while self._unloaded:
            self._load_some()

    def encoded(self) -> bytes:
        """All of it as one routing query, for questions to roots."""
        if self._encoded is None:
            self._encoded = self.table.aggregate().encode()
        return self._encoded

    def history_query(self, repair: Repair, position: int) -> bytes:
        """What a root is asked for; empty: all of it."""
        settings = self._settings
        few = max(settings.history_few_max, len(self._broker.index) // settings.history_queries_per_document)
        if repair.is_small(position, few) or not self.is_loaded:
            return b""
        query = self.encoded()
        return b"" if len(query) > settings.history_query_bytes_max else query

    def _map(self, item: _Item) -> Any:
        deliver: Any = item.deliver
        return self._routing.map(Subscription("", item.query, item.namespaces, item.ordered, deliver))

    def _add(self, items: Sequence[_Item], queries: list[Any]) -> None:
        """These have come, with their routing queries."""
        self._spread(self.table.update_many(LOCAL, self._routing.parts(queries), []))
        self._spread_plan(self.early.change(items, []))

    def _remove(self, items: Sequence[_Item], queries: list[Any]) -> None:
        """These have gone."""
        if items:
            self._load_all()  # these may be among the rest
            self._spread(self.table.update_many(LOCAL, [], self._routing.parts(queries)))
            self._spread_plan(self.early.change([], items))

    def refine(self) -> None:
        """Do what changes have left for later."""
        self._load_some()
        self._spread(self.table.refine())
        self._spread_plan(self.early.refine(self._everything))

    def _everything(self) -> Iterator[_Item]:
        """All that is announced."""
        for _, data in self._broker.shadow.rows(SUBSCRIPTIONS, ""):
            yield decode(data, SubscriptionRow)
        for queue in (*self._queues.values(), *self._abandoned.values(), self._moves.values()):
            for waiting in queue:
                yield from waiting.items if waiting.queries else ()

    def _spread_plan(self, has_changed: bool) -> None:
        if has_changed:
            for tree in self._trees.values():
                tree.change_plan(self.early.plan)

    def _spread(self, delta: Delta) -> None:
        if delta:
            self._encoded = None
            for tree in self._trees.values():
                tree.change_local(delta)

    # --- requests -----------------------------------------------------------------------------------------------------

    def request(self, sender: str, request: Request, turn: Turn) -> None:
        """Do a request, or let it wait."""
        queue = self._queues.get(sender)
        if queue and request.lease != queue[-1].request.lease:
            self.abandon(sender)
            queue = None
        if queue:
            if request.number == queue[-1].request.number + 1:
                self._hold(sender, request, turn)
        elif self._broker.expects(sender, request, turn) and isinstance(request.command, Subscribe | SubscribeMany):
            self._hold(sender, request, turn)
            self.release(turn)
        else:
            self._do(sender, request, turn)

    def _hold(self, sender: str, request: Request, turn: Turn) -> None:
        waiting = self._resume(sender, request)
        if waiting is None:
            if self._count >= self._settings.held_requests_max:
                return  # its client asks again
            waiting = Waiting(sender, request, turn.now_ms)
            self._count += 1
            self._announce(waiting)
        self._queues.setdefault(sender, deque()).append(waiting)

    def _announce(self, waiting: Waiting) -> None:
        try:
            waiting.queries = [self._map(item) for item in waiting.items]
        except TreecastError:
            waiting.queries = []  # the broker will refuse it, and say why
        if waiting.queries:
            self.version += 1
            waiting.version = self.version
            self._add(waiting.items, waiting.queries)
            self._expect(waiting)

    def _expect(self, waiting: Waiting) -> None:
        """Which versions have to be covered. Without any view, nobody can say."""
        if self._has_view():
            waiting.is_announced = True
            waiting.versions = {root: tree.version for root, tree in self._trees.items()}
            waiting.marks = {root: tree.passed for root, tree in self._trees.items() if not tree.is_root}

    def _do(self, sender: str, request: Request, turn: Turn) -> None:
        done = len(turn.changed_subscriptions)
        self._broker.handle(sender, request, turn)
        self._settle(turn, done)

    def _settle(self, turn: Turn, done: int) -> int:
        """Take back what removed and changed subscriptions wanted; returns how many were added or changed."""
        changes = turn.changed_subscriptions[done:]
        gone = [before for before, _ in changes if before is not None]
        self._remove(gone, [self._map(before) for before in gone])
        return sum(after is not None for _, after in changes)

    def expired(self, turn: Turn) -> None:
        """The broker has removed subscriptions by itself."""
        self._settle(turn, 0)

    # --- subscriptions that come from another host, or do not come after all ------------------------------------------

    def expect_move(self, id: str, command: Subscribe, turn: Turn) -> None:
        """Announce a subscription that will be added."""
        self._moves[id] = waiting = Waiting("", Request(0, command), turn.now_ms)
        self._announce(waiting)

    def is_move_ready(self, id: str) -> bool:
        return self._is_ready(self._moves[id])

    def add_move(self, id: str, turn: Turn) -> bool:
        """It counts from now on; False if the broker refuses it."""
        waiting, done = self._moves.pop(id), len(turn.changed_subscriptions)
        self._broker.apply(turn)
        changes = len(turn.changes)
        try:
            assert isinstance(waiting.request.command, Subscribe)
            self._broker.add(waiting.request.command, turn)
        except TreecastError:
            del turn.changes[changes:]
            self._take_back(waiting)
            return False
        self._settle(turn, done)
        self.needed = max(self.needed, waiting.version)
        return True

    def drop_move(self, id: str) -> None:
        if (waiting := self._moves.pop(id, None)) is not None:
            self._take_back(waiting)

    def remove_move(self, id: str, turn: Turn) -> None:
        """One that had been added."""
        done = len(turn.changed_subscriptions)
        self._broker.apply(turn)
        self._broker.remove(id, turn)
        self._settle(turn, done)

    def settle(self, turn: Turn, done: int) -> None:
        """Take back what subscriptions wanted that this turn has removed, after so many others."""
        self._settle(turn, done)

    # --- what waits ---------------------------------------------------------------------------------------------------

    def release(self, turn: Turn) -> None:
        """Do what has waited long enough."""
        for client in [client for client, queue in self._queues.items() if self._is_ready(queue[0])]:
            queue = self._queues[client]
            while queue and self._is_ready(queue[0]):
                self._execute(queue.popleft(), turn)
            if not queue:
                del self._queues[client]

    def _is_ready(self, waiting: Waiting) -> bool:
        if not waiting.queries:
            return True
        if not waiting.is_announced:
            self._expect(waiting)
            if not waiting.is_announced:
                return False
        for root, version in list(waiting.versions.items()):
            tree = self._trees.get(root)
            if tree is None or tree.is_covered(version):
                del waiting.versions[root]
                if tree is not None and not tree.is_root:
                    waiting.marks[root] = max(waiting.marks.get(root, 0), tree.latest_since)
        for root, mark in list(waiting.marks.items()):
            if root not in self._trees or self._position(root) >= mark:
                del waiting.marks[root]
        return not waiting.versions and not waiting.marks

    def _execute(self, waiting: Waiting, turn: Turn) -> None:
        self._count -= 1
        done = len(turn.changed_subscriptions)
        self._broker.apply(turn)  # one request sees what those before it have changed
        self._broker.handle(waiting.client, waiting.request, turn)
        if self._settle(turn, done):
            self.needed = max(self.needed, waiting.version)
        else:
            self._take_back(waiting)

    def _take_back(self, waiting: Waiting) -> None:
        """It was refused, or nobody waits for it any more."""
        if waiting.queries:
            self._remove(waiting.items, waiting.queries)

    def abandon(self, client: str) -> None:
        """A client begins anew: what it has asked for before does not count any more, unless it asks again."""
        queue = self._queues.pop(client, None)
        if queue:
            self._abandoned[client] = queue + self._abandoned.pop(client, deque())

    def _resume(self, client: str, request: Request) -> Waiting | None:
        """The same request again: it has waited for a while already."""
        abandoned = self._abandoned.get(client)
        if not abandoned:
            return None
        if abandoned[0].request.command != request.command:
            self._forget(client)
            return None
        waiting = abandoned.popleft()
        if not abandoned:
            del self._abandoned[client]
        waiting.request = request
        return waiting

    def _forget(self, client: str) -> None:
        """A client does not ask again for what it has abandoned."""
        for waiting in self._abandoned.pop(client):
            self._count -= 1
            self._take_back(waiting)

    def _is_late(self, waiting: Waiting, now_ms: int) -> bool:
        return not 0 <= now_ms - waiting.since_ms <= self._settings.cover_ms_max

    def refuse_late(self, turn: Turn) -> None:
        """Requests that have waited for too long are refused, or forgotten if nobody waits for them any more."""
        for client in [client for client, queue in self._abandoned.items() if self._is_late(queue[0], turn.now_ms)]:
            self._forget(client)
        for client, queue in list(self._queues.items()):
            waiting = queue[0]
            if not self._is_late(waiting, turn.now_ms):
                continue
            missing = sorted({*waiting.versions, *waiting.marks})
            queue.popleft()
            if not queue:
                del self._queues[client]
            self._count -= 1
            error = RequestError(
                f"the network does not know of this subscription yet: {', '.join(missing[:5])} did not answer",
                code="TC470",
                hint="try again: a broker that is gone leaves the network after a while",
            )
            self._broker.apply(turn)
            self._broker.refuse(client, waiting.request, error, turn)
            self._take_back(waiting)
