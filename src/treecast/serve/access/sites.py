"""Keeps other web sites out, which a browser on this machine may have open.

A page of any site can make a browser send requests to addresses that only this machine reaches. Two things stop it:

- A request that changes something and comes from a page of another site is refused: browsers say where it comes from,
  in `Origin` and `Sec-Fetch-Site`. Other clients send neither, and are not concerned. To settle deliveries is a change,
  so an event stream is one. WebSockets, which some other sites may open, are checked in `doors/web_socket.py`.
- A site can give its own name the address 127.0.0.1, and then its pages count as ours. So where no token is needed,
  `Host` must be an address or a name without a dot, such as `localhost`: a site has a dot in its name.

>>> check_site([(b"host", b"127.0.0.1:8080"), (b"origin", b"http://127.0.0.1:8080")], is_change=True, is_open=True)
>>> check_site([(b"host", b"news.example:8080")], is_change=False, is_open=True)
Traceback (most recent call last):
treecast.serve.access.refusals.AccessRefusedError: TC609 without tokens, this service has no other name than localhost
  hint: ask for it by its address, or start treecast up with --open
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from treecast.serve.access.refusals import AccessRefusedError

OTHER_SITES = (b"cross-site", b"same-site")


def check_site(headers: Iterable[tuple[bytes, bytes]], *, is_change: bool, is_open: bool) -> None:
    """Raises AccessRefusedError TC609. `is_open`: no token is needed, and only this machine is meant to get in."""
    host = b""
    origins, sites = [], []
    for name, value in headers:
        if name == b"host":
            host = value
        elif name == b"origin":
            origins.append(value)
        elif name == b"sec-fetch-site":
            sites.append(value)
    if is_open and host and not _is_of_this_machine(host.decode("latin-1")):
        raise AccessRefusedError(
            "without tokens, this service has no other name than localhost",
            code="TC609",
            hint="ask for it by its address, or start treecast up with --open",
        )
    is_foreign = any(site in OTHER_SITES for site in sites) or any(
        origin.partition(b"://")[2].lower() != host.lower() for origin in origins
    )
    if is_change and is_foreign:
        raise AccessRefusedError(
            "a page of another web site may not do this", code="TC609", hint="use a program, or the console"
        )


def _is_of_this_machine(host: str) -> bool:
    """By the header `Host`, with or without a port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if "." not in name and ":" not in name:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
