"""The course of a run with clients: faults and requests, then healing, then everything that must arrive has to arrive.

A run of one broker and a run of a network differ in what they look at, not in their course. `Course` is the course; the
run says what there is to look at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from treecast.sim.broker.application import Application
from treecast.sim.broker.checks import Letter
from treecast.sim.broker.history import History
from treecast.sim.faults import Fault, LinkFault
from treecast.sim.world import World

HEALING_MS_MAX = 120_000
"""Time after the last fault within which everything must be delivered."""
DELIVERY_MS_MAX = 2_000
"""Where a broker has one delivery on its way at a time, it needs longer for many: as long as the next one comes within
this time, it is not late."""
STEP_MS = 250

Pair = tuple[str, int]
"""A subscription and a document."""


class DeliveryChecks(Protocol):
    """What deliveries are compared with."""

    def required_pairs(self) -> Iterator[Pair]: ...

    def all(self) -> list[str]: ...


class Course(ABC):
    """A run of a scenario, from its beginning to the checks."""

    world: World
    faults: Sequence[Fault]
    applications: list[Application]
    history: History
    quiet_ms: ClassVar[int]
    """Time after everything is delivered in which nothing may be delivered any more."""

    def play(self) -> None:
        world = self.world
        world.schedule(self.faults)
        self._begin()
        for application in self.applications:
            application.begin()
        for time_ms in range(STEP_MS, self._duration_ms() + STEP_MS, STEP_MS):
            world.run(time_ms)
            self._check_invariants()
        world.heal()
        self._calm_down()
        for application in self.applications:
            application.calm_down()
        self._wait("answers", lambda: all(a.host.is_up and not a.waiting() for a in self.applications))
        for application in self.applications:
            application.resume()
        for application in self.applications:
            if application.needs_attach():
                application.attach()
            application.publish_probe()
        self._wait("the last answers", lambda: not any(a.waiting() for a in self.applications))
        self._finish()

    def _wait(self, what: str, is_reached: Callable[[], bool]) -> None:
        """Let time pass until something is so; it has to be within a bound."""
        begin_ms, healing_ms = self.world.now_us // 1000, HEALING_MS_MAX
        while self.world.failure is None and not is_reached():
            waited_ms = self.world.now_us // 1000 - begin_ms
            if waited_ms >= healing_ms:
                healing_ms = self._healing_ms()  # what it depends on may have grown meanwhile
            if waited_ms >= healing_ms:
                self.world.fail(f"{what}: not there {waited_ms} ms after all faults have ended")
            self.world.run(self.world.now_us // 1000 + STEP_MS)
            self._check_invariants()

    def _finish(self) -> None:
        world = self.world
        if world.failure is not None:
            return
        self._let_pass()
        if world.failure is not None:
            return
        world.run(max(world.now_us // 1000, self._last_arrival_ms()))  # late frames may repeat what was delivered
        receipts = len(self.history.receipts)
        world.run(world.now_us // 1000 + self.quiet_ms)
        # A frame that was held up for long may still make somebody ask or tell again, which ends by itself.
        self._let_pass()
        if world.failure is not None:
            return
        wrong = self._mistakes()
        if not wrong and not self._is_done():
            wrong = self._leftovers()
        if not wrong and len(self.history.receipts) > receipts:
            wrong = [f"delivered after everything was: {self.history.receipts[receipts]}"]
        if wrong:
            world.fail("\n  ".join(wrong))

    def _last_arrival_ms(self) -> int:
        """When the last frame that a fault has held up arrives."""
        late = [one for one in self.faults if isinstance(one, LinkFault) and one.effect in ("delay", "reordering")]
        return max((one.end_ms + one.amount for one in late), default=0)

    def _let_pass(self) -> None:
        """Let time pass until everything is delivered and nothing waits, or until that should have been."""
        world = self.world
        end_ms = world.now_us // 1000 + HEALING_MS_MAX
        seen = {(receipt.subscription, receipt.document) for receipt in self.history.receipts}
        while world.failure is None and world.now_us // 1000 < end_ms and not self._is_done():
            known = len(self.history.receipts)
            world.run(world.now_us // 1000 + STEP_MS)
            self._check_invariants()
            fresh = {(receipt.subscription, receipt.document) for receipt in self.history.receipts[known:]} - seen
            if fresh:
                seen |= fresh
                end_ms = max(end_ms, world.now_us // 1000 + DELIVERY_MS_MAX)

    def _is_done(self) -> bool:
        """Whether nothing waits, and everything that must be delivered has been.

        What must be is asked anew each time: a crash may have taken a document back, and the subscription may have
        changed before it came again.
        """
        if not self._is_quiet():
            return False
        letters = {(letter.subscription, letter.document) for letter in self._letters()}
        return all(pair in self.history.received or pair in letters for pair in self._checks().required_pairs())

    # -- what a run says

    def _healing_ms(self) -> int:
        """Within this time everything must be as it should be."""
        return HEALING_MS_MAX

    def _begin(self) -> None:
        """Before clients begin. Most runs have nothing to do."""
        return

    def _calm_down(self) -> None:
        """All faults have ended. Most runs have nothing to do."""
        return

    @abstractmethod
    def _duration_ms(self) -> int:
        """For how long there are faults."""

    @abstractmethod
    def _check_invariants(self) -> None:
        """Called now and then: what must hold at any time."""

    @abstractmethod
    def _checks(self) -> DeliveryChecks: ...

    @abstractmethod
    def _mistakes(self) -> list[str]:
        """In the end: what is wrong."""

    @abstractmethod
    def _is_quiet(self) -> bool:
        """Whether nothing waits, as far as the brokers know."""

    @abstractmethod
    def _letters(self) -> list[Letter]:
        """What could not be delivered, and is kept."""

    @abstractmethod
    def _leftovers(self) -> list[str]:
        """What still waits, for a report."""

    @abstractmethod
    def counts(self) -> dict[str, Any]:
        """How much happened: a scenario in which nothing happens finds nothing."""
