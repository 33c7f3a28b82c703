"""Random expressions of the whole of XPath 1.0: every axis but `namespace::`, every node test, every function but
`id()`, every operator, filter expressions, unions, positions, conversions between all types; at the top a path or an
expression.

An expression is drawn by type (`items` is what the specification calls a node-set), and each function is sometimes
given an argument of another type, which is then converted. Texts are written with few names and few values, so that
much matches; spaces stand wherever they may.

    drawer = ExpressionDrawer(Random(7), prefixes=(("p", "urn:1"),))
    drawer.query()         # a `Query`: a text for treecast, and the same for lxml

What libxml2 computes otherwise than the specification is not drawn (docs/decisions.md lists it): numbers that need more
than 15 digits, or an exponent, where they become text; and what follows an attribute. `edges` draws large numbers, and
never makes text of a number. For Saxon (`oracles.saxon_expressions`) something else is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from oracles.differential import Query

from generators.mixed_documents import ATTRIBUTES, LANGUAGES, NAMES, URIS

Draw = Callable[[int], str]

# Stands before element names without a prefix: nothing for treecast, a prefix for an oracle where "" is bound.
UNPREFIXED = "\x01"
ORACLE_DEFAULT = "default-namespace"

NUMBERS = ("0", "1", "1", "1", "2", "2", "3", "0.5", ".5", "2.", "10", "1.5", "100")
EDGE_NUMBERS = (
    "9007199254740992", "9007199254740993", "0", "0.1", "0.2", "0.3", "4294967296", "2147483648", "0.5", "1.5", "2.5",
    "1", "(0 div 0)", "(1 div 0)", "(-1 div 0)", "(-0)", "1000000000000000000000",
)  # fmt: skip
LITERALS = (
    "1",
    "1",
    "2",
    "x",
    "x",
    "xy",
    "y",
    "",
    "1.0",
    "é",
    " 1 ",
    "NaN",
    "-1",
    "en",
    "a",
    "urn:1",
    "p:a",
    "\U0001d11e",
    "true",
    "-",
)
RELATIONS = ("=", "=", "=", "!=", "<", "<=", ">", ">=")
FORWARD = ("child", "child", "child", "descendant", "descendant-or-self", "self", "following", "following-sibling")
REVERSE = ("parent", "parent", "ancestor", "ancestor", "ancestor-or-self", "preceding", "preceding-sibling")
OTHER_TESTS = (
    "node()", "node()", "text()", "text()", "comment()", "processing-instruction()", "processing-instruction('p')",
    'processing-instruction( "q" )',
)  # fmt: skip
# libxml2 does not see what is inside an element among what follows its attributes.
FOLLOWING, ATTRIBUTE = re.compile(r"following\s*::"), re.compile(r"@|attribute\s*::")


@dataclass
class ExpressionDrawer:
    """`depth_max` is how far expressions nest; `prefixes` are those of the queries, "" for names without one.

    What one of the `oracles`, lxml and saxon, computes otherwise than XPath 1.0 says is not drawn.
    """

    random: Random
    prefixes: tuple[tuple[str, str], ...] = ()
    depth_max: int = 3
    edges: bool = False
    oracles: tuple[str, ...] = ("lxml",)
    brackets: int = 0  # how many predicates are open: outside them there is no context, and paths are absolute

    def query(self) -> Query:
        """A path half of the time; else any expression of any type."""
        form = self.random.random()
        text = self.path(0) if form < 0.5 else self.items(0) if form < 0.65 else self.any(0)
        if "lxml" in self.oracles and FOLLOWING.search(text) and ATTRIBUTE.search(text):
            return self.query()
        namespaces = dict(self.prefixes)
        oracle = f"{ORACLE_DEFAULT}:" if namespaces.get("") else ""
        oracle_namespaces = {prefix or ORACLE_DEFAULT: uri for prefix, uri in self.prefixes}
        return Query(
            text.replace(UNPREFIXED, ""),
            text.replace(UNPREFIXED, oracle),
            self.prefixes,
            tuple(oracle_namespaces.items()),
        )

    # --- what every type shares ---------------------------------------------------------------------------------------

    def some(self, *draws: tuple[float, Draw]) -> Draw:
        return self.random.choices([draw for _, draw in draws], [weight for weight, _ in draws])[0]

    def space(self) -> str:
        return self.random.choice(" \n") if self.random.random() < 0.03 else ""

    def call(self, name: str, *arguments: str) -> str:
        inside = f"{self.space()},{self.space()}".join(arguments)
        return f"{name}{self.space()}({self.space()}{inside}{self.space()})"

    def infix(self, left: str, operator: str, right: str) -> str:
        return f"{left} {operator} {right}"

    def any(self, depth: int) -> str:
        return self.some((4, self.items), (2, self.number), (2, self.string), (4, self.boolean))(depth)

    def wrapped(self, text: str) -> str:
        """Sometimes in parentheses that change nothing; always where an operator would bind otherwise."""
        return f"({self.space()}{text}{self.space()})"

    def operand(self, draw: Draw, depth: int) -> str:
        """As the side of an operator: what holds operators itself stands in parentheses."""
        text = draw(depth)
        return text if draw in (self.path, self.literal) else self.wrapped(text)

    # --- items: what the specification calls a node-set ---------------------------------------------------------------

    def items(self, depth: int) -> str:
        return self.some((7, self.path), (1, self.union), (1.5, self.filter))(depth)

    def union(self, depth: int) -> str:
        sides = [self.path(depth + 1), self.some((3, self.path), (1, self.filter))(depth + 1)]
        return f" {self.random.choice(('|', '|', ' | '))} ".join(sides)

    def filter(self, depth: int) -> str:
        """`(…)[…]`, `(…)/…`, `(…)//…`, one inside another."""
        inner = self.some((3, self.path), (2, self.union), (1, self.filter))(depth + 1)
        text = self.wrapped(inner)
        while self.random.random() < 0.5:
            text += self.predicate(depth + 1)
        if self.random.random() < 0.4:
            text += self.random.choice(("/", "/", "//")) + self.steps(depth + 1)
        return text

    def path(self, depth: int) -> str:
        """Absolute outside predicates, where nothing else is allowed; mostly relative in them."""
        if self.brackets and self.random.random() < 0.75:
            return self.steps(depth)
        if self.random.random() < 0.02:
            return "/"
        return self.random.choice(("/", "//", "//")) + self.steps(depth)

    def steps(self, depth: int) -> str:
        count = self.random.choice((1, 1, 1, 2, 2) if depth else (1, 2, 2, 3, 4))
        text = self.step(depth, last=count == 1)
        for place in range(1, count):
            text += self.random.choice(("/", "/", "/", "//")) + self.step(depth, last=place == count - 1)
        return text

    def step(self, depth: int, *, last: bool) -> str:
        random = self.random
        form = random.random()
        if form < 0.08:
            return random.choice((".", "..", ".."))
        if form < (0.22 if last else 0.1):
            axis, test = random.choice(("@", "@", "attribute::")), self.attribute_test()
        elif form < 0.55:
            axis, test = "", self.test()
        else:
            name = random.choice(FORWARD if random.random() < 0.6 else REVERSE)
            above = name in ("parent", "ancestor") and random.random() < 0.8  # where there are elements alone
            test = random.choice(("*", "node()", UNPREFIXED + random.choice(NAMES))) if above else self.test()
            axis = f"{name}{self.space()}::{self.space()}"
        text = axis + test
        while depth < self.depth_max and random.random() < (0.35 if depth == 0 else 0.2):
            text += self.predicate(depth + 1)
        return text

    def test(self) -> str:
        random, form = self.random, self.random.random()
        prefixes = [prefix for prefix, _ in self.prefixes if prefix]
        if form < 0.3:
            return "*"
        if form < 0.45:
            return random.choice(OTHER_TESTS)
        if prefixes and form < 0.55:
            return f"{random.choice(prefixes)}:{random.choice((*NAMES, '*'))}"
        return UNPREFIXED + random.choice(NAMES)

    def attribute_test(self) -> str:
        random, form = self.random, self.random.random()
        prefixes = [prefix for prefix, _ in self.prefixes if prefix]
        if form < 0.2:
            return random.choice(("*", "*", "node()", "text()"))
        if prefixes and form < 0.35:
            return f"{random.choice(prefixes)}:{random.choice((*ATTRIBUTES, '*'))}"
        return "xml:lang" if form < 0.4 else random.choice(ATTRIBUTES)

    def predicate(self, depth: int) -> str:
        draw = self.some((4, self.boolean), (2, self.position), (2, self.items), (0.7, self.number), (0.5, self.string))
        self.brackets += 1
        text = draw(depth)
        self.brackets -= 1
        return f"[{self.space()}{text}{self.space()}]"

    def position(self, depth: int) -> str:
        random = self.random
        place = random.choice(("position()", "last()", "last() - 1", "last() - position()", "position() mod 2"))
        form = random.random()
        if form < 0.4:
            return random.choice(("1", "1", "2", "3", "last()", "last() - 1", "position()"))
        return f"{place} {random.choice(RELATIONS)} {random.choice(('1', '2', '0', 'last()', 'count(*)', '@x'))}"

    # --- numbers ------------------------------------------------------------------------------------------------------

    def literal(self, depth: int) -> str:
        return self.random.choice(EDGE_NUMBERS if self.edges else NUMBERS)

    def number(self, depth: int) -> str:
        if depth >= self.depth_max:
            return self.some((3, self.literal), (1, self.counted), (1 if self.brackets else 0, self.place))(depth)
        return self.some(
            (3, self.literal), (3, self.counted), (2, self.arithmetic), (1, self.negated), (1.5, self.rounded),
            (1, self.length), (1 if self.brackets else 0, self.place), (1.5, self.converted),
        )(depth)  # fmt: skip

    def place(self, depth: int) -> str:
        return self.random.choice(("position()", "last()"))

    def counted(self, depth: int) -> str:
        return self.call(self.random.choice(("count", "count", "sum")), self.items(depth + 1))

    def negated(self, depth: int) -> str:
        return f"{self.random.choice(('-', '-', '--', '- '))}{self.operand(self.number, depth + 1)}"

    def rounded(self, depth: int) -> str:
        return self.call(self.random.choice(("floor", "ceiling", "round")), self.numeric(depth + 1))

    def converted(self, depth: int) -> str:
        return self.call("number", *([] if self.brackets and self.random.random() < 0.2 else [self.any(depth + 1)]))

    def length(self, depth: int) -> str:
        return self.call(
            "string-length", *([] if self.brackets and self.random.random() < 0.2 else [self.textual(depth + 1)])
        )

    def arithmetic(self, depth: int) -> str:
        """Quotients that are not binary fractions only where they cannot become text."""
        left, right = self.operand(self.numeric, depth + 1), self.operand(self.numeric, depth + 1)
        operator = self.random.choice(("+", "-", "*", "mod", "div"))
        if operator == "div" and not self.edges:
            right = self.random.choice(("2", "4", "0", "-2", "0.5"))
        return self.infix(left, operator, right)

    def numeric(self, depth: int) -> str:
        """A number, or what becomes one."""
        return self.some((6, self.number), (2, self.path), (0.7, self.string), (0.3, self.boolean))(depth)

    # --- texts --------------------------------------------------------------------------------------------------------

    def quoted(self, depth: int) -> str:
        text = self.random.choice(LITERALS)
        return f'"{text}"' if self.random.random() < 0.5 else f"'{text}'"

    def string(self, depth: int) -> str:
        if depth >= self.depth_max:
            return self.some((3, self.quoted), (1, self.named))(depth)
        return self.some(
            (3, self.quoted), (2, self.named), (2, self.string_of), (1, self.joined), (1.5, self.cut),
            (1.5, self.divided), (1.5, self.normal), (1, self.translated),
        )(depth)  # fmt: skip

    def textual(self, depth: int) -> str:
        """A text, or what becomes one: numbers too, unless they are large."""
        draws: list[tuple[float, Draw]] = [(4, self.string), (4, self.items), (0.4, self.boolean)]
        return self.some(*draws, (0 if self.edges else 0.8, self.number))(depth)

    def named(self, depth: int) -> str:
        name = self.random.choice(("name", "local-name", "namespace-uri"))
        bare = self.brackets and (depth >= self.depth_max or self.random.random() < 0.5)
        return self.call(name, *([] if bare else [self.items(depth + 1)]))

    def string_of(self, depth: int) -> str:
        return self.call("string", *([] if self.brackets and self.random.random() < 0.3 else [self.textual(depth + 1)]))

    def normal(self, depth: int) -> str:
        return self.call(
            "normalize-space", *([] if self.brackets and self.random.random() < 0.3 else [self.textual(depth + 1)])
        )

    def joined(self, depth: int) -> str:
        return self.call("concat", *(self.textual(depth + 1) for _ in range(self.random.choice((2, 2, 3)))))

    def cut(self, depth: int) -> str:
        numbers = [self.numeric(depth + 1) for _ in range(self.random.choice((1, 2)))]
        return self.call("substring", self.textual(depth + 1), *numbers)

    def divided(self, depth: int) -> str:
        name = self.random.choice(("substring-before", "substring-after"))
        return self.call(name, self.textual(depth + 1), self.textual(depth + 1))

    def translated(self, depth: int) -> str:
        letters = [f"'{self.random.choice(('xy', 'x', '', 'xyé1', 'xx', '12', 'yx ', 'abc'))}'" for _ in range(2)]
        return self.call("translate", self.textual(depth + 1), *letters)

    # --- truth --------------------------------------------------------------------------------------------------------

    def boolean(self, depth: int) -> str:
        if depth >= self.depth_max:
            return self.some((4, self.comparison), (1, self.constant))(depth)
        return self.some(
            (8, self.comparison), (2, self.negation), (3, self.joint), (1, self.truth), (0.4, self.constant),
            (3, self.found), (0.6 if self.brackets else 0, self.language),
            (0 if "saxon" in self.oracles else 0.5, self.chain),
        )(depth)  # fmt: skip

    def constant(self, depth: int) -> str:
        return self.call(self.random.choice(("true", "false")))

    def truth(self, depth: int) -> str:
        return self.call("boolean", self.any(depth + 1))

    def negation(self, depth: int) -> str:
        return self.call("not", self.any(depth + 1))

    def language(self, depth: int) -> str:
        return self.call("lang", f"'{self.random.choice(LANGUAGES)}'" if self.random.random() < 0.8 else "@x")

    def found(self, depth: int) -> str:
        name = self.random.choice(("contains", "starts-with"))
        return self.call(name, self.textual(depth + 1), self.textual(depth + 1))

    def joint(self, depth: int) -> str:
        word = self.random.choice(("and", "or"))
        return self.infix(self.operand(self.any, depth + 1), word, self.operand(self.any, depth + 1))

    def comparison(self, depth: int) -> str:
        """Mostly with a path on one side; every pair of types comes. Saxon orders booleans in its own way."""
        relations: tuple[str, ...] = RELATIONS
        if depth >= self.depth_max:
            sides = [
                self.steps(depth) if self.brackets else self.path(depth),
                self.some((1, self.quoted), (1, self.literal))(depth),
            ]
        else:
            left = self.some((6, self.items), (2, self.number), (2, self.string), (0.5, self.boolean))
            right = self.some((2, self.items), (3, self.number), (3, self.string), (0.5, self.boolean))
            sides = [self.operand(left, depth + 1), self.operand(right, depth + 1)]
            if "saxon" in self.oracles and self.boolean in (left, right):
                relations = RELATIONS[:4]
        if self.random.random() < 0.3:
            sides.reverse()
        return self.infix(sides[0], self.random.choice(relations), sides[1])

    def chain(self, depth: int) -> str:
        """Operators without parentheses: precedence and associativity decide."""
        random = self.random
        parts = [random.choice(("1", "2", "0", "3", "'1'", "'x'", "true()")) for _ in range(random.choice((3, 4)))]
        text = parts[0]
        for part in parts[1:]:
            text += f" {random.choice((*RELATIONS, '+', '-', '*', 'div', 'mod', 'and', 'or'))} {part}"
        return text


def draw_expressions(
    random: Random,
    count: int,
    *,
    namespaces: bool = True,
    edges: bool = False,
    depth_max: int | None = None,
    oracles: tuple[str, ...] = ("lxml",),
) -> list[Query]:
    """Queries under one or two sets of bindings."""
    drawers = []
    for _ in range(random.choice((1, 2))):
        prefixes: list[tuple[str, str]] = []
        if namespaces and random.random() < 0.7:
            prefixes = list(zip(("p", "q"), random.sample(URIS, 2), strict=True))
            if random.random() < 0.3:
                prefixes.append(("", random.choice(URIS)))
        depth = depth_max or random.choice((1, 2, 2, 3))
        drawers.append(ExpressionDrawer(random, tuple(prefixes), depth_max=depth, edges=edges, oracles=oracles))
    return [random.choice(drawers).query() for _ in range(count)]
