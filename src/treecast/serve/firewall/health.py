"""Whether a back end is used: a circuit breaker, told what happened and what time it is.

    up      it gets documents
    down    it gets none
    trying  it has rested, and one document finds out how it is (half-open)

Failures in a row bring it down. If it has a health check, only that brings it up again; else a document that is tried
after a rest does. Rests double while trials fail.

>>> health = Health(FirewallSettings(failures_max=2, rest_ms=100), is_checked=False)
>>> health.note_failure(0), health.note_failure(0), health.state, health.is_usable(50), health.is_usable(100)
(None, None, 'down', False, True)
>>> health.begin(), health.state, health.is_usable(100), health.note_success(), health.state
(None, 'trying', False, None, 'up')
"""

from __future__ import annotations

from treecast.serve.firewall.settings import FirewallSettings


class Health:
    """Of one back end. It begins as up: a check, or the first documents, find out."""

    def __init__(self, settings: FirewallSettings, *, is_checked: bool) -> None:
        self.state: str = "up"
        self._settings = settings
        self._is_checked = is_checked
        self._failures = 0
        self._check_failures = 0
        self._check_successes = 0
        self._rest_ms = settings.rest_ms
        self._usable_ms = 0

    def is_usable(self, now_ms: int) -> bool:
        return self.state == "up" or (self.state == "down" and not self._is_checked and now_ms >= self._usable_ms)

    def begin(self) -> None:
        """A document is sent to it."""
        if self.state == "down":
            self.state = "trying"

    def note_success(self) -> None:
        """It has answered. What was sent before it went down says nothing about now."""
        self._failures = 0
        if self.state == "trying":
            self._rise()

    def note_failure(self, now_ms: int) -> None:
        self._failures += 1
        if self.state == "trying":
            self._rest_ms = min(self._rest_ms * 2, self._settings.rest_ms_max)
            self._fall(now_ms)
        elif self.state == "up" and self._failures >= self._settings.failures_max:
            self._fall(now_ms)

    def note_abandonment(self, now_ms: int) -> None:
        """Nobody waits for the answer any more: nothing was found out."""
        if self.state == "trying":
            self.state = "down"
            self._usable_ms = now_ms

    def note_check(self, is_well: bool, now_ms: int) -> None:
        """What the health check says."""
        if is_well:
            self._check_failures = 0
            self._check_successes += 1
            if self.state != "up" and self._check_successes >= self._settings.check_successes_min:
                self._rise()
        else:
            self._check_successes = 0
            self._check_failures += 1
            if self.state == "up" and self._check_failures >= self._settings.check_failures_max:
                self._fall(now_ms)

    def _rise(self) -> None:
        self.state = "up"
        self._failures = self._check_failures = 0
        self._rest_ms = self._settings.rest_ms

    def _fall(self, now_ms: int) -> None:
        self.state = "down"
        self._check_successes = 0
        self._usable_ms = now_ms + self._rest_ms
