"""Bugs for the simulator to find in the distributed NFA: peers that are wrong in one place each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treecast.overlay.chord import NfaPeer
from treecast.overlay.chord.chord_messages import Entry
from treecast.overlay.chord.filtering import Filtering, Visit, Work
from treecast.overlay.chord.nfa_messages import NotifyHost, Satisfied
from treecast.overlay.chord.notifying import Match, Notifying
from treecast.overlay.chord.shedding import Shedding
from treecast.sim.chord.filter_scenario import FilterScenario


class _HastyFiltering(Filtering):
    """Answers for states whose entries have not arrived."""

    def is_readable(self, stored_key: str, from_copy: bool) -> bool:
        return True


class _QuietFiltering(Filtering):
    """Tells a host once, and does not wait for it."""

    def _notify(self, work: Work, visit: Visit, host: str, notices: list[Satisfied], attempt: int) -> None:
        self._peer.send(host, NotifyHost(0, work.id, work.publisher, notices))


class _ForgetfulNotifying(Notifying):
    """Does not remember what it has delivered."""

    def _remember(self, text: str, match: Match) -> None:
        super()._remember(text, match)
        self._recent.pop(text, None)


class _StaleShedding(Shedding):
    """Copies of a state do not hear of later changes."""

    def copy_entry(self, entry: Entry, then: Callable[[], None]) -> None:
        then()


def _scenario(part: str, kind: Callable[..., Any]) -> FilterScenario:
    def make(name: str, storage: Any, *rest: Any) -> NfaPeer:
        peer = NfaPeer(name, storage, *rest)
        planted_part = kind(peer, storage) if part == "notifying" else kind(peer)
        for message, handler in list(peer.handlers.items()):
            method = getattr(handler, "__name__", "")
            if getattr(handler, "__self__", None) is getattr(peer, part):
                peer.handlers[message] = getattr(planted_part, method)
        setattr(peer, part, planted_part)
        return peer

    return FilterScenario(make)


PLANTED = {
    "reading before entries have arrived": _scenario("filtering", _HastyFiltering),
    "a notification that is not repeated": _scenario("filtering", _QuietFiltering),
    "deliveries that are not remembered": _scenario("notifying", _ForgetfulNotifying),
    "copies that do not follow": _scenario("shedding", _StaleShedding),
}
