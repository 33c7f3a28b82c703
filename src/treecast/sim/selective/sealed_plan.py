"""What a seed draws for sealed documents in a network: levels, a document that changes, members, revocations."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import msgspec

from treecast.overlay.selective.settings import SelectiveSettings
from treecast.sim.selective.selective_plan import draw_plan

PAPER = "paper"
GROUPS: dict[str, tuple[list[str], list[str]]] = {
    "all": (["/paper"], ["//secret"]),
    "news": (["//news"], ["//secret"]),
    "keep": (["//keep", "//sport"], []),
}
"""Include and exclude."""


class SealedPlan(msgspec.Struct, frozen=True):
    """All that happens, apart from faults."""

    levels: list[list[str]]
    members: dict[str, tuple[str, bool]]
    """The group of each, and whether it wants a subtree only."""
    publications: list[int]
    """When a version is published."""
    revocations: list[tuple[int, str]]
    joins: dict[str, int]
    size: int
    duration_ms: int
    settings: SelectiveSettings

    def brokers(self) -> list[str]:
        return [name for level in self.levels for name in level]


def draw_sealed(seed: int) -> SealedPlan:
    """Levels, joins and times are those of the plan without seals."""
    plan, random = draw_plan(seed), Random(f"{seed}/sealed")
    members = {
        f"m{number}": (random.choice(list(GROUPS)), random.random() < 0.3) for number in range(random.randint(1, 5))
    }
    revoked_members = [name for name in members if random.random() < 0.2]
    return SealedPlan(
        plan.levels,
        members,
        sorted(random.randrange(plan.duration_ms) for _ in range(random.choice([2, 10]))),
        sorted((random.randrange(plan.duration_ms), name) for name in revoked_members),
        plan.joins,
        random.choice([2, 6, 15]),
        plan.duration_ms,
        replace(plan.settings, changes_max=random.choice([1, 1_000]), verify_ms=3_000),
    )


class SealedText:
    """A document that changes: sections of items, some of them secret, and one that stays."""

    mark = b"plain text"
    """It is in every text of the document."""

    def __init__(self, random: Random, size: int) -> None:
        self._random = random
        self._count = 0
        self._sections = [[self._item() for _ in range(random.randint(0, 3))] for _ in range(size)]
        self._names = [random.choice(["news", "sport", "secret"]) for _ in range(size)]
        self._constant_words = self._words()

    def _words(self) -> str:
        self._count += 1
        return f"plain text {self._count}"

    def _item(self) -> str:
        name = self._random.choice(["item", "item", "secret"])
        return f"<{name}>{self._words()}</{name}>"

    def change(self) -> bool:
        """A new version; says whether elements came or went."""
        kind = self._random.choice(["text", "text", "kept", "insert", "remove", "section"])
        section = self._random.choice(self._sections)
        if kind == "kept":
            self._constant_words = self._words()
        elif kind == "section":
            if len(self._sections) > 3 and self._random.random() < 0.5:
                del self._sections[-1], self._names[-1]
            else:
                self._sections.append([self._item()])
                self._names.append(self._random.choice(["news", "sport", "secret"]))
        elif kind == "insert" or not section:
            section.insert(self._random.randint(0, len(section)), self._item())
        elif kind == "remove":
            del section[self._random.randrange(len(section))]
        else:
            section[self._random.randrange(len(section))] = self._item()
        return kind in ("insert", "remove", "section")

    def to_bytes(self) -> bytes:
        sections = zip(self._names, self._sections, strict=True)
        body = "".join(f"<{name}>{''.join(items)}</{name}>" for name, items in sections)
        return f"<paper><news><keep><part>{self._constant_words}</part></keep></news>{body}</paper>".encode()

    def keeps(self, fragment: bytes) -> list[bytes]:
        """The elements of a fragment that stay."""
        return re.findall(rb"<keep>.*?</keep>", fragment)
