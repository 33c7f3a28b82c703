"""Names of peers that run in processes: the address where each is reached. So nobody has to be asked where a peer is.

>>> host_of("127.0.0.1:7501"), host_of("[::1]:7501"), host_of("alice"), host_of("look 10.0.0.1:7501")
('127.0.0.1', '::1', None, None)
>>> admission = RingAdmission(("10.0.0.*",), base=("127.0.0.1:7501",))
>>> admission.is_peer("10.0.0.7:7501"), admission.is_peer("127.0.0.1:7501"), admission.is_peer("alice")
(True, True, False)
>>> print(admission.refusal("192.168.0.9:7501"))
TC611 '192.168.0.9:7501' may not be a peer of this ring
  hint: start treecast peer with --allow 192.168.0.9, or with a pattern
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from treecast.errors import AccessError

PORT_MAX = 65_535


def host_of(name: str) -> str | None:
    """The host of an address; None if it is none, as the name of a client."""
    host, colon, port = name.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) <= PORT_MAX or any(map(str.isspace, name)):
        return None
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1] or None
    return None if ":" in host else host or None


class RingAdmission:
    """`allow` has hosts or addresses, or patterns with `*` and `?`; without any, every address may be that of a peer.

    With certificates an address is proved: its host is in the certificate of whoever connects from there. Without them,
    everybody who reaches a peer can take any name.
    """

    def __init__(self, allow: tuple[str, ...], base: Iterable[str]) -> None:
        self._allow = allow
        self._base = frozenset(base)

    def is_peer(self, name: str) -> bool:
        """Whether what comes under this name may be a message of the ring."""
        host = host_of(name)
        if host is None:
            return False
        if not self._allow or name in self._base:
            return True
        return any(fnmatchcase(name, pattern) or fnmatchcase(host, pattern) for pattern in self._allow)

    def refusal(self, name: str) -> AccessError:
        """Why not."""
        host = host_of(name)
        hint = f"start treecast peer with --allow {host}, or with a pattern" if host else "a peer's name is its address"
        message = f"TC611 {name[:80]!r} may not be a peer of this ring\n  hint: {hint}"
        return AccessError(message, code="TC611", hint=hint)
