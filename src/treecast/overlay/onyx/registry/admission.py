"""Which brokers may join a network: those whose names the registry allows.

With certificates a name is proved before anything is heard; then these patterns say which of the certified names are
those of brokers, and not of clients. Without certificates everybody who reaches the registry can take any name.

    >>> admission = Admission(("b?", "edge-*"))
    >>> admission.refusal("b1") is None, admission.refusal("edge-paris") is None
    (True, True)
    >>> print(admission.refusal("alice"))
    TC610 'alice' may not join this network as a broker
      hint: start treecast registry with --allow alice, or with a pattern

A broker that is refused is told so, now and then: it goes on asking.
"""

from __future__ import annotations

from collections import OrderedDict
from fnmatch import fnmatchcase

from treecast.errors import AccessError
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Detach
from treecast.overlay.onyx.view import HOST

TELL_MS = 10_000
"""Between two refusals of one broker."""
TOLD_MAX = 1_000
"""Names that were refused lately, and are remembered. The oldest makes room."""


class Admission:
    """`allow` has names of brokers, or patterns with `*` and `?`; without any, every name is allowed."""

    def __init__(self, allow: tuple[str, ...], registries: tuple[str, ...] = ()) -> None:
        self._allow = allow
        self._registries = registries
        self._told_ms: OrderedDict[str, int] = OrderedDict()
        self.refused = 0

    def refusal(self, broker: str) -> AccessError | None:
        """Why this name may not join; None: it may."""
        is_name = bool(broker) and not broker.startswith(HOST) and broker not in self._registries
        if is_name and (not self._allow or any(fnmatchcase(broker, pattern) for pattern in self._allow)):
            return None
        start = f"start treecast registry with --allow {broker}, or with a pattern"
        hint = start if is_name else "give it another name"
        message = f"TC610 {broker[:80]!r} may not join this network as a broker\n  hint: {hint}"
        return AccessError(message, code="TC610", hint=hint)

    def let_in(self, sender: str, broker: str, turn: Turn) -> bool:
        """Whether a sign of life counts. If not, its sender is told why, but not each time."""
        refusal = self.refusal(broker)
        if refusal is None:
            return True
        self.refused += 1
        told_ms = self._told_ms.get(sender)
        if told_ms is None or not told_ms <= turn.now_ms < told_ms + TELL_MS:
            self._told_ms[sender] = turn.now_ms
            self._told_ms.move_to_end(sender)
            if len(self._told_ms) > TOLD_MAX:
                self._told_ms.popitem(last=False)
            turn.send(sender, Detach("", str(refusal)))
        return False
