"""The documents that were refused last, by the broker or by the door, so that somebody can look at why.

They are in memory, and bounded: a restart forgets them. Their publishers were told at once.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

from treecast.overlay.broker.intake import EXCERPT_BYTES_MAX
from treecast.overlay.broker.tail import Refused
from treecast.serve.doors.envelopes import timestamp
from treecast.serve.doors.forms import RefusalsAnswer, RefusedDocument
from treecast.serve.doors.problems import Problem, problem_of

TEXT_CHARS_MAX = 2_000


class Refusals:
    """A ring of them."""

    def __init__(self, refusals_max: int) -> None:
        self._ring: deque[tuple[int, Refused]] = deque(maxlen=refusals_max)
        self.total = 0

    def announced(self, event: Any) -> None:
        """What the broker says."""
        if isinstance(event, Refused):
            self.total += 1
            self._ring.append((self.total, event))

    def add(self, source: str, id: str, problem: Problem, body: bytes, now_ms: int) -> None:
        """The door has refused a document itself."""
        message = f"{problem.code} {problem.detail}" + (f"\n  hint: {problem.hint}" if problem.hint else "")
        excerpt = bytes(body[:EXCERPT_BYTES_MAX])
        self.announced(Refused(source, id, problem.code, message, len(body), excerpt, now_ms))

    def page(self, before: int, count: int) -> RefusalsAnswer:
        """Newest first; `before` 0 is from the newest on."""
        rows = (row for row in reversed(self._ring) if not before or row[0] < before)
        page_rows = list(islice(rows, count + 1))
        more = page_rows[count - 1][0] if len(page_rows) > count else 0
        return RefusalsAnswer([_answer(*row) for row in page_rows[:count]], self.total, more)


def _answer(number: int, event: Refused) -> RefusedDocument:
    problem = problem_of(event.code, event.message)
    return RefusedDocument(
        *(number, timestamp(event.refused_ms), event.source, event.code),
        *(problem.detail[:TEXT_CHARS_MAX], problem.hint[:TEXT_CHARS_MAX], event.id, event.size),
        event.beginning.decode("utf-8", "replace"),
    )
