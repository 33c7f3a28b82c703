"""A client that receives: what it was sent, what it has, and what it has not acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from treecast.overlay.broker.queue import Queue

Items = list[tuple[Queue, int] | None]


class Sent:
    """A message of a session. An item becomes None when it is done, or given up.

    While `is_whole`, its items are on the lane of the session. Whoever looks at them takes them from there: `open`.
    """

    __slots__ = ("_items", "_open", "acknowledge_ms", "sent_ms", "settled_ms")

    def __init__(
        self, items: Items | None, sent_ms: int, acknowledge_ms: int = 0, open: Callable[[], Items] | None = None
    ) -> None:
        self._items = items
        self._open = open
        self.sent_ms = sent_ms
        self.acknowledge_ms = acknowledge_ms
        """No item is overdue before."""
        self.settled_ms: int | None = None
        """Since when its client says that it has dealt with it."""

    @property
    def items(self) -> Items:
        if self._items is None:
            assert self._open is not None
            self._items, self._open = self._open(), None
        return self._items

    @property
    def is_whole(self) -> bool:
        return self._items is None

    def is_done(self) -> bool:
        return self._items is not None and not any(self._items)


class Session:
    """One `Attach` of a client."""

    __slots__ = (
        "_active_ids",
        "active",
        "client",
        "credit",
        "epoch",
        "heard_ms",
        "held",
        "is_lane_next",
        "is_patient",
        "lane",
        "life",
        "messages",
        "name",
        "number",
        "queues",
        "received",
    )

    def __init__(
        self, name: str, client: str, credit: int, now_ms: int, life: int = 0, epoch: int = 0, is_patient: bool = False
    ) -> None:
        self.name = name
        self.epoch = epoch
        self.client = client
        self.life = life
        self.is_patient = is_patient
        """It says itself when an attempt has failed."""
        self.credit = credit
        """How many deliveries the client wants to hold."""
        self.held = 0
        """How many it was sent and has not acknowledged."""
        self.number = 0
        """Of the last message that was sent."""
        self.received = 0
        self.messages: dict[int, Sent] = {}
        """Those that were not received, or not acknowledged, in order."""
        self.queues: dict[str, Queue] = {}
        self.heard_ms = now_ms
        self.active: deque[Queue] = deque()
        """Queues that may have something to send, in turn."""
        self._active_ids: set[str] = set()
        self.lane = -1
        """See `Lanes`. Messages come from the lane and from these queues in turn."""
        self.is_lane_next = True

    def activate(self, queue: Queue) -> None:
        if queue.id not in self._active_ids:
            self._active_ids.add(queue.id)
            self.active.append(queue)

    def deactivate(self, queue: Queue) -> None:
        """The queue at the front has nothing to send."""
        assert self.active[0] is queue
        self.active.popleft()
        self._active_ids.discard(queue.id)

    def remove(self, queue: Queue) -> None:
        """The subscription is gone."""
        self.queues.pop(queue.id, None)
        if queue.id in self._active_ids:
            self.active.remove(queue)
            self._active_ids.discard(queue.id)

    def room(self) -> int:
        return self.credit - self.held

    def finish(self, message: int, place: int) -> tuple[Queue, int] | None:
        """Take an item out of a message."""
        sent = self.messages.get(message)
        if sent is None or not 0 <= place < len(sent.items):
            return None
        item = sent.items[place]
        if item is not None:
            sent.items[place] = None
            self.held -= 1
        return item

    def forget_documents(self, queue: Queue) -> None:
        """A subscription starts over: acknowledgements of what it was sent before mean nothing any more."""
        for sent in self.messages.values():
            for place, item in enumerate(sent.items):
                if item and item[0] is queue and item[1] > 0:
                    sent.items[place] = None
                    self.held -= 1
        self.forget_finished()

    def forget_finished(self) -> None:
        """Messages that were received, and whose items are all done, are not needed any more."""
        for number in [n for n, sent in self.messages.items() if n <= self.received and sent.is_done()]:
            del self.messages[number]
