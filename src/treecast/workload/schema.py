"""What a DTD says about elements: their content models and attributes, and which element may stand in which.

>>> from treecast.workload import Schema
>>> schema = Schema.from_text("<!ELEMENT a (b | c)*> <!ELEMENT b EMPTY> <!ELEMENT c (#PCDATA)>")
>>> schema.root, schema.children("a")
('a', ('b', 'c'))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Literal

from treecast.errors import DocumentError

Occurs = Literal["", "?", "*", "+"]
Content = Literal["empty", "any", "mixed", "children"]

# No element of this schema can be finished in fewer levels than there are elements, so this means "never".
ENDLESS = 1 << 30


@dataclass(frozen=True, slots=True)
class Name:
    """An element name in a content model."""

    name: str
    occurs: Occurs = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A sequence (`a, b`) or a choice (`a | b`) in a content model."""

    kind: Literal["sequence", "choice"]
    items: tuple[Particle, ...]
    occurs: Occurs = ""


Particle = Name | Group


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an element. `kind` is the DTD's word (CDATA, ID, …) or "enumeration", which has `values`."""

    name: str
    kind: str = "CDATA"
    values: tuple[str, ...] = ()
    required: bool = False
    fixed: str | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """One element declaration. A mixed model is a choice of names; its text is implied."""

    name: str
    content: Content = "empty"
    model: Particle | None = None
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True)
class Schema:
    """Elements by name, in the order of their declarations, and the name of the root element.

    Names that content models mention but nothing declares count as empty elements, so that every DTD gives documents.
    """

    elements: Mapping[str, Element]
    root: str
    _children: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_dtd(cls, path: str | Path, *, root: str | None = None) -> Schema:
        """The schema of a DTD file. Without `root`, the first declared element that stands in no other one is it."""
        data = Path(path).read_bytes()
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
        return cls.from_text(text, root=root)

    @classmethod
    def from_text(cls, text: str, *, root: str | None = None) -> Schema:
        """The schema of a DTD given as text."""
        from treecast.workload.dtd import read_dtd

        return cls.from_elements(read_dtd(text), root=root)

    @classmethod
    def news(cls) -> Schema:
        """The built-in schema: news articles, deeply recursive, some ninety elements."""
        return cls.from_text(resources.files("treecast.workload").joinpath("news.dtd").read_text("utf-8"))

    @classmethod
    def from_elements(cls, declared: Mapping[str, Element], *, root: str | None = None) -> Schema:
        """The schema of these declarations; refuses one whose root element is unknown or can never be finished."""
        elements = dict(declared)
        for element in declared.values():
            for name in _names(element.model):
                elements.setdefault(name, Element(name))
        if root is None:
            root = _find_root(declared)
        if root not in elements:
            raise DocumentError(f"the DTD declares no element '{root}'", code="TC291")
        schema = cls(elements, root)
        if schema.heights()[root] >= ENDLESS:
            raise DocumentError(f"no document of this DTD is finite: '{root}' always contains itself", code="TC292")
        return schema

    def children(self, name: str) -> tuple[str, ...]:
        """The names that may stand directly in this element, each once, in the order of the content model."""
        known = self._children.get(name)
        if known is None:
            element = self.elements[name]
            known = tuple(self.elements) if element.content == "any" else tuple(dict.fromkeys(_names(element.model)))
            self._children[name] = known
        return known

    def heights(self) -> dict[str, int]:
        """For each element the fewest levels below it that its content model allows; ENDLESS if there are none."""
        heights = dict.fromkeys(self.elements, ENDLESS)
        changed = True
        while changed:
            changed = False
            for name, element in self.elements.items():
                height = particle_height(element.model, heights) if element.content == "children" else 0
                if height < heights[name]:
                    heights[name] = height
                    changed = True
        return heights


def particle_height(particle: Particle | None, heights: Mapping[str, int]) -> int:
    """The fewest levels that this part of a content model needs, given those of the elements."""
    if particle is None or particle.occurs in ("?", "*"):
        return 0
    if isinstance(particle, Name):
        return min(heights[particle.name] + 1, ENDLESS)
    parts = [particle_height(item, heights) for item in particle.items]
    return max(parts) if particle.kind == "sequence" else min(parts)


def _names(particle: Particle | None) -> Iterator[str]:
    if isinstance(particle, Name):
        yield particle.name
    elif isinstance(particle, Group):
        for item in particle.items:
            yield from _names(item)


def _find_root(declared: Mapping[str, Element]) -> str:
    inner = {name for element in declared.values() for name in _names(element.model) if name != element.name}
    for name in declared:
        if name not in inner:
            return name
    return next(iter(declared))
