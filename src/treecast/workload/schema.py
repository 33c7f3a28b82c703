"""What a DTD says about documents: elements, which may contain which, how deep they are, which are recursive.

>>> from treecast.workload import Schema
>>> schema = Schema.from_text("<!ELEMENT a (b | c)*> <!ELEMENT b (a?)> <!ELEMENT c (#PCDATA)>")
>>> schema.root, schema.children("a"), sorted(schema.recursive), schema.depth
('a', ('b', 'c'), ['a', 'b'], None)
>>> print(Schema.records().summary())
records: 31 elements, 26 attributes, 0 of the elements recursive, at most 6 levels
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property, reduce
from importlib import resources
from operator import and_, or_
from pathlib import Path

from treecast.errors import DocumentError
from treecast.workload.content_model import Attribute, Element, Name, Particle, once, particle_names
from treecast.workload.dtd import Declarations, read_dtd, read_dtd_file
from treecast.workload.values import NumberRange, Source

# Heights from here on are not levels. UNFIT: no valid document contains it (undeclared, or an IDREF where nothing has
# an ID); used only if nothing else fits. ENDLESS: it can never be finished.
UNFIT = 1 << 20
ENDLESS = 1 << 30

_DAYS = tuple(str(date(2026, 1, 1) + timedelta(days=day)) for day in range(365))

# The schemas that ship with treecast, and their special values.
SHIPPED: Mapping[str, Mapping[str, Source]] = {
    "news": {},
    "records": {
        "@date": _DAYS,
        "@exported": _DAYS,
        "@years": NumberRange(1, 30),
        "@rating": ("AAA", "AA", "A", "BBB", "BB", "B"),
        "@desk": ("rates", "credit", "shares", "currencies"),
        "country": ("DE", "FR", "GB", "US", "JP", "CH", "NL", "IT", "ES", "SE", "BR", "IN"),
        "market": ("Paris", "London", "Frankfurt", "New York", "Tokyo"),
        "price": NumberRange(0.5, 999.99, 2),
        "quantity": NumberRange(1, 10_000),
        "fee": NumberRange(0.1, 99.99, 2),
        "bought": NumberRange(1_000, 999_999),
        "sold": NumberRange(1_000, 999_999),
        "coupon": NumberRange(0, 9.5, 3),
        "fixed-rate": NumberRange(0, 9.5, 3),
    },
}


@dataclass(frozen=True)
class Schema:
    """Elements by name, in the order of their declarations, and the name of the root element.

    Names that content models mention but nothing declares count as empty elements. They and whatever needs them are
    left out of documents and queries wherever the DTD allows it. `sources` are the values of attributes and texts
    unless settings give others (`treecast.workload.values`).
    """

    elements: Mapping[str, Element]
    root: str
    name: str = "DTD"
    unparsed_entities: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    sources: Mapping[str, Source] = field(default_factory=dict)

    @classmethod
    def from_dtd(cls, path: str | Path, *, root: str | None = None, directories: Sequence[str | Path] = ()) -> Schema:
        """The schema of a DTD file and its parts, which lie in its directory, below it or in `directories`.

        Without `root`, the root is an element that no other one contains: the one named like the file, or the one with
        the most elements below it. `missing` lists the parts that are not on disk; what they declare is left out.
        """
        declarations = read_dtd_file(Path(path), [Path(directory) for directory in directories])
        return cls.from_declarations(declarations, root=root, name=Path(path).stem)

    @classmethod
    def from_text(cls, text: str, *, root: str | None = None, name: str = "DTD") -> Schema:
        """The schema of a DTD given as text."""
        return cls.from_declarations(read_dtd(text, name), root=root, name=name)

    @classmethod
    def news(cls) -> Schema:
        """The first schema that ships with treecast: news articles, deeply recursive, some ninety elements."""
        return cls.shipped("news")

    @classmethod
    def records(cls) -> Schema:
        """The second one: a list of trades, as flat and regular as an export from a database."""
        return cls.shipped("records")

    @classmethod
    def shipped(cls, name: str) -> Schema:
        """A schema of SHIPPED."""
        text = resources.files("treecast.workload").joinpath(f"{name}.dtd").read_text("utf-8")
        return replace(cls.from_text(text, name=name), sources=SHIPPED[name])

    @classmethod
    def from_declarations(cls, declarations: Declarations, *, root: str | None = None, name: str = "DTD") -> Schema:
        """The schema of these declarations. Refuses a root element that is unknown or can never be finished."""
        elements = dict(declarations.elements)
        for element in declarations.elements.values():
            for child in particle_names(element.model):
                elements.setdefault(child, Element(child, declared=False))
        if root is None:
            root = _find_root(declarations.elements, name)
        if root not in declarations.elements:
            hint = "its elements begin with " + ", ".join(list(declarations.elements)[:8])
            raise DocumentError(f"{name}: the DTD declares no element '{root}'", code="TC281", hint=hint)
        schema = cls(elements, root, name, declarations.unparsed_entities, declarations.missing)
        if schema.heights[root] >= ENDLESS:
            message = f"{name}: no document of this DTD is finite: '{root}' always contains itself"
            raise DocumentError(message, code="TC282", hint="make a part of its content optional, or name another root")
        return schema

    # The graph.

    @cached_property
    def _children(self) -> dict[str, tuple[str, ...]]:
        limit = UNFIT if self.heights[self.root] < UNFIT else ENDLESS
        fit = tuple(name for name, height in self.heights.items() if height < limit)
        return {
            name: fit if element.content == "any" else tuple(dict.fromkeys(self._possible(element.model, limit)))
            for name, element in self.elements.items()
        }

    def _possible(self, particle: Particle | None, limit: int) -> Iterable[str]:
        """The names of this part that occur in finite content: a sequence with an endless part is never written."""
        if isinstance(particle, Name):
            return [particle.name] if self.heights[particle.name] < limit else []
        if particle is None:
            return []
        parts = [self._possible(item, limit) for item in particle.items]
        if particle.kind == "sequence" and any(particle_height(item, self.heights) >= limit for item in particle.items):
            return []
        return [name for part in parts for name in part]

    def children(self, name: str) -> tuple[str, ...]:
        """The names that may be children of this element in a finite document, each once, in the order of the content
        model."""
        return self._children[name]

    @cached_property
    def heights(self) -> Mapping[str, int]:
        """For each element the fewest levels below it that its content model allows; ENDLESS if there are none."""
        return self.heights_if(any(a.kind == "ID" for element in self.elements.values() for a in element.attributes))

    def heights_if(self, has_ids: bool) -> Mapping[str, int]:
        """The same for documents with identifiers, or for those without, in which nothing can refer to one."""
        base = {
            name: 0 if element.declared and self._satisfiable(element.attributes, has_ids) else UNFIT
            for name, element in self.elements.items()
        }
        heights = dict.fromkeys(self.elements, ENDLESS)
        waiting = dict.fromkeys(self.elements)
        while waiting:
            name = next(iter(waiting))
            del waiting[name]
            element = self.elements[name]
            height = particle_height(element.model, heights) if element.content == "children" else 0
            height = min(max(height, base[name]), ENDLESS)
            if height < heights[name]:
                heights[name] = height
                waiting.update(dict.fromkeys(self._users.get(name, ())))
        return heights

    def _satisfiable(self, attributes: Iterable[Attribute], has_ids: bool) -> bool:
        for attribute in attributes:
            if attribute.required and attribute.kind in ("IDREF", "IDREFS") and not has_ids:
                return False
            if attribute.required and attribute.kind in ("ENTITY", "ENTITIES") and not self.unparsed_entities:
                return False
        return True

    @cached_property
    def reachable(self) -> frozenset[str]:
        """The elements that some document has."""
        return frozenset(_below(self._children, self.root))

    @cached_property
    def recursive(self) -> frozenset[str]:
        """The elements that may have an ancestor of their own name."""
        groups = _components({name: self.children(name) for name in self.reachable})
        return frozenset(name for group in groups for name in group if len(group) > 1 or name in self.children(name))

    @cached_property
    def required(self) -> Mapping[str, frozenset[str]]:
        """For each element, the elements that it always contains, at any level."""
        bits = {name: 1 << place for place, name in enumerate(self.elements)}
        inside = dict.fromkeys(self.elements, (1 << len(bits)) - 1)
        waiting = dict.fromkeys(self.elements)
        while waiting:
            name = next(iter(waiting))
            del waiting[name]
            element = self.elements[name]
            bits_found = _bits_always_inside(element.model, bits, inside) if element.content == "children" else 0
            if bits_found != inside[name]:
                inside[name] = bits_found
                waiting.update(dict.fromkeys(self._users.get(name, ())))
        return {name: frozenset(one for one, bit in bits.items() if bit & inside[name]) for name in self.elements}

    @cached_property
    def _users(self) -> dict[str, list[str]]:
        """For each name, the elements whose content models mention it."""
        users: dict[str, list[str]] = {}
        for name, element in self.elements.items():
            for child in dict.fromkeys(particle_names(element.model)):
                users.setdefault(child, []).append(name)
        return users

    @cached_property
    def depth(self) -> int | None:
        """The number of levels of the deepest document, counting the root; None if there is no limit."""
        if self.recursive:
            return None
        depths: dict[str, int] = {}
        for group in _components({name: self.children(name) for name in self.reachable}):
            for name in group:
                depths[name] = 1 + max((depths[child] for child in self.children(name)), default=0)
        return depths[self.root]

    @cached_property
    def namespaces(self) -> Mapping[str, str]:
        """The namespaces of the prefixes in element and attribute names: the value of `xmlns:p` in the DTD, or
        `urn:treecast:p` if it gives none. For `Index(namespaces=…)` and for lxml."""
        uri_by_prefix: dict[str, str] = {}
        for element in self.elements.values():
            for name in (element.name, *(attribute.name for attribute in element.attributes)):
                prefix, colon, local = name.partition(":")
                if colon and prefix not in ("xml", "xmlns") and local:
                    uri_by_prefix.setdefault(prefix, f"urn:treecast:{prefix}")
        declared_uris = [
            (attribute.name[6:], attribute.default)
            for element in self.elements.values()
            for attribute in element.attributes
            if attribute.name.startswith("xmlns:") and attribute.default
        ]
        for prefix, uri in reversed(declared_uris):
            uri_by_prefix[prefix] = uri
        return uri_by_prefix

    def summary(self) -> str:
        """One line: how large, how recursive, how deep."""
        attributes = sum(len(element.attributes) for element in self.elements.values())
        depth = "levels without end" if self.depth is None else f"at most {self.depth} levels"
        return (
            f"{self.name}: {len(self.elements)} elements, {attributes} attributes, "
            f"{len(self.recursive)} of the elements recursive, {depth}"
        )


def particle_height(particle: Particle | None, heights: Mapping[str, int]) -> int:
    """The fewest levels that this part of a content model needs, given those of the elements."""
    if particle is None or particle.occurs in ("?", "*"):
        return 0
    if isinstance(particle, Name):
        return min(heights[particle.name] + 1, ENDLESS)
    parts = [particle_height(item, heights) for item in particle.items]
    return max(parts) if particle.kind == "sequence" else min(parts)


def _bits_always_inside(particle: Particle | None, bits: Mapping[str, int], inside: Mapping[str, int]) -> int:
    """The elements that this part always contains, as bits, given those of the elements."""
    if particle is None or particle.occurs in ("?", "*"):
        return 0
    if isinstance(particle, Name):
        return bits[particle.name] | inside[particle.name]
    parts = [_bits_always_inside(item, bits, inside) for item in particle.items]
    return reduce(or_ if particle.kind == "sequence" else and_, parts)


def single_height(particle: Particle, heights: Mapping[str, int]) -> int:
    """The fewest levels that this part needs if it occurs."""
    return particle_height(once(particle), heights)


def _find_root(elements: Mapping[str, Element], schema: str) -> str:
    """The declared element that no other one contains (except those below it). Of several, the one named like the
    schema, then the one with the most elements below it, then the first."""
    graph = {
        name: [child for child in dict.fromkeys(particle_names(element.model)) if child in elements]
        for name, element in elements.items()
    }
    groups = _components(graph)
    place = {name: number for number, group in enumerate(groups) for name in group}
    inner = {place[child] for name in graph for child in graph[name] if place[child] != place[name]}
    order = {name: number for number, name in enumerate(elements)}
    tops = [min(group, key=order.__getitem__) for number, group in enumerate(groups) if number not in inner]
    return min(tops, key=lambda name: (name.lower() != schema.lower(), -len(_below(graph, name)), order[name]))


def _below(graph: Mapping[str, Sequence[str]], start: str) -> set[str]:
    reachable, waiting = {start}, [start]
    while waiting:
        fresh = [name for name in graph[waiting.pop()] if name not in reachable]
        reachable.update(fresh)
        waiting += fresh
    return reachable


def _components(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The strongly connected components, targets of edges first (Tarjan's algorithm, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    groups: list[list[str]] = []
    for start in graph:
        if start in order:
            continue
        work = [(start, iter(graph[start]))]
        order[start] = low[start] = len(order)
        path.append(start)
        on_path.add(start)
        while work:
            name, rest = work[-1]
            fresh = next((child for child in rest if child not in order or child in on_path), None)
            if fresh is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == order[name]:
                    at = path.index(name)
                    groups.append(path[at:])
                    on_path.difference_update(path[at:])
                    del path[at:]
            elif fresh in on_path:
                low[name] = min(low[name], order[fresh])
            else:
                order[fresh] = low[fresh] = len(order)
                path.append(fresh)
                on_path.add(fresh)
                work.append((fresh, iter(graph[fresh])))
    return groups
