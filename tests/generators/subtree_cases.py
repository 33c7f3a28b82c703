"""Trees of all shapes for selective publishing, and documents with something to hide."""

from __future__ import annotations

from random import Random

from treecast.selective.outline import Outline
from treecast.selective.subtrees import Subtree

PAPER = [-1, 0, 1, 1, 3, 3, 1, 0, 7, 7, 7, 0, 11, 11, 11, 14, 14, 11]
"""The parents of 18{6{1,4{2,3},5},10{7,8,9},17{11,12,15{13,14},16}}, a tree that fits the paper's Figure 2."""


def parents(random: Random, size: int) -> list[int]:
    """A tree in document order: a chain, a star, single children with a bush here and there, or anything."""
    shape = random.choice(["chain", "star", "any", "any", "deep", "wide"])
    above = [-1]
    for number in range(1, size):
        if shape == "chain":
            above.append(number - 1)
        elif shape == "star":
            above.append(0)
        elif shape == "deep":
            above.append(random.choice([number - 1, number - 1, number - 1, random.randrange(number)]))
        elif shape == "wide":
            above.append(random.randrange(min(number, 4)))
        else:
            above.append(random.randrange(number))
    return in_document_order(above)


def in_document_order(above: list[int]) -> list[int]:
    """The same tree with its elements numbered in document order."""
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(above):
        children.setdefault(parent, []).append(number)
    parents: list[int] = []
    waiting = [(0, -1)]
    while waiting:
        number, parent = waiting.pop()
        place = len(parents)
        parents.append(parent)
        waiting.extend((child, place) for child in reversed(children.get(number, [])))
    return parents


def part(random: Random, outline: Outline, exclusions_max: int = 3) -> Subtree:
    """A subtree without some inside it."""
    root = random.choice(list(outline))
    inside = list(outline.subtree(root))
    return Subtree(root, tuple(random.choice(inside) for _ in range(random.randint(0, exclusions_max))))


def meaning(parts: list[Subtree], outline: Outline) -> set[int]:
    """The elements of parts, by brute force."""
    result: set[int] = set()
    for one in parts:
        inside = set(outline.subtree(one.root))
        for id in one.without:
            inside -= set(outline.subtree(id))
        result |= inside
    return result
