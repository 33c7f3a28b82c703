"""Value tests: conditions about an element's own attributes, text and string value, evaluated on one element.

`ElementValues` gives a document's values by element, each table made when it is first asked for.

    >>> from treecast.document import read
    >>> from treecast.query import parse
    >>> condition = parse("/a[@x > 1]").tree[0].steps[0].predicates[0]
    >>> is_value_test(condition), holds(condition, ElementValues(read(b'<a x="2"/>')), 0)
    (True, True)
"""

from __future__ import annotations

import math
import operator
import re
from functools import cached_property

from treecast.document import Document, Name
from treecast.query.tree import And, Call, Compare, Condition, Contains, Exists, Not, Or, Path, Value

_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*", re.ASCII)
_RELATIONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class ElementValues:
    """The values of a document, by element."""

    def __init__(self, document: Document) -> None:
        self.document = document

    @cached_property
    def attributes(self) -> dict[int, list[tuple[Name, str]]]:
        """Element -> its attributes in document order."""
        found: dict[int, list[tuple[Name, str]]] = {}
        for element, name, value in self.document.attributes:
            found.setdefault(element, []).append((name, value))
        return found

    @cached_property
    def texts(self) -> dict[int, list[str]]:
        """Element -> the texts that are its children."""
        found: dict[int, list[str]] = {}
        for element, text in self.document.texts:
            found.setdefault(element, []).append(text)
        return found

    def select(self, path: Path, element: int) -> list[str]:
        """The string values of what `.`, an attribute or text() selects."""
        if not path.steps:
            return [self.document.string_value(element)]
        step = path.steps[0]
        if step.kind == "text":
            return self.texts.get(element, [])
        wanted = (step.uri, step.local)
        return [
            value
            for name, value in self.attributes.get(element, ())
            if all(part is None or part == given for part, given in zip(wanted, name, strict=True))
        ]


def is_value_test(condition: Condition) -> bool:
    """Whether it is about nothing but values of the element itself."""
    match condition:
        case And(operands) | Or(operands):
            return all(is_value_test(operand) for operand in operands)
        case Not(operand):
            return is_value_test(operand)
        case Exists(paths) | Compare(paths):
            return all(is_own_value(path) for path in paths)
        case Call(path):
            return is_own_value(path)
        case _:
            return False


def is_own_value(path: Path) -> bool:
    """Whether a path is `.`, an attribute or text() of the element, without predicates."""
    if path.absolute or path.variable is not None or len(path.steps) > 1:
        return False
    return all(
        step.kind != "element" and not step.gap and step.axis in ("child", "attribute") and not step.predicates
        for step in path.steps
    )


def holds(condition: Condition, values: ElementValues, element: int) -> bool:
    """Whether a value test is true of an element, as XPath 1.0 says."""
    match condition:
        case And(operands):
            return all(holds(operand, values, element) for operand in operands)
        case Or(operands):
            return any(holds(operand, values, element) for operand in operands)
        case Not(operand):
            return not holds(operand, values, element)
        case Exists(paths):
            return any(not path.steps or values.select(path, element) for path in paths)
        case Compare(paths, relation, value):
            return any(_compare(text, relation, value) for path in paths for text in values.select(path, element))
        case Call(path, text):
            first = next(iter(values.select(path, element)), "")
            return text in first if isinstance(condition, Contains) else first.startswith(text)
        case _:
            raise AssertionError(f"not a value test: {condition}")


def _compare(text: str, relation: str, value: Value) -> bool:
    compare = _RELATIONS[relation]
    if isinstance(value, str) and relation in ("=", "!="):
        return bool(compare(text, value))
    return bool(compare(_number(text), _number(value) if isinstance(value, str) else value))


def _number(text: str) -> float:
    found = _NUMBER.fullmatch(text)
    return float(found[1]) if found else math.nan
