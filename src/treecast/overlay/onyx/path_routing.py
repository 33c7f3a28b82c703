"""How a broker of a network routes: by the absolute paths of its subscriptions (`treecast.overlay.onyx.routing`).

>>> routing = PathRouting(seed=1)
>>> wanted = routing.map(Subscription("", "/news[sport]"))
>>> table = routing.table()
>>> print(table.update("b2", wanted, routing.empty()).added)
/news/sport
>>> table.route([b"<news><sport/></news>"])
[('b2',)]
"""

from __future__ import annotations

from collections.abc import Iterable

from treecast.model import Subscription
from treecast.overlay.onyx.routing import Delta, RoutingQuery, RoutingSettings, RoutingTable
from treecast.overlay.onyx.routing.routing_query import Conjunction
from treecast.overlay.onyx.routing.sample import Sample
from treecast.overlay.onyx.routing.subscription_mapper import SubscriptionMapper


class PathRouting:
    """Makes tables and queries. `seed` is that of the tables' indexes."""

    def __init__(self, settings: RoutingSettings | None = None, *, seed: int | None = None) -> None:
        self._settings = settings or RoutingSettings()
        self._seed = seed
        self._mapper = SubscriptionMapper(self._settings)
        self._sample = Sample(self._settings.sample_max, seed=seed)  # of all tables: also of those that route nothing

    def table(self) -> RoutingTable:
        return RoutingTable(self._settings, sample=self._sample, seed=self._seed)

    def root_table(self) -> RoutingTable:
        return RoutingTable(self._settings, sample=self._sample, seed=self._seed, has_parent=False)

    def map(self, subscription: Subscription) -> RoutingQuery:
        return self._mapper.map(subscription)

    def empty(self) -> RoutingQuery:
        return RoutingQuery()

    def decode(self, data: bytes) -> RoutingQuery:
        return RoutingQuery.decode(data)

    def difference(self, before: RoutingQuery, after: RoutingQuery) -> Delta:
        """What has to be told to somebody who knows one of them, and is to know the other."""
        return Delta.between(before, after)

    def parts(self, queries: Iterable[RoutingQuery]) -> list[Conjunction]:
        return [conjunction for query in queries for conjunction in query.conjunctions]
