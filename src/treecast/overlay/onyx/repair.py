"""What the tree did not bring is asked for at the root: the asker's side, for one root.

Something is missing if a range arrives that begins after the broker's position; if a broker was covered later than the
position says; or if the root has more than the tree has brought within `patience_ms`. Then the broker asks the root,
with its own routing query, one question at a time, until it has caught up with the tree.

An answer is complete for the subscriptions that counted when its question was sent. If more of them count when it
arrives, it may lack something: it is dropped, and asked for again. Ranges that arrive from the tree meanwhile are kept,
up to a limit, and taken when what is before them is there.

    >>> from random import Random
    >>> repair = Repair(NetworkSettings(), Random(1))
    >>> repair.want(9)
    >>> [repair.next_question(position=4, version=1, needed=1, now_ms=now_ms) for now_ms in (0, 1)]
    [1, 0]
    >>> repair.is_answer(1, needed=1), repair.next_question(position=9, version=1, needed=1, now_ms=2)
    (True, 0)
"""

from __future__ import annotations

from random import Random

from treecast.overlay.onyx.link import PARCEL_BYTES
from treecast.overlay.onyx.link_formats import Arrival
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.retry import Retry


class Repair:
    """What is missing of one root's documents."""

    def __init__(self, settings: NetworkSettings, random: Random) -> None:
        self._settings = settings
        self._wanted = 0
        self._hint = 0
        self._hint_ms = 0
        self._hint_position = 0
        self._questions = 0
        self._open = 0  # the question that has no answer yet
        self._open_version = 0
        self._retry = Retry(random, settings.repair_ms, settings.repair_ms_max)
        self._early: dict[int, tuple[int, list[Arrival], int]] = {}  # by `after`: (upto, documents, bytes)
        self.early_bytes = 0
        self.is_plain = False
        """Something could not be read in the format in which it came: it is asked for as text."""

    @property
    def questions(self) -> int:
        """How many were asked."""
        return self._questions

    def want(self, number: int) -> None:
        """Everything up to this number has to come from the root, if it is not here."""
        self._wanted = max(self._wanted, number)

    def hear_of(self, number: int, position: int, now_ms: int) -> None:
        """The root has this document; the tree may still bring it."""
        if number > self._hint:
            if self._hint <= position:
                self._hint_ms, self._hint_position = now_ms, position
            self._hint = number

    def watch(self, position: int, now_ms: int) -> None:
        """Lose patience with the tree, if it does not bring what there is."""
        if self._hint <= position:
            return
        if position > self._hint_position:
            self._hint_ms, self._hint_position = now_ms, position
        elif not 0 <= now_ms - self._hint_ms < self._settings.patience_ms:
            self.want(self._hint)

    def is_small(self, position: int, count: int) -> bool:
        """At most so many documents are missing, as far as is known."""
        return self._wanted - position <= count

    def is_needed(self, position: int) -> bool:
        return self._wanted > position

    # --- questions ----------------------------------------------------------------------------------------------------

    def next_question(self, position: int, version: int, needed: int, now_ms: int) -> int:
        """The number of the question to ask now; 0: none. It is asked with this version of the subscriptions; those
        up to version `needed` count already."""
        if self._wanted <= position:
            self._open = 0
            self.is_plain = False
            self._retry.reset()
            return 0
        if self._open and self._open_version >= needed and not self._retry.is_due(now_ms):
            return 0
        self._questions += 1
        self._open, self._open_version = self._questions, version
        self._retry.start(now_ms)
        return self._open

    def is_answer(self, question: int, needed: int) -> bool:
        """It answers the question that is open, and that was asked with all subscriptions that count by now."""
        if not self._open or question != self._open:
            return False
        self._open = 0
        self._retry.reset()
        return self._open_version >= needed

    def forget(self) -> None:
        """The root begins anew: nothing that is known of it counts any more."""
        self._wanted = self._hint = self._open = 0
        self._early.clear()
        self.early_bytes = 0

    # --- ranges that came too early -----------------------------------------------------------------------------------

    def keep(self, after: int, upto: int, arrivals: list[Arrival]) -> None:
        """A complete range that begins after the position."""
        size = sum(arrival.size_bytes + PARCEL_BYTES for arrival in arrivals) + PARCEL_BYTES
        if self.early_bytes + size > self._settings.early_bytes_max:
            self.want(upto)  # it has to come again
            return
        known = self._early.get(after)
        if known is None or known[0] < upto:
            self.early_bytes += size - (known[2] if known else 0)
            self._early[after] = (upto, arrivals, size)

    def take_early(self, position: int) -> tuple[int, list[Arrival]] | None:
        """A range that continues the position, or overlaps it; those that are of no use any more are dropped."""
        for after in sorted(self._early):
            if after > position:
                return None
            upto, arrivals, size = self._early.pop(after)
            self.early_bytes -= size
            if upto > position:
                return upto, arrivals
        return None
