"""What an explanation says, compared with lxml: each condition's truth, and each value that its reason names.

lxml evaluates the text of a condition, or of an operand, at the item that the explanation names. A difference is a
sentence; `contradictions` yields all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from generators.explained_conditions import DrawnCondition
from lxml import etree

from oracles.differential import PARSER
from treecast.index.explain import Condition, Explanation, Miss, Operand, Place

XML = "http://www.w3.org/XML/1998/namespace"
POSITION, LAST = re.compile(r"position\s*\(\s*\)"), re.compile(r"last\s*\(\s*\)")


def matches(_: Any, value: Any, pattern: str) -> bool:
    """treecast's own function, for the patterns that Python reads alike."""
    if isinstance(value, list):
        value = "" if not value else value[0] if isinstance(value[0], str) else value[0].xpath("string()")
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, float):
        value = etree.XPath("string($v)")(etree.Element("a"), v=value)
    return re.search(pattern, value) is not None


EXTENSIONS = {(None, "matches"): matches}


def at_position(text: str, position: int, last: int) -> str:
    """With the numbers in place of position() and last(), but not in predicates inside it."""
    pieces, depth = [], 0
    for piece in re.split(r"""('[^']*'|"[^"]*"|\[|\])""", text):
        depth += (piece == "[") - (piece == "]")
        if depth == 0 and piece[:1] not in ("'", '"'):
            piece = LAST.sub(str(last), POSITION.sub(str(position), piece))
        pieces.append(piece)
    return "".join(pieces)


DOCUMENT = "/self::node()"


def type_of_evident(text: str) -> str:
    """
    >>> type_of_evident("('x')"), type_of_evident("-1"), type_of_evident("true()")
    ('string', 'number', 'boolean')
    """
    start = text.lstrip("( \n-")
    return "string" if start[0] in "'\"" else "boolean" if start.startswith(("true", "false")) else "number"


class AmbiguousPathError(Exception):
    """Two elements have this path: they have one name in two namespaces."""


class ExplanationOracle:
    """Judges explanations of one document."""

    def __init__(self, document: bytes, namespaces: dict[str, str] | None = None) -> None:
        self.tree = etree.ElementTree(etree.fromstring(document, PARSER))
        self.namespaces = namespaces or None

    def asks(self, text: str, **variables: Any) -> Any:
        return self.tree.xpath(text, namespaces=self.namespaces, extensions=EXTENSIONS, **variables)

    def holds(self, context: str, test: str, **variables: Any) -> bool:
        """Whether a test is true of the item at `context`, a path without names."""
        return bool(self.asks(f"boolean({context}[{test}])", **variables))

    def locate(self, place: Place) -> str:
        """A path that lxml reads without namespaces. Elements of one name in two namespaces may have the same path."""
        found = list(self.candidates(place.path))
        if len(found) > 1:
            test = "namespace-uri() = $uri"
            found = [path for path in found if self.asks(f"boolean({path}[{test}])", uri=place.namespace)]
        if len(found) != 1:
            raise AmbiguousPathError(place.path)
        return found[0]

    def candidates(self, path: str) -> Iterator[str]:
        """As Place.path counts: elements of one name and namespace."""
        if path == "/":
            yield "/self::node()"
            return
        here: list[tuple[Any, str]] = [(None, "")]
        for part in path[1:].split("/"):
            if part.startswith("@"):
                prefix, _, local = part[1:].rpartition(":")
                for element, above in here:
                    uri = XML if prefix == "xml" else element.nsmap.get(prefix) if prefix else ""
                    yield f"{above}/@*[local-name() = '{local}' and namespace-uri() = '{uri}']"
                return
            if "()" in part:
                here = [(element, f"{above}/{part}") for element, above in here]
                continue
            name, number = part[:-1].split("[")
            here = [pair for element, above in here for pair in self.children(element, above, name, int(number))]
        yield from (found for _, found in here)

    def children(self, parent: Any, above: str, name: str, number: int) -> Iterator[tuple[Any, str]]:
        elements = [self.tree.getroot()] if parent is None else list(parent.iterchildren(etree.Element))
        for place, element in enumerate(elements):
            written = f"{element.prefix}:" * bool(element.prefix) + etree.QName(element).localname
            rank = [one.tag for one in elements[: place + 1]].count(element.tag)
            if (written, rank) == (name, number):
                yield element, f"{above}/*[{place + 1}]"

    def contradictions(self, explanation: Explanation, drawn: DrawnCondition) -> Iterator[str]:
        if explanation.undecided:
            yield f"undecided: {explanation.undecided}"
        if explanation.matched != bool(self.asks(f"boolean({drawn.query})")):
            yield f"matched is {explanation.matched}"
        for step in explanation.steps:
            for condition in step.conditions:
                if condition.text == f"[{drawn.text}]":
                    context = self.locate(step.place)
                    yield from self.of_condition(condition, context, self.position_of(context, drawn))
                    yield from self.of_form(condition, context, drawn)
                elif condition.text == drawn.query:
                    yield from self.of_condition(condition, DOCUMENT)
                    yield from self.of_form(condition, DOCUMENT, drawn)
                else:
                    yield from self.of_condition(condition, self.locate(step.place))
        if explanation.miss is not None:
            yield from self.of_miss(explanation.miss)

    def position_of(self, context: str, drawn: DrawnCondition) -> tuple[int, int]:
        """Among what the step selects of one parent."""
        if drawn.step.startswith("//@"):
            return 1, 1
        test = drawn.step[2:]
        before = self.asks(f"count({context}/preceding-sibling::{test})")
        return int(before) + 1, int(self.asks(f"count({context}/../{test})"))

    def of_form(self, condition: Condition, context: str, drawn: DrawnCondition) -> Iterator[str]:
        """Whether each operand is named, and whether the items that made a comparison true do so."""
        inside = [condition]
        named: dict[str, Operand] = {}
        for one in inside:
            inside.extend(one.parts)
            for operand in one.operands:
                named.setdefault(operand.text, operand)  # the sides come before what they are made of
        yield from (f"{text} is not named" for text in drawn.named if text not in named)
        if drawn.relation:
            yield from self.of_numbers(drawn, named)
        if not drawn.relation or not condition.holds or condition.kind != "value" or len(drawn.named) != 2:
            return
        left, right = (named[text] for text in drawn.operands if text in named)
        if "any" in (left.use, right.use):
            sides = [self.locate(side.places[0]) if side.use == "any" else f"({side.text})" for side in (left, right)]
            if not self.holds(context, f"{sides[0]} {drawn.relation} {sides[1]}"):
                yield f"{sides[0]} {drawn.relation} {sides[1]} is false"

    def of_numbers(self, drawn: DrawnCondition, named: dict[str, Operand]) -> Iterator[str]:
        """Whether each text that is compared as a number, and is none, is said to be none."""
        types = [named[text].type if text in named else type_of_evident(text) for text in drawn.operands]
        if "boolean" in types or not (drawn.relation in ("<", "<=", ">", ">=") or "number" in types):
            return
        for text, type in zip(drawn.operands, types, strict=True):
            operand = named.get(text)
            values = [place.value for place in operand.places] if operand and type == "items" else []
            if type == "string":
                values = [operand.value if operand else text.strip("( \n)")[1:-1]]
            for value in values:
                if math.isnan(self.asks("number($value)", value=value)) and not (
                    operand and value in operand.not_numbers
                ):
                    yield f"{value!r} is not said to be no number"

    def of_condition(
        self, condition: Condition, context: str, position: tuple[int, int] | None = None
    ) -> Iterator[str]:
        """`position`: and how many there are, where that is known; else it is what the reason says."""
        text, operands = condition.text, condition.operands
        is_whole = text.startswith("[")
        inner = text[1:-1] if is_whole else text
        if condition.kind == "position":
            *rest, first, last = operands
            operands, stated = tuple(rest), (int(first.value), int(last.value))
            if position not in (None, stated):
                yield f"it is not number {first.value} of {last.value}"
            position = stated
        if position is None and at_position(inner, 1, 1) != inner:
            return  # the parts that name the position were not needed
        position = position or (1, 1)
        test = at_position(inner, *position)
        if is_whole and self.is_number(test):
            test = f"({test}) = {position[0]}"
        if condition.holds is not self.holds(context, f"boolean({test})"):
            yield f"{text} is not {condition.holds} at {context}"
        for operand in operands:
            for wrong in self.of_operand(operand, context, at_position(operand.text, *position)):
                yield f"{operand.text} at {context}: {wrong}"
        for part in condition.parts:
            yield from self.of_condition(part, context, position)
        yield from self.of_words(condition)

    def is_number(self, text: str) -> bool:
        root = self.tree.getroot()
        return isinstance(root.xpath(text, namespaces=self.namespaces, extensions=EXTENSIONS), float)

    def of_operand(self, operand: Operand, context: str, text: str) -> Iterator[str]:
        value = operand.value
        match operand.type:
            case "items":
                yield from self.of_items(operand, context, text)
            case "number":
                number = float(value.replace("Infinity", "inf"))
                test = f"({text}) != ({text})" if math.isnan(number) else f"({text}) = $value"
                if not self.holds(context, test, value=number):
                    yield f"is not the number {value}"
            case "boolean":
                if not self.holds(context, f"({text}) = {value}()"):
                    yield f"is not {value}"
            case "string":
                test = "starts-with(string({}), $value)" if value.endswith("…") else "string({}) = $value"
                if not self.holds(context, test.format(text), value=value.removesuffix("…")):
                    yield f"is not the string {value!r}"
            case "undecided":
                yield "is undecided"
        for one in operand.not_numbers:
            if not math.isnan(self.asks("number($value)", value=one)):
                yield f"{one!r} is a number"

    def of_items(self, operand: Operand, context: str, text: str) -> Iterator[str]:
        if not self.holds(context, f"count({text}) = {operand.count}"):
            yield f"is not {operand.count} items"
        if operand.miss is not None:
            yield from self.of_miss(operand.miss)
        for number, place in enumerate(operand.places, 1):
            path = self.locate(place)
            if not self.holds(context, f"count({path} | ({text})) = count({text}) and count({path}) = 1"):
                yield f"does not lead to {place.path}"
            is_ranked = operand.use in ("first", "exists") or len(operand.places) == min(3, operand.count)
            if (
                is_ranked
                and operand.use != "all"
                and not self.holds(context, f"count(({text})[{number}] | {path}) = 1")
            ):
                yield f"{place.path} is not number {number}"
            if place.value != self.asks(f"string({path})"):
                yield f"{place.path} is not {place.value!r}"
        if operand.places and operand.value != operand.places[0].value:
            yield f"{operand.value!r} is not the value of {operand.places[0].path}"

    def of_miss(self, miss: Miss) -> Iterator[str]:
        if miss.condition is not None:
            assert miss.place is not None
            assert miss.condition.holds is False
            yield from self.of_condition(miss.condition, self.locate(miss.place))
        if miss.unknown:
            names = "//@*" if miss.unknown.startswith("@") else "//*"
            if self.asks(f"boolean({names}[local-name() = $name])", name=miss.unknown.removeprefix("@")):
                yield f"there is a {miss.unknown}"
            if miss.suggestion and not self.asks(
                f"boolean({names}[name() = $name])", name=miss.suggestion.removeprefix("@")
            ):
                yield f"there is no {miss.suggestion}"
        if miss.kind == "namespace":
            assert miss.other is not None
            if not self.holds(self.locate(miss.other), "namespace-uri() = $uri", uri=miss.other.namespace):
                yield f"{miss.other.path} is not in {miss.other.namespace}"
            if miss.other.namespace == miss.namespace:
                yield "both namespaces are the same"

    def of_words(self, condition: Condition) -> Iterator[str]:
        """The sentence says nothing but the data: each value, and "there is none" of an empty set alone."""
        reason = condition.reason
        if condition.parts:
            return
        empty = [operand for operand in condition.operands if operand.type == "items" and not operand.count]
        if re.search(r"there is no(ne)?\b", reason) and not empty:
            yield f"nothing is empty: {reason}"
        for operand in condition.operands:
            words = [place.path for place in operand.places[: 1 if operand.use == "exists" else 3]]
            if operand.text not in ("position()", "last()") and operand.type != "items":
                words.append(operand.value[:20] if operand.value.isprintable() else "")
            yield from (f"{word} is not in the reason: {reason}" for word in words if word not in reason)
