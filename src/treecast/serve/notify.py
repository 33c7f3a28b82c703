"""Tells systemd how a service is doing, as sd_notify(3) describes it. Elsewhere, nothing happens."""

from __future__ import annotations

import os
import socket

NOTIFY_SOCKET = "NOTIFY_SOCKET"


def notify(state: str) -> bool:
    """Such as `READY=1`. Returns whether there was somebody to tell."""
    address = os.environ.get(NOTIFY_SOCKET, "")
    if not address.startswith(("/", "@")):
        return False
    # A name that begins with @ is in Linux's own name space, where it begins with a zero byte.
    name = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            connection.sendto(state.encode(), name)
    except OSError:
        return False
    return True
