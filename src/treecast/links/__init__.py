"""What may be done to documents before they reach subscribers: the algebra of the links between brokers.

A link has subscriptions behind it. What all of them allow is done before the link, once: parts that no one needs are
removed (early projection), steps that all lists begin with are applied (early restructuring). Each subscription then
has a remainder, and remainder(early(document)) is what the subscription itself makes of the document. Pure functions
and one structure of counts; only `Restructuring`, which applies the result, touches documents. docs/guide/links.md
says more.

    >>> from treecast.model import Subscription
    >>> link = link_of([
    ...     Subscription("q1", "drop //img; drop //comment; rename //table to list"),
    ...     Subscription("q2", "drop //img; drop //comment; unwrap //font"),
    ... ])
    >>> link.early.text, link.remainder("q1").query, link.remainder("q2").query
    ('drop //img; drop //comment', 'rename //table to list', 'unwrap //font')
"""

from __future__ import annotations

from collections.abc import Iterable

from treecast.links.demand import Demand, Early
from treecast.links.link import Link, Nothing, remainder_after
from treecast.links.restructuring import Restructuring
from treecast.model import Subscription

__all__ = ["Demand", "Early", "Link", "Nothing", "Restructuring", "link_of", "remainder_after"]


def link_of(subscriptions: Iterable[Subscription]) -> Link:
    """A link with these subscriptions behind it, by id."""
    link = Link()
    for subscription in subscriptions:
        link.add(subscription.id, Demand.of(subscription))
    return link
