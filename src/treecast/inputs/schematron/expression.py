"""XPath 1.0 text -> a small syntax tree -> text: what rules need, because they are rewritten before they are queries.

Queries themselves are parsed by native code. This is for the expressions of a Schematron file, which are relative, use
variables and belong to a context: `inlining` puts the variables' values in, `contexts` makes absolute paths of them.

>>> format_expression(parse_expression("count(line[@id = $id]) > 1 and not(..//note)"))
'count(line[@id = $id]) > 1 and not(..//note)'

`//` is kept as the step it stands for, `descendant-or-self::node()`, and written as `//` again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

NESTING_MAX = 64
EXPRESSION_CHARS_MAX = 1 << 16


@dataclass(frozen=True)
class Literal:
    text: str


@dataclass(frozen=True)
class Number:
    text: str


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Negative:
    operand: Expression


@dataclass(frozen=True)
class Binary:
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Step:
    axis: str
    test: str
    predicates: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Path:
    """From the root (`absolute`), from what `start` gives, or else from the context."""

    absolute: bool
    steps: tuple[Step, ...]
    start: Expression | None = None
    predicates: tuple[Expression, ...] = ()
    """Of what `start` gives: `(a | b)[1]/c`."""

    @property
    def is_relative(self) -> bool:
        return not self.absolute and self.start is None


Expression: TypeAlias = Literal | Number | Variable | Call | Negative | Binary | Path

ANYWHERE = Step("descendant-or-self", "node()")
HERE = Step("self", "node()")
UP = Step("parent", "node()")
AXES = (
    "ancestor", "ancestor-or-self", "attribute", "child", "descendant", "descendant-or-self", "following",
    "following-sibling", "namespace", "parent", "preceding", "preceding-sibling", "self",
)  # fmt: skip
KINDS = ("node", "text", "comment", "processing-instruction")
# From the weakest to the strongest; unary minus stands between `*` and `|`.
LEVELS = (("or",), ("and",), ("=", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "div", "mod"))
_STRENGTH = {operator: level for level, operators in enumerate(LEVELS) for operator in operators} | {
    "|": len(LEVELS) + 1
}
OPERATOR_MARKS = ("|", "+", "-", "=", "!=", "<", "<=", ">", ">=")
OPENINGS = ("@", "::", "(", "[", ",", "/", "//")
_NAME = r"[^\W\d][\w.\-·]*"
_TOKEN = re.compile(
    rf"""\s*(?:(?P<literal>"[^"]*"|'[^']*')|(?P<number>\d+(?:\.\d*)?|\.\d+)|(?P<variable>\${_NAME}(?::{_NAME})?)
    |(?P<name>{_NAME}(?::(?!:)(?:{_NAME}|\*))?)|(?P<mark>::|//|\.\.|!=|<=|>=|[()\[\].@,/|+\-=<>*]))""",
    re.VERBOSE,
)


class ExpressionError(ValueError):
    """The text is no XPath 1.0 expression; the message says where and why."""


def parse_expression(text: str) -> Expression:
    """Raises ExpressionError."""
    if len(text) > EXPRESSION_CHARS_MAX:
        raise ExpressionError(f"longer than {EXPRESSION_CHARS_MAX:,} characters")
    parser = _Parser(list(_tokens(text)))
    expression = parser.expression()
    if parser.token is not None:
        raise ExpressionError(f"{parser.token[1]!r} is not expected")
    return expression


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """(kind, text). A name or `*` after an operand is an operator (XPath 1.0, section 3.7)."""
    at, before = 0, ("", "")
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"{text[at:].lstrip()[:20]!r} is not expected")
        kind, at = str(match.lastgroup), match.end()
        value = match.group(kind)
        after_operand = before[0] not in ("", "operator") and before[1] not in OPENINGS
        is_operator = kind == "mark" and value in OPERATOR_MARKS
        if is_operator or (after_operand and value in ("*", "and", "or", "div", "mod")):
            kind = "operator"
        before = (kind, value)
        yield before


class _Parser:
    """Recursive descent over the tokens; `token` is the next one."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> tuple[str, str] | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def next_is(self, *values: str, ahead: int = 0, kinds: tuple[str, ...] = ("mark", "operator")) -> bool:
        at = self.at + ahead
        return at < len(self.tokens) and self.tokens[at][0] in kinds and self.tokens[at][1] in values

    def take(self) -> str:
        if self.token is None:
            raise ExpressionError("it ends too early")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, mark: str) -> None:
        if not self.next_is(mark):
            raise ExpressionError(f"{mark!r} is missing" + (f" before {self.token[1]!r}" if self.token else ""))
        self.at += 1

    def expression(self, level: int = 0) -> Expression:
        if level == 0:
            self.depth += 1
            if self.depth > NESTING_MAX:
                raise ExpressionError(f"brackets nest deeper than {NESTING_MAX}")
        if level == len(LEVELS):
            return self.unary()
        left = self.expression(level + 1)
        while self.token and self.token[0] == "operator" and self.token[1] in LEVELS[level]:
            operator = self.take()
            left = Binary(operator, left, self.expression(level + 1))
        self.depth -= level == 0
        return left

    def unary(self) -> Expression:
        count = 0
        while self.next_is("-", kinds=("operator",)):
            self.at += 1
            count += 1
        if count > NESTING_MAX:
            raise ExpressionError(f"more than {NESTING_MAX} signs")
        left = self.path()
        while self.next_is("|"):
            self.at += 1
            left = Binary("|", left, self.path())
        for _ in range(count):
            left = Negative(left)
        return left

    def path(self) -> Expression:
        """A location path, or a primary expression with what follows it."""
        if self.next_is("/", "//"):
            steps = [ANYWHERE] if self.take() == "//" else []
            if steps or self.starts_step():
                self.steps_into(steps)
            return Path(True, tuple(steps))
        start = self.primary()
        if start is None:
            steps = []
            self.steps_into(steps)
            return Path(False, tuple(steps))
        predicates = self.predicates()
        steps = []
        if self.next_is("/", "//"):
            if self.take() == "//":
                steps.append(ANYWHERE)
            self.steps_into(steps)
        if not predicates and not steps:
            return start
        return Path(False, tuple(steps), start, predicates)

    def primary(self) -> Expression | None:
        """None where a step begins instead."""
        if self.token is None:
            raise ExpressionError("it ends too early")
        kind, value = self.token
        if kind == "literal":
            return Literal(self.take()[1:-1])
        if kind == "number":
            return Number(self.take())
        if kind == "variable":
            return Variable(self.take()[1:])
        if value == "(" and kind == "mark":
            self.at += 1
            inner = self.expression()
            self.expect(")")
            return inner
        if kind == "name" and value not in KINDS and self.next_is("(", ahead=1):
            return self.call()
        return None

    def call(self) -> Call:
        name = self.take()
        self.expect("(")
        arguments: list[Expression] = []
        while not self.next_is(")"):
            if arguments:
                self.expect(",")
            arguments.append(self.expression())
        self.expect(")")
        return Call(name, tuple(arguments))

    def starts_step(self) -> bool:
        if self.token is None:
            return False
        kind, value = self.token
        return kind == "name" or (kind == "mark" and value in ("*", "@", ".", ".."))

    def steps_into(self, steps: list[Step]) -> None:
        steps.append(self.step())
        while self.next_is("/", "//"):
            if self.take() == "//":
                steps.append(ANYWHERE)
            steps.append(self.step())

    def step(self) -> Step:
        if not self.starts_step():
            raise ExpressionError(f"{self.token[1]!r} is not expected" if self.token else "it ends too early")
        if self.next_is("."):
            self.at += 1
            return HERE
        if self.next_is(".."):
            self.at += 1
            return UP
        axis = "child"
        if self.next_is("@"):
            self.at += 1
            axis = "attribute"
        elif self.next_is("::", ahead=1):
            axis = self.take()
            self.at += 1
            if axis not in AXES:
                raise ExpressionError(f"{axis!r} is no axis")
        return Step(axis, self.test(), self.predicates())

    def test(self) -> str:
        if not (self.next_is("*") or (self.token and self.token[0] == "name")):
            raise ExpressionError(f"{self.token[1]!r} is not expected" if self.token else "it ends too early")
        name = self.take()
        if not self.next_is("("):
            return name
        self.at += 1
        inside = self.take() if self.token and self.token[0] == "literal" else ""
        self.expect(")")
        if name not in KINDS or (inside and name != "processing-instruction"):
            raise ExpressionError(f"{name}() is no node test")
        return f"{name}({inside})"

    def predicates(self) -> tuple[Expression, ...]:
        predicates: list[Expression] = []
        while self.next_is("["):
            self.at += 1
            predicates.append(self.expression())
            self.expect("]")
        return tuple(predicates)


# --- writing ---------------------------------------------------------------------------------------------------------


def format_expression(expression: Expression, strength: int = -2) -> str:
    """Its text, in parentheses where it stands beside an operator that binds closer than its own."""
    match expression:
        case Literal(text):
            return f"'{text}'" if '"' in text else f'"{text}"'
        case Number(text):
            return text
        case Variable(name):
            return f"${name}"
        case Call(name, arguments):
            return f"{name}({', '.join(map(format_expression, arguments))})"
        case Negative(operand):
            own = len(LEVELS)
            text = f"-{format_expression(operand, own - 1)}"
        case Binary(operator, left, right):
            own = _STRENGTH[operator]
            text = f"{format_expression(left, own - 1)} {operator} {format_expression(right, own)}"
        case Path():
            text = _format_path(expression)
            return "(/)" if text == "/" and strength >= -1 else text  # a name after the slash would be a step
    return f"({text})" if own <= strength else text


def _format_path(path: Path) -> str:
    if path.start is not None:
        start = path.start
        text = format_expression(start) if isinstance(start, Variable | Call) else f"({format_expression(start)})"
        text += _written_predicates(path.predicates)
        return text + _written_steps(path.steps, after=True)
    if path.absolute:
        return _written_steps(path.steps, after=True) or "/"
    return _written_steps(path.steps, after=False)


def _written_steps(steps: tuple[Step, ...], *, after: bool) -> str:
    """The steps; `after` something that a slash follows."""
    text = ""
    double = False
    for place, step in enumerate(steps):
        last = place == len(steps) - 1
        if step == ANYWHERE and not last and (after or text) and not double:
            double = True
            continue
        text += ("//" if double else "/") if after or text else ""
        text += _written_step(step)
        double = False
    return text


def _written_step(step: Step) -> str:
    if step in (HERE, UP):
        return "." if step == HERE else ".."
    axis = {"child": "", "attribute": "@"}.get(step.axis, f"{step.axis}::")
    return axis + step.test + _written_predicates(step.predicates)


def _written_predicates(predicates: tuple[Expression, ...]) -> str:
    return "".join(f"[{format_expression(predicate)}]" for predicate in predicates)
