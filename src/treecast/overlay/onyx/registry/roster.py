"""Who is there: what brokers have said of themselves lately, and who should be in the next view.

A broker that is silent for too long is taken out, unless it said that it restarts. If most of them are silent, it is
more likely that the registry is cut off, or that its clock jumped: then it waits longer, and the other registry may
try.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from treecast.overlay.onyx.control_messages import Heartbeat
from treecast.overlay.onyx.registry.settings import RegistrySettings
from treecast.overlay.onyx.view import BrokerInfo


class Heard(msgspec.Struct):
    """The last heartbeat of a broker, and when it came."""

    beat: Heartbeat
    heard_ms: int


class Roster:
    """Heartbeats of brokers. In memory only: after a restart everybody gets time to be heard again."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self.heard: dict[str, Heard] = {}
        self._missed: dict[str, int] = {}  # members that were not heard yet, and since when
        self._looked_ms: int | None = None

    def hear(self, broker: str, beat: Heartbeat, now_ms: int) -> bool:
        """A heartbeat has come. False: there is no room for another broker."""
        known = self.heard.get(broker)
        if known is None and len(self.heard) >= self._settings.brokers_max:
            gone = [name for name, heard in self.heard.items() if not self._is_here(heard, now_ms)]
            if not gone:
                return False
            del self.heard[gone[0]]
        self.heard[broker] = Heard(beat, now_ms)
        self._missed.pop(broker, None)
        return True

    def _is_here(self, heard: Heard, now_ms: int) -> bool:
        if heard.beat.state == "leaving":
            return False
        limit_ms = self._settings.restart_ms if heard.beat.state == "restarting" else self._settings.silent_ms
        return heard.heard_ms <= now_ms < heard.heard_ms + limit_ms

    def here(self, now_ms: int) -> dict[str, Heartbeat]:
        """The last heartbeats of those that are there."""
        return {name: heard.beat for name, heard in self.heard.items() if self._is_here(heard, now_ms)}

    def epochs(self) -> dict[str, int]:
        return {name: heard.beat.epoch for name, heard in self.heard.items()}

    def look(self, members: Mapping[str, BrokerInfo], now_ms: int) -> tuple[list[str], list[str]]:
        """Who should come into the view, and who should leave it."""
        self._forgive(members, now_ms)
        settings = self._settings
        coming = [name for name, heard in self.heard.items() if name not in members and self._can_come(heard, now_ms)]
        leaving = [name for name in members if name in self.heard and self.heard[name].beat.state == "leaving"]
        silent = [name for name in members if name not in leaving and not self._was_heard(name, now_ms, 0)]
        if 2 * len(silent) > len(members) and len(members) > 1:
            extra_ms = max(0, settings.doubt_ms - settings.silent_ms)
            silent = [name for name in silent if not self._was_heard(name, now_ms, extra_ms)]
        room = settings.brokers_max - len(members)
        return sorted(coming)[:room], sorted(leaving + silent)

    def _can_come(self, heard: Heard, now_ms: int) -> bool:
        return heard.beat.state == "here" and self._is_here(heard, now_ms)

    def _was_heard(self, name: str, now_ms: int, extra_ms: int) -> bool:
        limit_ms = self._settings.silent_ms + extra_ms
        heard = self.heard.get(name)
        if heard is None:
            since_ms = self._missed.setdefault(name, now_ms)
            return since_ms <= now_ms < since_ms + limit_ms
        if heard.beat.state == "restarting":
            limit_ms = max(limit_ms, self._settings.restart_ms)
        return heard.heard_ms <= now_ms < heard.heard_ms + limit_ms

    def _forgive(self, members: Mapping[str, BrokerInfo], now_ms: int) -> None:
        """If the registry itself did nothing for a while, or its clock jumped, nobody else is to blame for silence."""
        last_ms, self._looked_ms = self._looked_ms, now_ms
        if last_ms is None or not last_ms <= now_ms < last_ms + self._settings.silent_ms // 2:
            self.expect_all(members, now_ms)

    def expect_all(self, members: Mapping[str, BrokerInfo], now_ms: int) -> None:
        """All get as much time as if they had been heard now."""
        self._missed = {name: now_ms for name in members if name not in self.heard}
        for name in members:
            if name in self.heard:
                self.heard[name].heard_ms = now_ms
