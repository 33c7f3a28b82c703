"""The syntax tree back to text, with the namespaces that the text needs. For code that makes queries out of queries.

A Query prints itself natively; this is for trees that no text was read into: paths put together, conditions moved.
The tree has expanded names and no prefixes, so prefixes are made (`n1`, `n2`, …), but for the names that `rename`
gives: their prefix is part of what they mean, and is bound as it was.

    >>> import treecast
    >>> path, = treecast.parse("//x:a[@b = 1]/c", namespaces={"x": "urn:x"}).tree
    >>> writer = Writer()
    >>> writer.paths((path,)), writer.namespaces
    ('//n1:a[@b=1]/c', {'n1': 'urn:x'})
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal

from treecast.query.shapes import Change, Name, StepList
from treecast.query.tree import (
    And,
    Call,
    Compare,
    Condition,
    Exists,
    Last,
    Not,
    Or,
    Path,
    Position,
    Step,
    Term,
    Value,
)

_XML = "http://www.w3.org/XML/1998/namespace"
_LITERAL_OR_NAME = re.compile(rb""""[^"]*"|'[^']*'|(@?)\{([0-9]+):|\$""")  # in the text of a Term
_AXES = {
    "child": "",
    "attribute": "@",
    "self": "self::",
    "descendant": "descendant::",
    "descendant-or-self": "descendant-or-self::",
}


class UnwritableError(ValueError):
    """A tree that no text has: a literal with both quotes in it, two meanings for one prefix, an endless number."""


class Writer:
    """Writes paths, conditions and lists; `namespaces` grows with what they need."""

    def __init__(self, names: Iterable[Name] = ()) -> None:
        """`names` are those that will be written with their own prefix: no other meaning is given to it."""
        self.namespaces: dict[str, str] = {}
        self._bare = False  # an element name without namespace was written: no default may be bound
        for name in names:
            self.name(name)

    def list(self, steps: StepList) -> str:
        """A list of steps."""
        start = "" if steps.start is None else f"from {self.paths(steps.start)} "
        return start + "; ".join(self.change(change) for change in steps.changes)

    def change(self, change: Change) -> str:
        """One step of a list."""
        text = f"{change.kind} {self.paths(change.paths)}"
        return f"{text} to {self.name(change.name)}" if change.name else text

    def name(self, name: Name) -> str:
        """The name of something built."""
        if name.prefix == "xml":
            return f"xml:{name.local}"
        if name.prefix == "" and name.uri == "":
            self._bare = True
            if "" in self.namespaces:
                raise UnwritableError("a name without namespace next to a default namespace")
            return name.local
        if self.namespaces.setdefault(name.prefix, name.uri) != name.uri or (name.prefix == "" and self._bare):
            raise UnwritableError(f"two meanings for the prefix {name.prefix!r}")
        return f"{name.prefix}:{name.local}" if name.prefix else name.local

    def paths(self, paths: tuple[Path, ...]) -> str:
        """A union."""
        return " | ".join(self.path(path) for path in paths)

    def path(self, path: Path) -> str:
        """A path; one that starts at a variable is written as a relative one."""
        if not path.steps and not path.absolute:
            return "."
        parts = []
        for place, step in enumerate(path.steps):
            leading = place == 0 and not path.absolute
            parts.append((".//" if leading else "//") if step.gap else ("" if leading else "/"))
            parts.append(self._step(step))
        return "".join(parts)

    def _step(self, step: Step) -> str:
        test = "text()" if step.kind == "text" else self._test(step)
        return _AXES[step.axis] + test + "".join(f"[{self._predicate(predicate)}]" for predicate in step.predicates)

    def _test(self, step: Step) -> str:
        if step.uri is None:
            return "*" if step.local is None else f"*[local-name()={_literal(step.local)}]"
        return self._prefix(step) + (step.local or "*")

    def _prefix(self, step: Step) -> str:
        element = step.kind == "element"
        if step.uri == "":
            if step.local is None:
                raise UnwritableError("any name without namespace")
            if element and "" in self.namespaces:
                raise UnwritableError("a name without namespace next to a default namespace")
            self._bare = self._bare or element
            return ""
        if step.uri == _XML:
            return "xml:"
        for prefix, uri in self.namespaces.items():
            if uri == step.uri and prefix:
                return f"{prefix}:"
        prefix = next(f"n{i}" for i in range(1, len(self.namespaces) + 2) if f"n{i}" not in self.namespaces)
        self.namespaces[prefix] = step.uri or ""
        return f"{prefix}:"

    def _predicate(self, condition: Condition) -> str:
        match condition:
            case Position("=", None):
                return "last()"
            case Position("=", float(number)):
                return _number(number)
            case _:
                return self.condition(condition)

    def condition(self, condition: Condition) -> str:
        """A condition, as it is written in brackets."""
        match condition:
            case And(operands):
                return " and ".join(self._operand(operand) for operand in operands)
            case Or(operands):
                return " or ".join(self._operand(operand) for operand in operands)
            case Not(operand):
                return f"not({self.condition(operand)})"
            case Exists(paths):
                return self.paths(paths)
            case Compare(paths, relation, value):
                return f"{self.paths(paths)}{relation}{_value(value)}"
            case Call(path, text):
                return f"{condition.name}({self.path(path)}, {_literal(text)})"
            case Position(relation, position):
                return f"position(){relation}{'last()' if position is None else _number(position)}"
            case Last(relation, number):
                return f"last(){relation}{_number(number)}"
            case Term(text):
                return self._term(text.encode()).decode()

    def _term(self, text: bytes) -> bytes:
        """A Term as it is, but for its names, which are expanded: the size of a URI in bytes comes before it."""
        parts, begin, place = [], 0, 0
        while found := _LITERAL_OR_NAME.search(text, place):
            place = found.end()
            if found[0] == b"$":
                raise UnwritableError("an expression with a variable")
            if found[2] is None:
                continue
            end = place + int(found[2])
            uri, place = text[place:end].decode(), end + 1
            local = None if text[place : place + 1] == b"*" else ""
            step = Step("attribute" if found[1] else "child", False, "attribute" if found[1] else "element", uri, local)
            parts += [text[begin : found.start()], found[1], self._prefix(step).encode()]
            begin = place
        return b"".join([*parts, text[begin:]])

    def _operand(self, condition: Condition) -> str:
        """Of `and` and `or`. Behind the path `/` they would be taken for names of elements."""
        text = self.condition(condition)
        return f"({text})" if isinstance(condition, Or) or text.endswith("/") else text


def _value(value: Value) -> str:
    return _literal(value) if isinstance(value, str) else _number(value)


def _literal(text: str) -> str:
    if '"' not in text:
        return f'"{text}"'
    if "'" in text:
        raise UnwritableError("a literal with both quotes in it")
    return f"'{text}'"


def _number(number: float) -> str:
    if not math.isfinite(number):
        raise UnwritableError("a number without end")
    text = format(Decimal(repr(number)), "f")
    return text.removesuffix(".0")
