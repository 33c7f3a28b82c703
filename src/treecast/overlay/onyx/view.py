"""A view: which brokers take part in the network, and the broadcast tree of each root.

The registry makes views, brokers adopt them, and everybody acts by the latest one. A view is a value: it never changes,
and there is one for an *epoch*. Epochs only grow, and a broker adopts a view only if its epoch is higher than that of
the view it has.

    >>> brokers = {name: BrokerInfo() for name in "abc"}
    >>> view = View(first_epoch(2), brokers, {"a": {"b": "a", "c": "b"}})
    >>> view.children("a", "a"), view.children("a", "b"), view.parent("a", "c")
    (('b',), ('c',), 'b')
    >>> view.roots(), view.path("a", "c"), view.depth("a")
    (('a',), ('c', 'b', 'a'), 2)

An epoch has two parts: the *term* of the registry that made the view, and a number that counts within the term. The
backup of a registry takes over with a higher term, so all its views are above those of the registry before it.

    >>> term_of(first_epoch(2)), first_epoch(2) < first_epoch(3)
    (2, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated

import msgspec

from treecast.overlay.messages import Name, Number

BROKERS_MAX = 256
"""Brokers of a network."""
ROOTS_MAX = 64
"""Roots of a network, each with a tree. A view with all of both has 160 KB; one of 30 brokers and 8 roots 3 KB."""
SOURCES_MAX = 100_000
_TERM_SHIFT = 32

Location = tuple[float, float]
"""Where something is, on any plane: only distances matter."""
Tree = dict[Name, Name]
"""The parent of each broker but the root."""


class BrokerInfo(msgspec.Struct, frozen=True, array_like=True):
    """What a broker says of itself."""

    address: Name = ""
    """Where others connect to."""
    location: Location = (0.0, 0.0)
    load: Number = 0
    """Subscriptions, or whatever it counts: the one with less of it gets the next."""
    bandwidth: Number = 0
    """Bytes a second that it can send; 0: not known, and not looked at."""
    number: Number = 0
    """Its id, which the registry gives. Never used twice."""
    host: Name = ""
    """The host that serves it, of those with replicas: see `network_host.py`. Empty: it has a process of its own, and
    nobody takes over."""


class View(msgspec.Struct, frozen=True, array_like=True):
    """Who takes part, and how documents travel."""

    epoch: Number = 0
    brokers: Annotated[dict[Name, BrokerInfo], msgspec.Meta(max_length=BROKERS_MAX)] = {}
    trees: Annotated[dict[Name, Tree], msgspec.Meta(max_length=ROOTS_MAX)] = {}
    """By root. Each spans all brokers."""
    sources: Annotated[dict[Name, Name], msgspec.Meta(max_length=SOURCES_MAX)] = {}
    """The root of each source. They travel as the catalog does, by changes; a broker puts them in when it has both."""

    def roots(self) -> tuple[str, ...]:
        return tuple(sorted(self.trees))

    def children(self, root: str, broker: str) -> tuple[str, ...]:
        """Where a broker sends documents of a root, by name."""
        return tuple(sorted(child for child, parent in self.trees.get(root, {}).items() if parent == broker))

    def parent(self, root: str, broker: str) -> str | None:
        """From whom a broker gets documents of a root; None for the root itself, or if it is in no tree of that
        root."""
        return self.trees.get(root, {}).get(broker)

    def path(self, root: str, broker: str) -> tuple[str, ...]:
        """From a broker up to the root, both included."""
        steps = [broker]
        while (parent := self.parent(root, steps[-1])) is not None and len(steps) <= len(self.brokers):
            steps.append(parent)
        return tuple(steps)

    def depth(self, root: str) -> int:
        """Links on the longest path."""
        return max((len(self.path(root, broker)) - 1 for broker in self.brokers), default=0)


EMPTY_VIEW = View()
"""That of a broker that has not heard of any."""


HOST = "host:"
"""Names of hosts begin with it: those of brokers, and of clients, do not."""


def host_name(broker: str) -> str:
    """The host that is started for a broker. It may serve others as well, and another one may serve its own."""
    return HOST + broker


def certificates_of(name: str, infos: Iterable[BrokerInfo] = ()) -> tuple[str, ...]:
    """Whose certificates a peer may show, besides its own: a host that of its broker, and a broker that of the host
    that serves it.

    >>> certificates_of("host:b1"), certificates_of("b2", [BrokerInfo(host="host:b1")])
    (('b1',), ('b1',))
    """
    hosts = [name, *(info.host for info in infos)]
    return tuple(host.removeprefix(HOST) for host in hosts if host.startswith(HOST))


def first_epoch(term: int) -> int:
    """The lowest epoch of a term."""
    return term << _TERM_SHIFT


def term_of(epoch: int) -> int:
    """The term that an epoch belongs to."""
    return epoch >> _TERM_SHIFT


def distance(one: Location, other: Location) -> float:
    return math.hypot(one[0] - other[0], one[1] - other[1])


def problem_of(view: View) -> str | None:
    """Why a view makes no sense; None if it does. Each tree must span exactly the brokers of the view."""
    for root, tree in view.trees.items():
        if root not in view.brokers or root in tree or tree.keys() != view.brokers.keys() - {root}:
            return f"the tree of {root} does not span the brokers of the view"
        reached = {root}
        for broker in tree:
            # Up to something that is known to reach the root: each broker is passed once.
            steps: list[str] = []
            at = broker
            while at not in reached and len(steps) <= len(tree):
                steps.append(at)
                at = tree.get(at, "")
            if at not in reached:
                return f"the tree of {root} does not reach {broker}"
            reached.update(steps)
    return None
