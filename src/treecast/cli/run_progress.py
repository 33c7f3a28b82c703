"""How far a job on Spark is: one line that is redrawn on a terminal, a line every few seconds elsewhere.

Jobs that are over within two seconds print nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treecast.cli.console import BAR_CHARS, Console

if TYPE_CHECKING:
    from treecast.spark.job import Progress

FIRST_SECONDS = 2.0
BETWEEN_SECONDS = 5.0


class RunProgress:
    """Told of progress a few times a second, it says so as often as fits the stream."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._next = FIRST_SECONDS

    def stage(self, words: str) -> None:
        """What is being done before documents are read."""
        self._console.draw(f"{words} …")

    def tell(self, progress: Progress) -> None:
        if self._console.shows_progress:
            self._console.draw(progress_line(progress))
        elif not self._quiet and progress.seconds >= self._next:
            self._next = progress.seconds + BETWEEN_SECONDS
            self._console.say(f"treecast: {progress_line(progress)}")


def progress_line(progress: Progress) -> str:
    seconds = max(progress.seconds, 1e-9)
    parts = [
        f"{progress.documents:,} documents  {progress.documents / seconds:,.0f}/s",
        f"{progress.matches:,} matches  {progress.matches / seconds:,.0f}/s",
        f"{progress.errors:,} refused",
        f"{progress.seconds:,.0f} s",
    ]
    if progress.tasks:
        share = progress.tasks_done / progress.tasks
        filled = int(share * BAR_CHARS)
        parts.insert(0, f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] {share:4.0%}")
    return "  ".join(parts)
