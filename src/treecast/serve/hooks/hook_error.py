"""What is refused of a web hook, and what goes wrong when it is sent.

TC440  there is no such hook
TC441  a URL that hooks cannot have
TC442  a secret that cannot be used
TC443  a subscription that another hook receives
TC444  an attempt that failed
TC620  a host without an address that hooks may be sent to
"""

from __future__ import annotations

from treecast.errors import AccessError
from treecast.serve.doors.problems import DoorError


class AttemptError(DoorError):
    """TC444: a request to somebody's endpoint failed. It was perhaps received anyway."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="TC444")


def no_hook(id: str) -> DoorError:
    return DoorError(f"no hook has the id {id[:200]!r}", code="TC440")


def refused_address(host: str) -> AccessError:
    """The same whether it has none, or one that is not public: what names mean inside is nobody's business."""
    hint = "it must have a public address, or one that --hooks-allow names"
    message = f"TC620 hooks cannot be sent to {host[:200]!r}\n  hint: {hint}"
    return AccessError(message, code="TC620", hint=hint)
