"""Which addresses hooks may reach: public ones, and those that the operator has allowed.

A stranger names the URL, and the request comes from inside: without a check it would reach databases, metadata services
and whatever else trusts its neighbours. So the address that is connected to is checked, not the name: names may mean
something else a moment later. An IPv6 address that stands for an IPv4 address is judged as that one, too.

    >>> rules = AddressRules(["10.1.0.0/16"])
    >>> [rules.is_allowed(text) for text in ("93.184.215.14", "10.1.2.3", "10.2.2.3", "::ffff:169.254.169.254")]
    [True, True, False, False]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Python's list of what is not global has changed between versions; these are refused by all of ours (IANA's registries
# of special-purpose addresses).
_NEVER_PUBLIC: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        *("::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16"),
        *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    )
)
_UNICAST = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")


class AddressRules:
    """`allow` are networks. Raises ValueError if one of them is none."""

    def __init__(self, allow: Iterable[str]) -> None:
        self._allowed_networks: tuple[Network, ...] = tuple(ip_network(text) for text in allow)

    def is_allowed(self, text: str) -> bool:
        """An address as a resolver, or a URL, writes it."""
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return False
        addresses = [address, *_embedded_addresses(address)]
        if any(one in network for one in addresses for network in self._allowed_networks):
            return True
        return all(_is_public(one) for one in addresses)


def _embedded_addresses(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 address behind it, if it is a form of one."""
    if isinstance(address, IPv4Address):
        return
    number = int(address)
    if address in _MAPPED or address in _NAT64:
        yield IPv4Address(number & 0xFFFFFFFF)
    elif address in _SIX_TO_FOUR:
        yield IPv4Address(number >> 80 & 0xFFFFFFFF)


def _is_public(address: Address) -> bool:
    if any(address in network for network in _NEVER_PUBLIC) or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return address.is_global
    return address in _UNICAST or address in _NAT64 or address in _MAPPED
