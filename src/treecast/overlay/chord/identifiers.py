"""Places on the ring: SHA-1 of a peer's name or of a key, and what lies between what.

A place is a number of 63 bits: the first of SHA-1, so that it fits into a machine word. Going clockwise means growing,
and beginning again at 0.

    >>> is_between(5, 7, 9), is_between(5, 9, 9), is_between(9, 2, 5)
    (True, False, True)
    >>> place_of_key("/a") == place_of_key("/a"), place_of_key("/a") == place_of_key("/b")
    (True, False)
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha1

BITS = 63
RING = 1 << BITS


def place_of_text(text: str) -> int:
    """The place of any text. Members and keys have texts that differ."""
    return int.from_bytes(sha1(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") >> 1


@lru_cache(maxsize=1 << 16)
def place_of_member(peer: str, index: int) -> int:
    """Where a peer has one of its places. Nothing behind the last `#` but digits: no two members share a text."""
    return place_of_text(f"member {peer}#{index}")


@lru_cache(maxsize=1 << 16)
def place_of_key(key: str) -> int:
    return place_of_text(f"key {key}")


def distance(begin: int, end: int) -> int:
    """How far it is clockwise."""
    return (end - begin) % RING


def is_between(begin: int, place: int, end: int) -> bool:
    """Strictly between, going clockwise. From a place to itself it is once round the ring."""
    return 0 < (place - begin) % RING < ((end - begin) % RING or RING)


def is_within(begin: int, place: int, end: int) -> bool:
    """Likewise, with the end: where the keys of a member lie whose predecessor is at `begin`."""
    return 0 < ((place - begin) % RING or RING) <= ((end - begin) % RING or RING)
