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
    ticket_ms: int = 30_000
    """A ticket holds for so long,"""
    tickets_max: int = 1_000
    """and a token may use so many in that time."""
    count_ms: int = 5_000
    """Subscriptions come and go without their token, so they are counted again after so long."""
