"""Whether a service may listen where it is told to: strangers are let in with tokens or certificates only.

>>> is_local("127.0.0.1"), is_local("::1"), is_local("0.0.0.0"), is_local("example.org")
(True, True, False, False)
"""

from __future__ import annotations

from ipaddress import ip_address

from treecast.serve.access.refusals import AccessRefusedError
from treecast.serve.address import format_address


def is_local(host: str) -> bool:
    """Whether only this machine can reach it. Of names, only `localhost` is."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposure(
    listen: tuple[str, int], peer_listen: tuple[str, int] | None, *, has_tokens: bool, has_peer_certificates: bool
) -> None:
    """Of a service: where it serves HTTP, and where it serves peers, if it does. Raises AccessRefusedError TC608."""
    if not is_local(listen[0]) and not has_tokens:
        raise AccessRefusedError(
            f"without tokens, everybody who can reach {format_address(*listen)} could do everything",
            code="TC608",
            hint="make one with treecast token create, or listen on 127.0.0.1, or allow it with --open",
        )
    if peer_listen is not None and not has_peer_certificates:
        advice = "give --certificate, --key and --peer-ca, or leave out --peer-listen"
        check_peer_exposure(peer_listen, has_tokens=has_tokens, advice=advice)


def check_peer_exposure(listen: tuple[str, int], *, has_tokens: bool, advice: str) -> None:
    """Of an address where peers need no certificates. Raises AccessRefusedError TC608.

    Clients of the peer protocol may do everything. So tokens are worth something only if such clients are known, by
    their certificates; also those of this machine.
    """
    if has_tokens or not is_local(listen[0]):
        raise AccessRefusedError(
            f"without certificates, everybody who can reach {format_address(*listen)} could do everything",
            code="TC608",
            hint=f"{advice}, or allow it with --open",
        )
