"""Maps many subscriptions fast: those that differ in nothing but literals are mapped once.

A million subscriptions have few *shapes*: `//item[@code="…"]` and its like. A shape is mapped with marks in place of
its literals and numbers; the routing query of a subscription is that of its shape with the literals put back. It is
the same that `map_subscription` gives, which tests compare.

    >>> from treecast.model import Subscription
    >>> mapper = SubscriptionMapper()
    >>> for code in ("A", "B"):
    ...     print(mapper.map(Subscription("s", f"//item[@code='{code}'][price > 17]")))
    //item[@code="A"]/price[.>17]
    //item[@code="B"]/price[.>17]
    >>> mapper.shapes
    1

Where the mapping depends on the literals themselves, there is no shape, and each subscription is mapped by itself: if
two tests speak of one value (`[@x > 3][@x > 5]`), if a literal is empty or the name of an element, if a number is less
than 2 (what is counted begins at 0 or 1). Transformations are mapped by themselves too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from treecast.model import Subscription
from treecast.overlay.onyx.routing.covering import is_always_true
from treecast.overlay.onyx.routing.mapping import Mapper, map_subscription
from treecast.overlay.onyx.routing.routing_query import Conjunction, RoutingQuery
from treecast.overlay.onyx.routing.settings import RoutingSettings
from treecast.query import Query, parse

# A literal, or a number from 2 on that is written as it would be printed.
_VALUE = re.compile(
    r"""("[^"]*"|'[^']*'|(?<![\w.:-])(?:[1-9][0-9]{1,8}|[2-9])(?:\.[0-9]{0,5}[1-9])?(?![\w.:-]))""",
)
_NAME = "[A-Za-z_][A-Za-z0-9_.-]*"
_PLAIN = re.compile(rf'(?://?(?:\*|{_NAME})(?:\[@{_NAME}="[^"]*"\])?)+')
_PLAIN_TOKEN = re.compile(r'//?[^/\[]+|\[[^"]*"[^"]*"\]')
_FIRST, _LAST = "\ue000", "\ue001"  # around the number of a literal; a text that has them is mapped by itself
_NUMBERS_FROM = 900_000_000_000_000  # marks of numbers: longer than any that is taken out
_MARK = re.compile(rf'"{_FIRST}([0-9]+){_LAST}"|9000000000([0-9]{{5}})(?![0-9])')
_LITERALS_MAX = 1_000  # of one subscription

_EMPTY = '"'  # what `_bare` makes of it

# A token, or the texts between the marks of one and the numbers of its values.
_Marked: TypeAlias = tuple[tuple[str, ...], tuple[int, ...]]
_Token: TypeAlias = str | _Marked


class _Shape(NamedTuple):
    conjunctions: list[list[list[_Token]]]
    is_fixed: bool
    """Nothing is to be put in."""
    query: RoutingQuery


class SubscriptionMapper:
    """`map_subscription` with a memory of `shapes_max` shapes; when it is full, it begins anew."""

    def __init__(self, settings: RoutingSettings | None = None) -> None:
        self.settings = settings or RoutingSettings()
        self._shapes: dict[tuple[object, ...], _Shape | None] = {}

    @property
    def shapes(self) -> int:
        """How many are remembered."""
        return len(self._shapes)

    def map(self, subscription: Subscription) -> RoutingQuery:
        """The routing query of a subscription; raises QueryError for one that no index would take."""
        text = subscription.query
        if text[:1] not in ("/", "$") or _FIRST in text or "name(" in text or "uri(" in text:
            return map_subscription(subscription, self.settings)
        if not subscription.namespaces and not self.settings.exact and (plain := _plain_path(text)):
            return plain
        parts = _VALUE.split(text)
        numbers: dict[str, int] = {}
        order = [numbers.setdefault(_bare(value), len(numbers)) for value in parts[1::2]]
        if _EMPTY in numbers:
            return map_subscription(subscription, self.settings)
        bindings = tuple(sorted(subscription.namespaces.items())) if subscription.namespaces else ()
        key = (*parts[::2], *order, "".join(['"' if value[0] == '"' else "0" for value in numbers]), bindings)
        if key not in self._shapes:
            self._learn(key, parts, order, subscription.namespaces)
        shape = self._shapes[key]
        if shape is None:
            return map_subscription(subscription, self.settings)
        if shape.is_fixed:
            return shape.query
        return RoutingQuery.of(self._filled(shape, [_written(value) for value in numbers]))

    def map_many(self, subscriptions: Iterable[Subscription]) -> list[Conjunction]:
        """The conjunctions of all, those that are equal as often as they occur: for `RoutingTable.update_many`."""
        return [conjunction for each in subscriptions for conjunction in self.map(each).conjunctions]

    def _learn(self, key: tuple[object, ...], parts: list[str], order: list[int], bound: Mapping[str, str]) -> None:
        if len(self._shapes) >= self.settings.shapes_max:
            self._shapes.clear()
        self._shapes[key] = self._shape(parts, order, bound) if len(order) <= _LITERALS_MAX else None

    def _shape(self, parts: list[str], order: list[int], bound: Mapping[str, str]) -> _Shape | None:
        marked = parts.copy()
        for place, number in enumerate(order):
            is_text = parts[2 * place + 1][0] in "\"'"
            marked[2 * place + 1] = f'"{_FIRST}{number}{_LAST}"' if is_text else str(_NUMBERS_FROM + number)
        query = parse("".join(marked), namespaces=bound)
        if not isinstance(query, Query):
            return None
        mapper = Mapper(self.settings)
        found = mapper.map(query.tree)
        if not mapper.is_independent:
            return None
        rows = [[[_split(token) for token in path] for path in conjunction] for conjunction in found.conjunctions]
        is_fixed = all(type(token) is str for row in rows for path in row for token in path)
        return _Shape(rows, is_fixed, found)

    @staticmethod
    def _filled(shape: _Shape, values: list[str]) -> list[Conjunction]:
        return [
            tuple(
                sorted(
                    [
                        tuple([token if isinstance(token, str) else _fill(token, values) for token in path])
                        for path in conjunction
                    ]
                )
            )
            for conjunction in shape.conjunctions
        ]


def _plain_path(text: str) -> RoutingQuery | None:
    """The routing query of a path that is its own: steps with at most one test each, of an attribute and a text."""
    # PERF: bench.onyx_routing, mapping: no parser for what most subscriptions look like.
    if _PLAIN.fullmatch(text) is None:
        return None
    path = tuple(_PLAIN_TOKEN.findall(text))
    return RoutingQuery((() if is_always_true(path) else (path,),))


def _bare(value: str) -> str:
    """A literal with its quotes replaced by one sign, a number as it is: equal for equal values."""
    return f'"{value[1:-1]}' if value[0] in "\"'" else value


def _written(value: str) -> str:
    """A value of `_bare` as routing queries write it."""
    if value[0] != '"':
        return value
    text = value[1:]
    return f"'{text}'" if '"' in text else f'"{text}"'


def _split(token: str) -> _Token:
    parts = _MARK.split(token)
    if len(parts) == 1:
        return token
    return tuple(parts[::3]), tuple(int(text or number) for text, number in zip(parts[1::3], parts[2::3], strict=True))


def _fill(token: _Marked, values: list[str]) -> str:
    texts, numbers = token
    filled = texts[0]
    for text, number in zip(texts[1:], numbers, strict=True):
        filled += values[number] + text
    return filled
