"""What a single registry is asked before it knows enough to answer: it waits here, as much of it as there is room for.

>>> waiting = Waiting()
>>> waiting.put("alice", WhereIs(1, "source", "news"))
True
>>> [sender for sender, _ in waiting.take()], len(waiting)
(['alice'], 0)
"""

from __future__ import annotations

import msgspec

from treecast.overlay.messages import Request
from treecast.overlay.onyx.control_messages import WhereIs

MESSAGES_MAX = 1_000
BYTES_MAX = 16 << 20
_ENCODER = msgspec.msgpack.Encoder()


class Waiting:
    """Requests and questions, in the order in which they came."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, Request | WhereIs]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, sender: str, message: Request | WhereIs) -> bool:
        """False: there is no room. Who wants to know will ask again."""
        size = len(_ENCODER.encode(message))
        if len(self._messages) >= MESSAGES_MAX or self._bytes + size > BYTES_MAX:
            return False
        self._messages.append((sender, message))
        self._bytes += size
        return True

    def take(self) -> list[tuple[str, Request | WhereIs]]:
        """All of them: nothing waits any more."""
        messages, self._messages, self._bytes = self._messages, [], 0
        return messages
