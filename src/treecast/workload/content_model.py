"""What a DTD declares about one element: its content model and its attributes.

>>> from treecast.workload.content_model import Group, Name, particle_names
>>> list(particle_names(Group("sequence", (Name("a"), Group("choice", (Name("b"), Name("c", "?")), "*")))))
['a', 'b', 'c']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Occurs = Literal["", "?", "*", "+"]
Content = Literal["empty", "any", "mixed", "children"]


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
    """One attribute of an element. `kind` is the DTD's word (CDATA, ID, NOTATION, …) or "enumeration"; NOTATION and
    "enumeration" have `values`. `default` is also set for fixed values."""

    name: str
    kind: str = "CDATA"
    values: tuple[str, ...] = ()
    required: bool = False
    fixed: str | None = None
    default: str | None = None

    @property
    def is_namespace(self) -> bool:
        return self.name == "xmlns" or self.name.startswith("xmlns:")


@dataclass(frozen=True, slots=True)
class Element:
    """One element declaration. A mixed model is a choice of names; its text is implied."""

    name: str
    content: Content = "empty"
    model: Particle | None = None
    attributes: tuple[Attribute, ...] = ()
    declared: bool = True


def particle_names(particle: Particle | None) -> Iterator[str]:
    """The names in a content model, as often as they occur."""
    if isinstance(particle, Name):
        yield particle.name
    elif isinstance(particle, Group):
        for item in particle.items:
            yield from particle_names(item)


def once(particle: Particle) -> Particle:
    """The particle without its occurrence sign (`?`, `*` or `+`)."""
    return Name(particle.name) if isinstance(particle, Name) else Group(particle.kind, particle.items)
