"""The syntax tree of a query as plain frozen values, for code that inspects queries: covering, FLWR, tools.

A query is a tuple of paths (its union), a path a tuple of steps, a step has predicates, and a predicate is one of the
conditions below. Names are expanded: `uri` and `local`, where None stands for "any". Positions are spelt out (`[3]` is
`Position("=", 3.0)`), the path is on the left of a comparison, `.` is a path without steps.

    >>> import treecast
    >>> path, = treecast.parse("//a/b[@c = 1]").tree
    >>> [(step.gap, step.local) for step in path.steps]
    [(True, 'a'), (False, 'b')]
    >>> path.steps[1].predicates[0].relation
    '='
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from treecast.query.expressions import Expression, Relation, build_expression
from treecast.query.functions import FUNCTIONS, Function

Axis: TypeAlias = Literal["child", "descendant", "descendant-or-self", "self", "attribute"]
Kind: TypeAlias = Literal["element", "attribute", "text"]
Value: TypeAlias = str | float


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `gap` says that `//` stands before it, that is /descendant-or-self::node()/.

    Without positions in the predicates, `descendant::a` is the same as `//a` and has `gap` and the axis child;
    with positions they differ and keep their spelling.
    """

    axis: Axis
    gap: bool
    kind: Kind
    uri: str | None
    local: str | None
    predicates: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A path; relative ones occur in predicates, and in transformations, where `variable` says what they start at."""

    absolute: bool
    steps: tuple[Step, ...]
    variable: int | None = None


@dataclass(frozen=True, slots=True)
class And:
    """All of the operands."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of the operands."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Not the operand."""

    operand: Condition


@dataclass(frozen=True, slots=True)
class Exists:
    """At least one of the paths selects something."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """Something that the paths select stands in the relation to the value."""

    paths: tuple[Path, ...]
    relation: Relation
    value: Value


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the first thing that the path selects, and of a text. Each function has its own class."""

    path: Path
    text: str
    name: ClassVar[str]

    @property
    def function(self) -> Function:
        """What is known of the function."""
        return FUNCTIONS[self.name]


@dataclass(frozen=True, slots=True)
class Contains(Call):
    """The first thing that the path selects contains the text."""

    name: ClassVar[str] = "contains"


@dataclass(frozen=True, slots=True)
class StartsWith(Call):
    """The first thing that the path selects starts with the text."""

    name: ClassVar[str] = "starts-with"


@dataclass(frozen=True, slots=True)
class Position:
    """position() in relation to a number, or to last() where `number` is None."""

    relation: Relation
    number: float | None


@dataclass(frozen=True, slots=True)
class Last:
    """last() in relation to a number."""

    relation: Relation
    number: float


@dataclass(frozen=True, slots=True)
class Term:
    """Any other expression of XPath 1.0, as a truth value: count(), arithmetic, reverse axes, paths against paths.

    Terms with the same `text` are the same; names in it are expanded. `requirement` holds wherever the term is true.
    """

    text: str
    requirement: Condition | None
    positional: bool = False
    expression: Expression | None = field(default=None, compare=False)
    """Its structure, of a term that a query has."""


Condition: TypeAlias = And | Or | Not | Exists | Compare | Call | Position | Last | Term
FunctionName: TypeAlias = Literal["contains", "starts-with"]

_CALLS = {call.name: call for call in (Contains, StartsWith)}


def is_positional(condition: Condition) -> bool:
    """Whether a predicate depends on the position among those that the step selects."""
    match condition:
        case And(operands) | Or(operands):
            return any(is_positional(operand) for operand in operands)
        case Not(operand):
            return is_positional(operand)
        case Term():
            return condition.positional
        case _:
            return isinstance(condition, Position | Last)


def build_paths(raw: tuple[Any, ...]) -> tuple[Path, ...]:
    """Turn the native tuples into the classes above."""
    return tuple(Path(absolute, tuple(_step(*step) for step in steps), variable) for absolute, steps, variable in raw)


def build_condition(raw: tuple[Any, ...]) -> Condition:
    """The same for one condition."""
    return _conditions((raw,))[0]


def _step(axis: Axis, gap: bool, kind: Kind, uri: str | None, local: str | None, predicates: tuple[Any, ...]) -> Step:
    return Step(axis, gap, kind, uri, local, _conditions(predicates))


def _conditions(raw: tuple[Any, ...]) -> tuple[Condition, ...]:
    return tuple(_BUILDERS[kind](*fields) for kind, *fields in raw)


_BUILDERS: dict[str, Callable[..., Condition]] = {
    "and": lambda operands: And(_conditions(operands)),
    "or": lambda operands: Or(_conditions(operands)),
    "not": lambda operand: Not(build_condition(operand)),
    "exists": lambda paths: Exists(build_paths(paths)),
    "compare": lambda paths, relation, value: Compare(build_paths(paths), relation, value),
    "call": lambda name, paths, text: _CALLS[name](build_paths(paths)[0], text),
    "position": lambda relation, number: Position(relation, number),
    "position-last": lambda relation: Position(relation, None),
    "last": lambda relation, number: Last(relation, number),
    "term": lambda text, required, positional, expression: Term(
        text, required and build_condition(required), positional, build_expression(expression)
    ),
}
