"""What must hold of a network's deliveries: what holds of one broker's, with time for documents to travel.

Documents have the same number wherever they are delivered: that of their root, after a multiple of `NUMBERS_PER_ROOT`.

At one broker a document meets the subscriptions when it is published. In a network it meets those of a host when it
gets there. So whatever a subscription was between the two counts: if it was one thing all the while, and matched, the
delivery is required; if it has changed, or is new, both are right. What is published after a subscription was
acknowledged finds it everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from treecast.sim.broker.checks import Checks, Letter, Publication, State
from treecast.sim.broker.history import NEVER_US, History

NUMBERS_PER_ROOT = 1_000_000


class NetworkChecks(Checks):
    """`hosts` has the place of each subscription's broker; `arrivals` says when a document was taken at a place, as
    (place, number); the last time, if a crash took it back."""

    def __init__(
        self,
        history: History,
        letters: Iterable[Letter],
        hosts: Mapping[str, int],
        arrivals: Mapping[tuple[int, int], int],
    ) -> None:
        super().__init__(history, letters)
        self._hosts = hosts
        self._arrivals = arrivals

    def states(self, id: str, publication: Publication) -> list[State]:
        """What the subscription may have been between publication and arrival."""
        begin_us, end_us = publication.operation.sent_us, publication.operation.effect_until_us
        place, number = self._hosts.get(id), publication.number
        if number is None:
            end_us = NEVER_US
        elif place is not None and number // NUMBERS_PER_ROOT != place:
            end_us = max(end_us, self._arrivals.get((place, number), NEVER_US))
        return [state for state in self._states.get(id, ()) if state.begin_us <= end_us and state.end_us >= begin_us]
