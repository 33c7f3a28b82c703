"""What goes wrong between two processes, beside frames that are damaged.

TC406  a message that does not belong here, or a name that may not be used
TC407  no connection to a broker
TC408  an address that cannot be listened on
TC409  files for TLS that cannot be used
TC475  no peer of a ring answers
TC601  the name of a client is not that of its certificate
"""

from __future__ import annotations

import os
import socket
import ssl

from treecast.errors import AccessError, PeerError


class TransportError(PeerError):
    """There is no connection, or it cannot be used."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)


def wrong_name(name: str, allowed: list[str]) -> AccessError:
    """A client that says it is somebody else."""
    hint = f"its certificate is for {', '.join(allowed) or 'nobody'}"
    return AccessError(f"TC601 this client may not call itself {name!r}\n  hint: {hint}", code="TC601", hint=hint)


def reason_of(error: BaseException) -> str:
    """Why there is no connection, in words. What asyncio raises says a number and the address instead.

    >>> reason_of(ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"))
    'Connection refused'
    >>> reason_of(socket.gaierror(-2, "Name or service not known"))
    'Name or service not known'
    """
    if isinstance(error, socket.gaierror):  # its numbers are not those of the system
        return error.strerror or str(error)
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error)
