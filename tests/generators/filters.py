"""Random queries as the engines of the papers take them: `/`, `//`, names and `*`, predicates on values, nested paths.

Few names, few values, many hits, so that recursion brings several elements to each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from oracles.differential import Query, plain

from generators.conditions import ATTRIBUTES, LITERALS, LOCALS, NUMBERS, RELATIONS


@dataclass
class FilterDrawer:
    """Draws queries; `nested` allows nested paths, up to `depth_max` inside each other."""

    random: Random
    nested: bool
    predicates: float = 0.3
    deep: float = 0.4
    depth_max: int = 3

    def query(self) -> Query:
        branches = [self.main_path()]
        while self.random.random() < 0.08 and len(branches) < 3:
            branches.append(self.main_path())
        return plain(" | ".join(branches))

    def main_path(self) -> str:
        steps = self.random.choice((1, 2, 2, 3, 3, 4, 6))
        text = "".join(self.between() + self.step(0) for _ in range(steps))
        if self.random.random() < 0.15:
            text += self.between() + self.value()
        return text

    def between(self) -> str:
        return "//" if self.random.random() < self.deep else "/"

    def step(self, depth: int) -> str:
        text = "*" if self.random.random() < 0.25 else self.random.choice(LOCALS)
        if self.random.random() < self.predicates / 3:
            text += f"[{self.position()}]"
        while self.random.random() < self.predicates:
            text += f"[{self.predicate(depth)}]"
        return text

    def position(self) -> str:
        number = self.random.choice(("1", "1", "2", "3"))
        if self.random.random() < 0.5:
            return number
        text = f"position() {self.random.choice(RELATIONS)} {number}"
        return f"{text} and {self.comparison('@x')}" if self.random.random() < 0.3 else text

    def predicate(self, depth: int) -> str:
        form = self.random.random()
        if form < 0.1:
            return f"{self.predicate(depth)} and {self.predicate(depth)}"
        if form < 0.5 and self.nested and depth < self.depth_max:
            return self.nested_path(depth + 1)
        operand = self.random.choice(("@x", "@y", "@*", "text()", ".", self.value()))
        if form < 0.65 and operand != ".":
            return operand
        return self.comparison(operand)

    def nested_path(self, depth: int) -> str:
        text = self.random.choice(("", "", ".//")) + self.step(depth)
        while self.random.random() < 0.4:
            text += self.between() + self.step(depth)
        if self.random.random() < 0.2:
            text += "/" + self.value()
        return text if self.random.random() < 0.6 else self.comparison(text)

    def value(self) -> str:
        text = self.random.choice(("text()", "@*", *(f"@{name}" for name in ATTRIBUTES)))
        while self.random.random() < 0.3:
            text += f"[{self.comparison('.')}]"
        return text

    def comparison(self, operand: str) -> str:
        relation = self.random.choice(RELATIONS)
        value = self.random.choice(NUMBERS) if self.random.random() < 0.5 else f"'{self.random.choice(LITERALS)}'"
        return f"{operand} {relation} {value}"
