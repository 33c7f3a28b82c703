"""Tests of a query that are never true, whatever a document says: what is likely to be a mistake in it.

    >>> import treecast
    >>> for one in impossible_tests(treecast.parse('//item[@day > "2026-01-01" or @new]')):
    ...     print(one.message)
    @day>"2026-01-01" is never true: "2026-01-01" is no number, and > compares numbers
    >>> matches_nothing(treecast.parse("//item[@a = 1 and @a = 2]"))
    '@a=1 and @a=2 are never true together'

Theory of operation. Each expression is evaluated over all documents at once: its value is a set of values that holds at
least all that some document gives it (abstract interpretation; Cousot and Cousot, 1977). Numbers are an interval,
strings are known or have a form that some functions give them, of items only their kinds are known. A test that cannot
be true over these sets is never true. What tests say together is left to covering (treecast.query.cover), which proves
that no document fits.

What is reported is certain; what is not reported may still be impossible. Numbers are those of XPath 1.0, without
exponents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from treecast.query import Query, cover
from treecast.query.expressions import (
    AllOf,
    AnyOf,
    Chain,
    Expression,
    FunctionCall,
    Negative,
    Number,
    Selection,
    TermStep,
    Text,
    Union,
)
from treecast.query.item_kinds import ANYTHING, DOCUMENT, NOTHING, along, of_test
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
)
from treecast.query.value_sets import (
    BOTH,
    LOCAL_NAMES,
    NEVER,
    NOTHING_THERE,
    NUMERIC,
    OPPOSITE,
    Items,
    Numbers,
    Texts,
    Truths,
    Values,
    arithmetic,
    call,
    compare,
    constant,
    contains,
    negated,
    numeric,
    truth,
    whole_numbers,
)
from treecast.query.values import is_impossible
from treecast.query.writer import UnwritableError, Writer

CONJUNCTS_MAX = 24
"""Of a path whose conditions exclude one another; of more, it is not asked which do."""


@dataclass(frozen=True, slots=True)
class Impossible:
    """A test that is never true."""

    test: str
    """As text, in the prefixes of the query."""
    reason: str
    is_inside: bool = False
    """Whether it is a part of `test` that is never true."""

    @property
    def message(self) -> str:
        """In one sentence."""
        what = f"{self.test} holds a test that is" if self.is_inside else f"{self.test} is"
        return f"{what} never true: {self.reason}"


@dataclass(frozen=True, slots=True)
class Examination:
    """What is certain of a query."""

    matches_nothing: str
    """Why no document can match it; empty where one may."""
    tests: tuple[Impossible, ...]
    """Its tests that are never true, each by itself. It may match all the same, by others."""


def examine(query: Query) -> Examination:
    """Both at once."""
    evaluator = _Evaluator(query.namespaces)
    paths = query.tree
    is_possible_path = query.linear and bool(query.linear_paths())
    reasons = [_reason(path, evaluator, asks_cover=not is_possible_path) for path in paths]
    whole = "; ".join(dict.fromkeys(reasons)) if all(reasons) else ""
    return Examination(whole, tuple(dict.fromkeys(evaluator.found)))


def impossible_tests(query: Query) -> tuple[Impossible, ...]:
    """The tests of the query that are never true, each by itself."""
    return examine(query).tests


def matches_nothing(query: Query) -> str | None:
    """Why no document can match the query; None where one may."""
    return examine(query).matches_nothing or None


def _reason(path: Path, evaluator: _Evaluator, *, asks_cover: bool) -> str:
    """Why a path of the union selects nothing; empty where it may."""
    before = len(evaluator.found)
    if not evaluator.path(path, Context(frozenset({DOCUMENT}))).kinds:
        messages = dict.fromkeys(test.message for test in evaluator.found[before:])
        return "; ".join(messages) or f"nothing can be at {evaluator.written(Exists((path,)))}"
    if not asks_cover or _facts((path,)) < 2 or not cover.matches_nothing((path,)):
        return ""
    return _conflict(path, evaluator)


def _facts(paths: Sequence[Path]) -> int:
    """How many things the paths say that may exclude one another: with fewer than two there is no conflict."""
    facts = 0
    for path in paths:
        for step in path.steps:
            facts += (2 if step.axis == "self" else 0) + sum(map(_facts_of, step.predicates))
    return facts


def _facts_of(condition: Condition) -> int:
    match condition:
        case And(operands) | Or(operands):
            return sum(map(_facts_of, operands))
        case Not(operand):
            return _facts_of(operand)
        case Compare(paths) | Exists(paths):
            special = any(path.absolute or any(step.kind == "text" for step in path.steps) for path in paths)
            return 1 + special + _facts(paths)
        case Call(path):
            return 1 + path.absolute + _facts((path,))
        case Term(_, requirement):
            return 0 if requirement is None else 1 + _facts_of(requirement)
        case Position() | Last():
            return 0


# --- what a test says together with others ----------------------------------------------------------------------------


def _conflict(path: Path, evaluator: _Evaluator) -> str:
    """The conditions of a path that no document satisfies together, as few as do."""
    conditions = [
        (place, condition)
        for place, step in enumerate(path.steps)
        for predicate in step.predicates
        for condition in (predicate.operands if isinstance(predicate, And) else (predicate,))
    ]
    if len(conditions) > CONJUNCTS_MAX:
        return "its conditions exclude one another"
    for one in list(conditions):
        fewer = [other for other in conditions if other is not one]
        if cover.matches_nothing((_with_conditions(path, fewer),)):
            conditions = fewer
    texts = [evaluator.written(condition) for _, condition in conditions]
    match texts:
        case []:
            return "nothing can be at its path"
        case [one_text]:
            return f"{one_text} is never true here"
        case _:
            return f"{', '.join(texts[:-1])} and {texts[-1]} are never true together"


def _with_conditions(path: Path, conditions: Sequence[tuple[int, Condition]]) -> Path:
    steps = [
        replace(step, predicates=tuple(condition for at, condition in conditions if at == place))
        for place, step in enumerate(path.steps)
    ]
    return replace(path, steps=tuple(steps))


# --- evaluation -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Context:
    """Where an expression is evaluated: at items of these kinds, of which there are at most so many."""

    kinds: frozenset[str]
    most: float = math.inf

    @property
    def positions(self) -> Numbers:
        return Numbers(1, self.most, False, True, f"a position here is {whole_numbers(1, self.most)}")


class _Evaluator:
    """Evaluates conditions and expressions over all documents, and notes the tests that are never true."""

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self.namespaces = namespaces
        self.found: list[Impossible] = []
        self._condition: Condition | None = None

    def written(self, condition: Condition) -> str:
        """The condition as text."""
        try:
            return _PrefixWriter(self.namespaces).test(condition)
        except UnwritableError:
            return "a test"

    # conditions of patterns

    def path(self, path: Path, context: Context) -> Items:
        if path.variable is not None:
            return Items(ANYTHING)
        kinds = frozenset({DOCUMENT}) if path.absolute else context.kinds
        for step in path.steps:
            kinds = self.step(step, kinds)
        return Items(kinds)

    def step(self, step: Step, kinds: frozenset[str]) -> frozenset[str]:
        if step.local is not None and (refusal := LOCAL_NAMES.refusal(step.local)):
            self.found.append(Impossible(f'local-name()="{step.local}"', refusal))
            return NOTHING
        if step.gap:
            kinds = along("descendant-or-self", kinds)
        reached = along(step.axis, kinds) & of_test(step.kind, step.axis)
        is_one = step.axis == "self" or (step.axis == "attribute" and step.uri is not None and step.local is not None)
        is_root = step.axis == "child" and kinds == {DOCUMENT} and step.kind == "element"
        at = Context(reached, 1 if is_one or is_root else math.inf)
        for predicate in step.predicates:
            if not at.kinds:
                break
            if not self.test(predicate, at).may_hold:
                return NOTHING
            at = replace(at, most=min(at.most, _most_after(predicate)))
        return at.kinds

    def test(self, condition: Condition, context: Context) -> Truths:
        """A condition. Notes it if it is never true, and none of its parts is the reason."""
        before, outer = len(self.found), self._condition
        self._condition = condition
        truths, reason = self.condition(condition, context)
        self._condition = outer
        if not truths.may_hold and len(self.found) == before:
            self.found.append(Impossible(self.written(condition), reason or "it is false in every document"))
        return truths

    def condition(self, condition: Condition, context: Context) -> tuple[Truths, str]:
        match condition:
            case And(operands):
                truths = _all([self.test(operand, context) for operand in operands])
                places = [(one.relation, one.number) for one in operands if isinstance(one, Position) if one.number]
                if truths.may_hold and is_impossible((*places, (">=", 1.0), ("<=", context.most))):
                    return NEVER, "no position is all of these"
                return truths, ""
            case Or(operands):
                return _any([self.test(operand, context) for operand in operands]), ""
            case Not(operand):
                inner = self.test(operand, context)
                return Truths(inner.may_fail, inner.may_hold), "" if inner.may_fail else "the opposite is always true"
            case Exists(paths):
                return truth(self.union(paths, context)), NOTHING_THERE
            case Compare(paths, relation, value):
                other = Texts(value) if isinstance(value, str) else constant(value)
                return compare(self.union(paths, context), relation, other)
            case Call(path, text):
                return contains(condition.name, self.path(path, context), Texts(text))
            case Position(relation, None):
                return _position_to_last(relation, context), "no position is greater than last()"
            case Position(relation, float() as wanted) | Last(relation, wanted):
                return compare(context.positions, relation, constant(wanted))
            case Term() if condition.expression is not None:
                values, reason = self.value(condition.expression, context)
                return truth(values), reason
        return BOTH, ""

    def union(self, paths: tuple[Path, ...], context: Context) -> Items:
        return Items(NOTHING.union(*(self.path(path, context).kinds for path in paths)))

    # expressions of terms

    def inner_test(self, expression: Expression, context: Context) -> Truths:
        """A test inside a term. Notes the term if the test is never true, and none of its parts is the reason."""
        before = len(self.found)
        value, reason = self.value(expression, context)
        truths = truth(value)
        if not truths.may_hold and len(self.found) == before and self._condition is not None:
            reason = reason or "it is false in every document"
            self.found.append(Impossible(self.written(self._condition), reason, is_inside=True))
        return truths

    def value(self, expression: Expression, context: Context) -> tuple[Values, str]:
        """The values of the expression; of a truth value that is always false, why."""
        match expression:
            case Number(one):
                return constant(one), ""
            case Text(text):
                return Texts(text), "an empty text is false" if not text else ""
            case AllOf(operands):
                return _all([self.inner_test(operand, context) for operand in operands]), ""
            case AnyOf(operands):
                return _any([self.inner_test(operand, context) for operand in operands]), ""
            case Union(operands):
                items = [self.value(operand, context)[0] for operand in operands]
                return Items(NOTHING.union(*(one.kinds for one in items if isinstance(one, Items)))), NOTHING_THERE
            case Negative(operand):
                return negated(numeric(self.value(operand, context)[0])), ""
            case Chain(operands, operators):
                return self._chain(operands, operators, context)
            case FunctionCall(name, arguments):
                return self._call(name, arguments, context)
            case Selection():
                return self._select(expression, context), NOTHING_THERE

    def _chain(
        self, operands: tuple[Expression, ...], operators: tuple[str, ...], context: Context
    ) -> tuple[Values, str]:
        match operands, operators:
            case (FunctionCall("position"), FunctionCall("last")), (relation,) if relation in OPPOSITE:
                return _position_to_last(relation, context), "no position is greater than last()"
        result, reason = self.value(operands[0], context)
        for operator, operand in zip(operators, operands[1:], strict=True):
            value, _ = self.value(operand, context)
            if operator in OPPOSITE:
                result, reason = compare(result, operator, value)
            else:
                result, reason = arithmetic(numeric(result), operator, numeric(value)), ""
        return result, reason

    def _select(self, selection: Selection, context: Context) -> Items:
        if selection.has_variable:
            kinds = ANYTHING
        elif selection.start is not None:
            start, _ = self.value(selection.start, context)
            kinds = start.kinds if isinstance(start, Items) else ANYTHING
        else:
            kinds = frozenset({DOCUMENT}) if selection.absolute else context.kinds
        kinds = self._filter(selection.predicates, Context(kinds))
        for step in selection.steps:
            kinds = self._term_step(step, kinds)
        return Items(kinds)

    def _term_step(self, step: TermStep, kinds: frozenset[str]) -> frozenset[str]:
        reached = along(step.axis, kinds) & of_test(step.kind, step.axis)
        is_one = step.axis in ("self", "parent")
        is_one |= step.axis == "attribute" and step.uri is not None and step.local is not None
        is_one |= step.axis == "child" and step.kind == "named" and kinds == {DOCUMENT}
        return self._filter(step.predicates, Context(reached, 1 if is_one else math.inf))

    def _filter(self, predicates: tuple[Expression, ...], at: Context) -> frozenset[str]:
        for predicate in predicates:
            if not at.kinds:
                break
            if _is_number(predicate):
                predicate = Chain((FunctionCall("position", ()), predicate), ("=",))
            if not self.inner_test(predicate, at).may_hold:
                return NOTHING
            match predicate:
                case Chain((FunctionCall("position"), Number() | FunctionCall("last")), ("=",)):
                    at = replace(at, most=1)
                case _:
                    pass
        return at.kinds

    def _call(self, name: str, arguments: tuple[Expression, ...], context: Context) -> tuple[Values, str]:
        match name:
            case "not":
                inner = self.inner_test(arguments[0], context)
                return Truths(inner.may_fail, inner.may_hold), "" if inner.may_fail else "the opposite is always true"
            case "boolean":
                value, reason = self.value(arguments[0], context)
                return truth(value), reason
            case "position" | "last":
                return context.positions, ""
            case _:
                pass
        values = [self.value(argument, context)[0] for argument in arguments]
        return call(name, values or [Items(context.kinds)])


def _all(truths: Sequence[Truths]) -> Truths:
    return Truths(all(one.may_hold for one in truths), any(one.may_fail for one in truths))


def _any(truths: Sequence[Truths]) -> Truths:
    return Truths(any(one.may_hold for one in truths), all(one.may_fail for one in truths))


def _position_to_last(relation: str, context: Context) -> Truths:
    """A position is last() or less."""
    may_differ = context.most > 1
    may_hold = {"<": may_differ, "!=": may_differ, ">": False}.get(relation, True)
    return Truths(may_hold, relation != "<=")


def _most_after(predicate: Condition) -> float:
    """How many items a predicate leaves at most."""
    match predicate:
        case Position("="):
            return 1
        case Position("<=" | "<", float(bound)):
            return max(0, math.floor(bound))
        case And(operands):
            return min(map(_most_after, operands))
        case _:
            return math.inf


def _is_number(expression: Expression) -> bool:
    """Whether it gives a number: as a predicate, that is a position."""
    match expression:
        case Number() | Negative():
            return True
        case Chain(_, operators):
            return operators[-1] not in OPPOSITE
        case FunctionCall(name):
            return name in NUMERIC
        case _:
            return False


class _PrefixWriter(Writer):
    """Writes conditions in the prefixes of a query."""

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        super().__init__()
        self.namespaces = {prefix: uri for prefix, uri in namespaces.items() if prefix}
        self._default = namespaces.get("")

    def test(self, condition: Condition) -> str:
        """A condition; a position alone with its brackets."""
        text = self._predicate(condition)
        return f"[{text}]" if isinstance(condition, Position) and condition.relation == "=" else text

    def _prefix(self, step: Step) -> str:
        if step.kind == "element" and step.uri == self._default and step.uri:
            return ""
        return super()._prefix(step)
