"""Random conditions of the whole language whose operands are known, and a path that leads to where they are asked.

An explanation has to name the value of each of these operands, whatever they are. What libxml2 computes otherwise than
the specification is not drawn (`generators.expressions`).

    drawer = ExplainedConditionDrawer(Random(7))
    drawer.drawn()       # a `DrawnCondition`
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from generators.expressions import ATTRIBUTE, FOLLOWING, RELATIONS, UNPREFIXED, ExpressionDrawer

STEPS = ("//a", "//a", "//b", "//c", "//*", "//*", "//text()", "//@x", "//@y", "//comment()")
PATTERNS = ("^20", "[0-9]", "^(x|1)", "x.?y", "é", "^ *[0-9]+", "^$|N", "[^x]")
# What a reader sees in the text: literals, numbers, and calls without arguments.
EVIDENT = re.compile(
    r"""[\s(-]*(?:\d+\.?\d*|\.\d+|'[^']*'|"[^"]*"|(?:true|false|position|last)\s*\(\s*\))[\s)]*""", re.DOTALL
)


@dataclass(frozen=True)
class DrawnCondition:
    """`step[text]` is the query; without a step `text` is, and its context is the document."""

    step: str
    text: str
    operands: tuple[str, ...]
    relation: str = ""
    """Of a comparison of the two operands."""

    @property
    def query(self) -> str:
        return f"{self.step}[{self.text}]" if self.step else self.text

    @property
    def named(self) -> tuple[str, ...]:
        """The operands that are not evident."""
        return tuple(operand for operand in self.operands if not EVIDENT.fullmatch(operand))


class ExplainedConditionDrawer(ExpressionDrawer):
    """Draws a form first and then its operands, so that it knows them."""

    def drawn(self) -> DrawnCondition:
        step = self.random.choice(STEPS) if self.random.random() < 0.8 else ""
        self.brackets = 1 if step else 0
        made = self.form(step)
        if FOLLOWING.search(made.query) and ATTRIBUTE.search(made.query):
            return self.drawn()
        operands = tuple(operand.replace(UNPREFIXED, "") for operand in made.operands)
        return replace(made, text=made.text.replace(UNPREFIXED, ""), operands=operands)

    def form(self, step: str) -> DrawnCondition:
        random = self.random
        kind = random.random()
        if kind < 0.4:
            return self.compared(step)
        if kind < 0.5:
            name = random.choice(("contains", "starts-with"))
            return self.called(step, name, self.textual(1), self.textual(1))
        if kind < 0.55:
            near = (".", "@x", "a", "*", "text()", "../*") if step else ("//a", "//@x", "/*")
            value = random.choice(near) if random.random() < 0.5 else self.string(1)
            return self.called(step, "matches", value, f"'{random.choice(PATTERNS)}'")
        if kind < 0.6:
            return self.called(step, "boolean", self.some((1, self.string), (1, self.number))(1))
        if kind < 0.7:
            inner = self.form(step)
            return DrawnCondition(step, f"not({inner.text})", inner.operands)
        if kind < 0.8:
            draw = self.some((3, self.items), (1, self.string), (1, self.number))
            text = self.operand(draw, 1)
            return DrawnCondition(step, text, (text,))
        if kind < 0.9 and step:
            return DrawnCondition(step, self.position(1), ())
        return DrawnCondition(step, self.boolean(0), ())

    def compared(self, step: str) -> DrawnCondition:
        any_side = self.some((6, self.items), (3, self.number), (3, self.string), (0.7, self.boolean))
        other = self.some((3, self.items), (3, self.number), (3, self.string), (0.7, self.boolean))
        left, right = self.operand(any_side, 1), self.operand(other, 1)
        relation = self.random.choice(RELATIONS)
        return DrawnCondition(step, f"{left} {relation} {right}", (left, right), relation)

    def called(self, step: str, name: str, *arguments: str) -> DrawnCondition:
        return DrawnCondition(step, self.call(name, *arguments), arguments)
