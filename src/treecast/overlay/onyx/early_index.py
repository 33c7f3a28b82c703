"""What is left to do for a broker's own subscribers, with documents whose first steps were done before a link.

Such documents name what was done (`early_plan.py`). For each such plan there is an index of the remainders of all
subscriptions, under the same ids: it makes of a changed document what the broker's own index makes of the whole one. If
one subscription has no remainder, documents like that cannot be used here, and the root is asked for them. Indexes are
made when they are needed, and made anew when subscriptions have changed.

    >>> from treecast.overlay.broker.rows import SubscriptionRow
    >>> from treecast.overlay.messages import SubscriptionOptions
    >>> row = SubscriptionRow("drop //ad; keep //p", {}, False, "document", SubscriptionOptions(), 1, 0)
    >>> indexes = EarlyIndexes(lambda: [("q", row)], Index().limits)
    >>> index = indexes.find("mark", Plan("drop //ad", empty=True), version=1)
    >>> index.render(b"<a><p>1</p><b/></a>")[0].payload
    b'<a><p>1</p></a>'
    >>> indexes.find("mark", Plan("drop //p", empty=True), version=2) is None
    True
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from treecast.document import Limits
from treecast.index import Index
from treecast.links import remainder_after
from treecast.model import Subscription
from treecast.overlay.broker.rows import SubscriptionRow
from treecast.overlay.onyx.early_plan import early_of_plan
from treecast.overlay.onyx.network_messages import Plan

INDEXES_MAX = 8
"""Plans of different roots, and those of before, whose documents are still on their way."""


class EarlyIndexes:
    """Indexes of remainders, by mark."""

    def __init__(self, rows: Callable[[], Iterable[tuple[str, SubscriptionRow]]], limits: Limits) -> None:
        self._rows = rows
        self._limits = limits
        self._version = 0
        self._indexes: OrderedDict[str, Index | None] = OrderedDict()

    def find(self, mark: str, plan: Plan, version: int) -> Index | None:
        """The index for documents with a mark, which stands for this plan; `version` is that of the subscriptions.
        None: some subscription cannot do with such documents."""
        if version != self._version:
            self._version = version
            self._indexes.clear()
        if mark not in self._indexes:
            self._indexes[mark] = self._make(plan)
            if len(self._indexes) > INDEXES_MAX:
                self._indexes.popitem(last=False)
        self._indexes.move_to_end(mark)
        return self._indexes[mark]

    def _make(self, plan: Plan) -> Index | None:
        remainders: dict[tuple[Any, ...], Subscription | None] = {}  # of equal subscriptions once
        found: list[Subscription] = []
        for id, row in self._rows():
            key = (row.query, tuple(sorted(row.namespaces.items())), row.ordered, row.deliver)
            if key not in remainders:
                deliver: Any = row.deliver
                asked = Subscription(id, row.query, row.namespaces, row.ordered, deliver)
                remainders[key] = remainder_after(early_of_plan(plan), asked)
            rest = remainders[key]
            if rest is None:
                return None
            found.append(Subscription(id, rest.query, rest.namespaces, rest.ordered, rest.deliver))
        index = Index(limits=self._limits)
        index.add_many(found)
        return index
