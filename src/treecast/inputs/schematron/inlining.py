"""Variables and `current()` of a rule -> their values, written where they stand.

A query has no variables. A `let` outside rules is evaluated at the root, so its value is made absolute and fits
anywhere. One in a rule belongs to the rule's context: outside predicates its value stands as it is; inside, the way
back to the context is put before it, where there is one:

>>> values = {"id": Value.of(parse_expression("@id"))}
>>> format_expression(Inlining(values).value(parse_expression("line[@ref = $id]")))
'line[@ref = ../@id]'

From an item that was reached by `//` no way leads back. There a condition is turned inside out, which is exact where
only existence is asked for:

>>> format_expression(Inlining(values).truth(parse_expression("not(//line[@ref = $id])")))
'not(//line/@ref = @id)'

What remains is refused (`OutOfReachError`). Values may use one another; how much they grow is limited (`parts_max`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from treecast.inputs.schematron.expression import (
    HERE,
    UP,
    Binary,
    Call,
    Expression,
    Literal,
    Negative,
    Number,
    Path,
    Step,
    Variable,
    format_expression,
    parse_expression,
)

PARTS_MAX = 8192
ROOT = Path(True, ())
CONTEXT = Path(False, (HERE,))
# Of the context, where they have no argument.
OF_CONTEXT = ("string", "number", "name", "local-name", "namespace-uri", "normalize-space", "string-length")
NUMERIC = ("count", "sum", "number", "floor", "ceiling", "round", "string-length", "position", "last")
BOOLEAN = ("not", "boolean", "true", "false", "contains", "starts-with", "lang")
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")

__all__ = [
    "CONTEXT",
    "ROOT",
    "Inlining",
    "InliningError",
    "OutOfReachError",
    "TooLargeError",
    "Value",
    "format_expression",
    "parse_expression",
]


class InliningError(ValueError):
    """The expression cannot become part of a query; the message says why."""


class OutOfReachError(InliningError):
    """A variable, or current(), stands where no path leads back to the context of its rule."""


class TooLargeError(InliningError):
    """Values that use one another grow beyond the limit."""


@dataclass(frozen=True)
class Value:
    """The value of a variable, without variables itself, and how many parts it has."""

    expression: Expression
    parts: int
    anywhere: bool
    """Whether it is the same in every context."""

    @classmethod
    def of(cls, expression: Expression) -> Value:
        return cls(expression, parts_of(expression), not needs_context(expression))


@dataclass
class Inlining:
    """Puts values in place of variables; counts the parts of what it has made."""

    values: Mapping[str, Value]
    parts: int = 0
    parts_max: int = PARTS_MAX

    def value(self, expression: Expression, way: Path | None = CONTEXT) -> Expression:
        """The expression, evaluated where `way` leads back to the context; None where nothing does."""
        self.count(1)
        match expression:
            case Variable(name):
                return self.variable(name, way)
            case Call("current", ()):
                if way is None:
                    raise OutOfReachError("current()")
                return way
            case Call(name, arguments):
                return Call(name, tuple(self.value(argument, way) for argument in arguments))
            case Negative(operand):
                return Negative(self.value(operand, way))
            case Binary(operator, left, right):
                return Binary(operator, self.value(left, way), self.value(right, way))
            case Path():
                return self.path(expression, way)
            case Literal() | Number():
                return expression

    def count(self, parts: int) -> None:
        self.parts += parts
        if self.parts > self.parts_max:
            raise TooLargeError(f"more than {self.parts_max:,} parts, once the variables are inlined")

    def variable(self, name: str, way: Path | None) -> Expression:
        value = self.values.get(name)
        if value is None:
            raise InliningError(f"the variable ${name} is not bound here")
        self.count(value.parts)
        if value.anywhere or way == CONTEXT:
            return value.expression
        if way is None:
            raise OutOfReachError(f"${name}")
        return rebase(value.expression, way)

    def path(self, path: Path, way: Path | None) -> Path:
        start, inner = path.start, way
        predicates: tuple[Expression, ...] = ()
        if start is not None:
            start = self.value(start, way)
            predicates = tuple(self.value(each, None) for each in path.predicates)
            inner = None
        elif path.absolute:
            inner = None
        steps = []
        for step in path.steps:
            self.count(1)
            inner = _way_back(step, inner)
            steps.append(replace(step, predicates=tuple(self.value(each, inner) for each in step.predicates)))
        if isinstance(start, Path) and not predicates:
            return replace(start, steps=tuple(step for step in (*start.steps, *steps) if step != HERE))
        return replace(path, start=start, steps=tuple(steps), predicates=predicates)

    # --- where only truth counts --------------------------------------------------------------------------------------

    def truth(self, expression: Expression) -> Expression:
        """As `value`, for an expression of which only its effective boolean is used."""
        match expression:
            case Binary("and" | "or" as operator, left, right):
                return Binary(operator, self.truth(left), self.truth(right))
            case Call("not" | "boolean" as name, (argument,)):
                return Call(name, (self.truth(argument),))
            case _:
                pass
        try:
            return self.value(expression)
        except OutOfReachError:
            rewritten = _existence(expression)
            if rewritten is None:
                raise
            return self.truth(rewritten)


def _way_back(step: Step, way: Path | None) -> Path | None:
    if way is None or step.axis not in ("child", "attribute", "self"):
        return None
    if step.axis == "self":
        return way
    return replace(way, steps=(UP, *(each for each in way.steps if each != HERE)))


def _existence(expression: Expression) -> Expression | None:
    """The same truth, with the last condition of a path moved out of its brackets: `a[b = X]` is `a/b = X`.

    Comparisons with items ask whether there are such items, so it does not matter where they are looked for."""
    match expression:
        case Binary(operator, Call("count", (argument,)), Number(number)) if isinstance(argument, Path):
            if (operator, number) in ((">", "0"), (">=", "1"), ("!=", "0")):
                return argument
            if (operator, number) in (("=", "0"), ("<", "1"), ("<=", "0")):
                return Call("not", (argument,))
        case Path(steps=(*before, Step(axis, test, (*others, condition)))):
            shorter = replace(expression, steps=(*before, Step(axis, test, tuple(others))))
            return _moved_out(shorter, condition)
        case _:
            pass
    return None


def _moved_out(path: Path, condition: Expression) -> Expression | None:
    match condition:
        case Path() if condition.is_relative:
            return replace(path, steps=(*path.steps, *(step for step in condition.steps if step != HERE)))
        case Binary("and", left, right):
            first, last = (left, right) if _uses_outer(right) else (right, left)
            if is_number(last) or uses_position(last):
                return None
            step = path.steps[-1]
            inside = (*step.predicates, Call("boolean", (first,)), last)
            return replace(path, steps=(*path.steps[:-1], replace(step, predicates=inside)))
        case Binary(operator, left, right) if operator in COMPARISONS:
            for side, other, is_left in ((left, right, True), (right, left, False)):
                if not (isinstance(side, Path) and side.is_relative) or _uses_outer(side) or not _only_outer(other):
                    continue
                longer = replace(path, steps=(*path.steps, *(step for step in side.steps if step != HERE)))
                return Binary(operator, longer, other) if is_left else Binary(operator, other, longer)
    return None


def _uses_outer(expression: Expression) -> bool:
    """Whether it holds a variable or current()."""
    match expression:
        case Variable() | Call("current", ()):
            return True
        case Call(_, arguments):
            return any(map(_uses_outer, arguments))
        case Negative(operand):
            return _uses_outer(operand)
        case Binary(_, left, right):
            return _uses_outer(left) or _uses_outer(right)
        case Path():
            inside = [*expression.predicates, *(each for step in expression.steps for each in step.predicates)]
            return any(map(_uses_outer, inside)) or (expression.start is not None and _uses_outer(expression.start))
        case Literal() | Number():
            return False


def _only_outer(expression: Expression) -> bool:
    """Whether it means the same outside: a variable, a literal, a path from one of them; no truth value."""
    return not needs_context(expression) and not is_boolean(expression)


# --- what an expression is -------------------------------------------------------------------------------------------


def needs_context(expression: Expression) -> bool:
    """Whether its value depends on the item, position or size of the context; variables and current() do not count."""
    match expression:
        case Call("current", ()):
            return False
        case Call("position" | "last" | "lang", _):
            return True
        case Call(name, ()) if name in OF_CONTEXT:
            return True
        case Call(_, arguments):
            return any(map(needs_context, arguments))
        case Negative(operand):
            return needs_context(operand)
        case Binary(_, left, right):
            return needs_context(left) or needs_context(right)
        case Path():
            return expression.is_relative or (expression.start is not None and needs_context(expression.start))
        case Literal() | Number() | Variable():
            return False


def is_number(expression: Expression) -> bool:
    match expression:
        case Number() | Negative():
            return True
        case Binary(operator, _, _):
            return operator in ("+", "-", "*", "div", "mod")
        case Call(name, _):
            return name in NUMERIC
        case Literal() | Variable() | Path():
            return False


def is_boolean(expression: Expression) -> bool:
    match expression:
        case Binary(operator, _, _):
            return operator in ("and", "or", *COMPARISONS)
        case Call(name, _):
            return name in BOOLEAN
        case Literal() | Number() | Variable() | Negative() | Path():
            return False


def uses_position(expression: Expression) -> bool:
    """Whether position() or last() of its own context decides: in a predicate, a number does too."""
    match expression:
        case Call("position" | "last", ()):
            return True
        case Call(_, arguments):
            return any(map(uses_position, arguments))
        case Negative(operand):
            return uses_position(operand)
        case Binary(_, left, right):
            return uses_position(left) or uses_position(right)
        case Path(start=start):
            return start is not None and uses_position(start)
        case Literal() | Number() | Variable():
            return False


def variables_of(expression: Expression) -> list[str]:
    """The names of all variables in it."""
    match expression:
        case Variable(name):
            return [name]
        case Call(_, arguments):
            return [name for argument in arguments for name in variables_of(argument)]
        case Negative(operand):
            return variables_of(operand)
        case Binary(_, left, right):
            return variables_of(left) + variables_of(right)
        case Path():
            inside = [*expression.predicates, *(each for step in expression.steps for each in step.predicates)]
            if expression.start is not None:
                inside.append(expression.start)
            return [name for each in inside for name in variables_of(each)]
        case Literal() | Number():
            return []


def parts_of(expression: Expression) -> int:
    match expression:
        case Call(_, arguments):
            return 1 + sum(map(parts_of, arguments))
        case Negative(operand):
            return 1 + parts_of(operand)
        case Binary(_, left, right):
            return 1 + parts_of(left) + parts_of(right)
        case Path():
            inside = [*expression.predicates, *(each for step in expression.steps for each in step.predicates)]
            start = parts_of(expression.start) if expression.start is not None else 0
            return 1 + len(expression.steps) + start + sum(map(parts_of, inside))
        case Literal() | Number() | Variable():
            return 1


# --- another context -------------------------------------------------------------------------------------------------


def rebase(expression: Expression, way: Path) -> Expression:
    """The expression as it is evaluated at `way`, written for the place where `way` begins."""
    match expression:
        case Call("position" | "last" | "lang" as name, _):
            raise InliningError(f"{name}() depends on a context that a query does not have here")
        case Call(name, ()) if name in OF_CONTEXT:
            return Call(name, (way,))
        case Call(name, arguments):
            return Call(name, tuple(rebase(argument, way) for argument in arguments))
        case Negative(operand):
            return Negative(rebase(operand, way))
        case Binary(operator, left, right):
            return Binary(operator, rebase(left, way), rebase(right, way))
        case Path() if expression.is_relative:
            steps = tuple(step for step in (*way.steps, *expression.steps) if step != HERE)
            if not steps and not way.absolute and way.start is None:
                return CONTEXT
            return replace(way, steps=steps)
        case Path(start=start) if start is not None:
            return replace(expression, start=rebase(start, way))
        case Literal() | Number() | Variable() | Path():
            return expression
    return expression
