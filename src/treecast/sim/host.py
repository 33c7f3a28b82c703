"""A host of a simulated world: it runs one peer, keeps its disk, and rebuilds the peer after a crash.

It keeps the promises of `treecast.overlay.peer`, with the same `Outbox` that the real runtime uses: effects happen in
order, and what follows a `Store` happens once its group is durable. If storing fails, all that waits is dropped and the
peer is made again from what is stored, as in the real runtime.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, assert_never

from treecast.overlay.peer import TICK_MS, Deliver, Effect, Outbox, Peer, SaveIndex, Send, Store, receive_all
from treecast.overlay.storage import StorageError
from treecast.sim.storage import SimulatedStorage

if TYPE_CHECKING:
    from treecast.sim.world import World

INBOX_FRAMES_MAX = 10_000
"""Frames that wait while a host is stalled. More are lost."""
GATHERING_SHARE = 0.1
"""How often a host waits for more frames,"""
GATHERING_US_MAX = 20_000
"""and for how long at most."""
REOPEN_MS_MAX = 500
"""After an error of storage the peer is made again within this time."""

Factory = Callable[[SimulatedStorage, Random], Peer]


class _Mark:
    """Among the effects of a peer: something that its host waits for."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action


class Host:
    """Where a peer runs. `application` gets the events of its `Deliver` effects.

    `sync_us` bounds the time that a group needs to become durable. `batches` says whether messages for the same
    receiver that become ready together share a frame.
    """

    def __init__(
        self,
        world: World,
        name: str,
        factory: Factory,
        application: Callable[[Any], None] | None = None,
        *,
        sync_us: tuple[int, int] = (50, 2_000),
        batches: bool = True,
    ) -> None:
        self.name = name
        self.storage = SimulatedStorage()
        self.peer: Peer | None = None
        self.incarnation = 0
        self.on_start: Callable[[Any], None] | None = None
        """Called with the peer whenever one has been made."""
        self.on_damage: Callable[[], None] | None = None
        self.save_index: Callable[[Any, int], None] | None = None
        """Called for `SaveIndex` with the peer and the version."""
        self._world = world
        self._factory = factory
        self._application = application
        self._sync_us = sync_us
        self._batches = batches
        self._random = world.random_of("host", name)
        self._gathering = world.random_of("gathering", name)
        self._outbox = Outbox()
        self._is_writing = False
        self._inbox: deque[tuple[str, list[Any], str]] = deque()
        """Frames that wait while it is stalled, or slow: first come, first served."""
        self._is_busy = False
        """It works on the first of them."""
        self._stalls = 0
        self._slow_us = 0
        self._slow_disk_us = 0
        self._full_disks = 0
        self._clock_us = self._random.randrange(0, 10_000_000)  # how far its clock is ahead
        self._drifts: list[tuple[int, int]] = []  # (since, millionths)

    @property
    def is_up(self) -> bool:
        return self.peer is not None

    def now_ms(self) -> int:
        """What its clock says."""
        now_us = self._world.now_us
        drift_us = sum((now_us - since_us) * millionths // 1_000_000 for since_us, millionths in self._drifts)
        return max(0, now_us + self._clock_us + drift_us) // 1000 + CLOCK_BEGIN_MS

    # -- life and death

    def start(self) -> None:
        """Make the peer from what is stored."""
        if self.peer is not None:
            return
        self.incarnation += 1
        self._outbox = Outbox()
        self._is_writing = False
        self._world.note("start", self.name, self.incarnation)
        try:
            self.storage.open(self._random)
            self.peer = self._factory(self.storage, self._world.random_of("peer", self.name, self.incarnation))
        except StorageError as error:
            self._reopen_later(error)
            return
        self._schedule_tick()
        if self.on_start is not None:
            self.on_start(self.peer)

    def crash(self, down_us: int, loses_disk: bool = False) -> None:
        """Lose all memory, and come back after a while. A host that is down stays down until it was to come back."""
        if self.peer is None:
            return
        self._drop_peer()
        self._world.note("crash", self.name, "without its disk" if loses_disk else "")
        self.storage.crash(self._random)
        if loses_disk:
            self.storage.lose()
        self._world.after(down_us, self.start)

    def _drop_peer(self) -> None:
        self.peer = None
        self.incarnation += 1  # whatever was to happen later does not
        self._inbox.clear()
        self._is_busy = False

    def _reopen_later(self, error: StorageError) -> None:
        """Storing failed: the peer is ahead of its storage, so it is rebuilt."""
        self._drop_peer()
        self._world.note("disk", self.name, error.code)
        self._world.after(self._random.randint(1, REOPEN_MS_MAX) * 1000, self.start)

    # -- what happens to the peer

    def arrive(self, sender: str, messages: list[Any], to: str = "") -> None:
        """A frame has arrived, for the peer or for one that lives inside it. None is handled before those that came
        earlier, however slow the host was."""
        if self.peer is not None and len(self._inbox) < INBOX_FRAMES_MAX:
            self._inbox.append((sender, messages, to))
            self._work()

    def _work(self) -> None:
        while self._inbox and not self._stalls and not self._is_busy:
            delay_us = self._slow_us or self._gathering_us()
            if delay_us:
                self._is_busy = True
                self._world.after(delay_us, self._end_work, self.incarnation)
            else:
                self._handle(self.incarnation, *self._take())

    def _end_work(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        self._is_busy = False
        if not self._stalls:
            self._handle(incarnation, *self._take())
        self._work()

    @property
    def _is_gathering(self) -> bool:
        return hasattr(self.peer, "receive_all")

    def _gathering_us(self) -> int:
        """How long a host waits for more frames, now and then, if its peer likes to have them together."""
        if not self._is_gathering or self._gathering.random() > GATHERING_SHARE:
            return 0
        return self._gathering.randrange(1, GATHERING_US_MAX)

    def _take(self) -> tuple[str, list[Any], str]:
        """The first frame, and those behind it that came from there too."""
        sender, messages, to = self._inbox.popleft()
        if self._is_gathering:
            while self._inbox and (self._inbox[0][0], self._inbox[0][2]) == (sender, to):
                messages = messages + self._inbox.popleft()[1]
        return sender, messages, to

    def _handle(self, incarnation: int, sender: str, messages: list[Any], to: str = "") -> None:
        if not to and len(messages) > 1 and sender != self.name and self._is_gathering:
            self.call(partial(_receive_all, sender, messages))
            return
        for message in messages:
            if incarnation != self.incarnation or self.peer is None:
                return
            self.call(partial(_receive_for, to, sender, message) if to else partial(_receive, sender, message))

    def call(self, action: Callable[[Any, int], list[Effect]]) -> bool:
        """Let the peer do something: `action` gets it and the time, and returns effects. False: the host is down."""
        if self.peer is None:
            return False
        try:
            effects = action(self.peer, self.now_ms())
        except StorageError as error:
            self._reopen_later(error)
            return False
        except Exception as error:  # whatever a peer raises is a failure of the run, and not of the simulator
            self._world.fail_with(f"{self.name} raised {type(error).__name__}: {error}", error)
            return False
        if effects:
            self._outbox.add(effects)
            self._go_on()
        return True

    def tell(self, delay_us: int, message: Any) -> None:
        """Let whoever runs the peer say something to it, unless it crashes before."""
        self._world.after(delay_us, self._handle, self.incarnation, self.name, [message])

    def when_durable(self, action: Callable[[], None]) -> None:
        """Do something once all changes that the peer has asked for so far are durable, unless it crashes before."""
        self._outbox.add([Deliver(_Mark(action))])
        self._go_on()

    def _tick(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        self._schedule_tick()
        if not self._stalls:
            self.call(_tick_peer)

    def _schedule_tick(self) -> None:
        delay_us = self._random.randrange(TICK_MS * 500, TICK_MS * 1000)
        self._world.after(delay_us, self._tick, self.incarnation)

    # -- effects

    def _go_on(self) -> None:
        """Do what may be done now, and begin to write if there is something to write."""
        self._release()
        if self._outbox.has_changes() and not self._is_writing:
            self._is_writing = True
            self.storage.append(self._outbox.take_changes())
            delay_us = self._random.randint(*self._sync_us) + self._slow_disk_us
            self._world.after(delay_us, self._sync, self.incarnation)

    def _sync(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        try:
            self.storage.sync()
        except StorageError as error:
            self._reopen_later(error)
            return
        self._world.note("sync", self.name)
        # Now the changes can be read, but the peer hears of it a little later.
        self._world.after(self._random.randrange(100), self._on_sync, incarnation)

    def _on_sync(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        self._is_writing = False
        self._outbox.stored()
        self._go_on()

    def _release(self) -> None:
        receiver = ("", "")  # in whose name, and to whom
        batch: list[Any] = []
        for effect in self._outbox.take_ready():
            match effect:
                case Send() if effect.to == self.name:
                    # What a peer sends to itself always arrives, in order.
                    self._world.after(0, self._handle, self.incarnation, self.name, [effect.message])
                case Send():
                    if batch and ((effect.sender, effect.to) != receiver or not self._batches):
                        self._world.network.send(self.name, receiver[1], batch, receiver[0])
                        batch = []
                    receiver = (effect.sender, effect.to)
                    batch.append(effect.message)
                case Deliver():
                    # Not at once: the application may call the peer, which is not ready for that here.
                    self._world.after(0, self._deliver, self.incarnation, effect.event)
                case SaveIndex():
                    if self.save_index is not None:
                        self.save_index(self.peer, effect.version)
                case Store():
                    raise AssertionError("its changes are in a group")
                case _:
                    assert_never(effect)
        if batch:
            self._world.network.send(self.name, receiver[1], batch, receiver[0])

    def _deliver(self, incarnation: int, event: Any) -> None:
        if incarnation != self.incarnation:
            return
        if isinstance(event, _Mark):
            event.action()
        elif self._application is not None:
            self._application(event)

    # -- faults; each is switched on and off again

    def stall(self, change: int) -> None:
        self._stalls += change
        self._work()

    def slow(self, change_us: int) -> None:
        self._slow_us += change_us

    def slow_disk(self, change_us: int) -> None:
        self._slow_disk_us += change_us

    def fill_disk(self, change: int) -> None:
        self._full_disks += change
        self.storage.is_full = self._full_disks > 0

    def fail_sync(self) -> None:
        self.storage.failing_syncs += 1

    def damage(self) -> None:
        number = self.storage.damage(self._random)
        self._world.note("damage", self.name, number)
        if self.on_damage is not None:
            self.on_damage()

    def set_clock(self, jump_ms: int) -> None:
        self._clock_us += jump_ms * 1000

    def begin_drift(self, millionths: int) -> None:
        self._drifts.append((self._world.now_us, millionths))

    def end_drift(self, millionths: int) -> None:
        for place, (since_us, drift) in enumerate(self._drifts):
            if drift == millionths:
                self._clock_us += (self._world.now_us - since_us) * drift // 1_000_000
                del self._drifts[place]
                return


CLOCK_BEGIN_MS = 1_000_000_000_000
"""What clocks say when a world begins, so that times look like times."""


def _receive(sender: str, message: Any, peer: Peer, now_ms: int) -> list[Effect]:
    return peer.receive(sender, message, now_ms)


def _receive_all(sender: str, messages: list[Any], peer: Peer, now_ms: int) -> list[Effect]:
    return receive_all(peer, sender, messages, now_ms)


def _receive_for(to: str, sender: str, message: Any, peer: Any, now_ms: int) -> list[Effect]:
    effects: list[Effect] = peer.receive_for(to, sender, message, now_ms)
    return effects


def _tick_peer(peer: Peer, now_ms: int) -> list[Effect]:
    return peer.tick(now_ms)
