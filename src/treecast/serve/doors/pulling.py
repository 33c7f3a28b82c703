"""Deliveries on request: pull some, deal with them, acknowledge them by their ids.

For each subscription that is pulled from there is a session with the broker, whose credit is what was asked for: so the
broker hands over no more than somebody is about to take, and the time to acknowledge begins when it is taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from treecast.overlay.receiver import Delivered, Delivery, Interrupted, Opened, Settled
from treecast.serve.connection import steady_ms
from treecast.serve.doors.envelopes import Envelope, envelope_of
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import DoorError
from treecast.serve.doors.settings import DoorSettings

GRACE_MS = 100
"""The broker has so long to hand over what waits, also for a pull that does not want to wait."""


class PullSession:
    """One subscription. Those who pull from it at the same time share what comes."""

    def __init__(self, client: LocalClient, subscription: str, acknowledge_ms: int) -> None:
        self.subscription = subscription
        self.acknowledge_ms = acknowledge_ms
        self.used_ms = steady_ms()
        self.wanted = 0
        """By those who are waiting now."""
        self.held: dict[str, tuple[Delivery, int]] = {}
        """By id: what was pulled and not acknowledged, and since when."""
        self._settling: dict[tuple[str, bool], asyncio.Future[Settled]] = {}
        """By id, and whether it failed: what the broker has been told, and has not stored yet."""
        self._client = client
        self._ready: deque[Delivery] = deque()
        self._news = asyncio.Event()
        self._receiver: int | None = None

    def _take(self, event: Delivered | Opened | Interrupted) -> None:
        if isinstance(event, Delivered):
            self._ready += event.deliveries
            self._news.set()
        elif isinstance(event, Interrupted):  # all of it comes again, in another session
            self._ready.clear()
            self.held.clear()

    def _ask(self) -> None:
        credit = len(self.held) + len(self._ready) + self.wanted
        if self._receiver is None:
            self._receiver = self._client.attach([self.subscription], max(credit, 1), self._take)
        else:
            self._client.ask(self._receiver, credit)

    async def pull(self, count_max: int, wait_ms: int) -> list[Envelope]:
        """Up to so many deliveries; waits for the first one."""
        self.wanted += count_max
        self._ask()
        deadline = steady_ms() + max(wait_ms, GRACE_MS)
        try:
            while not self._ready:
                self._news.clear()
                try:
                    async with asyncio.timeout(max(deadline - steady_ms(), 0) / 1000):
                        await self._news.wait()
                except TimeoutError:
                    break
        finally:
            self.wanted -= count_max
        deliveries = [self._ready.popleft() for _ in range(min(count_max, len(self._ready)))]
        now = self.used_ms = steady_ms()
        self.held.update((delivery.id, (delivery, now)) for delivery in deliveries)
        self._ask()  # for no more than is waited for
        return [envelope_of(delivery, delivery.attempt) for delivery in deliveries]

    async def settle(self, ids: Sequence[str], is_failed: bool) -> list[str]:
        """Returns when it is stored: the ids that are not held here. They were settled before, or come again.

        Raises DoorError if the broker does not say so in time. Then the same may be asked once more.
        """
        self.used_ms = steady_ms()
        deliveries = {id: self.held.pop(id)[0] for id in ids if id in self.held}
        if deliveries:
            self._ask()  # first: else the broker would send others in their place, which nobody has asked for
            future = self._client.settle_and_confirm(list(deliveries.values()), is_failed=is_failed)
            keys = [(id, is_failed) for id in deliveries]
            self._settling.update(dict.fromkeys(keys, future))
            future.add_done_callback(lambda _: self._forget(keys))
        futures = {id: self._settling[id, is_failed] for id in ids if (id, is_failed) in self._settling}
        doubtful: set[str] = set()
        for future in set(futures.values()):
            settled = await self._client.within_time(asyncio.shield(future))  # others may wait for it too
            doubtful.update(delivery.id for delivery in settled.doubtful)
        return [id for id in ids if id not in futures or id in doubtful]

    def _forget(self, keys: Iterable[tuple[str, bool]]) -> None:
        for key in keys:
            self._settling.pop(key, None)

    def check(self, now: int) -> None:
        """What is not acknowledged in time comes again, the broker sees to that: forget it here."""
        late = [id for id, (_, since) in self.held.items() if now - since > self.acknowledge_ms]
        if late:
            deliveries = [self.held.pop(id)[0] for id in late]
            self._ask()
            self._client.settle(deliveries, is_failed=True)

    def is_idle(self, now: int, idle_ms: int) -> bool:
        return not self.held and not self.wanted and now - self.used_ms > idle_ms

    def close(self) -> None:
        if self._receiver is not None:
            self._client.detach(self._receiver)


class Pulls:
    """The pull sessions of a door."""

    def __init__(self, client: LocalClient, settings: DoorSettings) -> None:
        self._client = client
        self._settings = settings
        self._sessions: dict[str, PullSession] = {}
        self._checked_ms = 0
        client.on_tick.append(self._tick)

    async def pull(self, subscription: str, count_max: int, wait_ms: int) -> list[Envelope]:
        """Raises DoorError if there is no such subscription, or too much is held already."""
        row = self._client.expect_broker().tail.subscription(subscription)
        if row is None:
            self.forget(subscription)
            raise DoorError(f"no subscription has the id {subscription!r}", code="TC412")
        session = self._sessions.get(subscription)
        if session is None:
            if len(self._sessions) >= self._settings.pulls_max:
                raise DoorError("too many subscriptions are pulled from", code="TC417")
            session = PullSession(self._client, subscription, row.options.acknowledge_ms)
            self._sessions[subscription] = session
        session.acknowledge_ms = row.options.acknowledge_ms
        room = self._settings.pull_deliveries_max - len(session.held) - session.wanted
        if room < 1:
            hint = "acknowledge some first"
            raise DoorError(f"{len(session.held)} deliveries are not acknowledged", code="TC436", hint=hint)
        return await session.pull(min(count_max, room), wait_ms)

    async def settle(self, subscription: str, ids: Sequence[str], is_failed: bool) -> list[str]:
        """Returns the ids that are not held, when the others are stored."""
        if self._client.expect_broker().tail.subscription(subscription) is None:
            raise DoorError(f"no subscription has the id {subscription!r}", code="TC412")
        session = self._sessions.get(subscription)
        return list(ids) if session is None else await session.settle(ids, is_failed)

    def forget(self, subscription: str) -> None:
        """The subscription is gone."""
        session = self._sessions.pop(subscription, None)
        if session is not None:
            session.close()

    def _tick(self, _: int) -> None:
        now = steady_ms()
        if now - self._checked_ms < 1_000:
            return
        self._checked_ms = now
        for session in list(self._sessions.values()):
            session.check(now)
            if session.is_idle(now, self._settings.pull_idle_ms):
                self.forget(session.subscription)
