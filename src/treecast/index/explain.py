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
from treecast.document import AnyDocument, Document, EntityTexts, Limits, native_entities
from treecast.names import printable
from treecast.query.tree import FunctionName

PLACES_MAX = 10_000


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
class Condition:
    """A predicate as written, or a part of one, and why it is true or false."""

    text: str
    holds: bool
    kind: Literal["and", "or", "not", "exists", "compare", "position"] | FunctionName
    places: tuple[Place, ...]
    """What made it true; where it is false, what was looked at; three at most."""
    parts: tuple[Condition, ...]
    """Of and, or, not: the parts that decide. Of a path that leads nowhere: the condition on its way that is false."""
    position: int
    """Of conditions on positions: the position, and how many there are."""
    last: int
    out_of_order: bool
    """In an ordered pattern: there is a witness, but it starts too early."""
    other: Place | None
    """What has the right name in another namespace, where that is all that is wrong."""
    namespace: str
    """The namespace that was wanted there."""

    @property
    def reason(self) -> str:
        """Why, in words."""
        return _reason(self)


@dataclass(frozen=True, slots=True)
class StepMatch:
    """A step of the main path, and the item that reached it."""

    text: str
    place: Place
    conditions: tuple[Condition, ...]
    """Its predicates, up to the first that is false."""


@dataclass(frozen=True, slots=True)
class Miss:
    """What failed first.

    kind "condition": the last condition of the last step is false. "step": nothing reaches the step `text`.
    "namespace": nothing does, but `other` has its name in another namespace. "order": only `other` would, but it
    starts before the branches of an ordered pattern allow.
    """

    kind: Literal["condition", "step", "namespace", "order"]
    text: str
    other: Place | None
    namespace: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a query matches, or how near it came; `str(explanation)` is for people."""

    matched: bool
    query: str
    branch: str
    """The path that is explained: the query, or the best of its union."""
    steps: tuple[StepMatch, ...]
    """As far as some element came; all of them for a match."""
    miss: Miss | None

    @property
    def failed(self) -> Condition | None:
        """The first false predicate, where it was a predicate that failed."""
        if self.miss is None or self.miss.kind != "condition":
            return None
        return self.steps[-1].conditions[-1]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts and lists, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """The lines of str()."""
        yield f"{'matches' if self.matched else 'does not match'} {self.query}"
        if self.branch != self.query:
            yield f"  {'by' if self.matched else 'nearest:'} {self.branch}"
        texts = [step.text for step in self.steps] + ([self.miss.text] if self.miss else [])
        width = min(24, max(map(len, texts), default=0))
        for step in self.steps:
            yield f"  {step.text:{width}}  {step.place.path}, line {step.place.line}"
            for condition in step.conditions:
                yield from _condition_lines(condition, " " * (width + 4))
        if self.miss and self.miss.kind != "condition":
            yield f"  {self.miss.text:{width}}  {self._stop_reason()}"

    def _stop_reason(self) -> str:
        assert self.miss
        other = self.miss.other
        if self.miss.kind == "namespace" and other:
            return f"nothing; {_namespaces(other, self.miss.namespace)}"
        if self.miss.kind == "order" and other:
            return f"nothing in this order: {other.path}, line {other.line}, starts too early"
        return f"nothing below {self.steps[-1].place.path}" if self.steps else "nothing"


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
    if isinstance(document, str):
        raise TypeError("a document is bytes, not str; encode text as UTF-8 first")
    text = query.encode("utf-8", "surrogatepass")
    bindings = list((namespaces or {}).items())
    source = document.native if isinstance(document, Document) else bytes(document)
    branch, steps, miss = _native.explain(
        source, text, bindings, ordered, (limits or Limits()).native(), native_entities(entities)
    )
    return Explanation(
        matched=miss is None,
        query=query,
        branch=branch,
        steps=tuple(StepMatch(text, Place(*place), _conditions(raw)) for text, place, raw in steps),
        miss=None if miss is None else Miss(miss[0], miss[1], _place(miss[2]), miss[3]),
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
    source = document.native if isinstance(document, Document) else bytes(document)
    texts = [expression.encode() for expression in expressions]
    settings = (limits or Limits()).native(), native_entities(entities)
    bindings = list((namespaces or {}).items())
    pairs = _native.places(source, query.encode(), texts, bindings, places_max, *settings)
    return [(Place(*place), values) for place, values in pairs]


def _place(raw: tuple[Any, ...] | None) -> Place | None:
    return None if raw is None else Place(*raw)


def _conditions(raw: tuple[tuple[Any, ...], ...]) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            text, holds, kind, tuple(Place(*place) for place in places), _conditions(parts), position, last, early,
            _place(other), namespace,
        )
        for text, holds, kind, places, parts, position, last, early, other, namespace in raw
    )  # fmt: skip


# --- in words --------------------------------------------------------------------------------------------------------

VALUE_CHARS_MAX = 60


def _condition_lines(condition: Condition, indent: str) -> Iterator[str]:
    holds = "true" if condition.holds else "false"
    if condition.kind in ("and", "or") and condition.parts:
        yield f"{indent}{condition.text} is {holds}:"
        for part in condition.parts:
            yield from _condition_lines(part, indent + "  ")
    else:
        yield f"{indent}{condition.text} is {holds}: {condition.reason}"


def _reason(condition: Condition) -> str:
    if condition.kind == "position":
        return f"it is number {condition.position} of {condition.last}"
    if condition.kind == "not":
        return _reason(condition.parts[0])
    if condition.kind in ("and", "or"):
        return ", ".join(f"{part.text} is {'true' if part.holds else 'false'}" for part in condition.parts)
    if condition.out_of_order:
        place = condition.places[0]
        return f"{place.path}, line {place.line}, comes too early in this order"
    if condition.other is not None:
        return f"there is none; {_namespaces(condition.other, condition.namespace)}"
    if not condition.places:
        return "there is none"
    if condition.parts:
        part = condition.parts[0]
        return f"{condition.places[0].path} comes so far, but {part.text} is false: {part.reason}"
    if condition.kind == "exists":
        return condition.places[0].path
    return ", ".join(f"{place.path} is {_quote(place.value)}" for place in condition.places)


def _namespaces(other: Place, query_namespace: str) -> str:
    where = f"{other.path}, line {other.line}, is in {_namespace_text(other.namespace)}"
    return f"only the namespace differs: {where}, the query wants {_namespace_text(query_namespace)}"


def _namespace_text(namespace: str) -> str:
    return f'"{namespace}"' if namespace else "none"


def _quote(value: str) -> str:
    text = printable(value)
    return f'"{text[:VALUE_CHARS_MAX]}…"' if len(text) > VALUE_CHARS_MAX else f'"{text}"'
