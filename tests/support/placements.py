"""Shared by the tests of placements: every placement by name, and populations whose answers one index gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from generators.conditions import ConditionDrawer, draw_valued_document
from oracles.differential import Query

from support.rounds_conditions import condition_words
from treecast import Index, Subscription
from treecast.placement import DataSharing, FilterSharing, Hierarchical, Pep, Placement, RootTag

Maker = Callable[[int, Sequence[bytes]], Placement]
MAKERS: dict[str, Maker] = {
    "data-sharing": lambda shards, sample: DataSharing(shards),
    "filter-sharing": lambda shards, sample: FilterSharing(shards),
    "hierarchical": lambda shards, sample: Hierarchical(shards, documents=sample),
    "pep": lambda shards, sample: Pep(shards, documents=sample),
    "root-tag": lambda shards, sample: RootTag(shards, documents=sample),
}


def subscription(id: str, query: Query) -> Subscription:
    return Subscription(id, query.text, dict(query.namespaces), query.ordered)


def draw_population(random: Random, *, queries: int, documents: int) -> tuple[list[Subscription], list[bytes]]:
    """Queries of the whole language, in three namespaces, and documents that many of them match."""
    drawer = ConditionDrawer(random, condition_words(random, namespaces=True), depth_max=2)
    subscriptions = [subscription(f"q{number}", drawer.query()) for number in range(queries)]
    return subscriptions, [draw_valued_document(random, namespaces=True, elements_max=20) for _ in range(documents)]


def answers(subscriptions: Sequence[Subscription], documents: Sequence[bytes]) -> list[list[str]]:
    index = Index()
    index.add_many(subscriptions)
    return [index.match(document) for document in documents]


def drawn_paths(random: Random, roots: tuple[str, ...]) -> str:
    """A path below one of the roots, of few names."""
    steps = [random.choice(("/", "//")) + random.choice("abcdefgh") for _ in range(random.randint(1, 4))]
    return f"/{random.choice(roots)}{''.join(steps)}"
