"""What happened in a simulated world: the last entries for people, and a digest of all of them for comparison.

Two runs of the same seed have the same digest, in every process and whatever `PYTHONHASHSEED` is. A digest that differs
means that something in the code under test depends on more than its arguments.

    >>> trace = Trace(entries_max=2)
    >>> for number in range(3):
    ...     trace.add(number * 1000, "tick", "broker", b"", number)
    >>> print(trace.text())
    (1 earlier entry is not kept)
       0.001 s  tick       broker          1
       0.002 s  tick       broker          2
    >>> trace.count, len(trace.digest())
    (3, 32)
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any

ENTRIES_MAX = 2_000
DETAIL_CHARS_MAX = 400


class Trace:
    """A bounded list of entries, and a hash over everything that was ever added."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self.count = 0
        self._entries: deque[tuple[int, str, str, Any]] = deque(maxlen=entries_max)
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, time_us: int, kind: str, place: str, content: bytes, detail: Any = "") -> None:
        """`content` is hashed. `detail` is not: it is shown to people, and becomes text only then."""
        self.count += 1
        self._hash.update(b"%d %s %s %d " % (time_us, kind.encode(), place.encode(), len(content)))
        self._hash.update(content)
        self._entries.append((time_us, kind, place, detail))

    def digest(self) -> str:
        return self._hash.hexdigest()

    def text(self) -> str:
        """The entries that are kept, a line each."""
        lines = []
        if missing := self.count - len(self._entries):
            entries = "entry is" if missing == 1 else "entries are"
            lines.append(f"({missing} earlier {entries} not kept)")
        for time_us, kind, place, detail in self._entries:
            text = str(detail)
            if len(text) > DETAIL_CHARS_MAX:
                text = text[:DETAIL_CHARS_MAX] + "…"
            lines.append(f"{time_us / 1e6:8.3f} s  {kind:<10} {place:<15} {text}".rstrip())
        return "\n".join(lines)
