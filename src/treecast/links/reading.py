"""What conditions and paths read of a document, and so whether they stay true when parts of it go.

A projection leaves two kinds of elements: *whole* ones with everything in them, and *bare* ones, the elements round
them, which keep their name and their attributes and of their content only what leads to whole ones. Of a whole
element every condition keeps its value. Of a bare one

- an *own* condition does (`is_own`): it reads the element's name and attributes and nothing else;
- a *monotone* one (`is_monotone`) cannot become true: it asks for things that are there, and a projection only takes
  away. `not()`, positions, the first of several, and the text of an element are not like that.

    >>> import treecast
    >>> def predicate(text):
    ...     return treecast.parse(f"/a[{text}]").tree[0].steps[0].predicates[0]
    >>> is_own(predicate("not(@x = 1)")), is_own(predicate("b"))
    (True, False)
    >>> [is_monotone(predicate(text)) for text in ("b/@x > 1 or c", "not(b)", "b[2]", "b = 'x'")]
    [True, False, False, False]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

from treecast.query.tree import (
    And,
    Call,
    Compare,
    Condition,
    Exists,
    Not,
    Or,
    Path,
    Step,
    Term,
    is_positional,
)


def paths_in(thing: object) -> Iterator[Path]:
    """Every path in a condition, a shape or a tuple of them, those inside predicates among them."""
    if isinstance(thing, tuple):
        for part in thing:
            yield from paths_in(part)
        return
    if isinstance(thing, Path):
        yield thing
    if is_dataclass(thing):
        for field in fields(thing):
            yield from paths_in(getattr(thing, field.name))


def looks_outside(thing: object) -> bool:
    """Whether something in it may look outside of what is bound: at the document, or with a reverse axis."""
    return _has_outer_term(thing) or any(path.absolute for path in paths_in(thing))


def _has_outer_term(thing: object) -> bool:
    if isinstance(thing, tuple):
        return any(_has_outer_term(part) for part in thing)
    if isinstance(thing, Term):
        return not reads_below(thing)
    return is_dataclass(thing) and any(_has_outer_term(getattr(thing, field.name)) for field in fields(thing))


_LITERAL_OR_NAME = re.compile(rb""""[^"]*"|'[^']*'|\{([0-9]+):""")  # in the text of a Term
_LOCAL_NAME = re.compile(rb"(?:\*|[^\s()\[\]{}/|,=!<>@$'\"*]+)?")
_OUTSIDE = re.compile(
    rb"\.\.|parent::|ancestor|preceding|following|namespace::|(?<![\w-])(?:lang|id)\(|(?<![n)\]*.0-9/])/"
)


def reads_below(term: Term) -> bool:
    """Whether an expression reads nothing but what it starts from, and what is in that.

    Its text has no reverse axis, and no path starts at the document: each slash follows a step. Names and literals are
    taken out before, so nothing in them counts.

        >>> import treecast
        >>> def term(text):
        ...     return treecast.parse(f"/a[{text}]").tree[0].steps[0].predicates[0]
        >>> [reads_below(term(text)) for text in ("string-length(b/@x) > 1", "@x = ../@x", "@x = /a/@x")]
        [True, False, False]
    """
    text, parts, place = term.text.encode(), [], 0
    while found := _LITERAL_OR_NAME.search(text, place):
        parts += [text[place : found.start()], b"n"]
        place = found.end()
        if found[1] is not None:
            name = _LOCAL_NAME.match(text, place + int(found[1]) + 1)
            assert name is not None, "it may be empty"
            place = name.end()
    return _OUTSIDE.search(b"".join([*parts, text[place:]])) is None


def conjuncts(condition: Condition) -> Iterator[Condition]:
    """The conditions that all have to hold."""
    if isinstance(condition, And):
        for operand in condition.operands:
            yield from conjuncts(operand)
    else:
        yield condition


def is_own(condition: Condition) -> bool:
    """Whether it reads nothing but the element's name and attributes."""
    match condition:
        case And(operands) | Or(operands):
            return all(is_own(operand) for operand in operands)
        case Not(operand):
            return is_own(operand)
        case Exists(paths):
            return all(_is_own_path(path, value=False) for path in paths)
        case Compare(paths):
            return all(_is_own_path(path, value=True) for path in paths)
        case Call(path):
            return _is_own_path(path, value=True)
        case _:
            return False


def _is_own_path(path: Path, value: bool) -> bool:
    if path.absolute or any(step.gap for step in path.steps):
        return False
    attribute = bool(path.steps) and path.steps[-1].axis == "attribute"
    here = path.steps[:-1] if attribute else path.steps
    if value and not attribute:
        return False
    return all(step.axis == "self" and all(is_own(predicate) for predicate in step.predicates) for step in here)


def is_monotone(condition: Condition) -> bool:
    """Whether it cannot become true of a bare element by what the projection took away."""
    if is_own(condition):
        return True
    match condition:
        case And(operands) | Or(operands):
            return all(is_monotone(operand) for operand in operands)
        case Exists(paths):
            return all(is_monotone_path(path) for path in paths)
        case Compare(paths):
            return all(
                is_monotone_path(path) and bool(path.steps) and path.steps[-1].kind != "element" for path in paths
            )
        case _:
            return False


def is_monotone_path(path: Path) -> bool:
    """Whether it cannot select more when something is taken away."""
    return not path.absolute and all(_is_monotone_step(step) for step in path.steps)


def _is_monotone_step(step: Step) -> bool:
    if step.kind != "element":
        return not any(is_positional(predicate) for predicate in step.predicates)
    return all(is_monotone(predicate) for predicate in step.predicates)


def unbind(condition: Condition, variable: int) -> Condition | None:
    """The condition as a predicate of what the variable is bound to, or None where it reads other variables too."""
    match condition:
        case And(operands) | Or(operands):
            inner = [unbind(operand, variable) for operand in operands]
            bound_operands = tuple(operand for operand in inner if operand is not None)
            return replace(condition, operands=bound_operands) if len(bound_operands) == len(inner) else None
        case Not(operand):
            inner_condition = unbind(operand, variable)
            return None if inner_condition is None else Not(inner_condition)
        case Exists(paths) | Compare(paths):
            if all(_starts_at(path, variable) for path in paths):
                return replace(condition, paths=tuple(replace(path, variable=None) for path in paths))
            return None
        case Call(path):
            return replace(condition, path=replace(path, variable=None)) if _starts_at(path, variable) else None
        case _:
            return None


def _starts_at(path: Path, variable: int) -> bool:
    inner = (inside for step in path.steps for inside in paths_in(step.predicates))
    return path.variable == variable and all(inside.variable is None for inside in inner)


# What a condition reads by name, for steps that change names and content: `inside` asks.


@dataclass(frozen=True, slots=True)
class Reads:
    """The elements and attributes by name that decide a condition, reached over children that are among them."""

    elements: frozenset[tuple[str | None, str | None]]
    attributes: frozenset[tuple[str | None, str | None]]


def reads(conditions: tuple[Condition, ...]) -> Reads | None:
    """What the conditions on an element read, or None where names do not show it: texts, `//`."""
    elements: set[tuple[str | None, str | None]] = set()
    attributes: set[tuple[str | None, str | None]] = set()
    if all(_read(condition, elements, attributes) for condition in conditions):
        return Reads(frozenset(elements), frozenset(attributes))
    return None


_Names = set[tuple[str | None, str | None]]


def _read(condition: Condition, elements: _Names, attributes: _Names) -> bool:
    match condition:
        case And(operands) | Or(operands):
            return all(_read(operand, elements, attributes) for operand in operands)
        case Not(operand):
            return _read(operand, elements, attributes)
        case Exists(paths):
            return all(_read_path(path, elements, attributes) for path in paths)
        case Compare(paths):
            return all(_ends_in_attribute(path) and _read_path(path, elements, attributes) for path in paths)
        case Call(path):
            return _ends_in_attribute(path) and _read_path(path, elements, attributes)
        case Term():
            return False
        case _:
            return True  # a position among elements of names that are read


def _ends_in_attribute(path: Path) -> bool:
    return bool(path.steps) and path.steps[-1].axis == "attribute"


def _read_path(path: Path, elements: _Names, attributes: _Names) -> bool:
    for step in path.steps:
        if step.gap or step.axis not in ("child", "self", "attribute") or step.kind == "text":
            return False
        if step.axis == "attribute":
            attributes.add((step.uri, step.local))
            continue
        elements.add((step.uri, step.local))
        if not all(_read(predicate, elements, attributes) for predicate in step.predicates):
            return False
    return not path.absolute


def may_be(one: tuple[str | None, str | None], other: tuple[str | None, str | None]) -> bool:
    """Whether something can pass both name tests; None stands for any."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))
