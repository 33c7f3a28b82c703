"""Predicates that many subscriptions share but for their constants: what columns decide (native/evaluate/columns.hpp).

A round has few paths and few operands, so that each is asked for by many queries, with arithmetic, comparisons of
numbers, of sets with numbers and of texts around them. Numbers are small, or at the edges of what a double holds.
"""

from __future__ import annotations

from random import Random

from oracles.differential import Query

CONTEXTS = ("//item", "/feed/item", "//feed//item", "//*", "/feed/*/item", "//item/item", "/*", "//descendant::item")
OPERANDS = (
    "@n", "@m", "name", ".", "position()", "last()", "string-length(name)", "count(item)", "sum(item/@n)", "../@n",
    "number(@m)", "string-length(@lang)", "count(preceding-sibling::*)", "number()", "name/text()", "count(//item)",
)  # fmt: skip
SETS = (
    "preceding-sibling::item/@n", "item/@n", "@*", "../item/@m", "ancestor::*/@n", "following-sibling::*/name", "//@n",
    "name | item/name", "comment()",
)  # fmt: skip
TEXTS = (
    "name",
    "@lang",
    "@n",
    "string(@m)",
    "local-name()",
    "normalize-space(name)",
    "position()",
    "translate(name, 'x', 'y')",
)
CONSTANTS = ("0", "1", "2", "3", "50", "0.5", "-1", "'2'", "'x'", "100")
EDGES = ("9007199254740992", "9007199254740993", "(0 div 0)", "(1 div 0)", "(-1 div 0)", "(-0)", "0.1", "0.3")
LITERALS = ("x", "xen", "1", "1-en", "x-en", "", "en", "-", "itemx", "xx")
RELATIONS = ("=", "=", "!=", "<", "<=", ">", ">=")
VALUES = ("0", "1", "2", "3", "-1", "0.5", "x", "", "50", " 2 ", "NaN", "-0")
EDGE_VALUES = ("9007199254740992", "9007199254740993", "0.1", "0.2", "0.3", "-0", "0", "4294967296", "1")


class ColumnDrawer:
    """The `edges` are those of numbers."""

    def __init__(self, random: Random, *, edges: bool = False) -> None:
        self.random = random
        self.constants = (*CONSTANTS, *EDGES) if edges else CONSTANTS
        self.values = EDGE_VALUES if edges else VALUES
        self.contexts = random.sample(CONTEXTS, 2)
        # Numbers beside each other would make longer ones, which libxml2 rounds in its own way.
        self.operands = random.sample([one for one in OPERANDS if not edges or one not in (".", "number()")], 4)
        self.sets = random.sample(SETS, 2)
        self.texts = random.sample(TEXTS if not edges else TEXTS[:2], 2)

    def number(self, depth: int = 0) -> str:
        random = self.random
        form = random.random()
        if depth == 2 or form < 0.3:
            return random.choice(self.operands)
        if form < 0.55:
            return random.choice(self.constants)
        if form < 0.85:
            return f"({self.number(depth + 1)} {random.choice(('+', '-', '*', 'div', 'mod'))} {self.number(depth + 1)})"
        return random.choice(("-{}", "floor({})", "ceiling({})", "round({})", "number({})")).format(
            self.number(depth + 1)
        )

    def text(self) -> str:
        random = self.random
        pieces = [random.choice((*self.texts, f"'{random.choice(LITERALS)}'")) for _ in range(random.choice((2, 2, 3)))]
        literal = f'"{random.choice(LITERALS)}"'
        return f"concat({', '.join(pieces)}) {random.choice(('=', '!='))} {literal}"

    def comparison(self) -> str:
        random, form = self.random, self.random.random()
        if form < 0.2:
            return self.text()
        left = random.choice(self.sets) if form < 0.55 else self.number()
        sides = [left, f"{self.number()} {random.choice('+-*')} {random.choice(self.constants)}"]
        if random.random() < 0.3:
            sides.reverse()
        return f"{sides[0]} {random.choice(RELATIONS)} {sides[1]}"

    def query(self) -> Query:
        random = self.random
        condition = self.comparison()
        form = random.random()
        if form < 0.15:
            condition = f"{condition} {random.choice(('and', 'or'))} {self.comparison()}"
        elif form < 0.25:
            condition = f"not({condition})"
        elif form < 0.3:
            condition = f"boolean({condition})"
        text = f"{random.choice(self.contexts)}[{condition}]"
        return Query(text, text, (), ())

    def queries(self, count: int) -> list[Query]:
        return [self.query() for _ in range(count)]

    def element(self, depth: int) -> str:
        random = self.random
        name = random.choice(("item", "item", "item", "other"))
        attributes = "".join(f' {one}="{random.choice(self.values)}"' for one in ("n", "m") if random.random() < 0.7)
        if random.random() < 0.5:
            attributes += f' lang="{random.choice(("en", "x", ""))}"'
        inside = "".join(
            f"<name>{random.choice((*self.values, 'x', 'xx'))}</name>" for _ in range(random.choice((0, 1, 1, 2)))
        )
        if random.random() < 0.2:
            inside += f"<!--{random.choice(('1', '2', 'x'))}-->"
        inside += "".join(self.element(depth + 1) for _ in range(random.choice((0, 0, 1, 3)) if depth < 2 else 0))
        return f"<{name}{attributes}>{inside}</{name}>"

    def document(self) -> bytes:
        """Some have more contexts than are decided at once."""
        random = self.random
        count = 150 if random.random() < 0.05 else random.choice((0, 1, 5, 12))
        inside = "".join(self.element(0) for _ in range(count))
        return f'<feed n="{random.choice(self.values)}">{inside}</feed>'.encode()
