"""What may be done to documents before they reach a broker, as far as its own subscriptions go: kept by counts.

Whoever gets whole documents blocks everything; those are only counted. All others are looked at by their queries, each
different one once, up to `plan_queries_max`: with more, documents come whole. If many are new at a time, some wait for
the next tick, and until then documents come whole as well. What blocked and is gone brings the plan back.

    >>> from treecast.model import Subscription
    >>> wants = EarlyWants(NetworkSettings())
    >>> sport = Subscription("1", "/news/item[@area='sport']", deliver="elements")
    >>> wants.change([sport], []), wants.plan.steps
    (True, 'keep /news/item[@area="sport"]')
    >>> whole = Subscription("2", "/news/item")
    >>> wants.change([whole], []), wants.plan.steps, wants.change([], [whole]), wants.plan.steps
    (True, '', True, 'keep /news/item[@area="sport"]')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, TypeVar

from treecast.errors import TreecastError
from treecast.links import Demand, Link
from treecast.model import Subscription
from treecast.overlay.onyx.early_plan import NOBODY, WHOLE, is_projection, plan_of
from treecast.overlay.onyx.settings import NetworkSettings

Key = tuple[str, tuple[tuple[str, str], ...], bool, str]
"""What decides what a subscription needs: query, namespaces, whether it is ordered, what it is delivered."""


class Item(Protocol):
    """A subscription, stored or asked for."""

    @property
    def query(self) -> str: ...
    @property
    def namespaces(self) -> Any: ...
    @property
    def ordered(self) -> bool: ...
    @property
    def deliver(self) -> str: ...


_AnyItem = TypeVar("_AnyItem", bound=Item)


class EarlyWants:
    """The plan of a broker's own subscriptions."""

    def __init__(self, settings: NetworkSettings) -> None:
        self._settings = settings
        self._blocking = 0  # subscriptions that get whole documents
        self._counts: Counter[Key] = Counter()  # of the others
        self._beyond = 0  # those of them that there was no room for
        self._waiting: dict[Key, None] = {}  # keys that were not looked at so far
        self._link = Link()
        self.plan = NOBODY

    def change(self, added: Iterable[Item], removed: Iterable[Item]) -> bool:
        """Subscriptions have come and gone; says whether the plan is another one now."""
        for item in added:
            self._add(item)
        gone: list[Key] = []
        for item in removed:
            self._remove(item, gone)
        few = len(self._waiting) <= self._settings.plan_steps_max
        self._look_at(self._settings.plan_steps_max if few and not self._is_blocked() else 0, gone)
        return self._refresh()

    def load(self, items: Iterable[_AnyItem]) -> Iterator[_AnyItem]:
        """After a restart: passes on what counts already, and counts it."""
        for item in items:
            self._add(item)
            yield item
        self._refresh()

    def refine(self, everything: Callable[[], Iterable[Item]]) -> bool:
        """Do some of what was left for later; says whether the plan is another one now."""
        if self._beyond and len(self._counts) + self._beyond <= self._settings.plan_queries_max:
            fresh = EarlyWants(self._settings)
            for item in everything():
                fresh._add(item)
            self._blocking, self._beyond, self._counts = fresh._blocking, fresh._beyond, fresh._counts
            self._waiting, self._link = fresh._waiting, Link()
        if self._waiting and not self._is_blocked():
            self._look_at(self._settings.plan_steps_max, [])
        return self._refresh()

    @property
    def is_settled(self) -> bool:
        """Nothing is left for later."""
        return not self._waiting or self._is_blocked()

    def _add(self, item: Item) -> None:
        if _is_whole(item):
            self._blocking += 1
            return
        key = _key(item)
        if key not in self._counts:
            if len(self._counts) >= self._settings.plan_queries_max:
                self._beyond += 1
                return
            self._waiting[key] = None
        self._counts[key] += 1

    def _remove(self, item: Item, gone: list[Key]) -> None:
        if _is_whole(item):
            self._blocking -= 1
            return
        key = _key(item)
        if key not in self._counts:
            self._beyond -= 1
            return
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
            if key in self._waiting:
                del self._waiting[key]
            else:
                gone.append(key)

    def _is_blocked(self) -> bool:
        return self._blocking > 0 or self._beyond > 0

    def _look_at(self, count_max: int, gone: list[Key]) -> None:
        """Put some of what waits into the link, and take out what is gone."""
        some = list(islice(self._waiting, count_max))
        if some or gone:
            self._link.update({key: _demand(key) for key in some}, gone)
        for key in some:
            del self._waiting[key]

    def _refresh(self) -> bool:
        if self._is_blocked() or self._waiting or not self._settings.plan_bytes_max:
            plan = WHOLE
        else:
            plan = plan_of(self._link, self._settings.plan_bytes_max)
            if self._counts.total() > self._settings.plan_queries_max and not is_projection(plan):
                plan = WHOLE  # what is left to do would need an index of its own, for all of them
        before, self.plan = self.plan, plan
        return plan != before


def _is_whole(item: Item) -> bool:
    # PERF: a broker with many subscribers to whole documents looks no further.
    return item.deliver == "document" and item.query.startswith("/")


def _key(item: Item) -> Key:
    return item.query, tuple(sorted(item.namespaces.items())), item.ordered, item.deliver


def _demand(key: Key) -> Demand:
    query, namespaces, ordered, deliver = key
    given: Any = deliver
    try:
        return Demand.of(Subscription("", query, dict(namespaces), ordered, given))
    except TreecastError:
        return Demand.of_link(None)  # the broker refuses it, or knows better: whole documents will do
