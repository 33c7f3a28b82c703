"""A control plane for a simulated world: it appoints primary and backup of one broker, sometimes without need.

It never crashes, and what it says and hears may be late or lost. In two respects it knows more than a real one can: it
lets no host serve alone that is down, or that has just lost its disk, as what was acknowledged would then be lost by
its own decision.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from treecast.overlay.peer import Effect, Send
from treecast.overlay.replica.messages import Role, Standing

CONTROL = "control"
SERVING = ("alone", "joining", "paired", "waiting")


class Control:
    """A `Peer`. `may_be_alone` says whether a host has all data at this moment."""

    name = CONTROL

    def __init__(self, broker: str, hosts: tuple[str, str], random: Random, may_be_alone: Callable[[str], bool]) -> None:
        self.hosts = hosts
        self.role = Role(broker, 1, hosts[0], hosts[1])
        self.is_calm = False
        """It changes nothing without need any more."""
        self.takeovers = 0
        self._random = random
        self._may_be_alone = may_be_alone
        self._dead_ms = random.choice([300, 800, 2_000])
        self._moody = random.choice([0.0, 0.0, 0.01, 0.05])
        self._has_begun = False
        self._heard: dict[str, tuple[int, Standing]] = {}

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Standing) and sender in self.hosts:
            self._heard[sender] = (now_ms, message)
            self._has_begun = self._has_begun or message.state in SERVING
        return []

    def tick(self, now_ms: int) -> list[Effect]:
        self._decide(now_ms)
        return [Send(host, self.role) for host in self.hosts]

    def other(self, host: str) -> str:
        return self.hosts[1] if host == self.hosts[0] else self.hosts[0]

    def standing(self, host: str) -> Standing | None:
        """What a host has said last, if that was about the present term."""
        standing = self._heard[host][1] if host in self._heard else None
        return standing if standing is not None and standing.term == self.role.term else None

    def _is_silent(self, host: str, now_ms: int) -> bool:
        return host not in self._heard or abs(now_ms - self._heard[host][0]) > self._dead_ms

    def _appoint(self, primary: str, backup: str, after: int) -> None:
        self.takeovers += primary != self.role.primary
        self.role = Role(self.role.broker, self.role.term + 1, primary, backup, after)

    def _decide(self, now_ms: int) -> None:
        role = self.role
        primary, other = role.primary, self.other(role.primary)
        state = standing.state if (standing := self.standing(primary)) is not None else ""
        backup = self.standing(other)
        is_complete = role.backup == other and backup is not None and backup.complete_term == role.term
        if state == "refused":
            self._appoint(other, primary, role.after)
        elif is_complete and not self._is_silent(other, now_ms):
            is_whim = not self.is_calm and self._random.random() < self._moody
            if state == "lost" or is_whim or (self._is_silent(primary, now_ms) and self._random.random() < 0.3):
                self._appoint(other, self._random.choice([primary, ""]), role.term)
        elif self._has_begun and self._is_silent(primary, now_ms) and not self._is_silent(other, now_ms):
            if self._random.random() < self._moody:  # it may refuse, and mostly will
                self._appoint(other, primary, role.term)
        elif state in SERVING and not self._is_silent(primary, now_ms):
            is_gone = state == "waiting" or self._is_silent(other, now_ms)
            if role.backup and is_gone and self._may_be_alone(primary):
                self._appoint(primary, "", role.term)
            elif not role.backup and not self._is_silent(other, now_ms):
                self._appoint(primary, other, role.term)
