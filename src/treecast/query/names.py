"""The names of elements and attributes that a query asks for, wherever they stand in it.

>>> import treecast
>>> sorted(name.local for name in names_of(treecast.parse("//a[@x = 1 and count(b) > 1]").tree))
['a', 'b', 'x']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from treecast.query.expressions import (
    AllOf,
    AnyOf,
    Chain,
    Expression,
    FunctionCall,
    Negative,
    Number,
    Selection,
    Text,
    Union,
)
from treecast.query.tree import And, Call, Compare, Condition, Exists, Last, Not, Or, Path, Position, Term


class QueryName(NamedTuple):
    """A name; `uri` is None where any namespace will do."""

    kind: Literal["element", "attribute"]
    uri: str | None
    local: str


def names_of(paths: Iterable[Path]) -> set[QueryName]:
    """All names in the paths and in their conditions."""
    names: set[QueryName] = set()
    for path in paths:
        for step in path.steps:
            if step.local is not None and step.kind != "text":
                names.add(QueryName(step.kind, step.uri, step.local))
            names.update(*map(_of_condition, step.predicates))
    return names


def _of_condition(condition: Condition) -> set[QueryName]:
    match condition:
        case And(operands) | Or(operands):
            return set().union(*map(_of_condition, operands))
        case Not(operand):
            return _of_condition(operand)
        case Exists(paths) | Compare(paths):
            return names_of(paths)
        case Call(path):
            return names_of((path,))
        case Term(expression=expression):
            return set() if expression is None else _of_expression(expression)
        case Position() | Last():
            return set()


def _of_expression(expression: Expression) -> set[QueryName]:
    match expression:
        case AllOf(parts) | AnyOf(parts) | Union(parts) | Chain(parts) | FunctionCall(arguments=parts):
            return set().union(*map(_of_expression, parts))
        case Negative(operand):
            return _of_expression(operand)
        case Selection(start, _, _, predicates, steps):
            names = set().union(*map(_of_expression, predicates))
            if start is not None:
                names |= _of_expression(start)
            for step in steps:
                if step.kind == "named" and step.local is not None:
                    kind: Literal["element", "attribute"] = "attribute" if step.axis == "attribute" else "element"
                    names.add(QueryName(kind, step.uri, step.local))
                names.update(*map(_of_expression, step.predicates))
            return names
        case Number() | Text():
            return set()
