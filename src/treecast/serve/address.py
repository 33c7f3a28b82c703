"""Addresses as people write them: `host:port`, and `[::1]:port` for IPv6.

>>> parse_address("localhost:7400"), parse_address("[::1]:0"), parse_address(":7400")
(('localhost', 7400), ('::1', 0), ('127.0.0.1', 7400))
>>> format_address("::1", 7400)
'[::1]:7400'
"""

from __future__ import annotations

PORT_MAX = 65_535
HOST = "127.0.0.1"
"""Without a host, nobody else can connect."""


def parse_address(text: str) -> tuple[str, int]:
    """Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is no address: write host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is no address: write [host]:port")
    return host or HOST, int(port)


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
