"""The contents of attributes and texts: the values that documents and value predicates both draw from.

A source is a list of values or a range of numbers, given for an element's text (`price`), for an attribute of any
element (`@currency`), for that of one element (`trade/@id`), or for everything else (`*` and `@*`). Anything without
one gets words: a text is a run of up to `text_words_max` of them, an attribute value one word or a number below 100.
With `skew` theta the value of rank r is drawn r^-theta times as often as the first (Zipf); 0 draws all equally often.

    >>> from random import Random
    >>> from treecast.workload import NumberRange, Schema, Values
    >>> values = Values({"@qty": NumberRange(1, 5), "price": ("9.5", "10")})
    >>> schema = Schema.from_text("<!ELEMENT price (#PCDATA)> <!ATTLIST price qty CDATA #REQUIRED>")
    >>> random = Random(1)
    >>> quantities = values.of_attribute(schema.elements["price"], "qty")
    >>> sorted({quantities.draw(random.random()) for _ in range(100)})
    ['1', '2', '3', '4', '5']
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import log
from random import Random
from typing import Protocol

from treecast.errors import DocumentError
from treecast.workload.content_model import Attribute, Element
from treecast.workload.dtd_scanner import NAME_MORE
from treecast.workload.words import WORDS

# How many runs of words texts are drawn from: varied enough for matching, and ten times faster than drawing every
# word.
RUNS = 2000
NUMBERS = tuple(str(number) for number in range(100))
# Up to here Zipf's shares are exact; longer ranges take the integral for the sum.
RANKS_EXACT_MAX = 10_000
DECIMALS_MAX = 9
SKEW_MAX = 10.0

_NAME_TOKEN = re.compile(f"[{NAME_MORE}]+")
_CHARACTERS = re.compile("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
_RANGE = re.compile(r"(-?[0-9]+(?:\.([0-9]+))?)\.\.(-?[0-9]+(?:\.([0-9]+))?)")


class Distribution(Protocol):
    """Values with their shares. `draw` maps a number from 0 up to 1 to a value, in the order of the values, so equal
    stretches of numbers have equal shares; `collision` is the probability that two draws are equal."""

    numeric: bool
    collision: float

    def draw(self, share: float) -> str: ...
    def map_values(self, change: Callable[[str], str]) -> Distribution: ...


class ListDistribution:
    """A list of values; without `weights` all have the same share."""

    numeric = False

    def __init__(self, values: Sequence[str], weights: Sequence[float] | None = None) -> None:
        self.values = tuple(values)
        if weights is None:
            self.bounds: list[float] | None = None
            self.collision = 1 / len(self.values)
        else:
            self.bounds = shares_up_to(weights)
            self.collision = sum(weight**2 for weight in weights) / sum(weights) ** 2

    def draw(self, share: float) -> str:
        if self.bounds is None:
            return self.values[int(share * len(self.values))]
        return self.values[bisect_right(self.bounds, share)]

    def map_values(self, change: Callable[[str], str]) -> ListDistribution:
        same = ListDistribution(self.values)
        same.values = tuple(change(value) for value in self.values)
        same.bounds, same.collision = self.bounds, self.collision
        return same


class RangeDistribution:
    """The numbers from `low` on, `count` of them, 10^-decimals apart; with a skew the small ones are frequent."""

    numeric = True

    def __init__(self, low: int, count: int, decimals: int, skew: float) -> None:
        self.low, self.count, self.decimals, self.skew = low, count, decimals, skew
        self.bounds: list[float] | None = None
        self.collision = 1 / count
        if skew and count <= RANKS_EXACT_MAX:
            shares = ListDistribution([""] * count, zipf(count, skew))
            self.bounds, self.collision = shares.bounds, shares.collision
        elif skew:
            marks = [self.rank_bound(rank) for rank in range(1001)]
            self.collision = sum((above - below) ** 2 for below, above in pairwise(marks))

    def rank_bound(self, rank: int) -> float:
        """The share of the values below this rank, by the integral of x^-skew from 1 to count + 1."""
        return _integral(rank + 1, self.skew) / _integral(self.count + 1, self.skew)

    def draw(self, share: float) -> str:
        if not self.skew:
            rank = int(share * self.count)
        elif self.bounds is not None:
            rank = bisect_right(self.bounds, share)
        elif self.skew == 1:
            rank = int((self.count + 1) ** share) - 1
        else:
            power = 1 - self.skew
            rank = int((1 + share * ((self.count + 1) ** power - 1)) ** (1 / power)) - 1
        return self.format_number(self.low + min(rank, self.count - 1))

    def format_number(self, number: int) -> str:
        if not self.decimals:
            return str(number)
        whole, part = divmod(abs(number), 10**self.decimals)
        return f"{'-' if number < 0 else ''}{whole}.{part:0{self.decimals}}"

    def map_values(self, change: Callable[[str], str]) -> RangeDistribution:
        """A number is written the same everywhere."""
        return self


def _integral(end: float, skew: float) -> float:
    """The integral of x^-skew from 1 to `end`, up to a factor."""
    return log(end) if skew == 1 else (end ** (1 - skew) - 1) / (1 - skew)


def shares_up_to(weights: Sequence[float]) -> list[float]:
    """For each place the share of all weights up to it, for bisect. The last is 1, whatever the rounding."""
    total = sum(weights)
    last = max(place for place, weight in enumerate(weights) if weight)
    return [1.0 if place >= last else bound / total for place, bound in enumerate(accumulate(weights))]


def zipf(count: int, skew: float) -> list[float] | None:
    """The weights of `count` ranks; None if all are equal."""
    return [(rank + 1) ** -skew for rank in range(count)] if skew else None


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The numbers from `low` to `high`, both included, with this many decimals."""

    low: float
    high: float
    decimals: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.decimals <= DECIMALS_MAX:
            raise ValueError(f"a range has from 0 to {DECIMALS_MAX} decimals")
        if not (abs(self.low) < 1e15 and abs(self.high) < 1e15 and self.low <= self.high):
            raise ValueError(f"{self.low}..{self.high} is no range: the first number is the smaller one")

    def distribution(self, skew: float) -> RangeDistribution:
        scale = 10**self.decimals
        low = round(self.low * scale)
        return RangeDistribution(low, round(self.high * scale) - low + 1, self.decimals, skew)


def parse_source(text: str) -> NumberRange | tuple[str, ...]:
    """`1..100` or `0.50..9.99` is a range, with as many decimals as are written; `a,b,c` is a list."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return tuple(text.split(","))
    decimals = max(len(match[2] or ""), len(match[4] or ""))
    return NumberRange(float(match[1]), float(match[3]), decimals)


Source = NumberRange | Sequence[str]


@dataclass(frozen=True)
class Values:
    """The sources by target, and how skewed the draws are."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    skew: float = 0.0
    text_words_max: int = 8

    def __post_init__(self) -> None:
        if not 0 <= self.skew <= SKEW_MAX:
            raise ValueError(f"a skew is from 0 to {SKEW_MAX:g}")
        if self.text_words_max < 1:
            raise ValueError("text_words_max is at least 1")
        for name, source in self.sources.items():
            if isinstance(source, NumberRange):
                continue
            if isinstance(source, str) or not source:
                raise ValueError(f"the values of '{name}' are a NumberRange or a list that is not empty")
            if not all(_CHARACTERS.fullmatch(value) for value in source):
                raise ValueError(f"a value of '{name}' has a character that no XML document can have")

    def over(self, sources: Mapping[str, Source]) -> Values:
        """The same, with further sources for targets that have none."""
        return replace(self, sources={**sources, **self.sources}) if sources else self

    def check_names(self, elements: Iterable[Element]) -> None:
        """Refuse sources for what no schema has, so that a typo does not go unnoticed."""
        names = {"*", "@*"}
        for element in elements:
            names.add(element.name)
            for attribute in element.attributes:
                names |= {f"@{attribute.name}", f"{element.name}/@{attribute.name}"}
        unknown = next((name for name in self.sources if name not in names), None)
        if unknown is not None:
            raise ValueError(f"there are values for '{unknown}', and no such element or attribute")

    # Which values.

    def of_text(self, element: Element) -> Distribution:
        """The runs of text in this element."""
        source = self.sources.get(element.name, self.sources.get("*"))
        return self.runs if source is None else self.from_source(source)

    def of_attribute(self, element: Element, name: str, unparsed_entities: Sequence[str] = ()) -> Distribution | None:
        """The values of this attribute; None for identifiers, and for entities if there are none."""
        attribute = next(attribute for attribute in element.attributes if attribute.name == name)
        if attribute.kind.startswith("ID") or attribute.name == "xml:id" or attribute.is_namespace:
            return None
        if attribute.fixed is not None:
            return ListDistribution([attribute.fixed])
        if attribute.kind in ("ENTITY", "ENTITIES"):
            return self.from_list(unparsed_entities) if unparsed_entities else None
        key, source = self.source_of(element.name, name)
        if source is not None:
            self.check(source, attribute, element.name, key)
            return self.from_source(source)
        if attribute.values:
            return self.from_list(attribute.values)
        return self.words_and_numbers

    def source_of(self, element: str, attribute: str) -> tuple[str, Source | None]:
        for key in (f"{element}/@{attribute}", f"@{attribute}", "@*"):
            if key in self.sources:
                return key, self.sources[key]
        return "", None

    def check(self, source: Source, attribute: Attribute, element: str, key: str) -> None:
        """Whether the DTD allows these values; the general source `@*` must be allowed everywhere."""
        values = [] if isinstance(source, NumberRange) and not attribute.values else self.list_values(source)
        if attribute.values:
            wrong = next((value for value in values if value not in attribute.values), None)
        elif attribute.kind in ("NMTOKEN", "NMTOKENS"):
            wrong = next((value for value in values if not _NAME_TOKEN.fullmatch(value)), None)
        else:
            return
        if wrong is not None:
            message = f"the DTD does not allow the value {wrong[:40]!r} for '{attribute.name}' of '{element}'"
            raise DocumentError(message, code="TC284", hint=f"change the values of '{key}'")

    def list_values(self, source: Source) -> Sequence[str]:
        if not isinstance(source, NumberRange):
            return source
        distribution = source.distribution(0)
        return [distribution.draw(share / 100) for share in range(100)]

    # How often each.

    def ranks(self, values: Sequence[str]) -> list[float]:
        return zipf(len(values), self.skew) or [1.0] * len(values)

    def from_list(self, values: Sequence[str]) -> ListDistribution:
        return ListDistribution(values, zipf(len(values), self.skew))

    def from_source(self, source: Source) -> Distribution:
        return source.distribution(self.skew) if isinstance(source, NumberRange) else self.from_list(source)

    @cached_property
    def words_and_numbers(self) -> ListDistribution:
        """Attribute values: half of them words, half of them numbers."""
        halves = [[share / sum(shares) for share in shares] for shares in map(self.ranks, (WORDS, NUMBERS))]
        return ListDistribution([*WORDS, *NUMBERS], [*halves[0], *halves[1]])

    @cached_property
    def runs(self) -> ListDistribution:
        """Texts: the same for every seed, so that queries can ask for them."""
        random = Random("runs")
        runs = []
        for _ in range(RUNS):
            words = random.choices(WORDS, k=random.randint(1, self.text_words_max))
            if random.random() < 0.1:
                words.append(random.choice(("1,234.50", "&", "<5", "caf\u00e9", "\u20ac20", "\u2014", "1999")))
            runs.append(" ".join(words))
        return self.from_list(runs)


def escape(text: str) -> str:
    """Escape a text so that it is valid between tags and in double quotes."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    if "\n" in text or "\t" in text or "\r" in text:
        text = text.replace("\n", "&#10;").replace("\t", "&#9;").replace("\r", "&#13;")
    return text
