"""What people see: messages on stderr, a progress bar when that is a terminal, and results when stdout is one.

Ids, file names and error texts are untrusted. Everything that passes through here is shown without characters that
could move the cursor, clear the screen or reverse the direction of text (`treecast.names.printable`).
Results that go to a file or a pipe never pass through here.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from treecast.cli.wording import Words, in_words
from treecast.names import printable, printable_lines

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

REDRAW_SECONDS = 0.1
BAR_CHARS = 24


def results(form: str) -> BinaryIO:
    """Standard output for results in a form: as they are, but on a terminal with escapes for what is not printable."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer
    return cast(BinaryIO, _TerminalFile(sys.stdout.buffer, json_escape if form in ("json", "jsonl") else printable))


def json_escape(text: str) -> str:
    """The same as `printable` inside a JSON string; the string keeps its value."""
    return "".join(c if c.isprintable() else _json_units(c) for c in text)


def _json_units(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class _TerminalFile(io.BufferedIOBase):
    """A terminal to which whole pieces of UTF-8 text are written; line feeds and tabs stay."""

    def __init__(self, file: BinaryIO, escape: Callable[[str], str]) -> None:
        self._file = file
        self._escape = escape

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        piece = bytes(data)
        lines = piece.decode("utf-8", "backslashreplace").split("\n")
        text = "\n".join("\t".join(map(self._escape, line.split("\t"))) for line in lines)
        self._file.write(text.encode("utf-8", "backslashreplace"))
        return len(piece)

    def flush(self) -> None:
        self._file.flush()


class Console:
    """Messages and progress on one stream, in the words of a verb's reader (`options.words`).

    Where neither a `total` nor a `share` is known, progress is a count without a bar. What takes less than
    `after_seconds` shows no progress; `noun` is what is counted.
    """

    def __init__(
        self,
        words: Words,
        stream: TextIO | None = None,
        *,
        progress: bool = True,
        noun: str = "documents",
        after_seconds: float = 0.0,
    ) -> None:
        self._words = words
        self._stream = sys.stderr if stream is None else stream
        self._progress = progress and self._stream.isatty()
        self._begin = time.monotonic()
        self._after_seconds = after_seconds
        self.noun = noun
        self._drawn_at = 0.0
        self._drawn = False

    @property
    def shows_progress(self) -> bool:
        return self._progress

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Write to a descriptor of our own, while the usual one leads elsewhere for processes that are started."""
        try:
            descriptor = os.dup(self._stream.fileno())
        except (OSError, ValueError):  # not a file, such as what a test looks at
            yield
            return
        before = self._stream
        before.flush()
        with os.fdopen(descriptor, "w", encoding=before.encoding, errors=before.errors, buffering=1) as stream:
            self._stream = stream
            try:
                yield
            finally:
                self._stream = before

    def say(self, message: str) -> None:
        """Write a message of one or more lines."""
        self.clear()
        print(printable_lines(self.in_words(message)), file=self._stream)

    def in_words(self, message: str) -> str:
        """The message in the reader's words, for what belongs to the results."""
        return in_words(message, self._words)

    def update(self, documents: int, total: int | None, errors: int, share: float | None = None) -> None:
        """Draw the progress, a few times a second at most; `share` says how far it is where the total is unknown."""
        self.draw(lambda: progress_line(documents, total, errors, time.monotonic() - self._begin, self.noun, share))

    def draw(self, line: Callable[[], str] | str) -> None:
        """Draw a line in place of the one before, a few times a second at most."""
        now = time.monotonic()
        if not self._progress or now - self._drawn_at < REDRAW_SECONDS or now - self._begin < self._after_seconds:
            return
        self._drawn_at = now
        text = printable(line if isinstance(line, str) else line())
        self._stream.write("\r" + text[: shutil.get_terminal_size().columns - 1] + "\x1b[K")
        self._stream.flush()
        self._drawn = True

    def status(self, text: str) -> None:
        """Show where we are in a line that the next one replaces; only on a terminal."""
        if self._progress:
            text = printable(text)
            self._stream.write("\r" + text[: shutil.get_terminal_size().columns - 1] + "\x1b[K")
            self._stream.flush()
            self._drawn = True

    def clear(self) -> None:
        """Clear the bar before something else is written there."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False
            self._drawn_at = 0.0


def progress_line(
    documents: int,
    total: int | None,
    errors: int,
    seconds: float,
    noun: str = "documents",
    share: float | None = None,
) -> str:
    rate = documents / seconds if seconds > 0 else 0.0
    parts = [f"{documents:,} of {total:,} {noun}" if total else f"{documents:,} {noun}", f"{rate:,.0f}/s"]
    if total:
        share = min(documents / total, 1.0)
    if share is not None:
        filled = int(share * BAR_CHARS)
        parts[0] = f"[{'#' * filled}{'.' * (BAR_CHARS - filled)}] {share:4.0%}  {parts[0]}"
        if share > 0 and seconds > 0:
            parts.append(f"{seconds * (1 - share) / share:,.0f} s left")
    if errors:
        parts.append(f"{errors:,} bad")
    return "  ".join(parts)


def notes(console: Console, *, quiet: bool) -> Callable[[str], None]:
    """What shows notes about inputs, unless the command is to be quiet."""

    def note(message: str) -> None:
        if not quiet:
            console.say(f"treecast: {printable(message)}")

    return note
