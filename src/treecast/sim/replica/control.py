"""A control plane for a simulated world: it appoints primary and backup of one broker, sometimes without need.

It never crashes, and what it says and hears may be late or lost. In one respect it knows more than a real one can: it
lets no host take over or serve alone that is down, or that has just lost its disk. What was acknowledged would then be
lost by its own decision, and no checker could ask for it.
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
    """A `Peer`. `has_data` says whether a host is up, and has not just lost its disk."""

    name = CONTROL

    def __init__(self, broker: str, hosts: tuple[str, str], random: Random, has_data: Callable[[str], bool]) -> None:
        self.hosts = hosts
        self.role = Role(broker, 1, hosts[0], hosts[1], is_new=True)
        self.primaries = {1: hosts[0]}
        """By term. Those that did not serve in it, and never will, are left out."""
        self.is_calm = False
        """It changes nothing without need any more."""
        self.takeovers = 0
        self._random = random
        self._has_data = has_data
        self._dead_ms = random.choice([250, 500, 1_500])
        self._whim_rate = random.choice([0.0, 0.0, 0.02, 0.1])
        self._has_begun = False
        self._last_report: dict[str, tuple[int, Standing]] = {}

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, Standing) and sender in self.hosts:
            self._last_report[sender] = (now_ms, message)
            self._has_begun = self._has_begun or message.state in SERVING
            self._forget_idle(sender, message)
        return []

    def _forget_idle(self, host: str, standing: Standing) -> None:
        """Terms in which this host has not served do not count, although it was the primary."""
        for term in [term for term, primary in self.primaries.items() if primary == host]:
            if 0 < standing.idle_since <= term <= standing.term:
                del self.primaries[term]

    def tick(self, now_ms: int) -> list[Effect]:
        self._decide(now_ms)
        return [Send(host, self.role) for host in self.hosts]

    def other(self, host: str) -> str:
        return self.hosts[1] if host == self.hosts[0] else self.hosts[0]

    def standing(self, host: str) -> Standing | None:
        """What a host has said last, if that was about the present term."""
        standing = self._last_report[host][1] if host in self._last_report else None
        return standing if standing is not None and standing.term == self.role.term else None

    def _is_silent(self, host: str, now_ms: int) -> bool:
        return host not in self._last_report or abs(now_ms - self._last_report[host][0]) > self._dead_ms

    def _appoint(self, primary: str, backup: str) -> None:
        self.takeovers += primary != self.role.primary
        term = self.role.term + 1
        after = max((term for term, other in self.primaries.items() if other != primary), default=0)
        self.role = Role(self.role.broker, term, primary, backup, after, not self._has_begun)
        self.primaries[term] = primary

    def _decide(self, now_ms: int) -> None:
        role = self.role
        primary, other = role.primary, self.other(role.primary)
        state = standing.state if (standing := self.standing(primary)) is not None else ""
        backup = self.standing(other)
        is_complete = role.backup == other and backup is not None and backup.complete_term == role.term
        if state == "refused":
            self._appoint(other, primary)
        elif state == "waiting" and self._has_data(primary) and self._random.random() < 0.02:
            # Its clients have waited for long, be the backup slow, or out of its reach only.
            self._appoint(primary, "")
        elif is_complete and not self._is_silent(other, now_ms) and self._has_data(other):
            is_whim = not self.is_calm and self._random.random() < self._whim_rate
            if state == "lost" or is_whim or (self._is_silent(primary, now_ms) and self._random.random() < 0.3):
                self._appoint(other, self._random.choice([primary, ""]))
        elif self._has_begun and self._is_silent(primary, now_ms) and not self._is_silent(other, now_ms):
            if self._has_data(other) and self._random.random() < self._whim_rate:  # it may refuse, and mostly will
                self._appoint(other, primary)
        elif state in SERVING and not self._is_silent(primary, now_ms):
            is_gone = state == "waiting" or self._is_silent(other, now_ms)
            if role.backup and is_gone and self._has_data(primary):
                self._appoint(primary, "")
            elif not role.backup and not self._is_silent(other, now_ms):
                self._appoint(primary, other)
