"""What an expression may be over all documents: sets of truth values, numbers, strings and items, and what operators
and functions make of them. `treecast.query.impossible` evaluates expressions with these.

A set holds at least what is possible, never less; so what it excludes is certain. Where a comparison or a function is
never true, the second result says why.

    >>> compare(Numbers(0, math.inf, False, True), "=", constant(1.5))[0].may_hold
    False
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TypeAlias

from treecast.query.item_kinds import ATTRIBUTE, ELEMENTS
from treecast.query.values import number

SPACE = " "
NOT_IN_NAMES = frozenset(" \t\r\n\"'<>&=/()[]{},;!?#$%*+^~|\\@`")
NOTHING_THERE = "nothing can be there"


@dataclass(frozen=True, slots=True)
class Truths:
    """Which truth values are possible."""

    may_hold: bool = True
    may_fail: bool = True


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers from `low` to `high`, none where low is more than high; and NaN."""

    low: float = -math.inf
    high: float = math.inf
    may_be_nan: bool = True
    is_whole: bool = False
    words: str = ""
    """What is known of them, for people."""

    @property
    def is_empty(self) -> bool:
        return self.low > self.high

    @property
    def single(self) -> float | None:
        return self.low if self.low == self.high and not self.may_be_nan else None


@dataclass(frozen=True, slots=True)
class Texts:
    """A known string, or all strings of some form."""

    known: str | None = None
    is_normalized: bool = False
    absent: frozenset[str] = frozenset()
    """Characters that do not occur."""
    absent_words: str = ""
    chars_max: float = math.inf

    def refusal(self, text: str, *, as_part: bool = False) -> str:
        """Why the text is none of them, or no part of one; empty where it may be."""
        if self.known is not None:
            may_be = text in self.known if as_part else text == self.known
            return "" if may_be else "both sides are constant"
        if character := "".join(sorted(self.absent.intersection(text)))[:1]:
            return f"{self.absent_words} {_quoted(character)}"
        if len(text) > self.chars_max:
            return f"substring() gives {self.chars_max:g} characters at most"
        if self.is_normalized and text != _normalized(text):
            is_inner = as_part and "  " not in text and not any(space in text for space in "\t\r\n")
            return "" if is_inner else "normalize-space() leaves no space at the ends, and no two together"
        return ""


@dataclass(frozen=True, slots=True)
class Items:
    """A set of items of these kinds, perhaps empty; without a kind it is empty."""

    kinds: frozenset[str]


Values: TypeAlias = Truths | Numbers | Texts | Items

ANY_NUMBER = Numbers()
NO_NUMBER = Numbers(1, 0)
ANY_TEXT = Texts()
NAMES = Texts(absent=NOT_IN_NAMES, absent_words="names have no")
LOCAL_NAMES = Texts(absent=NOT_IN_NAMES | {":"}, absent_words="local names have no")
BOTH, NEVER, ALWAYS = Truths(), Truths(may_hold=False), Truths(may_fail=False)


def constant(value: float) -> Numbers:
    return NO_NUMBER if math.isnan(value) else Numbers(value, value, False, float(value).is_integer())


def truth(value: Values) -> Truths:
    match value:
        case Truths():
            return value
        case Numbers(low, high, may_be_nan):
            is_zero = low == high == 0
            return Truths(not value.is_empty and not is_zero, may_be_nan or low <= 0 <= high)
        case Texts(known):
            return BOTH if known is None else Truths(known != "", known == "")
        case Items(kinds):
            return Truths(bool(kinds))


def numeric(value: Values) -> Numbers:
    match value:
        case Numbers():
            return value
        case Truths(may_hold, may_fail):
            return Numbers(0 if may_fail else 1, 1 if may_hold else 0, False, True)
        case Texts(known):
            if known is None:
                return ANY_NUMBER
            made = constant(number(known))
            return replace(made, words=f"{_quoted(known)} is no number") if made.is_empty else made
        case Items(kinds):
            return ANY_NUMBER if kinds else NO_NUMBER


def _textual(value: Values) -> Texts:
    match value:
        case Texts():
            return value
        case Items(kinds) if not kinds:
            return Texts("")
        case _:
            return ANY_TEXT


def _normalized(text: str) -> str:
    """What normalize-space() makes of it."""
    return SPACE.join(part for part in re.split(r"[ \t\r\n]+", text) if part)


def _quoted(text: str) -> str:
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    return f"'{shown}'" if '"' in shown else f'"{shown}"'


# --- comparisons ------------------------------------------------------------------------------------------------------

OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def compare(left: Values, relation: str, right: Values) -> tuple[Truths, str]:
    """What the comparison may be; and why it is never true, where that is so."""
    if isinstance(left, Items) or isinstance(right, Items):
        return _compare_items(left, relation, right)
    if relation not in ("=", "!="):
        return _compare_numbers(numeric(left), relation, numeric(right))
    if isinstance(left, Truths) or isinstance(right, Truths):
        return _compare_truths(truth(left), relation, truth(right))
    if isinstance(left, Numbers) or isinstance(right, Numbers):
        return _compare_numbers(numeric(left), relation, numeric(right))
    return _compare_texts(left, relation, right)


def _compare_items(left: Values, relation: str, right: Values) -> tuple[Truths, str]:
    """One item that stands in the relation is enough."""
    if isinstance(left, Truths) or isinstance(right, Truths):
        return compare(truth(left), relation, truth(right))
    for side in (left, right):
        if isinstance(side, Items) and not side.kinds:
            return NEVER, NOTHING_THERE
    if isinstance(left, Items) and isinstance(right, Items):
        return BOTH, ""
    one, other = [ANY_TEXT if isinstance(side, Items) else side for side in (left, right)]
    truths, reason = compare(one, relation, other)
    return Truths(truths.may_hold), reason


def _compare_truths(left: Truths, relation: str, right: Truths) -> tuple[Truths, str]:
    same = (left.may_hold and right.may_hold) or (left.may_fail and right.may_fail)
    other = (left.may_hold and right.may_fail) or (left.may_fail and right.may_hold)
    truths = Truths(same, other) if relation == "=" else Truths(other, same)
    return truths, "" if truths.may_hold else "both sides are constant"


def _compare_texts(left: Texts, relation: str, right: Texts) -> tuple[Truths, str]:
    known, form = (left.known, right) if left.known is not None else (right.known, left)
    refusal = "" if known is None else form.refusal(known)
    may_differ = left.known is None or left.known != right.known
    if relation == "!=":
        return Truths(may_differ, not refusal), "" if may_differ else "both sides are the same"
    return Truths(not refusal, may_differ), refusal


def _compare_numbers(left: Numbers, relation: str, right: Numbers) -> tuple[Truths, str]:
    may_be_nan = left.may_be_nan or right.may_be_nan
    may_hold = _may_stand(left, relation, right) or (relation == "!=" and may_be_nan)
    may_fail = _may_stand(left, OPPOSITE[relation], right) or (relation != "!=" and may_be_nan)
    if may_hold:
        return Truths(True, may_fail), ""
    for side in (left, right):
        if side.is_empty:
            return NEVER, f"{side.words or 'one side is no number'}, and {relation} compares numbers"
    return NEVER, left.words or right.words or "both sides are constant"


def _may_stand(left: Numbers, relation: str, right: Numbers) -> bool:
    """Whether a number of the left stands in the relation to one of the right."""
    if left.is_empty or right.is_empty:
        return False
    match relation:
        case "<":
            return left.low < right.high
        case "<=":
            return left.low <= right.high
        case ">":
            return left.high > right.low
        case ">=":
            return left.high >= right.low
        case "!=":
            return not (left.low == left.high == right.low == right.high)
        case _:
            pass
    low, high = max(left.low, right.low), min(left.high, right.high)
    if (left.is_whole or right.is_whole) and math.isfinite(low) and math.isfinite(high):
        return math.ceil(low) <= math.floor(high)
    return low <= high


# --- numbers ----------------------------------------------------------------------------------------------------------


def arithmetic(left: Numbers, operator: str, right: Numbers) -> Numbers:
    if left.is_empty or right.is_empty:
        return replace(NO_NUMBER, words=(left if left.is_empty else right).words)
    may_be_nan = left.may_be_nan or right.may_be_nan
    bounds = (left.low, left.high, right.low, right.high)
    is_whole = left.is_whole and right.is_whole
    words = left.words or right.words
    if operator in ("+", "-") and all(map(math.isfinite, (left.low, right.low if operator == "+" else right.high))):
        if operator == "-":
            right = negated(right)
        low, high = left.low + right.low, left.high + right.high
        # Where there is no bound, numbers may be so large that they make NaN.
        return Numbers(low, high, may_be_nan or math.isinf(high), is_whole, words)
    if operator == "mod" and right.single is not None and right.single != 0 and math.isfinite(right.single):
        most = abs(right.single) - (1 if is_whole else 0)
        return Numbers(0 if left.low >= 0 else -most, most, may_be_nan or any(map(math.isinf, bounds)), is_whole, words)
    if left.single is not None and right.single is not None and all(map(math.isfinite, bounds)):
        if operator == "*":
            return constant(left.single * right.single)
        if operator == "div" and right.single != 0:
            return constant(left.single / right.single)
    return ANY_NUMBER


def negated(value: Numbers) -> Numbers:
    return replace(value, low=-value.high, high=-value.low)


# --- functions --------------------------------------------------------------------------------------------------------

NUMERIC = frozenset({"position", "last", "count", "string-length", "number", "sum", "floor", "ceiling", "round"})
"""Functions that give numbers."""


def call(name: str, values: list[Values]) -> tuple[Values, str]:
    """A function of values; of one that is always false, why."""
    first = values[0]
    match name:
        case "true":
            return ALWAYS, ""
        case "false":
            return NEVER, "false() is false"
        case "count":
            most = math.inf if not isinstance(first, Items) or first.kinds else 0
            return Numbers(0, most, False, True, f"count() is {whole_numbers(0, most)}"), ""
        case "sum":
            return (ANY_NUMBER if not isinstance(first, Items) or first.kinds else constant(0)), ""
        case "number":
            return numeric(first), ""
        case "floor" | "ceiling" | "round":
            return _rounded(numeric(first), name), ""
        case "string-length":
            text = _textual(first)
            most = text.chars_max if text.known is None else len(text.known)
            return Numbers(0, most, False, True, f"string-length() is {whole_numbers(0, most)}"), ""
        case "contains" | "starts-with":
            return contains(name, first, _textual(values[1]))
        case "string" | "normalize-space" | "translate" | "substring" | "substring-before" | "substring-after":
            return _text(name, _textual(first), values[1:]), ""
        case "concat":
            texts = [_textual(value).known for value in values]
            return Texts("".join(text for text in texts if text is not None) if None not in texts else None), ""
        case "name" | "local-name":
            return _name(name, first), ""
        case "namespace-uri":
            return ANY_TEXT, ""
        case _:
            return BOTH, ""


def whole_numbers(low: int, high: float) -> str:
    """In words."""
    return f"a whole number from {low}" + (f" to {high:g}" if math.isfinite(high) else "")


def _down(value: float) -> float:
    return math.floor(value) if math.isfinite(value) else value


def _up(value: float) -> float:
    return math.ceil(value) if math.isfinite(value) else value


_ROUNDINGS = {"floor": (_down, _down), "ceiling": (_up, _up), "round": (_down, _up)}
"""Of the least number and of the greatest."""


def _rounded(value: Numbers, name: str) -> Numbers:
    if value.is_empty:
        return value
    of_low, of_high = _ROUNDINGS[name]
    return replace(value, low=of_low(value.low), high=of_high(value.high), is_whole=True)


def contains(name: str, subject: Values, needle: Texts) -> tuple[Truths, str]:
    """contains() and starts-with()."""
    text = _textual(subject)
    if needle.known is None:
        return BOTH, ""
    if needle.known == "":
        return ALWAYS, ""
    if text.known is not None:
        holds = needle.known in text.known if name == "contains" else text.known.startswith(needle.known)
        return Truths(holds, not holds), "both are constant"
    refusal = text.refusal(needle.known, as_part=True)
    if name == "starts-with" and text.is_normalized and needle.known.startswith(SPACE):
        refusal = "normalize-space() leaves no space at the ends"
    return Truths(not refusal), refusal


def _text(name: str, text: Texts, others: list[Values]) -> Texts:
    """A function that makes a string of a string."""
    if name == "string":
        return text
    if name == "translate":
        return _translated(text, _textual(others[0]).known, _textual(others[1]).known)
    if text.known is not None:
        return Texts(_normalized(text.known)) if name == "normalize-space" else ANY_TEXT
    if name == "normalize-space":
        return replace(text, is_normalized=True, absent=text.absent - {SPACE})
    part = replace(text, is_normalized=False)
    return replace(part, chars_max=min(part.chars_max, _chars_max(others))) if name == "substring" else part


def _translated(text: Texts, before: str | None, after: str | None) -> Texts:
    if before is None or after is None:
        return Texts(chars_max=text.chars_max)
    table: dict[int, str] = {}
    for place, character in enumerate(before):
        table.setdefault(ord(character), after[place : place + 1])
    if text.known is not None:
        return Texts(text.known.translate(table))
    made = set(table.values())
    replaced = {chr(code) for code in table}
    return Texts(
        absent=frozenset((text.absent | replaced) - made),
        absent_words="translate() leaves no" if replaced - made else text.absent_words,
        chars_max=text.chars_max,
    )


def _chars_max(bounds: list[Values]) -> float:
    """Of substring(): how many characters from this position, as far as this many."""
    numbers = [numeric(bound).single for bound in bounds]
    if len(numbers) < 2 or None in numbers:
        return math.inf
    begin, size = (_up(one) if one is not None else math.inf for one in numbers)
    if not math.isfinite(begin) or not math.isfinite(size):
        return math.inf
    return max(0, size + min(begin, 1) - 1)


def _name(name: str, of: Values) -> Texts:
    """name() or local-name(): of a colon it is known only that the local names of elements and attributes have none."""
    if not isinstance(of, Items):
        return ANY_TEXT
    if not of.kinds:
        return Texts("")
    return LOCAL_NAMES if name == "local-name" and of.kinds <= ELEMENTS | {ATTRIBUTE} else NAMES
