"""The kinds of items that a document has, and which kinds an axis leads to: what can be where in any document.

The root element is a kind of its own: it has no parent but the document, and no element beside it.

    >>> sorted(along("child", frozenset({DOCUMENT})))
    ['comment', 'instruction', 'root']
    >>> along("child", frozenset({ATTRIBUTE}))
    frozenset()
"""

from __future__ import annotations

DOCUMENT, ROOT, ELEMENT, ATTRIBUTE = "document", "root", "element", "attribute"
TEXT, COMMENT, INSTRUCTION = "text", "comment", "instruction"
ELEMENTS = frozenset({ROOT, ELEMENT})
_CONTENT = frozenset({ELEMENT, TEXT, COMMENT, INSTRUCTION})
_ASIDE = frozenset({COMMENT, INSTRUCTION})
_CHILDREN = {DOCUMENT: _ASIDE | {ROOT}, ROOT: _CONTENT, ELEMENT: _CONTENT}
_DESCENDANTS = {DOCUMENT: _CONTENT | {ROOT}, ROOT: _CONTENT, ELEMENT: _CONTENT}
_ABOVE = {
    ROOT: frozenset({DOCUMENT}),
    ELEMENT: ELEMENTS,
    ATTRIBUTE: ELEMENTS,
    TEXT: ELEMENTS,
    COMMENT: ELEMENTS | {DOCUMENT},
    INSTRUCTION: ELEMENTS | {DOCUMENT},
}
_SIBLINGS = {
    ROOT: _ASIDE,
    ELEMENT: _CONTENT,
    TEXT: _CONTENT,
    COMMENT: _CONTENT | {ROOT},
    INSTRUCTION: _CONTENT | {ROOT},
}
ANYTHING = frozenset({DOCUMENT, ROOT, ATTRIBUTE}) | _CONTENT
NOTHING: frozenset[str] = frozenset()


def along(axis: str, kinds: frozenset[str]) -> frozenset[str]:
    """The kinds of what the axis leads to."""
    tables = {
        "child": _CHILDREN,
        "descendant": _DESCENDANTS,
        "descendant-or-self": _DESCENDANTS,
        "parent": _ABOVE,
        "following-sibling": _SIBLINGS,
        "preceding-sibling": _SIBLINGS,
    }
    match axis:
        case "self":
            return kinds
        case "attribute":
            return frozenset({ATTRIBUTE}) if kinds & ELEMENTS else NOTHING
        case "following" | "preceding":
            return ANYTHING - {DOCUMENT, ATTRIBUTE} if kinds - {DOCUMENT} else NOTHING
        case "ancestor" | "ancestor-or-self":
            above = frozenset().union(*(_ABOVE.get(kind, NOTHING) for kind in kinds))
            above |= frozenset({ROOT, DOCUMENT}) if above & ELEMENTS else NOTHING
            return above | kinds if axis == "ancestor-or-self" else above
        case _:
            pass
    table = tables[axis]
    reached = frozenset().union(*(table.get(kind, NOTHING) for kind in kinds))
    return reached | kinds if axis == "descendant-or-self" else reached


def of_test(kind: str, axis: str) -> frozenset[str]:
    """The kinds that a test lets through: names and `*` are of attributes on their axis, and of elements elsewhere."""
    match kind:
        case "named":
            return frozenset({ATTRIBUTE}) if axis == "attribute" else ELEMENTS
        case "element":
            return ELEMENTS
        case "attribute":
            return frozenset({ATTRIBUTE})
        case "text":
            return frozenset({TEXT})
        case "comment":
            return frozenset({COMMENT})
        case "instruction":
            return frozenset({INSTRUCTION})
        case _:
            return ANYTHING
