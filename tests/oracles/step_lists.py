"""Applies lists of steps to lxml's trees: the oracle for what treecast leaves of a document.

It shares nothing with the native code, which edits bytes: here elements are moved about. After every step the tree is
written and read again, with one prefix for each namespace and no default, so that texts that have become neighbours are
one text and no name depends on where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from xml.etree.ElementTree import canonicalize
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

from oracles.differential import PARSER


class RefusedError(Exception):
    """A rename that gives an element two attributes of one name."""


@dataclass(frozen=True)
class Step:
    """One step, as treecast reads it and as the oracle does: lxml has no prefix for unprefixed names."""

    word: str
    paths: str
    oracle: str
    name: str = ""
    uri: str = ""  # of an element with the new name
    attribute_uri: str = ""

    @property
    def text(self) -> str:
        return f"{self.word} {self.paths}" + (f" to {self.name}" if self.word == "rename" else "")

    def new_name(self, *, attribute: bool) -> str:
        uri = self.attribute_uri if attribute else self.uri
        local = self.name.rpartition(":")[2]
        return f"{{{uri}}}{local}" if uri else local


@dataclass(frozen=True)
class StepList:
    steps: tuple[Step, ...]
    start: str = ""  # the paths of `from`; none: the whole document
    start_oracle: str = ""
    namespaces: tuple[tuple[str, str], ...] = ()
    oracle_namespaces: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        return (f"from {self.start} " if self.start else "") + "; ".join(step.text for step in self.steps)


def expected_result(document: bytes, steps: StepList) -> str:
    """What the list leaves, as text; or RefusedError."""
    root = etree.fromstring(document, PARSER)
    starts = [root]
    if steps.start:
        starts = select(etree.fromstring(to_text(root).encode(), PARSER), steps.start_oracle, steps.oracle_namespaces)
    trees = [to_text(start) for start in starts]
    for step in steps.steps:
        remaining_trees = []
        for tree in trees:
            root = etree.fromstring(tree.encode(), PARSER)
            if STEPS[step.word](root, select(root, step.oracle, steps.oracle_namespaces), step):
                remaining_trees.append(to_text(root))
        trees = remaining_trees
    return "".join(trees)


def canonical(payload: str | bytes) -> str:
    """C14N inside a wrapper, with prefixes made equal."""
    text = payload if isinstance(payload, str) else payload.decode()
    return canonicalize(f"<w>{text}</w>", with_comments=True, rewrite_prefixes=True)


@lru_cache(maxsize=32_768)
def compiled(path: str, namespaces: tuple[tuple[str, str], ...]) -> Any:
    return etree.XPath(path, namespaces=dict(namespaces))


def select(root: Any, path: str, namespaces: tuple[tuple[str, str], ...]) -> list[Any]:
    return list(compiled(path, namespaces)(etree.ElementTree(root)))


# --- the steps: each changes the tree and says whether anything is left ----------------------------------------------


def is_element(item: Any) -> bool:
    return not isinstance(item, str)


def is_attribute(item: Any) -> bool:
    return isinstance(item, str) and bool(getattr(item, "is_attribute", False))


def text_place(item: Any) -> tuple[Any, str]:
    """Where lxml keeps a text: the element or comment that it belongs to, and whether it is inside or behind that."""
    return item.getparent(), "tail" if item.is_tail else "text"


def drop(root: Any, items: Sequence[Any], step: Step) -> bool:
    for item in items:
        if is_attribute(item):
            item.getparent().attrib.pop(item.attrname)
        elif not is_element(item):
            owner, side = text_place(item)
            setattr(owner, side, None)
    elements = [item for item in items if is_element(item)]
    for element in elements:
        if element is not root:
            put_before(element, element.tail)
            element.getparent().remove(element)
    return root not in elements


def put_before(element: Any, text: str | None) -> None:
    """Put a text in front of an element: behind its sibling before it, or at the start of its parent."""
    sibling = element.getprevious()
    if sibling is None:
        element.getparent().text = (element.getparent().text or "") + (text or "")
    else:
        sibling.tail = (sibling.tail or "") + (text or "")


def keep(root: Any, items: Sequence[Any], step: Step) -> bool:
    whole = {item for item in items if is_element(item)}
    texts = {text_place(item) for item in items if not is_element(item) and not is_attribute(item)}
    around = set()
    for item in items:
        parent = item.getparent()
        if not is_element(item) and item.is_tail:
            parent = parent.getparent()
        while parent is not None:
            around.add(parent)
            parent = parent.getparent()

    def prune(element: Any) -> None:
        pieces: list[Any] = [element.text] if (element, "text") in texts else []
        for child in element:
            if child in around and child not in whole:
                prune(child)
            if child in around or child in whole:
                pieces.append(child)
            if (child, "tail") in texts:
                pieces.append(child.tail)
        for child in list(element):
            element.remove(child)
            child.tail = None
        element.text = None
        for piece in pieces:
            if is_element(piece):
                element.append(piece)
            elif len(element):
                element[-1].tail = (element[-1].tail or "") + piece
            else:
                element.text = (element.text or "") + piece

    if root not in whole and items:
        prune(root)
    return bool(items)


def rename(root: Any, items: Sequence[Any], step: Step) -> bool:
    names_by_element: dict[Any, set[str]] = {}
    for item in items:
        if is_attribute(item):
            names_by_element.setdefault(item.getparent(), set()).add(item.attrname)
        else:
            item.tag = step.new_name(attribute=False)
    for element, names in names_by_element.items():
        new = step.new_name(attribute=True)
        attributes = [(new if name in names else name, value) for name, value in element.attrib.items()]
        if len(dict(attributes)) < len(attributes):
            raise RefusedError(f"two attributes {new}")
        element.attrib.clear()
        element.attrib.update(attributes)
    return True


def unwrap(root: Any, items: Sequence[Any], step: Step) -> bool:
    for element in items:
        if element is root:
            continue
        put_before(element, element.text)
        for child in list(element):
            tail, child.tail = child.tail, None
            element.addprevious(child)
            child.tail = tail
        put_before(element, element.tail)
        element.getparent().remove(element)
    return True


STEPS: dict[str, Callable[[Any, Sequence[Any], Step], bool]] = {
    "drop": drop,
    "keep": keep,
    "rename": rename,
    "unwrap": unwrap,
}


# --- trees as text ---------------------------------------------------------------------------------------------------


def to_text(root: Any) -> str:
    uris: dict[str, str] = {"http://www.w3.org/XML/1998/namespace": "xml"}

    def name(tag: str) -> str:
        uri, _, local = tag.rpartition("}")
        return f"{uris.setdefault(uri[1:], f'n{len(uris)}')}:{local}" if uri else local

    def text(value: str | None) -> str:
        return escape(value or "").replace("\r", "&#13;")

    def write(element: Any) -> str:
        if element.tag is etree.Comment:
            return f"<!--{element.text}-->"
        if element.tag is etree.PI:
            return f"<?{element.target} {element.text or ''}?>"
        tag = name(element.tag)
        attributes = "".join(f" {name(key)}={quoteattr(value)}" for key, value in element.attrib.items())
        inside = text(element.text) + "".join(write(child) + text(child.tail) for child in element)
        return f"<{tag}{attributes}>{inside}</{tag}>"

    body = write(root)
    declarations = "".join(f" xmlns:{prefix}={quoteattr(uri)}" for uri, prefix in uris.items() if prefix != "xml")
    end = min(place for place in (body.find(sign) for sign in (" ", ">")) if place > 0)
    return body[:end] + declarations + body[end:]
