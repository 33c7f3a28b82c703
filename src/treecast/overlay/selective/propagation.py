"""Subscription propagation policies: which neighbour upwards is asked for a subtree.

    >>> from treecast.overlay.selective.propagation import PROPAGATION_POLICIES
    >>> offers = {"b1": 4, "b2": 2}  # edges to the nearest subtree that the neighbour has, in the order of the answers
    >>> PROPAGATION_POLICIES["first-fit"](offers, neighbours=3, is_late=False)
    'b1'
    >>> PROPAGATION_POLICIES["best-fit"](offers, neighbours=3, is_late=False)  # the third may be nearer
    >>> PROPAGATION_POLICIES["best-fit"](offers, neighbours=3, is_late=True)  # a majority will do
    'b2'

A policy is a function. It gets the offers so far, how many neighbours were asked, and whether the time to wait for them
is over; it returns the chosen one, or None to wait or to ask again.

Source: Selective, section V-B.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class PropagationPolicy(Protocol):
    """Chooses a neighbour."""

    def __call__(self, offers: Mapping[str, int], *, neighbours: int, is_late: bool) -> str | None: ...


def first_fit(offers: Mapping[str, int], *, neighbours: int, is_late: bool) -> str | None:
    """The first to answer: it has the least to do."""
    return next(iter(offers), None)


def best_fit(offers: Mapping[str, int], *, neighbours: int, is_late: bool) -> str | None:
    """The nearest of all, or of a majority if the others are late: there is more to cover and to merge.

    Of those that are equally near, the first to answer: it has the least to do.
    """
    if len(offers) < neighbours and not (is_late and 2 * len(offers) > neighbours):
        return None
    return min(offers, key=lambda name: offers[name], default=None)


PROPAGATION_POLICIES: dict[str, PropagationPolicy] = {"first-fit": first_fit, "best-fit": best_fit}
