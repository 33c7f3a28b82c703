"""A Schematron schema -> assertions, each of them a subscription: a query that selects what breaks it.

    rules = read_rules("invoice.sch")
    index.add_many(rules.table())         # which documents break which rule
    rules.failures(document)              # and where, with the message

A rule is its context without what earlier rules of its pattern take, and the negation of its test:

    <rule context="line"><assert test="@price">…</assert></rule>      //line[not(@price)]

Codes: TC190 a file that cannot be read, TC191 one that is not XML, TC195 one that is no Schematron that we support,
TC196 an expression that cannot become part of a query, TC329 one that expands to too much. What is read here, an Index
and a Checker accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from treecast.errors import DocumentError, LimitError, QueryError, QueryLimitError
from treecast.index.explain import places_with_values
from treecast.inputs.schematron.contexts import Context, read_context, selection
from treecast.inputs.schematron.expression import (
    Call,
    Expression,
    ExpressionError,
    format_expression,
    parse_expression,
)
from treecast.inputs.schematron.inlining import (
    ROOT,
    Inlining,
    InliningError,
    OutOfReachError,
    TooLargeError,
    Value,
    is_number,
    rebase,
    uses_position,
    variables_of,
)
from treecast.inputs.schematron.markup import Markup, read_markup
from treecast.inputs.schematron.schema import Check, Let, Rule, Schema, read_schema
from treecast.inputs.subscription_files import unreadable
from treecast.query import parse

if TYPE_CHECKING:
    import pyarrow as pa

QUERIES_CHARS_MAX = 32 << 20
ID_BYTES_MAX = 1000
"""An index takes 1,024; the numbers of repeated ids come behind."""
UNBOUND = "TC109"
_OUT_OF_REACH = "compare it outside the brackets, or walk to it with child steps, from which .. leads back"


@dataclass(frozen=True)
class Assertion:
    """An assert or report as a subscription."""

    id: str
    """That of the file, or one made of the numbers of its pattern, rule and assertion."""
    query: str
    """Selects the items that break it."""
    message: tuple[str | Expression, ...]
    """Texts, and expressions whose values belong between them, relative to such an item."""
    pattern: str
    context: str
    test: str
    is_report: bool
    role: str
    flag: str
    line: int

    @property
    def message_expressions(self) -> list[str]:
        """The expressions of the message, as text."""
        return [format_expression(part) for part in self.message if not isinstance(part, str)]

    @property
    def plain_message(self) -> str:
        """The message with its expressions in braces."""
        return "".join(part if isinstance(part, str) else f"{{{format_expression(part)}}}" for part in self.message)


@dataclass(frozen=True)
class Rules:
    """The assertions of one file."""

    title: str
    namespaces: Mapping[str, str]
    assertions: tuple[Assertion, ...]

    def __iter__(self) -> Iterator[Assertion]:
        return iter(self.assertions)

    def __len__(self) -> int:
        return len(self.assertions)

    def table(self) -> pa.Table:
        """As subscriptions: id, query, namespaces."""
        import pyarrow as pa

        bindings = list(self.namespaces.items())
        columns = {
            "id": pa.array([each.id for each in self.assertions], pa.string()),
            "query": pa.array([each.query for each in self.assertions], pa.string()),
            "namespaces": pa.array([bindings] * len(self.assertions), pa.map_(pa.string(), pa.string())),
        }
        return pa.table(columns)


def read_rules(path: str, *, phase: str | None = None) -> Rules:
    """The rules in a file. `phase` chooses patterns: that of the file by default, `#ALL` for all."""
    try:
        data = FilePath(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    return parse_rules(data, name=path, phase=phase)


def parse_rules(data: bytes, *, name: str = "rules", phase: str | None = None) -> Rules:
    """As `read_rules`, of what such a file holds; errors call it `name`."""
    try:
        root = read_markup(data)
    except DocumentError as error:
        raise QueryError(
            f"{name}: {error}", code="TC191", hint="a Schematron file is a well-formed XML document"
        ) from None
    schema = read_schema(root, name, phase)
    builder = _Builder(name, schema)
    return Rules(schema.title, schema.namespaces, tuple(builder.assertions()))


@dataclass
class _Builder:
    file: str
    schema: Schema
    ids: set[str] = field(default_factory=set)
    chars: int = 0

    def refuse(self, line: int, what: str, error: Exception) -> QueryError:
        place = f"{self.file}: line {line}: {what}: "
        if isinstance(error, QueryError):
            message = place + str(error).removeprefix(f"{error.code} ").partition("\n  hint: ")[0]
            if isinstance(error, LimitError):
                return QueryLimitError(message, code="TC329", hint=error.hint)
            hint = 'bind it: <ns prefix="…" uri="…"/>' if error.code == UNBOUND else error.hint
            return QueryError(message, code="TC196", hint=hint)
        if isinstance(error, TooLargeError):
            return QueryLimitError(
                place + str(error), code="TC329", hint="use the variables less often, or in fewer steps"
            )
        if isinstance(error, OutOfReachError):
            message = f"{error} is used in brackets from which no path leads back to the context of the rule"
            return QueryError(place + message, code="TC196", hint=_OUT_OF_REACH)
        return QueryError(place + str(error), code="TC196", hint="rules are XPath 1.0, and their contexts patterns")

    def assertions(self) -> Iterator[Assertion]:
        everywhere = self.bind(self.schema.lets, {}, at_root=True)
        for pattern in self.schema.patterns:
            values = self.bind(pattern.lets, everywhere, at_root=True)
            earlier: list[Context] = []
            for place, rule in enumerate(pattern.rules, 1):
                try:
                    context = read_context(rule.context, Inlining(values))
                except (ExpressionError, InliningError) as error:
                    raise self.refuse(rule.line, "context", error) from None
                own = self.bind(rule.lets, values, at_root=False)
                for which, check in enumerate(rule.checks, 1):
                    id = self.name(check, f"{pattern.id}.{place}.{which}")
                    yield self.assertion(id, pattern.id, rule, check, context, earlier, own)
                earlier.append(context)

    def name(self, check: Check, place: str) -> str:
        """The id of an assertion. Two may have one id, when abstract rules are extended twice."""
        base = id = check.id or place
        number = 1
        if len(id.encode()) > ID_BYTES_MAX:
            message = f"{self.file}: line {check.line}: an id of more than {ID_BYTES_MAX:,} bytes"
            raise QueryLimitError(message, code="TC329", hint="use a shorter one")
        while id in self.ids:
            number += 1
            id = f"{base}-{number}"
        self.ids.add(id)
        return id

    def bind(self, lets: tuple[Let, ...], outer: Mapping[str, Value], *, at_root: bool) -> dict[str, Value]:
        """The values of all variables here. Those outside rules are evaluated at the root, in any order."""
        values = dict(outer)
        waiting = {let.name: let for let in lets}
        for let in lets:
            self._bind_one(let.name, waiting, values, at_root, ())
        return values

    def _bind_one(
        self, name: str, waiting: dict[str, Let], values: dict[str, Value], at_root: bool, above: tuple[str, ...]
    ) -> None:
        let = waiting.get(name)
        if let is None:
            return
        if name in above or len(above) > 64:
            raise self.refuse(let.line, f"let ${name}", InliningError(f"${name} is defined by itself"))
        try:
            expression = parse_expression(let.value)
            for variable in variables_of(expression):
                self._bind_one(variable, waiting, values, at_root, (*above, name))
            value = Inlining(values).value(expression)
            values[name] = Value.of(rebase(value, ROOT) if at_root else value)
        except (ExpressionError, InliningError) as error:
            raise self.refuse(let.line, f"let ${name}", error) from None
        del waiting[name]

    def assertion(
        self,
        id: str,
        pattern: str,
        rule: Rule,
        check: Check,
        context: Context,
        earlier: list[Context],
        values: Mapping[str, Value],
    ) -> Assertion:
        try:
            test = parse_expression(check.test)
            if uses_position(test):
                raise InliningError("position() and last() of a rule's context differ between processors")
            truth = Inlining(values).truth(test)
        except (ExpressionError, InliningError) as error:
            raise self.refuse(check.line, "report" if check.is_report else "assert", error) from None
        condition = _condition(truth) if check.is_report else _negation(truth)
        query = format_expression(selection(context, earlier, condition))
        self.chars += len(query)
        if self.chars > QUERIES_CHARS_MAX:
            limit = TooLargeError(f"the queries of the file have more than {QUERIES_CHARS_MAX:,} characters")
            raise self.refuse(check.line, "assert", limit)
        assertion = Assertion(
            id, query, self.message(check, values), pattern, rule.context, check.test, check.is_report, check.role,
            check.flag, check.line,
        )  # fmt: skip
        try:
            places_with_values(b"<a/>", query, assertion.message_expressions, self.schema.namespaces)
        except QueryError as error:
            raise self.locate(error, assertion, selection(context, earlier), rule.line) from None
        return assertion

    def locate(self, error: QueryError, assertion: Assertion, selected: Expression, line: int) -> QueryError:
        """The refusal of an assertion as that of its first wrong part; `selected` is the context, at `line`."""
        kind = "report" if assertion.is_report else "assert"
        parts = ((format_expression(selected), line, "context"), (assertion.query, assertion.line, kind))
        for query, place, what in parts:
            try:
                parse(query, namespaces=self.schema.namespaces)
            except QueryError as cause:
                return self.refuse(place, what, cause)
        return self.refuse(assertion.line, f"message of the {kind}", error)

    def message(self, check: Check, values: Mapping[str, Value]) -> tuple[str | Expression, ...]:
        parts: list[str | Expression] = []
        for content in (check.content, *check.diagnostics):
            if parts:
                parts.append(" ")
            self._message_into(parts, content, values)
        return _tidy(parts)

    def _message_into(self, parts: list[str | Expression], content: Markup, values: Mapping[str, Value]) -> None:
        for part in content.content:
            if isinstance(part, str):
                parts.append(part)
                continue
            try:
                if part.local == "value-of":
                    parts.append(Inlining(values).value(parse_expression(part.get("select") or ".")))
                elif part.local == "name":
                    of = Inlining(values).value(parse_expression(part.get("path") or "."))
                    parts.append(Call("name", (of,)))
                else:
                    self._message_into(parts, part, values)
            except (ExpressionError, InliningError) as error:
                raise self.refuse(part.line, part.local, error) from None


def _condition(truth: Expression) -> Expression:
    """As a predicate: a number would be a position there."""
    return Call("boolean", (truth,)) if is_number(truth) else truth


def _negation(truth: Expression) -> Expression:
    match truth:
        case Call("not", (inner,)):
            return _condition(inner)
        case _:
            return Call("not", (truth,))


def _tidy(parts: list[str | Expression]) -> tuple[str | Expression, ...]:
    """Runs of white space as one space, none at the ends; neighbouring texts as one."""
    merged_parts: list[str | Expression] = []
    for part in parts:
        if isinstance(part, str) and merged_parts and isinstance(merged_parts[-1], str):
            merged_parts[-1] += part
        else:
            merged_parts.append(part)
    out: list[str | Expression] = []
    for place, part in enumerate(merged_parts):
        if isinstance(part, str):
            text = " ".join(part.split())
            before = " " if part[:1].isspace() and place and text else ""
            after = " " if part[-1:].isspace() and place < len(merged_parts) - 1 else ""
            part = before + text + after
            if not part:
                continue
        out.append(part)
    return tuple(out)


__all__ = ["Assertion", "Rules", "parse_rules", "read_rules"]
