"""Why a query matches a document, or how near it came.

Use it to look into one answer; it decides one query on one document at a time, and is slow.
`Index.explain` does the same for a subscription.

    >>> from treecast.index.explain import explain
    >>> document = b'<a>\\n  <b c="2"/>\\n  <b c="1">x</b>\\n</a>'
    >>> print(explain(document, "/a/b[@c = 1]"))
    matches /a/b[@c = 1]
      /a  /a[1], line 1
      /b  /a[1]/b[2], line 3
          [@c = 1] is true: /a[1]/b[2]/@c is "1"
    >>> print(explain(document, "/a/b[@c = 3]"))
    does not match /a/b[@c = 3]
      /a  /a[1], line 1
      /b  /a[1]/b[1], line 2
          [@c = 3] is false: /a[1]/b[1]/@c is "2"

A near miss is the longest prefix of the main path that some element reaches, the first such element in document order,
and the first false predicate as written; of a union, its best branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from treecast import _native
from treecast.document import AnyDocument, EntityTexts, Limits, held_document, native_entities
from treecast.names import nearest, printable

PLACES_MAX = 10_000
ALIKE_MIN = 0.5
"""A name that is suggested for one that the document lacks is at least so similar."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an element, attribute or text is in the document; `places` finds comments and the document itself too."""

    kind: Literal["document", "element", "attribute", "text", "comment", "instruction"]
    path: str
    """Such as /a[1]/b[2]/@c, names as the document writes them."""
    line: int
    column: int
    start: int
    """Bytes of the document as given: data[start:end]."""
    end: int
    value: str
    """Its string value, cut after 200 bytes."""
    namespace: str
    tag_line: int
    """Where the start tag ends, or the attribute or text: the column after it."""
    tag_column: int


@dataclass(frozen=True, slots=True)
class Miss:
    """Where a path stops: the main path of a query, or a path in a condition that selects nothing.

    kind "condition": a predicate is false. "step": nothing reaches the step `text`. "namespace": nothing does, but
    `other` has its name in another namespace. "order": only `other` would, but it starts before the branches of an
    ordered pattern allow.
    """

    kind: Literal["condition", "step", "namespace", "order"]
    text: str
    """The step, without its predicates."""
    place: Place | None
    """How far the path came; None if its first step leads nowhere."""
    condition: Condition | None
    """The false predicate at `place`. Of the main path it is `Explanation.failed`."""
    other: Place | None
    namespace: str
    """The namespace that was wanted there."""
    goes_down: bool
    """Whether the step asks for children, descendants or attributes."""
    unknown: str
    """The name that it asks for, if nothing in the document has it: of an attribute with @."""
    suggestion: str
    """The most similar name that the document does have, if one is similar."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A part of a condition and its value: the side of a comparison, an argument of a function, or a part of these."""

    text: str
    """As written. "." and a path to xml:lang stand for what functions look at without being told."""
    type: Literal["items", "number", "string", "boolean", "undecided"]
    """Undecided: finding the value takes more steps than the limit allows."""
    use: Literal["value", "exists", "any", "first", "all"]
    """How the condition takes items: whether there are any, one that fits, the first one, or their sum."""
    value: str
    """What string() makes of the value, cut after 200 bytes: of items the first of `places`."""
    count: int
    """Of items: how many."""
    places: tuple[Place, ...]
    """Of items: the one that made a comparison true; else the first ones, three at most."""
    not_numbers: tuple[str, ...]
    """Values among these that the condition reads as numbers, and that are none."""
    miss: Miss | None
    """Of no items: where the path stops."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate as written, or a part of one, and why it is true or false."""

    text: str
    holds: bool | None
    """None: deciding takes more steps than the limit allows."""
    kind: Literal["and", "or", "not", "position", "value"]
    operands: tuple[Operand, ...]
    """What it is made of, with values; literals are left out. Of a position: position() and last() at the end."""
    parts: tuple[Condition, ...]
    """Of and, or, not: the parts that decide."""

    @property
    def reason(self) -> str:
        """Why, in words."""
        return _reason(self)

    @property
    def sentence(self) -> str:
        """The condition, whether it holds, and why."""
        return f"{self.text} is {_truth(self)}: {self.reason}"

    def places(self) -> Iterator[Place]:
        """What its operands and parts name, and how far paths came that select nothing."""
        for operand in self.operands:
            yield from operand.places
            miss = operand.miss
            if miss is not None and miss.condition is not None:
                assert miss.place is not None
                yield miss.place
                yield from miss.condition.places()
        for part in self.parts:
            yield from part.places()

    def others(self) -> Iterator[Place]:
        """What is in another namespace, or comes too early, and would fit otherwise."""
        for operand in self.operands:
            if operand.miss is not None and operand.miss.other is not None:
                yield operand.miss.other
            if operand.miss is not None and operand.miss.condition is not None:
                yield from operand.miss.condition.others()
        for part in self.parts:
            yield from part.others()


@dataclass(frozen=True, slots=True)
class StepMatch:
    """A step of the main path and the item that reached it. A condition of the document stands at its root element."""

    text: str
    place: Place
    conditions: tuple[Condition, ...]
    """Its predicates, up to the first that does not hold."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a query matches, or how near it came; `str(explanation)` is for people."""

    matched: bool | None
    """None: undecided, as `match` reports it."""
    undecided: str
    """Why the answer or a part of the explanation is not known; empty where all is."""
    query: str
    branch: str
    """The path that is explained: the query, or the best of its union."""
    steps: tuple[StepMatch, ...]
    """As far as some item came; all of them for a match."""
    miss: Miss | None
    """What failed first; None for a match."""

    @property
    def failed(self) -> Condition | None:
        """The first false predicate, where it was a predicate that failed."""
        conditions = self.steps[-1].conditions if self.miss is not None and self.miss.kind == "condition" else ()
        return conditions[-1] if conditions and conditions[-1].holds is False else None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts and lists, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The lines of str()."""
        answer = {True: "matches", False: "does not match", None: "may or may not match"}[self.matched]
        yield f"{answer} {self.query}"
        if self.undecided:
            yield f"  undecided: {self.undecided}"
        if self.branch != self.query:
            yield f"  {'by' if self.matched else 'nearest:'} {self.branch}"
        texts = [step.text for step in self.steps] + ([self.miss.text] if self.miss else [])
        width = min(24, max(map(len, texts), default=0))
        for step in self.steps:
            yield f"  {step.text:{width}}  {step.place.path}, line {step.place.line}"
            for condition in step.conditions:
                yield from _condition_lines(condition, " " * (width + 4))
        if self.miss and self.miss.kind != "condition":
            yield f"  {self.miss.text:{width}}  {self._stop_reason(self.miss)}"

    def _stop_reason(self, miss: Miss) -> str:
        if miss.kind == "namespace" and miss.other:
            return f"nothing; {_namespaces(miss.other, miss.namespace)}"
        if miss.kind == "order" and miss.other:
            return f"nothing in this order: {miss.other.path}, line {miss.other.line}, starts too early"
        where = f" {'below' if miss.goes_down else 'from'} {self.steps[-1].place.path}" if self.steps else ""
        return f"nothing{where}{_unknown_name(miss)}"


def explain(
    document: AnyDocument,
    query: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    ordered: bool = False,
    limits: Limits | None = None,
    entities: EntityTexts = None,
) -> Explanation:
    """Explain a query that is in no index. Raises QueryError or DocumentError as adding and matching would."""
    text = query.encode("utf-8", "surrogatepass")
    bindings = list((namespaces or {}).items())
    limits = limits or Limits()
    source = held_document(document, limits.document_bytes_max)
    raw = _native.explain(source, text, bindings, ordered, limits.native(), native_entities(entities))
    matched, undecided, branch, steps, miss, names = raw
    reader = _TupleReader(names)
    return Explanation(
        matched=matched,
        undecided=undecided,
        query=query,
        branch=branch,
        steps=tuple(StepMatch(text, Place(*place), reader.conditions(reasons)) for text, place, reasons in steps),
        miss=reader.miss(miss),
    )


def places(
    document: AnyDocument,
    query: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
    places_max: int = PLACES_MAX,
) -> list[Place]:
    """Where the items are that a query selects, in document order; the first `places_max` of them."""
    return [place for place, _ in places_with_values(document, query, (), namespaces, limits, entities, places_max)]


def places_with_values(
    document: AnyDocument,
    query: str,
    expressions: Sequence[str],
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
    places_max: int = PLACES_MAX,
) -> list[tuple[Place, tuple[str, ...]]]:
    """As `places`, with the string values of relative expressions at each of the items."""
    limits = limits or Limits()
    source = held_document(document, limits.document_bytes_max)
    texts = [expression.encode() for expression in expressions]
    settings = limits.native(), native_entities(entities)
    bindings = list((namespaces or {}).items())
    pairs = _native.places(source, query.encode(), texts, bindings, places_max, *settings)
    return [(Place(*place), values) for place, values in pairs]


@dataclass(frozen=True, slots=True)
class _TupleReader:
    """Turns the tuples of `_native.explain` into classes."""

    names: tuple[tuple[str, ...], tuple[str, ...]]
    """Of the elements and of the attributes in the document, if the query names something else."""

    def miss(self, raw: tuple[Any, ...] | None) -> Miss | None:
        if raw is None:
            return None
        kind, text, place, condition, other, namespace, goes_down, unknown, is_attribute = raw
        return Miss(
            kind=kind,
            text=text,
            place=Place(*place) if place else None,
            condition=self.condition(condition) if condition else None,
            other=Place(*other) if other else None,
            namespace=namespace,
            goes_down=goes_down,
            unknown=f"@{unknown}" if unknown and is_attribute else unknown,
            suggestion=self.suggestion(unknown, is_attribute=is_attribute) if unknown else "",
        )

    def suggestion(self, unknown: str, *, is_attribute: bool) -> str:
        """Prefixes and capital letters count for nothing."""
        sign = "@" if is_attribute else ""
        names = {name.rpartition(":")[2].lower(): sign + name for name in reversed(self.names[is_attribute])}
        return names.get(nearest(unknown.lower(), names, alike_min=ALIKE_MIN) or "", "")

    def conditions(self, raw: tuple[tuple[Any, ...], ...]) -> tuple[Condition, ...]:
        return tuple(map(self.condition, raw))

    def condition(self, raw: tuple[Any, ...]) -> Condition:
        text, holds, kind, operands, parts = raw
        return Condition(text, holds, kind, tuple(map(self.operand, operands)), self.conditions(parts))

    def operand(self, raw: tuple[Any, ...]) -> Operand:
        text, type, use, value, count, places, not_numbers, miss = raw
        return Operand(
            text, type, use, value, count, tuple(Place(*place) for place in places), not_numbers, self.miss(miss)
        )


# --- in words --------------------------------------------------------------------------------------------------------

VALUE_CHARS_MAX = 60
LANGUAGE = "ancestor-or-self::*[@xml:lang][1]/@xml:lang"
"""What lang() looks at, which no condition says."""


def _condition_lines(condition: Condition, indent: str) -> Iterator[str]:
    if condition.kind in ("and", "or") and condition.parts:
        yield f"{indent}{condition.text} is {_truth(condition)}:"
        for part in condition.parts:
            yield from _condition_lines(part, indent + "  ")
    else:
        yield indent + condition.sentence


def _truth(condition: Condition) -> str:
    return {True: "true", False: "false", None: "undecided"}[condition.holds]


def _reason(condition: Condition) -> str:
    if condition.kind == "not":
        return _reason(condition.parts[0])
    if condition.kind in ("and", "or"):
        return ", ".join(f"{part.text} is {_truth(part)} ({part.reason})" for part in condition.parts)
    operands, numbers = condition.operands, []
    if condition.kind == "position":
        *rest, position, last = operands
        operands, numbers = tuple(rest), [f"it is number {position.value} of {last.value}"]
    is_alone = len(operands) == 1 and operands[0].text != LANGUAGE
    phrases = [_operand(operand, is_alone=is_alone) for operand in operands] + numbers
    if condition.holds is None:
        is_whole = is_alone and operands[0].text in (condition.text, condition.text[1:-1].strip())
        phrases = ["deciding takes too many steps", *phrases[is_whole:]]
    return "; ".join(phrases) or "whatever the document holds"


def _operand(operand: Operand, *, is_alone: bool) -> str:
    if operand.type == "undecided":
        return f"{operand.text} is undecided"
    if operand.type == "items":
        return _items(operand, is_alone=is_alone) if operand.places else _no_items(operand, is_alone=is_alone)
    value = _quote(operand.value) if operand.type == "string" else operand.value
    if operand.text[0] in "'\"":  # a literal
        return f"{value} is no number in XPath 1.0"
    return f"{operand.text} is {value}{_no_number(operand, operand.value)}"


def _items(operand: Operand, *, is_alone: bool) -> str:
    more = f" and {operand.count - len(operand.places):,} more" if operand.count > len(operand.places) else ""
    first = operand.places[0]
    if operand.use == "exists":
        more = f" and {operand.count - 1:,} more" if operand.count > 1 else ""
        return f"{first.path}{more}" if is_alone else f"{operand.text} selects {first.path}{more}"
    if operand.count > 1 and len(operand.places) == 1:
        which = "the first" if operand.use == "first" else "one"
        return f"{first.path}, {which} of {operand.count:,}, is {_quote(first.value)}{_no_number(operand, first.value)}"
    values = [f"{place.path} is {_quote(place.value)}{_no_number(operand, place.value)}" for place in operand.places]
    return ", ".join(values) + more


def _no_number(operand: Operand, value: str) -> str:
    return ", which is no number in XPath 1.0" if value in operand.not_numbers else ""


def _no_items(operand: Operand, *, is_alone: bool) -> str:
    none, miss = "there is none" if is_alone else f"there is no {operand.text}", operand.miss
    if miss is None:
        return none
    if miss.kind == "order":
        other = miss.other
        return f"{other.path}, line {other.line}, comes too early in this order" if other else "only in another order"
    if miss.kind == "namespace" and miss.other:
        return f"{none}; {_namespaces(miss.other, miss.namespace)}"
    if miss.condition and miss.place:
        stop = f"{miss.place.path} comes so far, but {miss.condition.sentence}"
        return stop if is_alone else f"{none}: {stop}"
    return none + _unknown_name(miss)


def _unknown_name(miss: Miss) -> str:
    if not miss.unknown:
        return ""
    suggestion = f"; did you mean {miss.suggestion}?" if miss.suggestion else ""
    kind, name = ("attribute", miss.unknown[1:]) if miss.unknown[0] == "@" else ("element", miss.unknown)
    return f"; no {kind} is called {name}{suggestion}"


def _namespaces(other: Place, query_namespace: str) -> str:
    where = f"{other.path}, line {other.line}, is in {_namespace_text(other.namespace)}"
    return f"only the namespace differs: {where}, the query wants {_namespace_text(query_namespace)}"


def _namespace_text(namespace: str) -> str:
    return f'"{namespace}"' if namespace else "none"


def _quote(value: str) -> str:
    text = printable(value)
    return f'"{text[:VALUE_CHARS_MAX]}…"' if len(text) > VALUE_CHARS_MAX else f'"{text}"'
