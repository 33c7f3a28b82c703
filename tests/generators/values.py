"""Queries about values: many comparisons with few labels, so that bounds, prefixes and substrings stand side by side.

`ValueDrawer` fills fixed shapes with values of a grid that the documents are drawn from, too. `draw_samples` reads a
document and asks for what it says, or nearly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from lxml import etree
from oracles.differential import PARSER, Query

from generators.functions import FUNCTIONS
from generators.paths_and_documents import XML_URI, Vocabulary, split_name

Pair = tuple[str, str]

GRID = ("-2", "-1", "-0.5", "0", "0.5", "1", "1.5", "2", "2.5", "3", "10", "100")
WORDS = ("x", "y", "xy", "yx", "xyx", "yxy", "xxy", "xx", "yyx", "é", "éx", "xé", "z", "", " ", "x ", "NaN", "1 2", "-")
DOCUMENT_VALUES = (*GRID, *WORDS, " 1 ", "1.0", "01", "-0", "1.", "2.50", "xyxyx", "yxxyéx", "yyxyx", "xxxxy", "3\n")
LITERALS = (*GRID, *WORDS, " 1 ", "1.0", "xyxy")
RELATIONS = ("=", "!=", "<", "<=", ">", ">=")
OPERANDS = (
    "@x", "@x", "@y", "@*", ".", ".", "text()", "b", "b", "c", "*", ".//c", "b/@x", "b/text()", ".//text()", ".//@y",
    "b//c", "/a/@x", "//b", "//c/@y", "self::b", "descendant-or-self::c", "b[@x]", "b[2]", "c[last()]", "text()[2]",
    "b[@x > 1]", "b[. != '1']", "(b | c)", "(@x | @y)", "*[not(b)]", "b[c]/@y",
)  # fmt: skip
SHAPES = (
    "//a[{0}]", "/a[{0}]", "//*[{0}]", "//b[{0}]", "//c[{0}]", "/*/b[{0}]", "//a/b[{0}]", "//a[{0}]/b", "//a[{0}]//c",
    "//a[not({0})]", "//b[not({0})]", "//a[{0}][{1}]", "//b[{0} and {1}]", "//a[{0} or {1}]", "//a[not({0} and {1})]",
    "//a[not({0} or {1})]", "//a[{0} and not({1})]", "//*[({0} or {1}) and {2}]", "//a[not(not({0}))]",
    "//a[b[{0}]]", "//a[b[{0}]/c[{1}]]", "//a[.//c[{0}]]", "//a[not(b[{0}])]", "//a[not(.//b[not({0})])]",
    "//a[{0}][1]", "//a[1][{0}]", "//b[{0}][last()]", "//b[position() > 1][{0}]", "//b[{0}][2][{1}]",
    "//b[position() = 2 or {0}]", "//b[position() != last() and {0}]", "//a/@x[. = {2}]", "//a[@x[{0}]]",
    "//a[{0}] | //b[{1}]", "/descendant::b[{0}][2]", "//a[c[{0}][1]]", "//a[text()[{0}]]", "/a[/a/b[{0}]]",
)  # fmt: skip


def literal(random: Random) -> str:
    return f"'{random.choice(LITERALS)}'"


class ValueDrawer:
    """`narrow` keeps to two operands, so that many conditions concern one label."""

    def __init__(self, random: Random, *, narrow: bool = False) -> None:
        self.random = random
        self.operands = random.sample(OPERANDS, 2) if narrow else OPERANDS
        self.shapes = random.sample(SHAPES, 4) if narrow else SHAPES

    def condition(self) -> Pair:
        random = self.random
        operand = random.choice(self.operands)
        form = random.random()
        if form < 0.3:
            function = random.choice(FUNCTIONS)
            if operand.startswith("("):  # a call takes one path
                operand = "."
            text = literal(random)
            return function.text(operand, text), function.for_lxml(operand, text)
        value = random.choice(GRID) if random.random() < 0.6 else literal(random)
        sides = (operand, value) if random.random() < 0.75 else (value, operand)
        return (f"{sides[0]} {random.choice(RELATIONS)} {sides[1]}",) * 2

    def query(self) -> Query:
        shape = self.random.choice(self.shapes)
        if "@x[" in shape or "text()[" in shape:  # an attribute or a text has nothing but its value
            value = (f". {self.random.choice(RELATIONS)} {self.random.choice((literal(self.random), '1'))}",) * 2
            function, text = self.random.choice(FUNCTIONS), literal(self.random)
            call = function.text(".", text), function.for_lxml(".", text)
            return shaped(shape, self.random.choice((value, call)), call, (literal(self.random),) * 2)
        return shaped(shape, self.condition(), self.condition(), self.condition())


def shaped(shape: str, *conditions: Pair) -> Query:
    """The shape with the conditions in it, for both sides."""
    return Query(shape.format(*(text for text, _ in conditions)), shape.format(*(oracle for _, oracle in conditions)))


# --- from documents --------------------------------------------------------------------------------------------------

NUMBER = re.compile(r"\s*-?\d{1,8}(\.\d{1,4})?\s*")
EXPONENT = re.compile(rb"[\d.][eE][+-]?\d")  # libxml2 takes 1e3 for a number, XPath does not
TEXT_CHARS_MAX = 40


def quoted(text: str) -> str | None:
    """A literal of this text, or None where XPath has none or it is too long."""
    if len(text) > TEXT_CHARS_MAX or ('"' in text and "'" in text):
        return None
    return f"'{text}'" if '"' in text else f'"{text}"'


class Sampler:
    """Draws queries from one document: its own paths, and predicates that hold somewhere on them, or nearly."""

    def __init__(self, random: Random, document: bytes, words: Vocabulary) -> None:
        self.random = random
        self.words = words
        self.elements: list[Any] = list(etree.fromstring(document, PARSER).iter(etree.Element))
        self.numbers = not EXPONENT.search(document)

    def name(self, element: Any) -> Pair:
        if self.random.random() < 0.12:
            return "*", "*"
        return self.words.element(self.random, *split_name(element.tag))

    def compared(self, operand: Pair, value: str) -> Pair | None:
        """A comparison of the operand with about the value that it has."""
        random, sides = self.random, operand
        if random.random() < 0.3 and value:
            start = random.randrange(len(value))
            piece = quoted(value[start : start + random.randint(1, 6)])
            call = FUNCTIONS[0] if start else random.choice(FUNCTIONS)
            return (call.text(sides[0], piece), call.for_lxml(sides[1], piece)) if piece else None
        if self.numbers and NUMBER.fullmatch(value) and random.random() < 0.6:
            number = f"{float(value) + random.choice((-1, 0, 0, 1)):g}"
            if "e" in number:
                return None
            tail = f" {random.choice(RELATIONS)} {number}"
            return sides[0] + tail, sides[1] + tail
        text = quoted(value)
        tail = f" {random.choice(('=', '=', '=', '!='))} {text}"
        return (sides[0] + tail, sides[1] + tail) if text else None

    def simple(self, element: Any) -> Pair | None:
        random = self.random
        form = random.random()
        if form < 0.35 and element.attrib:
            name = split_name(random.choice(list(element.attrib)))
            if name[0] == XML_URI:
                return None
            test, against = self.words.attribute(random, *name)
            operand = f"@{test}", f"@{against}"
            value = element.get(f"{{{name[0]}}}{name[1]}" if name[0] else name[1])
            return operand if random.random() < 0.25 else self.compared(operand, value)
        if form < 0.5:
            return self.compared((".", "."), "".join(element.itertext()))
        if form < 0.6:
            texts = element.xpath("text()")
            return self.compared(("text()", "text()"), str(random.choice(texts))) if texts else None
        inside = list(element.iterdescendants(etree.Element))[:200]
        if not inside:
            return None
        descendant = random.choice(inside)
        direct = descendant.getparent() is element
        test, against = self.name(descendant)
        path = (test, against) if direct else (f".//{test}", f".//{against}")
        if form < 0.75:
            return path
        if form < 0.9:
            return self.compared(path, "".join(descendant.itertext()))
        inner = self.simple(descendant)
        return inner and (f"{path[0]}[{inner[0]}]", f"{path[1]}[{inner[1]}]")

    def predicate(self, element: Any) -> Pair:
        """May hold for the element; a third of the time it is another element's."""
        random = self.random
        of = element if random.random() < 0.65 else random.choice(self.elements)
        pair = self.simple(of)
        form = random.random()
        if pair is None or form < 0.1:
            before = [e for e in element.itersiblings(etree.Element, preceding=True) if e.tag == element.tag]
            return (random.choice((str(len(before) + 1), "last()", f"position() > {len(before)}", "1")),) * 2
        if form < 0.2:
            return f"not({pair[0]})", f"not({pair[1]})"
        other = self.simple(element) if form < 0.4 else None
        if other:
            word = random.choice((" and ", " or "))
            return pair[0] + word + other[0], pair[1] + word + other[1]
        return pair

    def query(self) -> Query:
        random = self.random
        element = random.choice(self.elements)
        line = [*reversed(list(element.iterancestors())), element]
        text = oracle = ""
        between = "/"
        for member in line:
            if member is not element and random.random() < 0.3:
                between = "//"
                continue
            test, against = self.name(member)
            text, oracle = text + between + test, oracle + between + against
            between = "/" if random.random() < 0.9 else "//"
            while random.random() < 0.35:
                condition, oracle_condition = self.predicate(member)
                text, oracle = f"{text}[{condition}]", f"{oracle}[{oracle_condition}]"
        oracle_namespaces = tuple((prefix, uri) for uri, prefix in self.words.oracle_prefixes.items())
        return Query(text, oracle, self.words.prefixes, oracle_namespaces)


def draw_samples(random: Random, documents: Sequence[bytes], words: Vocabulary, count: int) -> list[Query]:
    """Queries from all of the documents, in turn."""
    samplers = [Sampler(random, document, words) for document in documents]
    return [samplers[number % len(samplers)].query() for number in range(count)]
