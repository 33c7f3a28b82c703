"""Schema -> documents: random, well-formed, valid, of about the size asked for.

How the size is met: every element gets a share of the bytes still wanted, and what it leaves unused goes to the parts
that follow it. Repeated parts of a content model go on while more than an eighth of their share is left; when a share
is used up, the rest is made as short as the content model allows. Depth is bounded the same way: near the limit only
parts that can be finished in time are chosen. A schema that cannot grow that far (or cannot stop that early) gives
smaller (or larger) documents.

    >>> from treecast.workload import DocumentSettings, Schema, generate_documents
    >>> documents = list(generate_documents(Schema.news(), 20, DocumentSettings(bytes_target=5000), seed=1))
    >>> 3000 < sum(map(len, documents)) / 20 < 7000
    True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from treecast.workload.schema import Group, Name, Particle, Schema, particle_height

# A child with a smaller share than this is made as short as possible.
SHARE_BYTES_MIN = 40
# A repeated part that came out empty so many times in a row (all of it is optional) is left alone.
EMPTY_TURNS_MAX = 8
CALIBRATION_DOCUMENTS = 16
_TEXT = """
after again agency also analysts answer april around asked banks because before border budget business called capital
central change chief city close coast company council country court day deal defence demand early east economy
election energy europe evening export family figures final first foreign fund garden gas goal government group growth
harbour health history home hospital house import industry interest island judge june labour last law leader letter
level light local london long loss market match mayor meeting minister money month morning music nation night north
number office oil old opera order paper paris party people per plan play police port power press price prize profit
public quarter question rail rain rate record report rise river road rule school season second secretary sell senate
share ship shop signal snow south spring state station stock storm street strike summer sunday talks tax team theatre
third time tonight trade train travel treaty trial union value victory village visit vote wage war water week west
wind winter woman work world year young
"""
WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """What documents look like. `attributes` is the probability of an optional attribute, `text_words_max` bounds one
    run of text, `repeats_max` how often a repeated part is drawn before the size asks for more."""

    bytes_target: int = 30_000
    depth_max: int = 10
    repeats_max: int = 4
    attributes: float = 0.25
    text_words_max: int = 8

    def __post_init__(self) -> None:
        if self.bytes_target < 1 or self.depth_max < 1 or self.repeats_max < 1 or self.text_words_max < 1:
            raise ValueError("bytes_target, depth_max, repeats_max and text_words_max are at least 1")
        if not 0 <= self.attributes <= 1:
            raise ValueError("attributes is a probability, from 0 to 1")


def generate_documents(
    schema: Schema, count: int, settings: DocumentSettings | None = None, *, seed: int = 0, start: int = 0
) -> Iterator[bytes]:
    """Documents number `start`, `start` + 1, … of this schema, settings and seed; each is the same however many are
    asked for."""
    writer = _Writer(schema, settings or DocumentSettings(), seed)
    for number in range(start, start + count):
        yield writer.write(number)


class _Writer:
    """Writes one document after another. The schema is compiled into closures once: a part of a content model becomes
    a function (depth, share) that appends text to `out` and returns the bytes written."""

    def __init__(self, schema: Schema, settings: DocumentSettings, seed: int) -> None:
        self.schema = schema
        self.settings = settings
        self.seed = seed
        self.random = Random()
        self.heights = schema.heights()
        self.elements: dict[str, Callable[[int, int], int]] = {}
        self.out: list[str] = []
        self.ids = 0
        self.references: list[int] = []
        self.runs = self.text_runs()
        for name in schema.elements:
            self.elements[name] = self.compile_element(name)
        self.share = settings.bytes_target
        self.share = self.calibrated_share()

    def calibrated_share(self) -> int:
        """What to hand to the root element so that documents come out near the target on average: optional parts that
        are left out at the end lose their share, and how much that is depends on the schema."""
        target = self.settings.bytes_target
        mean = sum(len(self.write(-number)) for number in range(1, 1 + CALIBRATION_DOCUMENTS)) / CALIBRATION_DOCUMENTS
        return int(target * min(2.0, max(0.5, target / mean)))

    def write(self, number: int) -> bytes:
        self.random.seed(f"{self.seed}/{number}")
        self.ids = 0
        self.references.clear()
        self.out.clear()
        self.out.append('<?xml version="1.0" encoding="UTF-8"?>\n')
        self.elements[self.schema.root](1, self.share)
        for place in self.references:
            self.out[place] = f"i{1 + int(self.random.random() * self.ids) if self.ids else 0}"
        self.out.append("\n")
        return "".join(self.out).encode()

    def text_runs(self) -> list[str]:
        """Text is drawn from a fixed stock of runs: as varied as matching can notice, and ten times faster."""
        random = Random(f"{self.seed}/text")
        runs = []
        for _ in range(2000):
            words = random.choices(WORDS, k=random.randint(1, self.settings.text_words_max))
            if random.random() < 0.1:
                words.append(random.choice(("1,234.50", "&amp;", "&lt;5", "caf\u00e9", "&#8364;20", "\u2014", "1999")))
            runs.append(" ".join(words))
        return runs

    def compile_element(self, name: str) -> Callable[[int, int], int]:
        element = self.schema.elements[name]
        random, out = self.random.random, self.out
        attributes = self.compile_attributes(name)
        fixed = 2 * len(name) + 5
        body = self.compile_mixed(name) if element.content in ("mixed", "any") else self.compile(element.model)
        spaced = element.content == "children"
        depth_max, runs = self.settings.depth_max, self.runs
        text_only = element.content == "mixed" and element.model is None

        def write(depth: int, share: int) -> int:
            used = fixed
            out.append(f"<{name}")
            if attributes is not None:
                used += attributes()
            if text_only:
                run = runs[int(random() * len(runs))]
                out.append(f">{run}</{name}>")
                return used + len(run)
            if body is None:
                out.append("/>")
                return used
            out.append(">\n" if spaced else ">")
            used += body(depth, share - used if depth < depth_max else 0)
            out.append(f"</{name}>")
            return used

        return write

    def compile_attributes(self, name: str) -> Callable[[], int] | None:
        attributes = [
            (f' {a.name}="', a.kind, a.values, a.required, None if a.fixed is None else escape(a.fixed))
            for a in self.schema.elements[name].attributes
            if a.required or a.kind not in ("ENTITY", "ENTITIES")
        ]
        if not attributes:
            return None
        random, out = self.random.random, self.out
        chance = self.settings.attributes

        def write() -> int:
            used = 0
            for before, kind, values, required, fixed in attributes:
                if not required and random() >= chance:
                    continue
                out.append(before)
                if fixed is not None:
                    value = fixed
                elif values:
                    value = values[int(random() * len(values))]
                elif kind == "ID":
                    self.ids += 1
                    value = f"i{self.ids}"
                elif kind in ("IDREF", "IDREFS"):
                    value = "i0"
                    self.references.append(len(out))
                elif random() < 0.5:
                    value = WORDS[int(random() * len(WORDS))]
                else:
                    value = str(int(random() * 100))
                out.append(value)
                out.append('"')
                used += len(before) + len(value) + 1
            return used

        return write

    def compile_mixed(self, name: str) -> Callable[[int, int], int]:
        """Text and children in turn. Leaves and children that grow are drawn alike, as they stand in the model."""
        random, out, runs = self.random.random, self.out, self.runs
        children = self.schema.children(name)
        depth_max, repeats_max, elements = self.settings.depth_max, self.settings.repeats_max, self.elements
        fitting = [[child for child in children if self.heights[child] < levels] for levels in range(depth_max + 1)]

        def write(depth: int, share: int) -> int:
            run = runs[int(random() * len(runs))]
            out.append(run)
            used = len(run)
            names = fitting[max(0, depth_max - depth)]
            if not names:
                return used
            turns = 0
            planned = int(random() * (repeats_max + 1))
            while share - used > SHARE_BYTES_MIN and (turns < planned or (share - used) * 8 > share):
                part = (share - used) // max(1, planned - turns)
                used += elements[names[int(random() * len(names))]](depth + 1, part)
                if random() < 0.5:
                    run = runs[int(random() * len(runs))]
                    out.append(run)
                    used += len(run)
                turns += 1
            return used

        return write

    def compile(self, particle: Particle | None) -> Callable[[int, int], int] | None:
        """A part of a content model; `depth` is that of the element it belongs to."""
        if particle is None:
            return None
        once = self.compile_name(particle) if isinstance(particle, Name) else self.compile_group(particle)
        if particle.occurs == "":
            return once
        random, depth_max, repeats_max = self.random.random, self.settings.depth_max, self.settings.repeats_max
        least = 1 if particle.occurs == "+" else 0
        single = Name(particle.name) if isinstance(particle, Name) else Group(particle.kind, particle.items)
        height = particle_height(single, self.heights)

        def optional(depth: int, share: int) -> int:
            if share < SHARE_BYTES_MIN or depth + height > depth_max or random() < 0.4:
                return 0
            return once(depth, share)

        def repeated(depth: int, share: int) -> int:
            used = turns = empty = 0
            if depth + height > depth_max:
                share = 0
            planned = least + int(random() * repeats_max)
            while turns < least or (share - used > SHARE_BYTES_MIN and (turns < planned or (share - used) * 8 > share)):
                wrote = once(depth, (share - used) // max(1, planned - turns))
                used += wrote
                turns += 1
                empty = empty + 1 if wrote == 0 else 0
                if empty == EMPTY_TURNS_MAX:
                    break
            return used

        return optional if particle.occurs == "?" else repeated

    def compile_name(self, particle: Name) -> Callable[[int, int], int]:
        elements, out, name = self.elements, self.out, particle.name

        def write(depth: int, share: int) -> int:
            used = elements[name](depth + 1, share) + 1
            out.append("\n")
            return used

        return write

    def compile_group(self, group: Group) -> Callable[[int, int], int]:
        parts = [part for item in group.items if (part := self.compile(item)) is not None]
        weights = [self.weight(item) for item in group.items]
        if group.kind == "sequence":
            after = [sum(weights[place:]) for place in range(len(weights))]

            def write_all(depth: int, share: int) -> int:
                used = 0
                for part, weight, rest in zip(parts, weights, after, strict=True):
                    used += part(depth, max(0, share - used) * weight // rest)
                return used

            return write_all

        random, depth_max = self.random.random, self.settings.depth_max
        heights = [particle_height(item, self.heights) for item in group.items]
        lowest = min(heights)
        fitting = [
            [part for part, height in zip(parts, heights, strict=True) if height <= max(levels, lowest)]
            for levels in range(depth_max + 1)
        ]
        shortest = [part for part, height in zip(parts, heights, strict=True) if height == lowest]

        def write_one(depth: int, share: int) -> int:
            choice = fitting[max(0, depth_max - depth)] if share >= SHARE_BYTES_MIN else shortest
            return choice[int(random() * len(choice))](depth, share)

        return write_one

    def weight(self, particle: Particle) -> int:
        """How large a share a part of a sequence gets: those that repeat or have children can use more."""
        if isinstance(particle, Group):
            weight = max(self.weight(item) for item in particle.items)
        else:
            weight = 4 if self.schema.children(particle.name) else 1
        return weight * 3 if particle.occurs in ("*", "+") else weight


def escape(value: str) -> str:
    """An attribute value as a DTD quotes it, made safe for double quotes; its references are kept."""
    return value.replace('"', "&quot;").replace("<", "&lt;")
