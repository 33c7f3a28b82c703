"""Draws queries from one schema: the random walk, and the predicates and nested paths of its steps.

Everything is tabulated first, by numbers instead of names. The tables hold for each element its children (for each
number of steps still wanted, those from which that many are possible), their shares, its steps as text, and its
attributes with the distributions of their values. A draw is then a few lookups per step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from treecast.errors import QueryLimitError
from treecast.workload.content_model import Element
from treecast.workload.schema import Schema
from treecast.workload.values import Distribution, shares_up_to, zipf

if TYPE_CHECKING:
    from treecast.workload.queries import QuerySettings

# Values that no document has are numbered up to this, so that queries with them can be distinct.
LACKING = 10_000

Table = tuple[list[list[int]], list[list[float]]]
Values = tuple[str, Distribution]


class QueryWalk:
    """Draws queries; `draw` returns None for a walk without a place for the requested predicates."""

    def __init__(self, schema: Schema, settings: QuerySettings, seed: str) -> None:
        self.schema = schema
        self.settings = settings
        self.values = settings.values.over(schema.sources)
        self.random = Random(seed).random
        self.names = [name for name in schema.elements if name in schema.reachable]
        number = {name: place for place, name in enumerate(self.names)}
        # The place above the root has the root as its only child.
        self.above = len(self.names)
        self.children = [[number[child] for child in schema.children(name)] for name in self.names]
        self.children.append([number[schema.root]])
        self.child_steps = ["/" + name for name in self.names]
        self.descendant_steps = ["//" + name for name in self.names]
        elements = [schema.elements[name] for name in self.names]
        self.final_attributes = [
            [f"/@{attribute.name}" for attribute in element.attributes if not attribute.is_namespace]
            for element in elements
        ]
        self.tables = self.make_tables()
        self.walk = self.make_walk()
        self.branch_table = self.tables[-1] if settings.depth_min == 1 else self.make_table(self.children)
        self.with_predicates = settings.predicates > 0 or settings.nested > 0
        self.attributes: list[list[Values]] = []
        self.texts: list[list[Values]] = []
        if settings.predicates:
            self.attributes = [self.attribute_values(element) for element in elements]
            self.texts = [self.text_values(element) for element in elements]
        there = {"attribute": any(self.attributes), "text": any(self.texts), "position": True}
        self.kinds = [kind for kind, share in settings.kinds.items() if share and there[kind]]
        self.kind_bounds = shares_up_to([settings.kinds[kind] for kind in self.kinds]) if self.kinds else []
        self.requirements: tuple[int, list[str]] | None = None

    # Tables.

    def make_tables(self) -> list[Table]:
        """For each step of a walk, the children from which the rest of `depth_min` is possible."""
        settings = self.settings
        longest = self.longest(settings.depth_min)
        by_need: dict[int, Table] = {}
        tables = []
        for place in range(settings.depth_max):
            need = max(0, settings.depth_min - place - 1)
            if need not in by_need:
                lists = [[child for child in below if longest[child] >= need] for below in self.children]
                by_need[need] = self.make_table(lists)
            tables.append(by_need[need])
        if not tables[0][0][self.above]:
            message = f"{self.schema.name}: no path of the schema has {settings.depth_min} steps"
            raise QueryLimitError(message, code="TC381", hint="lower depth_min")
        return tables

    def make_table(self, lists: list[list[int]]) -> Table:
        skew = self.settings.skew
        return lists, [shares_up_to(zipf(len(below), skew) or []) if skew and below else [] for below in lists]

    def longest(self, steps_max: int) -> list[int]:
        """For each element how many steps a walk below it can take, up to `steps_max`."""
        longest = [0] * len(self.names)
        for _ in range(steps_max):
            longest = [
                max((min(steps_max, longest[child] + 1) for child in below), default=0) for below in self.children[:-1]
            ]
        return longest

    def attribute_values(self, element: Element) -> list[Values]:
        pairs = []
        for attribute in element.attributes:
            values = self.values.of_attribute(element, attribute.name, self.schema.unparsed_entities)
            if values is not None:
                pairs.append((f"@{attribute.name}", values))
        return pairs

    def text_values(self, element: Element) -> list[Values]:
        """With a selectivity, only elements with a single text: of several texts, one match would be enough."""
        if element.content not in ("mixed", "any"):
            return []
        if self.settings.selectivity is not None and self.schema.children(element.name):
            return []
        return [("text()", self.values.of_text(element))]

    # Draws.

    def draw(self) -> str | None:
        """The next query; None for a walk without a place for what was requested."""
        steps, elements = self.walk()
        settings = self.settings
        if self.with_predicates and not self.hang(steps, elements):
            return None
        if settings.attribute or settings.text:
            share = self.random()
            names = self.final_attributes[elements[-1]]
            if share < settings.attribute:
                if names:
                    steps.append(names[int(self.random() * len(names))])
            elif share < settings.attribute + settings.text:
                steps.append("/text()")
        return "".join(steps)

    def make_walk(self) -> Callable[[], tuple[list[str], list[int]]]:
        """A function that draws one walk: its steps as text, and their elements.

        PERF: two random numbers a step, one for the element, one for all else, and everything in local names:
        bench/generating.py."""
        random, tables, above, settings = self.random, self.tables, self.above, self.settings
        child_steps, descendant_steps = self.child_steps, self.descendant_steps
        depth_min, skip, stop, is_skewed = settings.depth_min, settings.skip, settings.stop, settings.skew > 0
        # The unit interval in four parts: /name, /*, //name, //*.
        child = 1 - settings.descendant
        child_name = child * (1 - settings.wildcard)
        descendant_name = child + settings.descendant * (1 - settings.wildcard)

        def walk() -> tuple[list[str], list[int]]:
            steps: list[str] = []
            elements: list[int] = []
            at = above
            for lists, bounds in tables:
                below = lists[at]
                if not below:
                    break
                at = below[bisect_right(bounds[at], random()) if is_skewed else int(random() * len(below))]
                form = random()
                stops = form < stop
                form = form / stop if stops else (form - stop) / (1 - stop)
                if form < child_name:
                    steps.append(child_steps[at])
                elif form < child:
                    steps.append("/*")
                else:
                    while lists[at] and random() < skip:
                        below = lists[at]
                        at = below[bisect_right(bounds[at], random()) if is_skewed else int(random() * len(below))]
                    steps.append(descendant_steps[at] if form < descendant_name else "//*")
                elements.append(at)
                if stops and len(steps) >= depth_min:
                    break
            return steps, elements

        return walk

    def hang(self, steps: list[str], elements: list[int]) -> bool:
        """Add nested paths and predicates to the steps; False if there is no place for one. The next walk then tries
        the same ones, so that all kinds keep their shares."""
        if self.requirements is None:
            number = self.whole(self.settings.nested)
            kinds = [self.draw_kind() for _ in range(self.whole(self.settings.predicates))]
            self.requirements = number, kinds
        nested, kinds = self.requirements
        for _ in range(nested):
            places = [place for place, at in enumerate(elements) if self.children[at]]
            if not places:
                return False
            place = places[int(self.random() * len(places))]
            steps[place] += f"[{self.branch(elements[place])}]"
        for kind in kinds:
            if not self.hang_predicate(kind, steps, elements):
                return False
        self.requirements = None
        return True

    def draw_kind(self) -> str:
        return self.kinds[bisect_right(self.kind_bounds, self.random())] if self.kinds else ""

    def hang_predicate(self, kind: str, steps: list[str], elements: list[int]) -> bool:
        if kind == "position":
            place = int(self.random() * len(steps))
            steps[place] += f"[{1 + int(self.random() * self.settings.position_max)}]"
            return True
        table = self.attributes if kind == "attribute" else self.texts
        places = [place for place, at in enumerate(elements) if table[at]] if kind else []
        if not places:
            return False
        place = places[int(self.random() * len(places))]
        choices = table[elements[place]]
        predicate = self.value_predicate(*choices[int(self.random() * len(choices))])
        if predicate is None:
            return False
        steps[place] += predicate
        return True

    def whole(self, mean: float) -> int:
        """A whole number with this mean: the one below it or the one above it."""
        number = int(mean)
        return number + 1 if mean > number and self.random() < mean - number else number

    def branch(self, at: int) -> str:
        """A relative path that starts at the children of this element."""
        random, settings, is_skewed = self.random, self.settings, self.settings.skew > 0
        lists, bounds = self.branch_table
        steps: list[str] = []
        while lists[at] and len(steps) < settings.nested_depth_max:
            at = lists[at][bisect_right(bounds[at], random()) if is_skewed else int(random() * len(lists[at]))]
            if random() < settings.descendant:
                while lists[at] and random() < settings.skip:
                    at = lists[at][bisect_right(bounds[at], random()) if is_skewed else int(random() * len(lists[at]))]
                steps.append("//*" if random() < settings.wildcard else self.descendant_steps[at])
            else:
                steps.append("/*" if random() < settings.wildcard else self.child_steps[at])
            if random() < settings.stop:
                break
        path = "".join(steps)
        return "." + path if path.startswith("//") else path[1:]

    # Value predicates.

    def value_predicate(self, target: str, values: Distribution) -> str | None:
        """`[target="v"]`, or a predicate with the selectivity; None for a value that XPath cannot express."""
        random, selectivity = self.random, self.settings.selectivity
        if selectivity is None:
            literal = quote_value(values, values.draw(random()))
            return None if literal is None else f"[{target}={literal}]"
        if values.numeric:
            return self.range_predicate(target, values, selectivity)
        sign, is_drawn = self.sign_for(values.collision, selectivity)
        if not is_drawn:
            return f'[{target}{sign}"none{int(random() * LACKING)}"]'
        literal = quote_value(values, values.draw(random()))
        return None if literal is None else f"[{target}{sign}{literal}]"

    def range_predicate(self, target: str, values: Distribution, selectivity: float) -> str:
        """A range that contains this share of the numbers, with a random start."""
        begin = self.random() * (1 - selectivity)
        low = values.draw(begin)
        if begin + selectivity >= 1:
            return f"[{target}>={low}]"
        return f"[{target}>={low} and {target}<{values.draw(begin + selectivity)}]"

    def sign_for(self, collision: float, selectivity: float) -> tuple[str, bool]:
        """`=` or `!=`, with a drawn value or with one that no document has, so that on average this share of the values
        satisfies the predicate. `=` holds for a drawn value with the probability `collision`, and never for one that no
        document has; `!=` is the opposite."""
        share = self.random()
        if selectivity <= collision:
            return "=", share * collision < selectivity
        best = max(collision, 1 - collision)
        if selectivity <= best:
            unequal = (selectivity - collision) / (1 - 2 * collision)
            return ("!=" if share < unequal else "="), True
        always = (selectivity - best) / (1 - best)
        if share < always:
            return "!=", False
        return ("!=" if best == 1 - collision else "="), True


def quote_value(values: Distribution, value: str) -> str | None:
    """The value in XPath: numbers unquoted, others in quotes that they do not contain."""
    if values.numeric:
        return value
    if '"' not in value:
        return f'"{value}"'
    return f"'{value}'" if "'" not in value else None
