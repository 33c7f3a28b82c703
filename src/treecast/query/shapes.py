"""The syntax tree of a transformation as plain frozen values, for code that inspects them: link algebra, tools.

A FLWR query is one shape; a list of steps is a `StepList`. Paths and conditions are those of treecast.query.tree; a
path that starts at a `for` variable has its number as `variable`, an absolute one starts at the document. A `let` is
replaced by its value where it is used.

    >>> import treecast
    >>> shape = treecast.parse("for $n in $msg/a/b where $n/@c = 1 return <d>{$n/e}</d>").tree
    >>> [type(clause).__name__ for clause in shape.clauses], shape.body.name.local
    (['For', 'Where'], 'd')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from treecast.query.tree import Condition, Path, Term, build_condition, build_paths


@dataclass(frozen=True, slots=True)
class Name:
    """Of something built: the prefix as written, and what it means."""

    prefix: str
    uri: str
    local: str


@dataclass(frozen=True, slots=True)
class For:
    """Binds each item that the paths select; without a number where it binds the document itself."""

    variable: int | None
    name: str
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Where:
    """Lets through the bindings for which the condition holds."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class OrderBy:
    """Orders by the string of the first item, or by the number of items; one key of several.

    With `strings`, no item is an empty string; without, it comes before all strings, or after them. A key that is any
    other expression is a `term`, and then there are no paths.
    """

    paths: tuple[Path, ...]
    counts: bool
    strings: bool
    descending: bool
    empty_greatest: bool
    term: Term | None = None


Clause: TypeAlias = For | Where | OrderBy


@dataclass(frozen=True, slots=True)
class Sequence:
    """The shapes, one after the other."""

    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Flwr:
    """The body, for each binding of the clauses."""

    clauses: tuple[Clause, ...]
    body: Shape


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute and the parts of its value."""

    name: Name
    parts: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Element:
    """An element, the (prefix, URI) pairs declared in its start tag, its attributes and its content."""

    name: Name
    declarations: tuple[tuple[str, str], ...]
    attributes: tuple[Attribute, ...]
    content: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """Characters of a constructor."""

    text: str


@dataclass(frozen=True, slots=True)
class Enclosed:
    """What stands in braces: one shape, or none."""

    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A literal or a number, as it is written out."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """What the paths select, copied, in document order."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Computed:
    """Any other expression of XPath 1.0: items are copied, everything else is a value."""

    term: Term


@dataclass(frozen=True, slots=True)
class StringOf:
    """string() of one thing."""

    argument: Shape


@dataclass(frozen=True, slots=True)
class Count:
    """count() of what the paths select."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Concat:
    """concat() of several things."""

    arguments: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class NameOf:
    """name() of the first item."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """if (condition) then … else …"""

    condition: Condition
    then: Shape
    otherwise: Shape


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of a constructor."""

    text: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """A processing instruction of a constructor."""

    text: str


Shape: TypeAlias = (
    Sequence
    | Flwr
    | Attribute
    | Element
    | Text
    | Enclosed
    | Value
    | Items
    | Computed
    | StringOf
    | Count
    | Concat
    | NameOf
    | Choice
    | Comment
    | Instruction
)


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a list; `name` is what rename gives."""

    kind: Literal["drop", "keep", "rename", "unwrap"]
    paths: tuple[Path, ...]
    name: Name | None


@dataclass(frozen=True, slots=True)
class StepList:
    """A list of steps; `start` says which elements it is applied to, None stands for the root element."""

    start: tuple[Path, ...] | None
    changes: tuple[Change, ...]


def build_shape(raw: tuple[Any, ...]) -> Shape:
    """Turn the native tuples into the classes above."""
    kind, *fields = raw
    return _BUILDERS[kind](*fields)


def build_list(raw: tuple[Any, ...]) -> StepList:
    """The same for a list of steps."""
    start, changes = raw
    return StepList(
        None if start is None else build_paths(start),
        tuple(Change(kind, build_paths(paths), name and Name(*name)) for kind, paths, name in changes),
    )


def _shapes(raw: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(build_shape(shape) for shape in raw)


def _clause(kind: str, *fields: Any) -> Clause:
    if kind == "for":
        variable, name, paths = fields
        return For(variable, name, build_paths(paths))
    if kind == "where":
        return Where(build_condition(fields[0]))
    paths, counts, strings, descending, empty_greatest, term = fields
    key = None if term is None else Term(term, None, False)
    return OrderBy(() if key else build_paths(paths), counts, strings, descending, empty_greatest, key)


_BUILDERS: dict[str, Callable[..., Shape]] = {
    "sequence": lambda shapes: Sequence(_shapes(shapes)),
    "flwr": lambda clauses, body: Flwr(tuple(_clause(*clause) for clause in clauses), build_shape(body)),
    "attribute": lambda name, parts: Attribute(Name(*name), _shapes(parts)),
    "element": lambda name, declarations, attributes, content: Element(
        Name(*name), declarations, _shapes(attributes), _shapes(content)
    ),
    "text": Text,
    "enclosed": lambda shapes: Enclosed(_shapes(shapes)),
    "value": Value,
    "items": lambda paths: Items(build_paths(paths)),
    "term": lambda text: Computed(Term(text, None, False)),
    "string": lambda argument: StringOf(build_shape(argument)),
    "count": lambda paths: Count(build_paths(paths)),
    "concat": lambda arguments: Concat(_shapes(arguments)),
    "name": lambda paths: NameOf(build_paths(paths)),
    "choice": lambda condition, then, otherwise: Choice(
        build_condition(condition), build_shape(then), build_shape(otherwise)
    ),
    "comment": Comment,
    "instruction": Instruction,
}
