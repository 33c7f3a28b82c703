"""What a single registry is asked before it knows enough to answer: it waits here, as much of it as there is room for.

>>> waiting = Waiting()
>>> waiting.put("alice", WhereIs(1, "source", "news"))
True
>>> waiting.take(lambda message: False), [sender for sender, _ in waiting.take(lambda message: True)], len(waiting)
([], ['alice'], 0)
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from treecast.overlay.messages import Request
from treecast.overlay.onyx.control_messages import WhereIs

MESSAGES_MAX = 1_000
BYTES_MAX = 16 << 20
Message = Request | WhereIs
_ENCODER = msgspec.msgpack.Encoder()


class Waiting:
    """Requests and questions, in the order in which they came."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, Message, int]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, sender: str, message: Message) -> bool:
        """False: there is no room. Who wants to know will ask again."""
        size = len(_ENCODER.encode(message))
        if len(self._messages) >= MESSAGES_MAX or self._bytes + size > BYTES_MAX:
            return False
        self._messages.append((sender, message, size))
        self._bytes += size
        return True

    def take(self, is_ready: Callable[[Message], bool]) -> list[tuple[str, Message]]:
        """Those that are ready; the others go on waiting."""
        messages, self._messages, self._bytes = self._messages, [], 0
        ready: list[tuple[str, Message]] = []
        for sender, message, size in messages:
            if is_ready(message):
                ready.append((sender, message))
            else:
                self._messages.append((sender, message, size))
                self._bytes += size
        return ready
