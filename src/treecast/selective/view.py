"""What somebody sees of a document: the elements of their subtrees, and nothing that tells of the others.

A view consists of *fragments*, one for each subtree that begins where its parent is not seen. A fragment is XML in
exclusive canonical form: it declares the namespaces that it uses itself, wherever in the document they were declared.
Ancestors leave no trace, neither names nor attributes. Where subtrees are excluded, what stood before, between and
behind them becomes one text. White space on both sides of an excluded subtree would tell that it is missing: the one
behind it stays. If no child is left, and nothing but white space, nothing stays.

    >>> from treecast.selective.labelled import LabelledDocument
    >>> document = LabelledDocument.read(b'''<firm secret="1">
    ...   <staff>
    ...     <person/>
    ...     <pay/>
    ...     <pay/>
    ...   </staff>
    ... </firm>''')
    >>> wanted = document.choose(["//staff"], exclude=["//pay"])
    >>> print(document.preview(wanted)[0].decode())
    <staff>
        <person></person>
      </staff>

The link algebra (`treecast.links`) keeps the names and attributes of ancestors: it must never make a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from treecast.selective.folded import Element
from treecast.selective.outline import Outline
from treecast.selective.subtrees import Subtree, Subtrees, elements_of

TOP = 0
"""The id of what holds the fragments of a view together. It has no name and is never sent."""
Id = TypeVar("Id", int, bytes)
"""Publishers know elements by numbers, subscribers by tokens."""
_SPACE = " \t\n"


def form_of(element: Element, are_shown: Sequence[bool]) -> Element:
    """The element as somebody sees it who sees only some of its children. Declarations give way to what it uses."""
    if all(are_shown):
        return Element(element.name, element.attributes, (), element.bindings, element.gaps)
    gaps: list[str] = []
    pieces: list[str] = []
    for gap, is_shown in zip(element.gaps, are_shown, strict=False):
        pieces.append(gap)
        if is_shown:
            gaps.append(_join(pieces))
            pieces = []
    gaps.append(_join([*pieces, element.gaps[-1]]))
    if len(gaps) == 1 and not gaps[0].strip(_SPACE):
        gaps = [""]
    return Element(element.name, element.attributes, (), element.bindings, tuple(gaps))


def _join(pieces: Sequence[str]) -> str:
    """The gaps between excluded subtrees as one."""
    text = ""
    for piece in pieces:
        if piece and piece[0] in _SPACE:
            text = text.rstrip(_SPACE)
        text += piece
    return text


def write_fragment(root: Id, forms: Mapping[Id, Element], children: Mapping[Id, Sequence[Id]]) -> bytes:
    """A fragment in exclusive canonical form, from the forms of its elements and the children that are seen."""
    parts: list[str] = []
    scopes: list[dict[str, str]] = [{"": ""}]
    waiting: list[tuple[Id, int]] = [(root, -1)]  # (element, the child that was written last)
    while waiting:
        id, place = waiting.pop()
        form, below = forms[id], children[id]
        if place < 0:
            scope = scopes[-1]
            new = [(prefix, uri) for prefix, uri in form.bindings if scope.get(prefix) != uri]
            scopes.append({**scope, **dict(new)} if new else scope)
            parts.append(form.start_tag(new))
        place += 1
        parts.append(form.gaps[place])
        if place < len(below):
            waiting += ((id, place), (below[place], -1))
        else:
            parts.append(f"</{form.name}>")
            scopes.pop()
    return "".join(parts).encode()


def forms_of(
    part: Subtree, outline: Outline, elements: Mapping[int, Element]
) -> tuple[dict[int, Element], dict[int, list[int]]]:
    """The forms of the elements of a subtree, and the children of each that are seen, both in document order."""
    excluded = set(part.without)
    forms: dict[int, Element] = {}
    children: dict[int, list[int]] = {}
    waiting = [] if part.root in excluded else [part.root]
    while waiting:
        id = waiting.pop()
        below = outline.children(id)
        children[id] = [child for child in below if child not in excluded]
        forms[id] = form_of(elements[id], [child not in excluded for child in below])
        waiting.extend(reversed(children[id]))
    return forms, children


def outline_of(subtrees: Subtrees, outline: Outline) -> tuple[Outline, list[int]]:
    """The outline of a view by itself, and for each of its ids the id in the document; `TOP` stands for no element.

    Its labels count what is seen, from 1, and nothing else: they tell nothing of what is hidden. Whoever holds the view
    computes the same ones.
    """
    ids = [outline.root]  # in place of TOP
    parents = [-1]
    for part in subtrees.parts:
        places: dict[int, int] = {}
        for id in elements_of(part, outline):
            above = outline.parent(id)
            places[id] = len(ids)
            ids.append(id)
            parents.append(TOP if id == part.root or above is None else places[above])
    return Outline(parents, spacing=1), ids
