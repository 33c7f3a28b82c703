"""The structure of a `Term` (treecast.query.tree): any expression of XPath 1.0, as plain frozen values.

>>> import treecast
>>> path, = treecast.parse("//a[count(b) + 1 > 2]").tree
>>> path.steps[0].predicates[0].expression.operators
('>',)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Relation: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
TermAxis: TypeAlias = Literal[
    "child", "descendant", "descendant-or-self", "self", "attribute", "parent", "ancestor", "ancestor-or-self",
    "following", "following-sibling", "preceding", "preceding-sibling",
]  # fmt: skip
TermKind: TypeAlias = Literal["named", "text", "node", "comment", "instruction"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written."""

    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A literal."""

    value: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """The operands of `and`."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The operands of `or`."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """All that any of the operands selects."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Negative:
    """Minus the operand."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Chain:
    """Comparisons, or arithmetic, from the left: `a = b != c` is `(a = b) != c`. One operator fewer than operands."""

    operands: tuple[Expression, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function of XPath 1.0, or `matches`."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class TermStep:
    """A step; `uri` and `local` are None where any will do. The `//` is a step of its own."""

    axis: TermAxis
    kind: TermKind
    uri: str | None
    local: str | None
    predicates: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """What the steps lead to: from `start`, filtered by the predicates, or from the document, or from the context."""

    start: Expression | None
    absolute: bool
    has_variable: bool
    """Whether it starts at a variable of a transformation."""
    predicates: tuple[Expression, ...]
    steps: tuple[TermStep, ...]


Expression: TypeAlias = Number | Text | AllOf | AnyOf | Union | Negative | Chain | FunctionCall | Selection


def build_expression(raw: tuple[Any, ...]) -> Expression:
    """Turn the native tuples into the classes above."""
    kind, *fields = raw
    return _BUILDERS[kind](*fields)


def _expressions(raw: tuple[Any, ...]) -> tuple[Expression, ...]:
    return tuple(build_expression(one) for one in raw)


def _step(axis: TermAxis, kind: TermKind, uri: str | None, local: str | None, predicates: tuple[Any, ...]) -> TermStep:
    return TermStep(axis, kind, uri, local, _expressions(predicates))


_BUILDERS: dict[str, Callable[..., Expression]] = {
    "number": Number,
    "literal": Text,
    "and": lambda operands: AllOf(_expressions(operands)),
    "or": lambda operands: AnyOf(_expressions(operands)),
    "union": lambda operands: Union(_expressions(operands)),
    "negative": lambda operand: Negative(build_expression(operand)),
    "chain": lambda operands, operators: Chain(_expressions(operands), operators),
    "function": lambda name, arguments: FunctionCall(name, _expressions(arguments)),
    "path": lambda start, absolute, variable, predicates, steps: Selection(
        start and build_expression(start),
        absolute,
        variable,
        _expressions(predicates),
        tuple(_step(*step) for step in steps),
    ),
}
