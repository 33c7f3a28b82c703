"""What goes wrong between a worker and NATS.

TC490   a page that a fleet does not offer
TC491   NATS cannot be reached, or does not do what a fleet needs
"""

from __future__ import annotations

from treecast.errors import PeerError


class BackboneError(PeerError):
    """NATS did not do what it was asked to do. It may have been done anyway: ask again, with the same id."""

    def __init__(self, message: str, *, code: str = "TC491", hint: str = "") -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)
