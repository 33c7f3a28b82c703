"""A simulated world: virtual time, hosts that run peers, a network between them, and faults at their times.

Everything happens in one thread, in the order of a heap of events. All chance comes from one seed. So a run is a
function of its seed and its faults: it can be repeated, looked at, and shortened.

    >>> from treecast.overlay.peer import Send
    >>> from treecast.sim.frames import PacketCodec
    >>> from treecast.overlay.messages import Hello, Welcome
    >>> class Door:
    ...     name = "door"
    ...     def receive(self, sender, message, now_ms):
    ...         return [Send(sender, Welcome("door", "s", answered=0))]
    ...     def tick(self, now_ms):
    ...         return []
    >>> class Guest:
    ...     name = "guest"
    ...     def receive(self, sender, message, now_ms):
    ...         print(sender, "says", type(message).__name__)
    ...         return []
    ...     def tick(self, now_ms):
    ...         return []
    >>> world = World(seed=1, codec=PacketCodec())
    >>> door = world.add_host("door", lambda storage, random: Door())
    >>> guest = world.add_host("guest", lambda storage, random: Guest())
    >>> guest.call(lambda peer, now_ms: [Send("door", Hello("guest"))])
    True
    >>> world.run(until_ms=10)
    door says Welcome

Use it for whatever is a `Peer`. It is no model of speed: how long things take is drawn, not measured.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any

from treecast.sim.faults import Crash, Fault, HostFault, LinkFault, Partition
from treecast.sim.host import Factory, Host
from treecast.sim.network import Codec, Network
from treecast.sim.trace import ENTRIES_MAX, Trace

EVENTS_MAX = 2_000_000
"""A run with more events never comes to an end, and has failed."""


class World:
    """Time, hosts, network and faults of one run."""

    def __init__(
        self, seed: int, codec: Codec, *, trace_entries_max: int = ENTRIES_MAX, events_max: int = EVENTS_MAX
    ) -> None:
        self.seed = seed
        self.now_us = 0
        self.events = 0
        self.failure: str | None = None
        """Why the run failed; it ends then."""
        self.error: Exception | None = None
        """What a peer raised, if that was it."""
        self.trace = Trace(trace_entries_max)
        self.network = Network(self, codec)
        self.hosts: dict[str, Host] = {}
        self._events_max = events_max
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._chances: dict[str, tuple[Random, float]] = {}
        self._ends: list[Callable[[], None]] = []

    # -- chance

    def random_of(self, *names: object) -> Random:
        """Random numbers for one purpose. They do not depend on what others draw."""
        return Random("/".join(map(str, (self.seed, *names))))

    def chance(self, name: str) -> bool:
        """Whether a rare branch is taken now. Three quarters of all runs never take a branch, the others often."""
        if name not in self._chances:
            random = self.random_of("chance", name)
            self._chances[name] = (random, random.choice([0.0, 0.0, 0.0, random.uniform(0.01, 0.5)]))
        random, rate = self._chances[name]
        return rate > 0 and random.random() < rate

    # -- time

    def at(self, time_us: int, action: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heappush(self._heap, (time_us, self._count, action, arguments))

    def after(self, delay_us: int, action: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heappush(self._heap, (self.now_us + delay_us, self._count, action, arguments))

    def run(self, until_ms: int) -> None:
        """Let time pass until then, or until something fails."""
        end_us = until_ms * 1000
        heap = self._heap
        while heap and heap[0][0] <= end_us and self.failure is None:
            self.now_us, _, action, arguments = heappop(heap)
            self.events += 1
            action(*arguments)
            if self.events > self._events_max:
                self.fail(f"no end after {self._events_max} events")
        if self.failure is None:
            self.now_us = max(self.now_us, end_us)

    def note(self, kind: str, place: str, detail: Any = "") -> None:
        """Add to the trace."""
        self.trace.add(self.now_us, kind, place, str(detail).encode(), detail)

    def fail(self, text: str) -> None:
        """The run has failed. Only the first failure counts."""
        if self.failure is None:
            self.failure = text
            self.note("FAILED", "", text)

    def fail_with(self, text: str, error: Exception) -> None:
        """The run has failed with what a peer raised; where it was raised becomes part of the text."""
        if self.failure is None:
            self.error = error
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.fail(f"{text} ({place.filename.rpartition('/')[2]}:{place.lineno})")

    # -- hosts

    def add_host(
        self, name: str, factory: Factory, application: Callable[[Any], None] | None = None, **settings: Any
    ) -> Host:
        """Add a host and start its peer."""
        host = self.hosts[name] = Host(self, name, factory, application, **settings)
        host.start()
        return host

    # -- faults

    def schedule(self, faults: Sequence[Fault]) -> None:
        """Let these faults happen at their times, counted from the beginning of the world."""
        for fault in faults:
            if isinstance(fault, Crash):
                self.at(fault.at_ms * 1000, self._crash, fault)
            elif isinstance(fault, HostFault):
                self._schedule_host_fault(fault)
            else:
                self.at(fault.begin_ms * 1000, self._begin_link_fault, fault)

    def _crash(self, fault: Crash) -> None:
        self.hosts[fault.host].crash(fault.down_ms * 1000, fault.loses_disk)

    def _begin_link_fault(self, fault: LinkFault | Partition) -> None:
        self.note("fault", "network", fault)
        self.network.begin(fault)
        self._end_later(fault.end_ms, lambda: self.network.end(fault))

    def _schedule_host_fault(self, fault: HostFault) -> None:
        host = self.hosts[fault.host]
        amount = fault.amount
        actions: dict[str, tuple[Callable[[], None], Callable[[], None] | None]] = {
            "stall": (lambda: host.stall(1), lambda: host.stall(-1)),
            "slow": (lambda: host.slow(amount * 1000), lambda: host.slow(-amount * 1000)),
            "full-disk": (lambda: host.fill_disk(1), lambda: host.fill_disk(-1)),
            "slow-disk": (lambda: host.slow_disk(amount * 1000), lambda: host.slow_disk(-amount * 1000)),
            "failed-sync": (host.fail_sync, None),
            "damage": (host.damage, None),
            "clock-jump": (lambda: host.set_clock(amount), None),
            "clock-drift": (lambda: host.begin_drift(amount), lambda: host.end_drift(amount)),
        }
        begin, end = actions[fault.effect]

        def start() -> None:
            self.note("fault", fault.host, fault)
            begin()
            if end is not None:
                self._end_later(fault.end_ms, end)

        self.at(fault.begin_ms * 1000, start)

    def _end_later(self, end_ms: int, end: Callable[[], None]) -> None:
        """Switch a fault off at its time, or when the world heals."""

        def end_once() -> None:
            if end in self._ends:
                self._ends.remove(end)
                end()

        self._ends.append(end)
        self.at(end_ms * 1000, end_once)

    def heal(self) -> None:
        """End all faults that have begun. Hosts that are down come back at their time."""
        self.note("heal", "")
        for end in list(self._ends):
            self._ends.remove(end)
            end()
        self.network.heal()
        for host in self.hosts.values():
            host.storage.failing_syncs = 0
