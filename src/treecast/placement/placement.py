"""The one interface of all placements, and what each of them has to prove: no match is lost, none is found twice.

A placement divides subscriptions over *shards*: machines, brokers, tasks, each with an index of what it holds. It says
which shards hold a subscription and which shards must see a document; the shards then match on their own.

    >>> from treecast.placement import FilterSharing, violations
    >>> placement = FilterSharing(3)
    >>> placement.add_many([("a", "/a"), ("b", "//b")])
    >>> placement.route([b"<a/>"])
    [(0, 1, 2)]
    >>> violations(placement, [b"<a><b/></a>"], [["a", "b"]])
    []
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from treecast.document import Bytes
from treecast.placement.router import SHARDS_MAX, Route, Router

if TYPE_CHECKING:
    from treecast.placement.facts import Subscriptions


class Placement(Protocol):
    """Which shards hold a subscription, which shards must see a document.

    The obligation: of the shards that see a document, exactly one holds a subscription that the document matches; so
    the answers of the shards, put together, are the answer of one index that holds everything.
    """

    @property
    def name(self) -> str:
        """What `treecast.spark.match(placement=…)` calls it."""

    @property
    def shards(self) -> int:
        """How many shards there are, numbered from 0."""

    def add_many(self, subscriptions: Subscriptions) -> None:
        """Place all of them, or none: a bad query or a known id raises a QueryError and changes nothing."""

    def add(self, id: str, query: str, *, namespaces: Mapping[str, str] | None = None) -> tuple[int, ...]:
        """Place one; the answer is the shards that now hold it."""

    def remove(self, id: str) -> tuple[int, ...]:
        """Forget one; the answer is the shards that held it. Raises an error that is a KeyError if there is none."""

    def holders(self, id: str) -> tuple[int, ...]:
        """The shards that hold a subscription: one, or several that hold the same."""

    def route(self, documents: Sequence[Bytes]) -> list[Route]:
        """For each document the shards that must see it; None where it is certainly no well-formed document."""

    def router(self) -> Router:
        """What `route` goes by now, as a value that can travel (`to_bytes`) without the subscriptions."""

    def describe(self) -> str:
        """A sentence or two for people."""

    def __len__(self) -> int:
        """How many subscriptions it has placed."""


def violations(
    placement: Placement, documents: Sequence[Bytes], matches: Sequence[Sequence[str]]
) -> list[tuple[int, str, int]]:
    """The (document, subscription, meetings) for which the obligation does not hold: they meet never, or repeatedly.

    `matches` are, for each document, the ids of the subscriptions that it matches.
    """
    broken = []
    for number, (route, ids) in enumerate(zip(placement.route(documents), matches, strict=True)):
        for id in ids:
            meetings = len(set(route or ()) & set(placement.holders(id)))
            if meetings != 1:
                broken.append((number, id, meetings))
    return broken


def moves(
    before: Placement, after: Placement, ids: Iterable[str]
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Who moves from one placement to another of the same subscriptions: id -> (holders before, holders after).

    The layout follows the first subscriptions that a placement was given. For a new layout, make a new placement.
    """
    both = ((id, before.holders(id), after.holders(id)) for id in ids)
    return {id: (old, new) for id, old, new in both if old != new}


def check_shards(shards: int, most: int = SHARDS_MAX) -> int:
    """The number of shards; raises if it is invalid."""
    if not isinstance(shards, int) or isinstance(shards, bool):
        raise TypeError(f"shards must be an integer, not {shards!r}")
    if not 1 <= shards <= most:
        raise ValueError(f"shards must be 1-{most}, got {shards}")
    return shards
