"""Writes documents from a schema that is compiled into functions.

Size: every element gets a share of the bytes still wanted, and what it leaves unused goes to the following parts.
Repeated parts of a content model continue while more than an eighth of their share is left. When a share is used up,
the rest is made as short as the content model allows. A schema that cannot grow that far (or cannot stop that early)
gives smaller (or larger) documents.

Depth: near the limit only parts that can be finished in time are chosen, by the heights of the schema.

Recursion: if a part needs an element that has too many ancestors of its own name, another part is drawn. The shortest
way to finish an element never repeats a name, so this ends.

References: identifiers are numbered, and an IDREF gets one of them when the document is complete. If there is none,
optional references are left out. For a required one the document is drawn again with all identifiers in it, and in the
end without the elements that require references.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING

from treecast.errors import DocumentError, DocumentLimitError
from treecast.workload.content_model import Attribute, Element, Group, Name, Particle, particle_names
from treecast.workload.schema import ENDLESS, UNFIT, Schema, particle_height, single_height
from treecast.workload.values import Distribution, ListDistribution, escape, shares_up_to, zipf

if TYPE_CHECKING:
    from treecast.workload.documents import DocumentSettings

# A child with a smaller share than this is made as short as possible.
SHARE_BYTES_MIN = 40
# A repeated part (all of it optional) that was empty this many times in a row is abandoned.
EMPTY_TURNS_MAX = 8
CALIBRATION_DOCUMENTS = 16
CALIBRATION_BYTES = 500_000
# Attempts to draw a part that the recursion limit allows, and a document in which references find identifiers.
DRAWS_MAX = 8
DOCUMENT_DRAWS_MAX = 10
LEVELS_MAX = 512
# The limit for a document that cannot be finished at the requested size; twice that size, if that is more.
TAGS_BYTES_MAX = 8 << 20
CALLS_SPARE = 1000

Write = Callable[[int, int], int]
Pick = Callable[[], Write]


class DocumentWriter:
    """Writes one document after another. A part of a content model becomes a function (depth, share) that appends
    text to `out` and returns the bytes written; `depth` is that of the element it belongs to."""

    def __init__(self, schema: Schema, settings: DocumentSettings, seed: int, *, references: bool = True) -> None:
        self.schema = schema
        self.settings = settings
        self.seed = seed
        self.random = Random()
        self.heights = schema.heights if references else schema.heights_if(False)
        self.refers = references
        self.without_references: DocumentWriter | None = None
        self.values = settings.values.over(schema.sources)
        self.elements: dict[str, Write] = {}
        self.out: list[str] = []
        self.ids = 0
        self.bytes_left = 0
        self.all_ids = False
        self.references: list[tuple[int, str, bool]] = []
        self.open_counts = dict.fromkeys(schema.elements, 0)
        self.bound_prefixes: set[str] = set()
        self.distributions: dict[int, tuple[Distribution, Distribution]] = {}
        self.grows = settings.bytes_target is not None
        self.allow_levels()
        self.compile_all()
        self.share = settings.bytes_target or settings.bytes_max
        if self.grows:
            self.share = self.calibrated_share(self.share)

    def allow_levels(self) -> None:
        """Levels are nested calls. Python's recursion limit is raised as far as needed and not reset, because other
        threads may be generating too."""
        least = self.heights[self.schema.root] % UNFIT + 1
        if least > LEVELS_MAX:
            message = f"{self.schema.name}: every document of this DTD has {least} levels or more"
            raise DocumentLimitError(message, code="TC380", hint=f"at most {LEVELS_MAX} levels are written")
        nesting = max(_nesting(element.model) for element in self.schema.elements.values())
        highest = max(height % UNFIT for height in self.heights.values() if height < ENDLESS)
        calls = (self.settings.depth_max + highest + 1) * (4 + 3 * nesting) + CALLS_SPARE
        if calls > sys.getrecursionlimit():
            sys.setrecursionlimit(calls)

    def calibrated_share(self, target: int) -> int:
        """The share of the root element that brings documents near the target on average. Optional parts that are left
        out at the end lose their share; how much that is depends on the schema."""
        self.share = target
        count = max(2, min(CALIBRATION_DOCUMENTS, CALIBRATION_BYTES // target))
        mean = sum(len(self.write(-number)) for number in range(1, 1 + count)) / count
        return int(target * min(2.0, max(0.5, target / mean)))

    def write(self, number: int) -> bytes:
        for draw in range(DOCUMENT_DRAWS_MAX):
            self.random.seed(f"{self.seed}/{number}/{draw}" if draw else f"{self.seed}/{number}")
            self.ids = 0
            self.all_ids = draw > 0
            self.references.clear()
            self.out.clear()
            self.bytes_left = max(TAGS_BYTES_MAX, 2 * self.share)
            self.out.append('<?xml version="1.0" encoding="UTF-8"?>\n')
            self.elements[self.schema.root](1, self.share)
            if self.resolve():
                self.out.append("\n")
                return "".join(self.out).encode()
        if self.without_references is None:
            if not self.refers or self.schema.heights_if(False)[self.schema.root] >= UNFIT:
                message = f"{self.schema.name}: required references find no identifier, draw after draw"
                raise DocumentError(message, code="TC282", hint="raise bytes_target, depth_max or optional")
            self.without_references = DocumentWriter(self.schema, self.settings, self.seed, references=False)
        return self.without_references.write(number)

    def too_long(self) -> DocumentLimitError:
        """The error for content models without a short document: each level requires two of each part."""
        limit = max(TAGS_BYTES_MAX, 2 * self.share)
        message = f"{self.schema.name}: the tags of a document of this DTD have more than {limit:,} bytes"
        hint = "required parts that contain several required parts multiply: make some optional, or name another root"
        return DocumentLimitError(message, code="TC380", hint=hint)

    def resolve(self) -> bool:
        """Give references their identifiers; False if a required one finds none."""
        random, ids = self.random.random, self.ids
        for place, before, is_required in self.references:
            if not ids:
                if is_required:
                    return False
                self.out[place] = ""
            else:
                self.out[place] = f'{before}i{1 + int(random() * ids)}"'
        return True

    # Elements.

    def compile_all(self) -> None:
        for name in self.schema.elements:
            if name not in self.schema.reachable:
                continue
            write = self.compile_element(name)
            if self.settings.recursion_max is not None and name in self.schema.recursive:
                write = self.count_open(name, write)
            self.elements[name] = write

    def count_open(self, name: str, write: Write) -> Write:
        open_counts = self.open_counts

        def counting(depth: int, share: int) -> int:
            open_counts[name] += 1
            size = write(depth, share)
            open_counts[name] -= 1
            return size

        return counting

    def compile_element(self, name: str) -> Write:
        element = self.schema.elements[name]
        out, bound_prefixes = self.out, self.bound_prefixes
        bindings, attributes = self.compile_bindings(element), self.compile_attributes(element)
        always = {a.name[6:] for a in element.attributes if a.required and a.name.startswith("xmlns:")}
        opening, closing = f"<{name}", f"</{name}>"  # reuse the strings: a document may have millions
        tags_size = 2 * len(name) + 5
        body = self.compile_mixed(element) if element.content in ("mixed", "any") else self.compile(element.model)
        inner = ">\n" if element.content == "children" else ">"
        depth_max = self.settings.depth_max

        def write(depth: int, share: int) -> int:
            size = tags_size
            out.append(opening)
            if attributes is not None:
                size += attributes()
            self.bytes_left -= size
            if self.bytes_left < 0:
                raise self.too_long()
            if body is None:
                out.append("/>")
                return size
            out.append(inner)
            size += body(depth, share - size if depth < depth_max else 0)
            out.append(closing)
            return size

        if not bindings:
            return write

        def write_bound(depth: int, share: int) -> int:
            """The same, with namespace declarations for the prefixes used here, unless they are already bound."""
            fresh = [prefix for prefix, _ in bindings if prefix not in bound_prefixes]
            before = len(out)
            bound_prefixes.update(fresh)
            size = write(depth, share)
            declarations = [
                f' xmlns:{prefix}="{uri}"' for prefix, uri in bindings if prefix in fresh or prefix in always
            ]
            if declarations:
                out[before] += "".join(declarations)
                size += sum(map(len, declarations))
            bound_prefixes.difference_update(fresh)
            return size

        return write_bound

    # Attributes.

    def compile_bindings(self, element: Element) -> list[tuple[str, str]]:
        """The prefixes to bind at this element: its own, those of its required attributes, and those that the DTD
        itself binds here."""
        prefixes: dict[str, None] = {}
        for name in (element.name, *(a.name for a in element.attributes if a.required and not a.is_namespace)):
            if ":" in name and not name.startswith("xml:"):
                prefixes.setdefault(name.partition(":")[0])
        for attribute in element.attributes:
            if attribute.name.startswith("xmlns:") and (attribute.default or attribute.required):
                prefixes.setdefault(attribute.name[6:])
        namespaces = self.schema.namespaces
        return [(prefix, escape(namespaces.get(prefix, f"urn:treecast:{prefix}"))) for prefix in prefixes]

    def compile_attributes(self, element: Element) -> Callable[[], int] | None:
        here = {prefix for prefix, _ in self.compile_bindings(element)}
        writers: list[tuple[bool, bool, str, Callable[[bool], int]]] = []
        for attribute in element.attributes:
            write = self.compile_attribute(element, attribute)
            if write is not None:
                prefix = attribute.name.partition(":")[0] if ":" in attribute.name else ""
                prefix_needed = "" if prefix in here or prefix == "xml" else prefix
                writers.append((attribute.required, _is_id(attribute), prefix_needed, write))
        if not writers:
            return None
        random, chance, bound_prefixes = self.random.random, self.settings.attributes, self.bound_prefixes

        def write_all() -> int:
            size = 0
            for is_required, is_id, prefix, write in writers:
                is_wanted = is_required or random() < chance or (is_id and self.all_ids)
                if is_wanted and (not prefix or prefix in bound_prefixes):
                    size += write(is_required)
            return size

        return write_all

    def compile_attribute(self, element: Element, attribute: Attribute) -> Callable[[bool], int] | None:
        """A function that writes the attribute; None for one that is never written."""
        random, out = self.random.random, self.out
        before = f' {attribute.name}="'
        if attribute.is_namespace:
            # Elements without a prefix stay without a namespace, so that queries can name them; prefixes are bound
            # where they are needed.
            if attribute.name != "xmlns" or not attribute.required:
                return None
            declaration = f'{before}{escape(attribute.default or "urn:treecast:default")}"'
            return self.constant(declaration)
        if _is_id(attribute):
            return self.compile_id(before)
        if attribute.kind in ("IDREF", "IDREFS"):
            references = self.references

            def refer(is_required: bool) -> int:
                references.append((len(out), before, is_required))
                out.append(before)
                return len(before) + 3

            return refer
        values = self.values.of_attribute(element, attribute.name, self.schema.unparsed_entities)
        if values is None:
            return self.constant(f'{before}none"') if attribute.required else None
        if isinstance(values, ListDistribution) and len(values.values) == 1:
            return self.constant(f'{before}{escape(values.values[0])}"')
        draw = self.escape_values(values).draw

        def write(_: bool) -> int:
            text = f'{before}{draw(random())}"'
            out.append(text)
            return len(text)

        return write

    def escape_values(self, values: Distribution) -> Distribution:
        """The distribution with its values in written form; one that many attributes share exists once."""
        known = self.distributions.get(id(values))
        if known is None:
            known = self.distributions[id(values)] = (values, values.map_values(escape))
        return known[1]

    def constant(self, text: str) -> Callable[[bool], int]:
        out = self.out

        def write(_: bool) -> int:
            out.append(text)
            return len(text)

        return write

    def compile_id(self, before: str) -> Callable[[bool], int]:
        out = self.out

        def write(_: bool) -> int:
            self.ids += 1
            text = f'{before}i{self.ids}"'
            out.append(text)
            return len(text)

        return write

    # Content.

    def compile_mixed(self, element: Element) -> Write:
        """Text and children in turn. Leaves and growing children are drawn equally often, in the order of the model."""
        random, out = self.random.random, self.out
        draw = self.escape_values(self.values.of_text(element)).draw
        children = self.schema.children(element.name)

        def text(depth: int, share: int) -> int:
            run = draw(random())
            out.append(run)
            return len(run)

        if not children:
            return text
        depth_max, repeats_max, grows = self.settings.depth_max, self.settings.repeats_max, self.grows
        picks = self.picks([Name(child) for child in children], [self.child_writer(child) for child in children])

        def write(depth: int, share: int) -> int:
            size = text(depth, share)
            pick = picks[max(0, depth_max - depth)]
            if pick is None:
                return size
            turns = 0
            turns_planned = int(random() * (repeats_max + 1))
            while share - size > SHARE_BYTES_MIN and (turns < turns_planned or (grows and (share - size) * 8 > share)):
                size += pick()(depth, (share - size) // max(1, turns_planned - turns))
                if random() < 0.5:
                    size += text(depth, share)
                turns += 1
            return size

        return write

    def child_writer(self, name: str) -> Write:
        elements = self.elements

        def write(depth: int, share: int) -> int:
            return elements[name](depth + 1, share)

        return write

    def compile(self, particle: Particle | None) -> Write | None:
        """A part of a content model."""
        if particle is None:
            return None
        once = self.compile_name(particle) if isinstance(particle, Name) else self.compile_group(particle)
        if particle.occurs == "":
            return once
        return self.optional(particle, once) if particle.occurs == "?" else self.repeat(particle, once)

    def optional(self, particle: Particle, once: Write) -> Write:
        random, depth_max, chance = self.random.random, self.settings.depth_max, self.settings.optional
        height = single_height(particle, self.heights)
        is_blocked = self.block_test(particle)

        def write(depth: int, share: int) -> int:
            if share < SHARE_BYTES_MIN or depth + height > depth_max or random() >= chance:
                return 0
            if is_blocked is not None and is_blocked():
                return 0
            return once(depth, share)

        return write

    def repeat(self, particle: Particle, once: Write) -> Write:
        random, depth_max, repeats_max = self.random.random, self.settings.depth_max, self.settings.repeats_max
        least = 1 if particle.occurs == "+" else 0
        height = single_height(particle, self.heights)
        is_blocked, grows = self.block_test(particle), self.grows

        def write(depth: int, share: int) -> int:
            size = turns = empty = 0
            if depth + height > depth_max or (is_blocked is not None and is_blocked()):
                share = 0
            turns_planned = least + int(random() * (repeats_max + 1 - least))
            while turns < least or (
                share - size > SHARE_BYTES_MIN and (turns < turns_planned or (grows and (share - size) * 8 > share))
            ):
                wrote = once(depth, (share - size) // max(1, turns_planned - turns))
                size += wrote
                turns += 1
                empty = empty + 1 if wrote == 0 else 0
                if empty == EMPTY_TURNS_MAX:
                    break
            return size

        return write

    def compile_name(self, particle: Name) -> Write:
        elements, out, name = self.elements, self.out, particle.name

        def write(depth: int, share: int) -> int:
            size = elements[name](depth + 1, share) + 1
            out.append("\n")
            return size

        return write

    def compile_group(self, group: Group) -> Write:
        parts = [part for item in group.items if (part := self.compile(item)) is not None]
        if group.kind == "sequence":
            return self.sequence(group, parts)
        depth_max = self.settings.depth_max
        heights = [particle_height(item, self.heights) for item in group.items]
        lowest = min(heights)
        shortest = self.pick(
            [(item, part) for item, part, height in zip(group.items, parts, heights, strict=True) if height == lowest],
            even=True,
        )
        picks = self.picks(group.items, parts)

        def write(depth: int, share: int) -> int:
            pick = (picks[max(0, depth_max - depth)] if share >= SHARE_BYTES_MIN else None) or shortest
            return pick()(depth, share)

        return write

    def sequence(self, group: Group, parts: Sequence[Write]) -> Write:
        weights = [self.weight(item) for item in group.items]
        after = [sum(weights[place:]) for place in range(len(weights))]
        plan = list(zip(parts, weights, after, strict=True))

        def write(depth: int, share: int) -> int:
            size = 0
            for part, weight, rest in plan:
                size += part(depth, max(0, share - size) * weight // rest)
            return size

        return write

    def weight(self, particle: Particle) -> int:
        """The share of a part of a sequence: parts that repeat or have children can use more."""
        if isinstance(particle, Group):
            weight = max(self.weight(item) for item in particle.items)
        else:
            weight = 4 if self.schema.children(particle.name) else 1
        return weight * 3 if particle.occurs in ("*", "+") else weight

    # Choices.

    def picks(self, items: Sequence[Particle], parts: Sequence[Write]) -> list[Pick | None]:
        """How to draw one of these parts, by the number of levels left; None if none of them fits."""
        heights = [particle_height(item, self.heights) for item in items]
        pick_by_count: dict[int, Pick | None] = {}
        picks = []
        for levels in range(self.settings.depth_max + 1):
            fitting = [
                both for both, height in zip(zip(items, parts, strict=True), heights, strict=True) if height <= levels
            ]
            if len(fitting) not in pick_by_count:
                pick_by_count[len(fitting)] = self.pick(fitting) if fitting else None
            picks.append(pick_by_count[len(fitting)])
        return picks

    def pick(self, fitting: Sequence[tuple[Particle, Write]], *, even: bool = False) -> Pick:
        """A function that draws one of these parts, by skew and weights unless `even`."""
        random = self.random.random
        parts = [part for _, part in fitting]
        ranks = zipf(len(parts), self.settings.skew) or [1.0] * len(parts)
        weights = [rank * self.name_weight(item) for rank, (item, _) in zip(ranks, fitting, strict=True)]
        if even or len(set(weights)) == 1 or not any(weights):
            size = len(parts)

            def draw() -> Write:
                return parts[int(random() * size)]
        else:
            bounds = shares_up_to(weights)

            def draw() -> Write:
                return parts[bisect_right(bounds, random())]

        return draw if even else self.avoid_blocked(fitting, draw)

    def avoid_blocked(self, fitting: Sequence[tuple[Particle, Write]], draw: Pick) -> Pick:
        """The same draws without parts that the recursion limit now forbids, if there are others."""
        tests = {id(part): is_blocked for item, part in fitting if (is_blocked := self.block_test(item)) is not None}
        if not tests:
            return draw

        def draw_allowed() -> Write:
            for _ in range(DRAWS_MAX):
                part = draw()
                is_blocked = tests.get(id(part))
                if is_blocked is None or not is_blocked():
                    return part
            allowed_parts = [part for _, part in fitting if id(part) not in tests or not tests[id(part)]()]
            return allowed_parts[int(self.random.random() * len(allowed_parts))] if allowed_parts else part

        return draw_allowed

    def name_weight(self, particle: Particle) -> float:
        """The weight of an alternative: that of the heaviest element in it."""
        return max(self.settings.weights.get(name, 1.0) for name in particle_names(particle))

    def block_test(self, particle: Particle) -> Callable[[], bool] | None:
        """Whether the recursion limit forbids this part now; None if it never does."""
        limit = self.settings.recursion_max
        if limit is None:
            return None
        certain = dict.fromkeys(_needed_names(particle))
        for name in list(certain):
            certain.update(dict.fromkeys(sorted(self.schema.required[name])))
        needed_names = [name for name in certain if name in self.schema.recursive]
        if not needed_names:
            return None
        open_counts = self.open_counts

        def test() -> bool:
            return any(open_counts[name] > limit for name in needed_names)

        return test


def _is_id(attribute: Attribute) -> bool:
    return attribute.kind == "ID" or attribute.name == "xml:id"


def _needed_names(particle: Particle) -> Iterable[str]:
    """Names that this part always contains when it occurs."""
    if isinstance(particle, Name):
        yield particle.name
    elif particle.kind == "sequence" or len(particle.items) == 1:
        for item in particle.items:
            if item.occurs not in ("?", "*"):
                yield from _needed_names(item)


def _nesting(particle: Particle | None) -> int:
    return 1 + max(_nesting(item) for item in particle.items) if isinstance(particle, Group) else 1
