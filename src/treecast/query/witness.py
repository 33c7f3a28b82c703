"""A small document that a query is likely to match, built from the query alone.

It narrows the search for covering queries: whatever covers a query matches each of its documents, so also this one. A
shared index names the few that do, and only these are compared exactly. Check that the query matches its own witness:
conditions such as `not(…)` and positions are left out, and of alternatives the first is taken.

    >>> import treecast
    >>> witness(treecast.parse("/news//item[@lang = 'en'][price > 3]").matching.tree)
    b'<news><gap><item lang="en"><price>4</price></item></gap></news>'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from treecast.query.tree import And, Call, Compare, Condition, Exists, Or, Path, Step, Term, Value

GAP = "gap"
"""An element of no particular name: in the place of `//`, and for `*`."""
XML = "http://www.w3.org/XML/1998/namespace"


@dataclass
class _Element:
    name: tuple[str, str]
    attributes: dict[tuple[str, str], str] = field(default_factory=dict)
    children: list[_Element | str] = field(default_factory=list)


def witness(paths: tuple[Path, ...]) -> bytes | None:
    """The document, for the first path of the union; None if it cannot be built: two root elements would be needed."""
    top = _Element(("", ""))
    _grow(top, paths[0].steps, None)
    roots = [child for child in top.children if isinstance(child, _Element)]
    if len(roots) != 1 or len(top.children) != 1:
        return None
    return _write(roots[0]).encode()


def _grow(place: _Element, steps: tuple[Step, ...], value: str | None) -> None:
    """Add what the steps select below an element; the last of it has the value."""
    for number, step in enumerate(steps):
        text = value if number == len(steps) - 1 else None
        name = (step.uri or "", step.local or GAP)
        if step.kind == "attribute":
            place.attributes.setdefault(name, "" if text is None else text)
            return
        if step.kind == "text":
            place.children.append("text" if text is None else text)
            return
        if step.gap or step.axis in ("descendant", "descendant-or-self"):
            place = _child(place, ("", GAP))
        if step.axis != "self":
            place = _child(place, name)
        for condition in step.predicates:
            _fulfil(place, condition)
        if text is not None:
            place.children.append(text)
    if not steps and value is not None:
        place.children.append(value)


def _child(place: _Element, name: tuple[str, str]) -> _Element:
    child = _Element(name)
    place.children.append(child)
    return child


def _fulfil(place: _Element, condition: Condition) -> None:
    """Add what makes the condition true, as far as that is simple."""
    match condition:
        case And(operands):
            for operand in operands:
                _fulfil(place, operand)
        case Or(operands):
            _fulfil(place, operands[0])
        case Exists(paths):
            _grow_path(place, paths[0], None)
        case Compare(paths, relation, value):
            _grow_path(place, paths[0], _text(relation, value))
        case Call():
            _grow_path(place, condition.path, condition.text)
        case Term(_, requirement) if requirement is not None:
            _fulfil(place, requirement)
        case _:
            pass


def _grow_path(place: _Element, path: Path, value: str | None) -> None:
    if not path.absolute:
        _grow(place, path.steps, value)
    # An absolute path would need the root that exists already: the query will not match its witness, which shows.


def _text(relation: str, value: Value) -> str:
    """A text that stands in the relation to the value."""
    if isinstance(value, str):
        return value + "x" if relation == "!=" else value
    number = value + {"<": -1, ">": 1, "!=": 1}.get(relation, 0)
    return str(int(number)) if number == int(number) else str(number)


def _write(element: _Element, default_uri: str = "") -> str:
    """The element as XML, inside one whose default namespace is `default_uri`."""
    uri, local = element.name
    parts = [] if uri == default_uri else [f"xmlns={quoteattr(uri)}"]
    prefixes = {XML: "xml"}
    for (attribute_uri, name), value in element.attributes.items():
        if attribute_uri and attribute_uri not in prefixes:
            prefixes[attribute_uri] = f"p{len(prefixes)}"
            parts.append(f"xmlns:{prefixes[attribute_uri]}={quoteattr(attribute_uri)}")
        full = f"{prefixes[attribute_uri]}:{name}" if attribute_uri else name
        parts.append(f"{full}={quoteattr(value)}")
    tag = " ".join([local, *parts])
    inner = "".join(escape(child) if isinstance(child, str) else _write(child, uri) for child in element.children)
    return f"<{tag}>{inner}</{local}>" if inner else f"<{tag}/>"
