"""What selective publishing refuses at doors."""

from __future__ import annotations

from urllib.parse import quote

from treecast.errors import AccessError


def no_document(name: str) -> AccessError:
    """TC634: for a document that nobody has published, and for one that the token may not see."""
    return AccessError(f"TC634 there is no document {name[:100]!r} here", code="TC634")


def subscription_id(*names: str) -> str:
    """What stands for a member (document, group, member) among subscriptions: tokens are made for it. No other one
    begins with it.

    >>> subscription_id("firm", "desk", "ann")
    'firm/desk/ann/'
    >>> subscription_id("firm", "desk/ann", "bob")
    'firm/desk%2Fann/bob/'
    """
    return "/".join(quote(name, safe="") for name in names) + "/"
