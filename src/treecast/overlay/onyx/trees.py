"""The broadcast tree of a root (ONYX, section 3.2): short, of bounded degree, and changed as little as possible.

Theory of operation. A new tree is grown from the root: of all brokers that are not in it, the one is attached next that
is reached soonest, below the broker from which it is reached soonest among those with room for another child. That is
Dijkstra's algorithm with a bound for the degree; "soon" is the sum of the costs of the links on the way.

When a broker comes or goes, the tree there is kept. Only the children of a broker that has gone look for another
parent, each with all that is below it, and only those that have come are attached. If that has made the tree clearly
worse than a new one (`REBUILD_FACTOR`), the new one takes its place. Equal trees follow from equal arguments, in every
process.

    >>> def cost(one: str, other: str) -> float:
    ...     return abs(int(one) - int(other))
    >>> tree = tree_of("1", ["1", "2", "3", "4"], cost, fan_out_max=2)
    >>> tree
    {'2': '1', '3': '1', '4': '2'}
    >>> tree_of("1", ["1", "2", "4", "5"], cost, fan_out_max=2, previous=tree)
    {'2': '1', '4': '2', '5': '1'}

The paper leaves the construction to others (its reference 14). With n brokers a new tree takes O(n²) steps, as long as
few brokers are full: 0.5 ms for 30 brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from treecast.overlay.onyx.view import BrokerInfo, distance

Cost = Callable[[str, str], float]
"""What a link between two brokers costs, 0 or more."""

REBUILD_FACTOR = 1.5
"""A tree that was kept may cost so much more than a new one, in the sum over all brokers of the way from the root."""
HOP_COST = 1.0
"""What each link costs beside its length."""


def cost_by_location(brokers: Mapping[str, BrokerInfo], hop_cost: float = HOP_COST) -> Cost:
    """The distance of two brokers, and something for the work of passing a document on."""

    def cost(one: str, other: str) -> float:
        return hop_cost + distance(brokers[one].location, brokers[other].location)

    return cost


def tree_of(
    root: str,
    brokers: Collection[str],
    costs: Cost,
    fan_out_max: int,
    previous: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The parent of each of these brokers but the root, which is one of them.

    `previous` is the tree that was there before: as much of it is kept as makes sense.
    """
    assert root in brokers, "a root is a broker"
    if fan_out_max < 1:
        raise ValueError(f"fan_out_max must be 1 or more, not {fan_out_max}")
    fresh = _Growth(root, costs, fan_out_max)
    fresh.attach_all(sorted(broker for broker in brokers if broker != root))
    if previous is None:
        return fresh.tree()
    kept = _kept(root, brokers, costs, fan_out_max, previous)
    return kept.tree() if kept.total() <= REBUILD_FACTOR * fresh.total() else fresh.tree()


def changed_parents(before: Mapping[str, str], after: Mapping[str, str]) -> int:
    """How many brokers that are in both trees have another parent."""
    return sum(before[broker] != after[broker] for broker in before if broker in after)


class _Growth:
    """A tree that grows. `below` has what hangs below brokers that are not attached yet, and comes with them."""

    def __init__(self, root: str, costs: Cost, fan_out_max: int) -> None:
        self._costs = costs
        self._fan_out_max = fan_out_max
        self._parents: dict[str, str] = {}
        self._delays: dict[str, float] = {root: 0.0}
        self._rooms: dict[str, int] = {root: fan_out_max}

    def tree(self) -> dict[str, str]:
        return {child: self._parents[child] for child in sorted(self._parents)}

    def total(self) -> float:
        return sum(self._delays.values())

    def attach_all(self, waiting: list[str], below: Mapping[str, list[str]] | None = None) -> None:
        """Attach these, the one that is reached soonest first, each with what is below it."""
        below = below or {}
        best = {broker: self._best_parent(broker) for broker in waiting}
        while best:
            broker = min(best, key=lambda name: (*best[name], name))
            delay, parent = best.pop(broker)
            added = self.attach(broker, parent, delay, below)
            full = parent if not self._rooms[parent] else None
            for other, (known, by) in best.items():
                if by == full:
                    best[other] = self._best_parent(other)
                    continue
                for candidate in added:
                    if self._rooms[candidate]:
                        reached = self._delays[candidate] + self._costs(candidate, other)
                        if (reached, candidate) < (known, by):
                            best[other] = known, by = reached, candidate

    def attach(self, broker: str, parent: str, delay: float, below: Mapping[str, list[str]]) -> list[str]:
        """Attach one, and what is below it; returns all that are new in the tree."""
        self._parents[broker] = parent
        self._rooms[parent] -= 1
        self._delays[broker] = delay
        self._rooms[broker] = self._fan_out_max
        added = [broker]
        for child in below.get(broker, ()):
            added += self.attach(child, broker, delay + self._costs(broker, child), below)
        return added

    def _best_parent(self, broker: str) -> tuple[float, str]:
        return min(
            (delay + self._costs(parent, broker), parent)
            for parent, delay in self._delays.items()
            if self._rooms[parent]
        )


def _kept(root: str, brokers: Collection[str], costs: Cost, fan_out_max: int, previous: Mapping[str, str]) -> _Growth:
    """The previous tree without those that have gone, and with those that have come."""
    below: dict[str, list[str]] = {}
    waiting: list[str] = []
    members = set(brokers)
    for child in sorted(members - {root}):
        parent = previous.get(child)
        if parent in members and len(below.get(parent, ())) < fan_out_max:
            below.setdefault(parent, []).append(child)
        else:
            waiting.append(child)
    growth = _Growth(root, costs, fan_out_max)
    for child in below.get(root, ()):
        growth.attach(child, root, costs(root, child), below)
    # Each comes with what hung below it.
    growth.attach_all(waiting, below)
    return growth
