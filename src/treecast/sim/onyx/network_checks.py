"""What must hold of a network's deliveries: those of one broker, for all of them together, and a little less.

Documents have the same number wherever they are delivered: that of their root, after a multiple of `NUMBERS_PER_ROOT`.

Two things differ from one broker. Both need a root that was out of the network for a while, with documents that others
had not got. A subscription that is made meanwhile may get those as well, although they were published before it. And
one that changes meanwhile gets them by its new query. Of roots that were always there, a network does what one broker
does.
"""

from __future__ import annotations

from collections.abc import Iterable

from treecast.overlay.messages import Subscribe
from treecast.sim.broker.checks import Checks, Letter, Published, State, payload_of
from treecast.sim.broker.history import History

NUMBERS_PER_ROOT = 1_000_000


class NetworkChecks(Checks):
    """`absent` are the places of roots that a view was ever without."""

    def __init__(self, history: History, letters: Iterable[Letter], absent: frozenset[int]) -> None:
        super().__init__(history, letters)
        self._absent = absent

    def _was_absent(self, number: int | None) -> bool:
        return number is not None and number // NUMBERS_PER_ROOT in self._absent

    def _is_allowed(self, id: str, number: int, payload: bytes) -> bool:
        if super()._is_allowed(id, number, payload):
            return True
        if not self._was_absent(number):
            return False
        return any(
            payload_of(state.version, published.document.body) == payload
            for published in self.candidates(number)
            for state in self._later(id, published)
            if state.version is not None
        )

    def _later(self, id: str, published: Published) -> list[State]:
        """What the subscription may have been when this document was published, or at any time after that."""
        return [s for s in self._states.get(id, ()) if s.end_us >= published.operation.sent_us]

    def _is_required(self, id: str, published: Published) -> bool:
        if not super()._is_required(id, published):
            return False
        if not self._was_absent(published.number):
            return True
        # It may have been matched by any later version: all of them must want it.
        return all(
            isinstance(state.version, Subscribe) and payload_of(state.version, published.document.body) is not None
            for state in self._later(id, published)
        )
