"""A client that receives: what it was sent, what it has, and what it has not acknowledged."""

from __future__ import annotations

from collections import deque

from treecast.overlay.broker.queue import Queue


class Sent:
    """A message of a session. An item becomes None when it is done, or given up."""

    __slots__ = ("items", "sent_ms", "settled_ms")

    def __init__(self, items: list[tuple[Queue, int] | None], sent_ms: int) -> None:
        self.items = items
        self.sent_ms = sent_ms
        self.settled_ms: int | None = None
        """Since when its client says that it has dealt with it."""


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
        "is_patient",
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
        for number in [n for n, sent in self.messages.items() if n <= self.received and not any(sent.items)]:
            del self.messages[number]
