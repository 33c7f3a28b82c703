"""What is on its way to one child in the tree of one root: soft, bounded, and repaired from the root if it is lost.

A link *claims*: it says of every document up to a number that it was sent, or concerns nothing behind the link. What
concerns nobody costs no message; the next one that is sent claims it as well, or, after a while, an empty one.

A child says how much it has taken. What is sent beyond the window waits in a buffer. If that overflows, the link is
*cut*: the buffer is dropped, and the claim begins anew behind it. The child sees the gap and asks the root. So a slow
child costs a bounded amount of memory, and its siblings nothing.

    >>> from treecast.overlay.onyx.settings import NetworkSettings
    >>> from treecast.overlay.onyx.network_messages import Parcel
    >>> from treecast.overlay.onyx.parcels import NONE, Parcels
    >>> link = Link(NetworkSettings(), lambda v, after, upto, parcels: (after, upto, [p.number for p in parcels]))
    >>> link.begin(version=1, since=4)
    >>> link.offer(4, 6, NONE, now_ms=0)
    >>> link.offer(6, 8, Parcels.of([Parcel(7, "s", "", 0, "text", b"<a/>")]), now_ms=0)
    >>> link.take_ready()
    [(4, 8, [7])]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from treecast.overlay.onyx.parcels import NONE, Parcels
from treecast.overlay.onyx.settings import NetworkSettings

PARCEL_BYTES = 64
"""What a document costs besides its body, about."""

MakeForward = Callable[[int, int, int, Parcels], Any]
"""A message of version, after, upto and documents."""


class Link:
    """Of one root, to one child."""

    __slots__ = (
        "_buffer",
        "_buffer_bytes",
        "_in_flight",
        "_in_flight_bytes",
        "_make",
        "_progress_ms",
        "_ready",
        "_sent_ms",
        "_settings",
        "_start",
        "bytes_sent",
        "claim",
        "cuts",
        "documents_sent",
        "version",
    )

    def __init__(self, settings: NetworkSettings, make: MakeForward) -> None:
        self._settings = settings
        self._make = make
        self.version = 0
        """Of the child's query, as far as it is covered. 0: nothing may be claimed yet."""
        self.claim = 0
        self._start = 0  # what was claimed in messages
        self._buffer: deque[tuple[int, int, Parcels, int]] = deque()
        self._buffer_bytes = 0
        self._in_flight: deque[tuple[int, int]] = deque()  # (upto, bytes)
        self._in_flight_bytes = 0
        self._progress_ms = self._sent_ms = 0
        self._ready: list[Any] = []
        self.cuts = self.documents_sent = self.bytes_sent = 0

    @property
    def is_open(self) -> bool:
        return self.version > 0

    def begin(self, version: int, since: int) -> None:
        """From now on documents after `since` may be claimed."""
        self.version = version
        self.claim = self._start = since
        self._drop_buffer()

    def cover(self, version: int) -> None:
        """The child's query has changed, and the new one is covered.

        What waits was chosen by the old query only if it came before the new one was covered; then the child need not
        have more of it. So all of it may go as the new version.
        """
        self.version = version

    def offer(self, after: int, upto: int, parcels: Parcels, now_ms: int) -> None:
        """Claim (after, upto], with these documents. What was claimed before is left out."""
        if not self.is_open or upto <= self.claim:
            return
        if after > self.claim:  # nobody knows what was between
            self._start = after
        fresh = parcels.after(self.claim)
        self.claim = upto
        if fresh:
            self._enqueue(fresh, upto)
            self._send(now_ms)

    def _enqueue(self, parcels: Parcels, upto: int) -> None:
        """In as few messages as the limits allow. A message has one format."""
        limits = self._settings.forward_documents_max, self._settings.forward_bytes_max
        parts = parcels.parts(*limits, PARCEL_BYTES)
        for place, (part, size) in enumerate(parts, 1):
            if not self._append(part, part.last if place < len(parts) else upto, size):
                return

    def _append(self, part: Parcels, upto: int, size: int) -> bool:
        """False if there is no room: then the link has been cut."""
        if self._buffer and self._buffer_bytes + size > self._settings.link_buffer_bytes_max:
            self._cut()
            return False
        if self._in_flight_bytes + self._buffer_bytes + size > self._settings.link_window_bytes:
            part = part.copy()  # it will wait
        self._buffer.append((self._start, upto, part, size))
        self._buffer_bytes += size
        self._start = upto
        return True

    def _cut(self) -> None:
        """Give up what waits."""
        self.cuts += 1
        self._drop_buffer()
        self._start = self.claim

    def _drop_buffer(self) -> None:
        self._buffer.clear()
        self._buffer_bytes = 0

    def _send(self, now_ms: int) -> None:
        """As much as the window allows; one message at least, if nothing is on its way."""
        while self._buffer:
            after, upto, part, size = self._buffer[0]
            if self._in_flight and self._in_flight_bytes + size > self._settings.link_window_bytes:
                return
            self._buffer.popleft()
            self._buffer_bytes -= size
            if not self._in_flight:
                self._progress_ms = now_ms
            self._in_flight.append((upto, size))
            self._in_flight_bytes += size
            self._sent_ms = now_ms
            self.documents_sent += len(part)
            self.bytes_sent += size
            self._ready.append(self._make(self.version, after, upto, part))

    def taken(self, upto: int, now_ms: int) -> None:
        """The child has dealt with everything up to this number that reached it."""
        while self._in_flight and self._in_flight[0][0] <= upto:
            self._in_flight_bytes -= self._in_flight.popleft()[1]
            self._progress_ms = now_ms
        self._send(now_ms)

    def tick(self, now_ms: int) -> None:
        settings = self._settings
        if not self.is_open:
            return
        if self._in_flight and not 0 <= now_ms - self._progress_ms < settings.link_stall_ms:
            # Lost, or the child is very slow: either way it will ask the root.
            self._in_flight.clear()
            self._in_flight_bytes = 0
            self._send(now_ms)
        if not 0 <= now_ms - self._sent_ms < settings.idle_ms:
            self.tell_claim(now_ms)

    def tell_claim(self, now_ms: int) -> None:
        """Say now what the next message would claim."""
        if self.is_open and not self._buffer and self._start < self.claim:
            self._ready.append(self._make(self.version, self._start, self.claim, NONE))
            self._start = self.claim
            self._sent_ms = now_ms

    def take_ready(self) -> list[Any]:
        """The messages that are to be sent now."""
        ready, self._ready = self._ready, []
        return ready

    def buffered_bytes(self) -> int:
        return self._buffer_bytes + self._in_flight_bytes
