"""How far a job on Spark is: one line that is redrawn on a terminal, a line every few seconds elsewhere.

Jobs that are over within two seconds print nothing here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from treecast.cli.console import Console
from treecast.report.figures import short_number

if TYPE_CHECKING:
    from treecast.spark.job.progress import Progress

FIRST_SECONDS = 2.0
BETWEEN_SECONDS = 5.0
TICK_SECONDS = 0.5
WINDOW_SECONDS = 5.0  # rates are those of the last few seconds


class RunProgress:
    """Takes progress a few times a second, and shows it as often as suits the stream."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._next = FIRST_SECONDS
        self._recent: deque[Progress] = deque()
        self._said: Progress | None = None
        self._is_idle = False

    def stage(self, words: str, *, said: bool = False) -> None:
        """Show what is done before or after the documents; it may take a while."""
        if self._console.shows_progress:
            self._console.clear()
            self._console.draw(f"{words} …")
        elif said and not self._quiet:
            self._console.say(f"treecast: {words} …")

    @contextmanager
    def waiting(self, words: str) -> Iterator[None]:
        """Show that something goes on, second by second on a terminal, while the caller waits for it."""
        done = threading.Event()
        began = time.monotonic()

        def show() -> None:
            while not done.wait(TICK_SECONDS):
                seconds = time.monotonic() - began
                if self._console.shows_progress:
                    self._console.draw(f"{words} … {seconds:.0f} s")
                elif not self._quiet and seconds >= FIRST_SECONDS:
                    self._console.say(f"treecast: {words} …")
                    return

        with self._console.apart():  # what the caller waits for may redirect the output of processes
            self.stage(words)
            ticker = threading.Thread(target=show, daemon=True)
            ticker.start()
            try:
                yield
            finally:
                done.set()
                ticker.join()

    def tell(self, progress: Progress) -> None:
        self._recent.append(progress)
        while len(self._recent) > 2 and progress.seconds - self._recent[1].seconds >= WINDOW_SECONDS:
            self._recent.popleft()
        if progress.stage:
            if progress.seconds >= FIRST_SECONDS:
                self.stage(progress.stage, said=True)
        elif self._console.shows_progress:
            self._console.draw(progress_line(progress, self._recent[0]))
        elif not self._quiet and progress.seconds >= self._next:
            self._next = progress.seconds + BETWEEN_SECONDS
            self._say(progress)

    def _say(self, progress: Progress) -> None:
        """A line, unless it is a stream (which has no tasks) that waits: one line says so, until documents come."""
        is_idle = not progress.tasks and self._said is not None and progress.documents == self._said.documents
        if not is_idle:
            self._console.say(f"treecast: {progress_line(progress, self._recent[0])}")
        elif not self._is_idle:
            self._console.say(f"treecast: {progress.documents:,} documents so far, waiting for more")
        self._is_idle, self._said = is_idle, progress


def progress_line(progress: Progress, before: Progress) -> str:
    """Counts so far, and how fast they have grown since `before`."""
    if not progress.documents:
        return f"no document yet: Spark plans the job and starts its workers … {progress.seconds:,.0f} s"
    seconds = max(progress.seconds - before.seconds, 1e-9)
    documents, matches = progress.documents - before.documents, progress.matches - before.matches
    parts = [
        f"{progress.documents:,} documents {short_number(documents / seconds)}/s",
        f"{short_number(progress.matches)} matches {short_number(matches / seconds)}/s",
        f"{progress.errors:,} refused",
        f"{progress.seconds:,.0f} s",
    ]
    if progress.tasks:
        parts.insert(0, f"{progress.tasks_done / progress.tasks:4.0%}")
    return "  ".join(parts)
