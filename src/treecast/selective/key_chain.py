"""The keys of a group in a network, one for each epoch: who has one can compute all earlier ones, and no later one.

What travels through a network is sealed once, with the key of its day, and stays on its way for years. A member that
comes later must open it; one that was taken out of the group must not open what comes after. A chain of hashes gives
both: the key of an epoch is the hash of the next one's, and the publisher, who knows the end of the chain, walks back.

    >>> from treecast.selective.key_chain import chain_key, earlier_key
    >>> from treecast.selective.keys import Keys
    >>> keys = Keys(bytes(32))
    >>> third = chain_key(keys, "firm", "desk", epoch=3)
    >>> earlier_key(third, 3, 1) == chain_key(keys, "firm", "desk", epoch=1)
    True

The construction is known as key regression (Fu, Kamara, Kohno, 2006, their KR-SHA1 with SHA-256).
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from treecast.errors import AccessError
from treecast.selective.keys import Keys

EPOCHS_MAX = 4_096
"""How often members of one group can be revoked."""
KEYS_MAX = 1_024
"""Keys that are remembered: to walk along the chain takes a millisecond."""
STEP = b"treecast chain 1"


def chain_key(keys: Keys, document: str, group: str, epoch: int) -> bytes:
    """The key of a group in an epoch, for its publisher. Raises AccessError (TC632)."""
    if not 0 < epoch <= EPOCHS_MAX:
        hint = "publish for a group of another name"
        raise AccessError(
            f"TC632 group {group} has used up its {EPOCHS_MAX} epochs\n  hint: {hint}", code="TC632", hint=hint
        )
    return earlier_key(keys.chain(document, group), EPOCHS_MAX, epoch)


def earlier_key(key: bytes, epoch: int, earlier_epoch: int) -> bytes:
    """The key of an earlier epoch, from that of an epoch."""
    assert earlier_epoch <= epoch, "a chain goes back only"
    return _walk(key, epoch - earlier_epoch)


@lru_cache(maxsize=KEYS_MAX)
def _walk(key: bytes, steps: int) -> bytes:
    for _ in range(steps):
        key = sha256(STEP + key).digest()
    return key
