"""Subscriptions of a peer's clients, and the requests that wait until the ring has them.

A `Subscribe` is done when all states of its query are stored on as many disks as the ring asks for: then the broker of
this peer stores the subscription and answers. In the ring it has another id, with a number in front: one that is
changed is added under a new number before the old one is removed, so none is without states in between.

Requests of one client are done in order, so whatever follows such a request waits with it. A crash forgets what waits;
its client asks again. If a client starts over and asks for the same, the time that it has waited counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from treecast.errors import TreecastError
from treecast.overlay.broker import Broker
from treecast.overlay.broker.refused import RequestError
from treecast.overlay.broker.rows import SUBSCRIPTIONS, SubscriptionRow, decode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.chord.indexing import SubscriptionChange
from treecast.overlay.chord.nfa_peer import NfaPeer
from treecast.overlay.chord.ring_settings import RingSettings
from treecast.overlay.messages import Request, Subscribe, SubscribeMany, Unsubscribe
from treecast.overlay.peer import Effect
from treecast.overlay.storage import Delete, Put

RING_IDS = "ring_ids"
"""`ring_ids[subscription]`: its id in the ring."""


def own_id(ring_id: str) -> str:
    """The id of a subscription at its host.

    >>> own_id("17 news of today")
    'news of today'
    """
    return ring_id.partition(" ")[2]


class _Waiting:
    """A request that is not done yet."""

    __slots__ = ("client", "has_failed", "pending", "request", "ring_ids")

    def __init__(self, client: str, request: Request) -> None:
        self.client = client
        self.request = request
        self.ring_ids: list[str] = []
        self.pending: set[str] = set()
        self.has_failed = False

    @property
    def items(self) -> Sequence[Subscribe]:
        command = self.request.command
        if isinstance(command, SubscribeMany):
            return command.subscriptions
        return [command] if isinstance(command, Subscribe) else []


class RingSubscriptions:
    """Those of one peer. `absorb` takes effects of the ring into the present turn."""

    def __init__(
        self, broker: Broker, nfa: NfaPeer, settings: RingSettings, absorb: Callable[[Iterable[Effect]], None]
    ) -> None:
        self._broker = broker
        self._nfa = nfa
        self._settings = settings
        self._absorb = absorb
        self._ring_ids = {id: value.decode("utf-8", "surrogatepass") for id, value in broker.shadow.rows(RING_IDS, "")}
        self._last = max((int(each.partition(" ")[0]) for each in nfa.indexing.subscriptions), default=0)
        self._queues: dict[str, deque[_Waiting]] = {}
        self._abandoned_requests: dict[str, deque[_Waiting]] = {}
        self._by_ring_id: dict[str, _Waiting] = {}
        self._adopted_subscriptions: dict[str, str] = {}
        """Subscriptions that the broker had before it became a peer of a ring, by their ids there."""
        self._removals: deque[tuple[int, str]] = deque()  # to be tried again, and when
        self._is_begun = False
        self._count = 0

    def __len__(self) -> int:
        """Requests that wait."""
        return self._count

    def begin(self, turn: Turn) -> None:
        """After a start: what the ring has and the broker has not, and the other way round."""
        if self._is_begun:
            return
        self._is_begun = True
        for ring_id, subscription in list(self._nfa.indexing.subscriptions.items()):
            if self._ring_ids.get(own_id(ring_id)) != ring_id and not subscription.row.is_removed:
                self._absorb(self._nfa.unsubscribe(ring_id, turn.now_ms))
        for id, data in list(self._broker.shadow.rows(SUBSCRIPTIONS, "")):
            if id not in self._ring_ids:
                row = decode(data, SubscriptionRow)
                self._adopted_subscriptions[self._add(Subscribe(id, row.query, row.namespaces, row.ordered), turn)] = id

    def _add(self, item: Subscribe, turn: Turn) -> str:
        """Let the ring store it; returns its id there. Raises QueryError."""
        self._last = max(self._last + 1, turn.now_ms)
        ring_id = f"{self._last} {item.id}"
        effects = self._nfa.subscribe(
            ring_id, item.query, namespaces=item.namespaces, ordered=item.ordered, now_ms=turn.now_ms
        )
        self._absorb(effects)
        return ring_id

    # -- requests

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
        waiting = self._resume(sender, request, turn)
        if waiting is None:
            if self._count >= self._settings.held_requests_max:
                return  # its client asks again
            self._count += 1
            waiting = _Waiting(sender, request)
            try:
                for item in waiting.items:
                    ring_id = self._add(item, turn)
                    waiting.ring_ids.append(ring_id)
                    self._by_ring_id[ring_id] = waiting
                waiting.pending.update(waiting.ring_ids)
            except TreecastError:
                self._take_back(waiting, turn)  # the broker will refuse it, and say why
        self._queues.setdefault(sender, deque()).append(waiting)

    def release(self, turn: Turn) -> None:
        """Do what has waited long enough."""
        for client in [client for client, queue in self._queues.items() if not queue[0].pending]:
            queue = self._queues[client]
            while queue and not queue[0].pending:
                self._count -= 1
                self._execute(queue.popleft(), turn)
            if not queue:
                del self._queues[client]

    def _execute(self, waiting: _Waiting, turn: Turn) -> None:
        self._broker.apply(turn)  # one request sees what those before it have changed
        for ring_id in waiting.ring_ids:
            self._by_ring_id.pop(ring_id, None)
        if waiting.has_failed:
            error = RequestError(
                "the ring does not have this subscription yet: too few peers could be reached",
                code="TC473",
                hint="try again: peers that are gone leave the ring after a while",
            )
            self._broker.refuse(waiting.client, waiting.request, error, turn)
            self._take_back(waiting, turn)
            return
        before = len(turn.changed_subscriptions)
        self._do(waiting.client, waiting.request, turn)
        if waiting.ring_ids and len(turn.changed_subscriptions) == before:
            self._take_back(waiting, turn)
        else:
            for ring_id in waiting.ring_ids:
                self._count_from_now(ring_id, turn)

    def _count_from_now(self, ring_id: str, turn: Turn) -> None:
        """The broker has it, and an older one of the same id no more."""
        id = own_id(ring_id)
        before = self._ring_ids.get(id)
        self._ring_ids[id] = ring_id
        turn.changes.append(Put(RING_IDS, id, ring_id.encode("utf-8", "surrogatepass")))
        if before is not None:
            self._absorb(self._nfa.unsubscribe(before, turn.now_ms))

    def _do(self, sender: str, request: Request, turn: Turn) -> None:
        before = len(turn.changed_subscriptions)
        self._broker.handle(sender, request, turn)
        if isinstance(request.command, Unsubscribe) and len(turn.changed_subscriptions) > before:
            self._remove(request.command.id, turn)

    def _remove(self, id: str, turn: Turn) -> None:
        ring_id = self._ring_ids.pop(id, None)
        if ring_id is not None:
            turn.changes.append(Delete(RING_IDS, id))
            self._absorb(self._nfa.unsubscribe(ring_id, turn.now_ms))

    def _take_back(self, waiting: _Waiting, turn: Turn) -> None:
        """It was refused, or nobody waits for it any more."""
        for ring_id in waiting.ring_ids:
            self._by_ring_id.pop(ring_id, None)
            self._absorb(self._nfa.unsubscribe(ring_id, turn.now_ms))
        waiting.ring_ids.clear()
        waiting.pending.clear()

    # -- what the ring says

    def take_change(self, change: SubscriptionChange, turn: Turn) -> None:
        waiting = self._by_ring_id.get(change.id)
        if change.change == "failed":
            self._take_failure(change.id, waiting, turn)
        elif change.change == "subscribed" and waiting is not None:
            waiting.pending.discard(change.id)
        elif change.change == "subscribed":
            id = self._adopted_subscriptions.pop(change.id, None)
            if id is not None and self._broker.subscription(id) is not None:
                self._count_from_now(change.id, turn)
        self.release(turn)

    def _take_failure(self, ring_id: str, waiting: _Waiting | None, turn: Turn) -> None:
        if waiting is not None:
            waiting.has_failed = True
            waiting.pending.clear()
        else:  # one that is to be removed, or adopted: it is not given up
            self._removals.append((turn.now_ms + self._settings.removal_ms, ring_id))

    def tick(self, turn: Turn) -> None:
        self.begin(turn)
        while self._removals and self._removals[0][0] <= turn.now_ms:
            _, ring_id = self._removals.popleft()
            self._absorb(self._nfa.walk_again(ring_id, turn.now_ms))

    def settle(self, turn: Turn) -> None:
        """The broker has removed some by itself: they have expired."""
        for id in [id for id in self._ring_ids if self._broker.subscription(id) is None]:
            self._remove(id, turn)

    # -- clients that start over

    def abandon(self, client: str) -> None:
        """What a client has asked for before does not count any more, unless it asks again."""
        queue = self._queues.pop(client, None)
        if queue:
            self._abandoned_requests[client] = queue + self._abandoned_requests.pop(client, deque())

    def _resume(self, client: str, request: Request, turn: Turn) -> _Waiting | None:
        """The same request again: it has waited for a while already."""
        requests = self._abandoned_requests.get(client)
        if not requests:
            return None
        if requests[0].request.command != request.command:
            for waiting in self._abandoned_requests.pop(client):
                self._count -= 1
                self._take_back(waiting, turn)
            return None
        waiting = requests.popleft()
        if not requests:
            del self._abandoned_requests[client]
        waiting.request = request
        return waiting
