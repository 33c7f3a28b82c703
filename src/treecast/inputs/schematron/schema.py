"""A Schematron file -> its patterns, with everything expanded that only saves writing: abstract patterns and rules,
phases.

What it reads is ISO/IEC 19757-3 with XPath 1.0. Expansion is bounded: an abstract rule may extend others, but not
itself, and `checks_max` assertions are enough for anybody.

Codes: TC195 the file is no Schematron, or uses something that is not supported; TC329 it expands to too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from treecast.errors import QueryError, QueryLimitError
from treecast.inputs.schematron.markup import Markup
from treecast.query import parse

NAMESPACE = "http://purl.oclc.org/dsdl/schematron"
OLD_NAMESPACE = "http://www.ascc.net/xml/schematron"
BINDINGS = ("", "xslt", "xslt1", "xpath", "xpath1", "exslt")
ALL_PHASES = "#ALL"
DEFAULT_PHASE = "#DEFAULT"
CHECKS_MAX = 20_000
EXTENSIONS_MAX = 32
_PARAMETER = re.compile(r"\$([^\W\d][\w.\-]*)")
# Attributes that hold expressions, in which parameters of abstract patterns are replaced.
_EXPRESSIONS = ("context", "test", "select", "value", "path")


@dataclass(frozen=True)
class Let:
    name: str
    value: str
    line: int


@dataclass(frozen=True)
class Check:
    """An assert or a report."""

    is_report: bool
    id: str
    test: str
    line: int
    content: Markup
    diagnostics: tuple[Markup, ...]
    role: str
    flag: str


@dataclass(frozen=True)
class Rule:
    context: str
    line: int
    lets: tuple[Let, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Pattern:
    id: str
    lets: tuple[Let, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Schema:
    title: str
    namespaces: dict[str, str]
    lets: tuple[Let, ...]
    """Of the schema and of the phase: evaluated at the root."""
    patterns: tuple[Pattern, ...]


def read_schema(root: Markup, name: str, phase: str | None = None) -> Schema:
    """The schema in the file `name`, as far as the phase uses it. Raises QueryError."""
    return _Reader(name, root).schema(phase)


@dataclass
class _Reader:
    file: str
    root: Markup
    checks: int = 0
    diagnostics: dict[str, Markup] = field(default_factory=dict)
    abstract_rules: dict[str, Markup] = field(default_factory=dict)
    abstract_patterns: dict[str, Markup] = field(default_factory=dict)

    def refuse(self, at: Markup, message: str, hint: str) -> QueryError:
        return QueryError(f"{self.file}: line {at.line}: {message}", code="TC195", hint=hint)

    def parts(self, of: Markup, local: str) -> list[Markup]:
        return [each for each in of.elements() if each.name == f"{{{NAMESPACE}}}{local}"]

    def require(self, of: Markup, attribute: str) -> str:
        value = of.get(attribute).strip()
        if not value:
            raise self.refuse(of, f"a {of.local} without {attribute}", f'write <{of.local} {attribute}="…">')
        return value

    def schema(self, phase: str | None) -> Schema:
        root = self.root
        if root.name != f"{{{NAMESPACE}}}schema":
            old = root.name.startswith(f"{{{OLD_NAMESPACE}}}")
            hint = "Schematron 1.5 is not read: " if old else ""
            raise self.refuse(
                root, f"{root.local} is no Schematron schema", f'{hint}write <schema xmlns="{NAMESPACE}">'
            )
        binding = root.get("queryBinding").strip().lower()
        if binding not in BINDINGS:
            raise self.refuse(root, f"the query binding {binding!r} is not supported", "rules are written in XPath 1.0")
        self.check_supported()
        for group in self.parts(root, "diagnostics"):
            self.diagnostics.update((self.require(each, "id"), each) for each in self.parts(group, "diagnostic"))
        patterns = self.parts(root, "pattern")
        for pattern in patterns:
            if pattern.get("abstract") == "true":
                self.abstract_patterns[self.require(pattern, "id")] = pattern
            for rule in self.parts(pattern, "rule"):
                if rule.get("abstract") == "true":
                    self.abstract_rules[self.require(rule, "id")] = rule
        active, phase_lets = self.phase(phase)
        concrete_patterns = [each for each in patterns if each.get("abstract") != "true"]
        concrete_patterns = [each for each in concrete_patterns if active is None or each.get("id") in active]
        titles = ["".join(part for part in each.content if isinstance(part, str)) for each in self.parts(root, "title")]
        return Schema(
            " ".join(" ".join(titles).split()),
            self.namespaces(),
            (*self.lets(root), *phase_lets),
            tuple(self.pattern(each, number) for number, each in enumerate(concrete_patterns, 1)),
        )

    def namespaces(self) -> dict[str, str]:
        bindings: dict[str, str] = {}
        for each in self.parts(self.root, "ns"):
            binding = {self.require(each, "prefix"): self.require(each, "uri")}
            try:
                parse("/*", namespaces=binding)
            except QueryError as error:
                reason = str(error).removeprefix(f"{error.code} ").partition("\n")[0]
                raise self.refuse(each, reason, error.hint) from None
            bindings.update(binding)
        return bindings

    def check_supported(self) -> None:
        pending = [self.root]
        while pending:
            element = pending.pop()
            if element.name in (f"{{{NAMESPACE}}}include", f"{{{NAMESPACE}}}extends") and "href" in element.attributes:
                raise self.refuse(element, f"{element.local} of another file", "put everything into one file")
            if element.name.startswith("{http://www.w3.org/1999/XSL/Transform}") and element.local in (
                "key",
                "function",
            ):
                raise self.refuse(element, f"xsl:{element.local} is not supported", "write the path that it stands for")
            pending += element.elements()

    def phase(self, name: str | None) -> tuple[set[str] | None, list[Let]]:
        """The ids of the active patterns, None for all, and the variables of the phase."""
        default = self.root.get("defaultPhase").strip()
        name = (default or ALL_PHASES) if name in (None, DEFAULT_PHASE) else name
        if name == ALL_PHASES:
            return None, []
        phases = {self.require(each, "id"): each for each in self.parts(self.root, "phase")}
        if name not in phases:
            names = ", ".join(sorted(phases)) or "none"
            raise self.refuse(self.root, f"there is no phase {name!r}", f"the phases are: {names}, {ALL_PHASES}")
        active = {self.require(each, "pattern") for each in self.parts(phases[name], "active")}
        return active, self.lets(phases[name])

    def lets(self, of: Markup) -> list[Let]:
        bindings = []
        for let in self.parts(of, "let"):
            value = let.get("value").strip()
            if not value:
                raise self.refuse(
                    let, "a let without value", 'write <let name="x" value="…">: only expressions are supported'
                )
            bindings.append(Let(self.require(let, "name"), value, let.line))
        return bindings

    # --- patterns and rules -------------------------------------------------------------------------------------------

    def pattern(self, pattern: Markup, number: int) -> Pattern:
        id = pattern.get("id") or f"pattern-{number}"
        base = pattern
        if pattern.get("is-a"):
            abstract = self.abstract_patterns.get(pattern.get("is-a"))
            if abstract is None:
                raise self.refuse(pattern, f"there is no abstract pattern {pattern.get('is-a')!r}", "check its id")
            if abstract.get("is-a"):
                raise self.refuse(abstract, "an abstract pattern is an instance of another", "write it out")
            values = {self.require(each, "name"): self.require(each, "value") for each in self.parts(pattern, "param")}
            base = _replace(abstract, values)
        rules = [each for each in self.parts(base, "rule") if each.get("abstract") != "true"]
        own = {self.require(each, "id"): each for each in self.parts(base, "rule") if each.get("abstract") == "true"}
        lets = self.lets(base) + (self.lets(pattern) if base is not pattern else [])
        return Pattern(id, tuple(lets), tuple(self.rule(each, own) for each in rules))

    def rule(self, rule: Markup, own: dict[str, Markup]) -> Rule:
        lets: list[Let] = []
        checks: list[Check] = []
        for part in self.extend(rule, own, ()):
            if part.local == "let":
                lets += self.lets(Markup("", {}, part.line, [part]))
            else:
                checks.append(self.check(part))
        return Rule(self.require(rule, "context"), rule.line, tuple(lets), tuple(checks))

    def extend(self, rule: Markup, own: dict[str, Markup], above: tuple[str, ...]) -> Iterator[Markup]:
        """The lets and checks of a rule, those of abstract rules in the place where they are extended."""
        for part in rule.elements():
            if part.name == f"{{{NAMESPACE}}}extends":
                id = self.require(part, "rule")
                abstract = own.get(id) or self.abstract_rules.get(id)
                if abstract is None:
                    raise self.refuse(part, f"there is no abstract rule {id!r}", "check its id")
                if id in above:
                    raise self.refuse(part, f"the abstract rule {id!r} extends itself", "remove one of the extends")
                if len(above) >= EXTENSIONS_MAX:
                    raise self.too_much(part, f"abstract rules extend one another more than {EXTENSIONS_MAX} deep")
                yield from self.extend(abstract, own, (*above, id))
            elif part.name in (f"{{{NAMESPACE}}}let", f"{{{NAMESPACE}}}assert", f"{{{NAMESPACE}}}report"):
                self.checks += 1
                if self.checks > CHECKS_MAX:
                    raise self.too_much(part, f"more than {CHECKS_MAX:,} assertions and variables of rules")
                yield part

    def check(self, part: Markup) -> Check:
        diagnostics = []
        for id in part.get("diagnostics").split():
            if id not in self.diagnostics:
                raise self.refuse(part, f"there is no diagnostic {id!r}", "check its id")
            diagnostics.append(self.diagnostics[id])
        return Check(
            part.local == "report",
            part.get("id"),
            self.require(part, "test"),
            part.line,
            part,
            tuple(diagnostics),
            part.get("role"),
            part.get("flag"),
        )

    def too_much(self, at: Markup, message: str) -> QueryLimitError:
        return QueryLimitError(f"{self.file}: line {at.line}: {message}", code="TC329", hint="divide the file")


def _replace(element: Markup, values: dict[str, str]) -> Markup:
    """A copy of an abstract pattern with the values of an instance; they are not searched again, so nothing recurs."""

    def value_of(match: re.Match[str]) -> str:
        return values.get(match.group(1), match.group(0))

    attributes = {
        name: _PARAMETER.sub(value_of, value) if name in _EXPRESSIONS else value
        for name, value in element.attributes.items()
    }
    content = [_replace(each, values) if isinstance(each, Markup) else each for each in element.content]
    return Markup(element.name, attributes, element.line, content)
