"""What a seed draws for a network of selective publishing: levels of brokers, a document, wants and rights."""

from __future__ import annotations

from random import Random

import msgspec

from treecast.overlay.selective.settings import SelectiveSettings
from treecast.selective.forwarding import MergeSettings
from treecast.selective.outline import Outline
from treecast.selective.subtrees import Subtree, Subtrees, elements_of

SOURCE = "source"


class SelectivePlan(msgspec.Struct, frozen=True):
    """All that happens, apart from faults."""

    levels: list[list[str]]
    """Brokers by rank, from 1."""
    subscribers: list[str]
    parents: list[int]
    rights: dict[str, list[int]]
    """The elements that each subscriber may see."""
    wants: list[tuple[int, str, list[Subtree]]]
    """(time, subscriber, subtrees): they take the place of those before."""
    publications: list[tuple[int, list[int]]]
    """(time, elements that change)."""
    joins: dict[str, int]
    """Brokers that start later, and when."""
    duration_ms: int
    settings: SelectiveSettings

    def brokers(self) -> list[str]:
        return [name for level in self.levels for name in level]


def draw_plan(seed: int) -> SelectivePlan:
    random = Random(f"{seed}/selective")
    count = random.randint(1, 4)
    levels = [[f"b{rank}-{n}" for n in range(random.randint(1, 2) + min(rank, 2))] for rank in range(1, count + 1)]
    duration_ms = random.choice([6_000, 12_000])
    parents = _draw_parents(random, random.choice([3, 12, 40]))
    outline = Outline(parents)
    subscribers = [f"s{number}" for number in range(random.randint(1, 6))]
    rights = {name: _draw_rights(random, outline) for name in subscribers}
    wants = []
    for name in subscribers:
        times = [0, *(random.randrange(duration_ms) for _ in range(random.choice([0, 1, 3])))]
        wants += [(time_ms, name, _draw_wants(random, outline, set(rights[name]))) for time_ms in times]
    publications = [
        (random.randrange(duration_ms), random.sample(range(len(parents)), random.randint(1, min(3, len(parents)))))
        for _ in range(random.choice([3, 20]))
    ]
    late = [name for level in levels for name in level[1:] if random.random() < 0.25]
    settings = SelectiveSettings(
        presence_ms=random.choice([200, 500]),
        failure_ms=random.choice([1_000, 2_000]),
        lease_ms=random.choice([3_000, 6_000]),
        inquiry_ms=random.choice([100, 400]),
        refresh_ms=random.choice([300, 1_000]),
        update_ms=random.choice([200, 500]),
        merge_ms=random.choice([500, 3_000]),
        merge=MergeSettings(random.choice([2, 3, 5]), random.choice([0.02, 0.2, 1.0])),
        propagation=random.choice(["first-fit", "best-fit"]),
    )
    return SelectivePlan(
        levels,
        subscribers,
        parents,
        rights,
        sorted(wants, key=lambda want: want[:2]),
        sorted(publications),
        {name: random.randrange(duration_ms) for name in late},
        duration_ms,
        settings,
    )


def _draw_parents(random: Random, size: int) -> list[int]:
    """A tree in document order: an element is put below one that is still open."""
    parents, path = [-1], [0]
    depth = random.choice([1, 2, 5, size])
    for number in range(1, size):
        del path[random.randint(1, min(len(path), depth)) :]
        parents.append(path[-1])
        path.append(number)
    return parents


def _draw_rights(random: Random, outline: Outline) -> list[int]:
    """All of the document, or all without some subtrees."""
    hidden_ids: set[int] = set()
    for _ in range(random.choice([0, 0, 1, 2])):
        hidden_ids.update(outline.subtree(random.choice(list(outline))))
    return [id for id in outline if id not in hidden_ids]


def _draw_wants(random: Random, outline: Outline, rights: set[int]) -> list[Subtree]:
    """Some subtrees. What may not be seen is mostly excluded, as it should be; where it is not, it is refused."""
    parts = []
    for _ in range(random.randint(1, 3)):
        root = random.choice(list(outline))
        inside = list(outline.subtree(root))
        without = [random.choice(inside[1:])] if len(inside) > 1 and random.random() < 0.3 else []
        if random.random() < 0.8:
            without += [id for id in inside if id not in rights]
        parts.append(Subtree(root, tuple(without)))
    return list(Subtrees.of(parts, outline).parts)


def visible_elements(parts: list[Subtree], rights: set[int], outline: Outline) -> set[int]:
    """The elements that a subscriber is to get: of the parts that lie within its rights."""
    allowed_parts = [part for part in parts if is_allowed(part, rights, outline)]
    return {id for part in allowed_parts for id in elements_of(part, outline)}


def is_allowed(part: Subtree, rights: set[int], outline: Outline) -> bool:
    return all(id in rights for id in elements_of(part, outline))
