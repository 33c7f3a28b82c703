"""Bounds of tokens and of the file that holds them."""

from __future__ import annotations

import msgspec


class AccessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit thousands of clients."""

    look_ms: int = 1_000
    """How often a running service looks whether its tokens, certificate or key have changed."""
    tokens_max: int = 10_000
    tokens_bytes_max: int = 16 << 20
    """Of the file with the tokens."""
    scopes_per_token_max: int = 100
    count_ms: int = 5_000
    """Subscriptions come and go without their token, so they are counted anew after so long."""
    letters_read_max: int = 10_000
    """Dead letters that one request looks through for those that its token may see. The answer says where to go on."""
