"""What a few comparisons say about one string value, and what follows from them. Only covering needs it.

A *test* is an operator and a value: a comparison as XPath 1.0 does it (`=` and `!=` with a string compare strings, all
others numbers), or a function by its name (`treecast.query.functions`) and its literal. `implies` answers only what is
certain: True means that every string that passes the known tests passes the asked one, False may mean that it is
unknown.

    >>> implies((("=", "1"),), ("=", 1.0)), implies((("=", 1.0),), ("=", "1"))
    (True, False)
    >>> implies(((">", 3.0), ("<=", "5")), ("!=", 7.0))
    True
    >>> is_impossible(((">", 3.0), ("<", 3.0)))
    True
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from treecast.query.functions import FUNCTIONS

Test: TypeAlias = tuple[str, str | float]

_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")
_COMPARE: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]  # reached with two numbers only
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}


def number(text: str) -> float:
    """XPath's number(): digits with an optional sign and point, white space around them; anything else is NaN."""
    match = _NUMBER.fullmatch(text)
    return float(match[1]) if match else math.nan


def passes(text: str, test: Test) -> bool:
    """Whether a string passes a test."""
    relation, value = test
    if relation in FUNCTIONS:
        return FUNCTIONS[relation].holds(text, str(value))
    if isinstance(value, str) and relation in ("=", "!="):
        return _COMPARE[relation](text, value)
    return _COMPARE[relation](number(text), number(value) if isinstance(value, str) else value)


@dataclass(frozen=True, slots=True)
class _Range:
    """The numbers that remain; `is_numeric` says that the string is a number at all. `holes` are numbers it is not."""

    is_numeric: bool = False
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    holes: frozenset[float] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))

    def holds(self, value: float) -> bool:
        if value in self.holes or value < self.low or value > self.high:
            return False
        return not (value == self.low and self.low_open) and not (value == self.high and self.high_open)


@lru_cache(maxsize=4096)
def _range(tests: tuple[Test, ...]) -> _Range | None:
    """The range that the numeric tests leave; None where one of them compares with something that is no number."""
    numeric, low, high, low_open, high_open = False, -math.inf, math.inf, False, False
    holes: set[float] = set()
    for relation, value in tests:
        if relation in FUNCTIONS or (isinstance(value, str) and relation in ("=", "!=")):
            continue
        bound = number(value) if isinstance(value, str) else value
        if math.isnan(bound):
            return None
        if relation == "!=":
            holes.add(bound)
            continue
        numeric = True
        if relation in ("=", ">", ">=") and (bound, relation == ">") > (low, low_open):
            low, low_open = bound, relation == ">"
        if relation in ("=", "<", "<=") and (-bound, relation == "<") > (-high, high_open):
            high, high_open = bound, relation == "<"
    return _Range(numeric, low, high, low_open or low in holes, high_open or high in holes, frozenset(holes))


def _known_text(tests: tuple[Test, ...]) -> str | None:
    return next((value for relation, value in tests if relation == "=" and isinstance(value, str)), None)


def is_impossible(tests: tuple[Test, ...]) -> bool:
    """Whether it is certain that no string passes all of the tests."""
    if not tests:
        return False
    text = _known_text(tests)
    if text is not None:
        return not all(passes(text, test) for test in tests)
    left = _range(tests)
    if left is None or (left.is_numeric and left.is_empty):
        return True
    calls = [(FUNCTIONS[relation], str(value)) for relation, value in tests if relation in FUNCTIONS]
    starts = [literal for function, literal in calls if not function.before]
    ends = [literal for function, literal in calls if not function.after]
    longest_start, longest_end = max(starts, key=len, default=""), max(ends, key=len, default="")
    starts_agree = all(longest_start.startswith(start) for start in starts)
    return not (starts_agree and all(longest_end.endswith(end) for end in ends))


def implies(tests: tuple[Test, ...], goal: Test) -> bool:
    """Whether it is certain that a string that passes all of the tests passes `goal`."""
    if goal in tests or is_impossible(tests):
        return True
    text = _known_text(tests)
    if text is not None:
        return passes(text, goal)
    relation, value = goal
    if relation in FUNCTIONS:
        return not value or any(
            FUNCTIONS[known].implies(str(literal), FUNCTIONS[relation], str(value))
            for known, literal in tests
            if known in FUNCTIONS
        )
    if isinstance(value, str) and relation in ("=", "!="):
        # Nothing but the string itself settles `=`; `!=` follows where that string fails one of the tests.
        return relation == "!=" and not all(passes(value, test) for test in tests)
    bound = number(value) if isinstance(value, str) else value
    left = _range(tests)
    if left is None:
        return True
    if relation == "!=":
        return bound in left.holes or (left.is_numeric and not left.holds(bound))
    if math.isnan(bound) or not left.is_numeric:
        return False
    if relation == "=":
        return left.low == left.high == bound
    if relation in ("<", "<="):
        return left.high < bound or (left.high == bound and (relation == "<=" or left.high_open))
    return left.low > bound or (left.low == bound and (relation == ">=" or left.low_open))
