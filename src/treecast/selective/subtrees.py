"""SSL, the language of subscriptions to subtrees: `{(6,1)-(4,2), (17,11)}`.

A subscription is a set of subtrees, each without some subtrees inside it. In text a subtree is its label (PON, LB); in
memory it is the id of its root, because labels change. Nobody has to write labels: `treecast.selective.labelled` turns
paths into subscriptions and back.

    >>> from treecast.selective.outline import Outline
    >>> from treecast.selective.subtrees import Subtrees
    >>> outline = Outline([-1, 0, 1, 1, 0], spacing=1)  # 5{3{1,2},4}
    >>> wanted = Subtrees.parse("{(5,1) - (3,1), (1,1)}", outline)
    >>> wanted.parts
    (Subtree(root=0, without=(1,)), Subtree(root=2, without=()))
    >>> wanted.to_text(outline)
    '{(5,1)-(3,1), (1,1)}'
    >>> [id for id in outline if wanted.covers(id, outline)]
    [0, 2, 4]
    >>> Subtrees.parse("{(3,2)}", outline)
    Traceback (most recent call last):
    treecast.errors.QueryError: TC161 the document has no subtree (3,2)
      {(3,2)}
       ^^^^^
      hint: the subtree that ends with 3 begins with 1: (3,1)

A `Subtrees` is in normal form: what it means decides what it looks like. A subtree inside another is dropped, one
inside an excluded subtree is a part of its own, and what is excluded and asked for elsewhere is not excluded.

| code | what is wrong |
|---|---|
| TC160 | a syntax error |
| TC161 | no subtree of the document has this label |
| TC162 | an excluded subtree is not inside the one that it is excluded from |
| TC163 | nothing is left: everything that is asked for is excluded, or a path selects no element (`selector.py`) |
| TC342 | more than `SUBTREES_MAX` subtrees |

Source: Selective, section IV-B, Table I. Example 1 prints (4,1) where its document has (4,2): that is TC161.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from treecast.errors import QueryError, QueryLimitError
from treecast.selective.outline import Outline

SUBTREES_MAX = 100_000
"""How many subtrees a subscription may name."""

_LABEL = re.compile(r"\s*\(\s*([0-9]{1,20})\s*,\s*([0-9]{1,20})\s*\)")


class Subtree(NamedTuple):
    """A subtree without some that are inside it."""

    root: int
    without: tuple[int, ...] = ()


@dataclass(frozen=True)
class Subtrees:
    """A subscription: subtrees, by the ids of their roots, in document order and normal form."""

    parts: tuple[Subtree, ...]

    @classmethod
    def of(cls, parts: Iterable[Subtree], outline: Outline) -> Subtrees:
        """The normal form of what these mean together."""
        return cls(tuple(_normalise(list(parts), outline)))

    @classmethod
    def parse(cls, text: str, outline: Outline) -> Subtrees:
        """Read SSL. Raises QueryError."""
        parts = list(_Parser(text, outline).parts())
        subtrees = cls.of(parts, outline)
        if not subtrees.parts:
            raise QueryError(
                "everything that is asked for is excluded", code="TC163", query=text, hint="exclude less than the whole"
            )
        return subtrees

    def to_text(self, outline: Outline) -> str:
        """SSL, with the labels as they are now."""

        def text_of(id: int) -> str:
            return "({},{})".format(*outline.label(id))

        return "{" + ", ".join("-".join(map(text_of, (one.root, *one.without))) for one in self.parts) + "}"

    def covers(self, id: int, outline: Outline) -> bool:
        """Whether the element is part of it."""
        roots, excluded = self._marks
        for one in (id, *outline.ancestors(id)):
            if one in excluded:
                return False
            if one in roots:
                return True
        return False

    def elements(self, outline: Outline) -> Iterator[int]:
        """The ids of all elements that are part of it, part by part."""
        return (id for part in self.parts for id in elements_of(part, outline))

    def single(self) -> list[Subtrees]:
        """It broken up: one subscription for each subtree."""
        return [Subtrees((part,)) for part in self.parts]

    def positive(self) -> Subtrees:
        """The same without exclusions, as brokers inside a network know it. It may no longer be in normal form."""
        return Subtrees(tuple(Subtree(part.root) for part in self.parts))

    @cached_property
    def _marks(self) -> tuple[set[int], set[int]]:
        return {part.root for part in self.parts}, {id for part in self.parts for id in part.without}


def elements_of(part: Subtree, outline: Outline) -> Iterator[int]:
    """The ids of the elements of one part, in document order."""
    waiting = [part.root]
    excluded = set(part.without)
    while waiting:
        id = waiting.pop()
        if id not in excluded:
            yield id
            waiting.extend(reversed(outline.children(id)))


def choose(include: Iterable[int], exclude: Iterable[int], outline: Outline) -> Subtrees:
    """The subtrees of `include` without those of `exclude`, which win: what is inside one is out."""
    outside = [(outline.label(id), id) for id in _topmost(exclude, outline)]
    parts: list[Subtree] = []
    at = 0
    # Both lists are in document order, and nothing in a list is inside anything else in it: one walk along both.
    for root in _topmost(include, outline):
        pon, low = outline.label(root)
        while at < len(outside) and outside[at][0][0] < low:
            at += 1
        without: list[int] = []
        while at < len(outside) and outside[at][0][0] < pon:
            without.append(outside[at][1])
            at += 1
        if at == len(outside) or outside[at][0][1] > pon:
            parts.append(Subtree(root, tuple(without)))
        # Otherwise the next excluded subtree is the root or contains it, and maybe roots to come.
    return Subtrees.of(parts, outline)


def _topmost(ids: Iterable[int], outline: Outline) -> list[int]:
    """Those that are inside no other, in document order."""
    spans = sorted({(low, -pon): id for id in ids for pon, low in [outline.label(id)]}.items())
    top: list[int] = []
    end = -1
    for (_, pon), id in spans:
        if -pon > end:
            top.append(id)
            end = -pon
    return top


def _normalise(parts: list[Subtree], outline: Outline) -> Iterator[Subtree]:
    """Walk over the subtrees that are named, in document order, and note where what is visible begins and ends.

    A part is visible in an element if its root is above and none of its exclusions is. The element is visible if one
    part is. That changes only at roots and exclusions, so nothing else is looked at.
    """
    begins: dict[int, list[int]] = {}
    breaks: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        begins.setdefault(part.root, []).append(number)
        for id in part.without:
            breaks.setdefault(id, []).append(number)
    labels = sorted((low, -pon, id) for id in begins.keys() | breaks.keys() for pon, low in [outline.label(id)])
    visible = 0  # how many parts are, where the walk is
    exclusions = [0] * len(parts)
    open_spans: list[tuple[int, int, int]] = []  # (PON, id, visible before)
    tops: list[int] = []  # the roots of open parts of the result
    result: dict[int, list[int]] = {}
    for low, negative, id in labels:
        while open_spans and open_spans[-1][0] < low:
            _, closed_id, visible = open_spans.pop()
            for number in breaks.get(closed_id, ()):
                exclusions[number] -= 1
            if tops and tops[-1] == closed_id:
                tops.pop()
        open_spans.append((-negative, id, visible))
        was_visible = visible > 0
        visible += len(begins.get(id, ()))
        for number in breaks.get(id, ()):
            visible -= not exclusions[number]
            exclusions[number] += 1
        if visible and not was_visible:
            result[id] = []
            tops.append(id)
        elif was_visible and not visible:
            result[tops[-1]].append(id)
    return (Subtree(root, tuple(without)) for root, without in result.items())


class _Parser:
    """Reads SSL; every error has its position."""

    def __init__(self, text: str, outline: Outline) -> None:
        self._text = text
        self._outline = outline
        self._place = 0
        self._count = 0

    def parts(self) -> Iterator[Subtree]:
        self._expect("{")
        while True:
            root = self._subtree()
            without = []
            while self._take("-"):
                begin = self._place
                id = self._subtree()
                if not self._outline.contains(root, id):
                    raise self._error(
                        "TC162", "this subtree is not inside the one that it is excluded from", begin,
                        "exclude subtrees of the subtree before the first -",
                    )  # fmt: skip
                without.append(id)
            yield Subtree(root, tuple(without))
            if not self._take(","):
                break
        self._expect("}")
        self._skip_space()
        if self._place < len(self._text):
            raise self._error("TC160", "nothing may follow the last }", self._place, "")

    def _subtree(self) -> int:
        self._skip_space()
        begin = self._place
        match = _LABEL.match(self._text, self._place)
        if match is None:
            raise self._error("TC160", "a subtree is missing here", begin, "a subtree is (PON,LB), such as (6,1)")
        self._place = match.end()
        self._count += 1
        if self._count > SUBTREES_MAX:
            raise QueryLimitError(
                f"more than {SUBTREES_MAX} subtrees", code="TC342", hint="ask for larger subtrees", position=begin
            )
        label = int(match[1]), int(match[2])
        id = self._outline.find(label)
        if id is None:
            near = self._outline.find_end(label[0])
            hint = f"the subtree that ends with {near[0]} begins with {near[1]}: ({near[0]},{near[1]})" if near else ""
            raise self._error("TC161", f"the document has no subtree ({label[0]},{label[1]})", begin, hint)
        return id

    def _skip_space(self) -> None:
        while self._place < len(self._text) and self._text[self._place].isspace():
            self._place += 1

    def _take(self, mark: str) -> bool:
        self._skip_space()
        if self._text.startswith(mark, self._place):
            self._place += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(
                "TC160", f"{mark} is missing here", self._place, "a subscription is {(6,1)-(4,2), (17,11)}"
            )

    def _error(self, code: str, message: str, begin: int, hint: str) -> QueryError:
        length = max(1, self._place - begin)
        return QueryError(message, code=code, query=self._text, position=begin, length=length, hint=hint)
