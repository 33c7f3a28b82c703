"""Draws ordered patterns and matches them by brute force, without any code of treecast.

The definition, word by word: at each branching element the branches as written, the continuation of the path last,
have first-step witnesses whose start tags strictly increase; tests of attributes and of the element's own text are
exempt. The oracle tries all combinations of witnesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from random import Random
from typing import Any

from lxml import etree

NAMES = ("a", "b", "c")
VALUES = ("1", "2", "x")


@dataclass(frozen=True)
class Pattern:
    """A path of a pattern. `parts` are its tests and branches as written; the last step may have a value."""

    descendant: bool
    name: str
    parts: tuple[Pattern | str, ...] = ()
    next: Pattern | None = None
    value: str | None = None
    call: bool = False
    joined: bool = field(default=False, compare=False)

    @property
    def end(self) -> Pattern:
        return self.next.end if self.next else self

    def written(self, *, branch: bool) -> str:
        """The path as text; a branch is relative and carries its value test itself."""
        text = (".//" if self.descendant else "") if branch else ("//" if self.descendant else "/")
        step: Pattern | None = self
        while step:
            if step is not self:
                text += "//" if step.descendant else "/"
            conditions = [part if isinstance(part, str) else part.written(branch=True) for part in step.parts]
            brackets = [" and ".join(conditions)] if step.joined and conditions else conditions
            text += step.name + "".join(f"[{condition}]" for condition in brackets)
            step = step.next
        value = self.end.value
        if value is None:
            return text
        return f"contains({text}, '{value}')" if self.end.call else f"{text} = '{value}'"


class Oracle:
    """Matches patterns on one document; elements are known by their place in it."""

    def __init__(self, document: bytes) -> None:
        self.elements: list[Any] = list(etree.fromstring(document).iter(etree.Element))
        self.place = {element: place for place, element in enumerate(self.elements)}

    def text(self, place: int) -> str:
        return str(self.elements[place].xpath("string()"))

    def candidates(self, pattern: Pattern, context: int | None) -> list[int]:
        if context is None:
            elements = self.elements if pattern.descendant else self.elements[:1]
        else:
            element = self.elements[context]
            walk = element.iterdescendants if pattern.descendant else element.iterchildren
            elements = list(walk(etree.Element))  # comments and instructions left out
        return [self.place[element] for element in elements if pattern.name in ("*", element.tag)]

    def holds(self, test: str, place: int) -> bool:
        """The exempt tests that are drawn: @x, @x = '1', contains(., '1')."""
        element = self.elements[place]
        if test.startswith("contains"):
            return test.split("'")[1] in self.text(place)
        name, _, value = test.removeprefix("@").partition(" = ")
        return name in element.attrib and (not value or element.get(name) == value.strip("'"))

    def ends(self, pattern: Pattern, context: int | None, first: int | None = None) -> Iterator[tuple[int, int]]:
        """(witness of the first step, end of the path) of every way to place the path, its branches in order."""
        for place in self.candidates(pattern, context) if first is None else [first]:
            tests = [part for part in pattern.parts if isinstance(part, str)]
            if not all(self.holds(test, place) for test in tests):
                continue
            branches = [part for part in pattern.parts if isinstance(part, Pattern)]
            choices = [sorted(self.witnesses(branch, place)) for branch in branches]
            lists = [*choices, sorted({w for w, _ in self.ends(pattern.next, place)})] if pattern.next else choices
            for places in product(*lists):
                if any(left >= right for left, right in pairwise(places)):
                    continue
                if pattern.next is None:
                    yield place, place
                    break
                for _, end in self.ends(pattern.next, place, places[-1]):
                    yield place, end

    def witnesses(self, branch: Pattern, context: int) -> set[int]:
        pairs = set(self.ends(branch, context))
        value = branch.end.value
        if value is None:
            return {witness for witness, _ in pairs}
        if branch.end.call:
            first = min((end for _, end in pairs), default=None)
            return {w for w, end in pairs if end == first and value in self.text(end)}
        return {witness for witness, end in pairs if self.text(end) == value}

    def selected(self, pattern: Pattern) -> list[int]:
        return sorted({end for _, end in self.ends(pattern, None)})


def draw_pattern(random: Random, depth: int = 0) -> Pattern:
    """A small pattern: brute force is exponential in it."""
    parts: list[Pattern | str] = []
    for _ in range(random.choice((0, 0, 1, 2, 3) if depth == 0 else (0, 0, 0, 1, 2) if depth == 1 else (0,))):
        if random.random() < 0.2:
            parts.append(random.choice(("@x", "@x = '1'", "contains(., '1')")))
        else:
            parts.append(draw_pattern(random, depth + 1))
    following = draw_pattern(random, depth + 1) if random.random() < (0.6 if depth == 0 else 0.25) else None
    if following and depth == 0:
        following = without_value(following)
    value = random.choice(VALUES) if depth and not following and random.random() < 0.25 else None
    name = random.choice((*NAMES, "*"))
    descendant = random.random() < 0.5
    return Pattern(descendant, name, tuple(parts), following, value, random.random() < 0.4, random.random() < 0.3)


def without_value(pattern: Pattern) -> Pattern:
    """The main path asks nothing of its end."""
    rest = without_value(pattern.next) if pattern.next else None
    return Pattern(pattern.descendant, pattern.name, pattern.parts, rest, joined=pattern.joined)


def draw_small_document(random: Random, elements_max: int = 14) -> bytes:
    elements_left = random.randint(1, elements_max)

    def element(depth: int) -> str:
        nonlocal elements_left
        elements_left -= 1
        name = random.choice(NAMES)
        attribute = f' x="{random.choice(VALUES)}"' if random.random() < 0.3 else ""
        inside = random.choice(VALUES) if random.random() < 0.3 else ""
        while elements_left > 0 and depth < 5 and random.random() < 0.75:
            inside += element(depth + 1)
        return f"<{name}{attribute}>{inside}</{name}>"

    return element(1).encode()
