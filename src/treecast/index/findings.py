"""What is certain of one subscription by itself: that no document matches it, or that a test in it is never true.

    >>> from treecast.index import Index
    >>> index = Index()
    >>> index.add("typo", "//item[@a = 1 and @a = 2]")
    >>> [finding.message for finding in contradictions(index)]
    ['no document matches it: @a=1 and @a=2 are never true together']

`treecast check` says more, of sets of subscriptions; `treecast.spark.check` says this of sets that one process cannot
hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from treecast.index.index import Index
from treecast.query import Query, parse
from treecast.query.impossible import examine

Kind = Literal["refused", "same", "covered", "impossible", "never", "name", "unmatched"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """One subscription, and what is to be said of it."""

    subscription: str
    kind: Kind
    message: str
    other: str | None = None
    """The subscription that says the same, or covers it."""


def contradictions(index: Index, progress: Progress = lambda done, total: None) -> Iterator[Finding]:
    """The subscriptions that no document matches, and those with tests that are never true."""
    total = len(index)
    for done, id in enumerate(index):
        progress(done, total)
        examination = examine(matching_query(index, id))
        if examination.matches_nothing:
            yield Finding(id, "impossible", f"no document matches it: {examination.matches_nothing}")
        else:
            yield from (Finding(id, "never", test.message) for test in examination.tests)


def matching_query(index: Index, id: str) -> Query:
    """The query that decides which documents the subscription matches."""
    subscription = index[id]
    return parse(subscription.query, namespaces=subscription.namespaces).matching
