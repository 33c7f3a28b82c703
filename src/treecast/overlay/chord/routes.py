"""Queries as paths through the distributed NFA: their keys, and how tree patterns are split and joined again.

A *route* is the list of labels that leads to the accepting state of a path. A label is a name with its namespace spelt
out, `*` for any name, or `$` for the ε-move of `//`. The key of a state is all labels that lead to it, each behind a
slash; braces and stars within namespaces are escaped, so different states have different keys.

    >>> plan = plan_query(parse("/a//p:b", namespaces={"p": "urn:x"}))
    >>> plan.parts[0].route
    ('{}a', '$', '{urn:x}b')
    >>> keys_of(plan.parts[0].route)
    ['', '/{}a', '/{}a/$', '/{}a/$/{urn:x}b']

A query without predicates is decided by reaching its accepting state. One with predicates is looked at again when its
path has been matched (section 5.3), by the engine that decides all queries. A tree pattern, whose predicates are
nothing but paths, is split into paths from the root, which are matched one by one; the subscriber's host joins them:

    >>> [part.route for part in plan_query(parse("/a[b/c]/d")).parts]
    [('{}a', '{}d'), ('{}a', '{}b', '{}c')]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treecast.query import Query, Transformation, parse
from treecast.query.tree import And, Condition, Exists, Path, Step

EPSILON = "$"
ANY = "*"
PARTS_MAX = 16
"""Parts of one pattern. A larger one is not split, and looked at again when its main path has been matched."""

__all__ = ["Part", "Plan", "join", "keys_of", "labels_of_name", "parse", "plan_query"]

Name = tuple[str, str]
Route = tuple[str, ...]


def label_of(uri: str | None, local: str | None) -> str:
    """None stands for any."""
    if uri is None and local is None:
        return ANY
    space = "*" if uri is None else uri.translate(_ESCAPES)
    return f"{{{space}}}{ANY if local is None else local}"


_ESCAPES = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D", "*": "%2A"})


def labels_of_name(name: Name) -> tuple[str, str, str, str]:
    """The labels that an element of this name can follow."""
    uri, local = name
    return label_of(uri, local), label_of(uri, None), label_of(None, local), ANY


def keys_of(route: Sequence[str]) -> list[str]:
    """The keys of all states on a route, the start state first."""
    keys = [""]
    for label in route:
        keys.append(f"{keys[-1]}/{label}")
    return keys


@dataclass(frozen=True)
class PathStep:
    """A step of a path without predicates: `//` stands before it, or `/`."""

    descendant: bool
    label: str


@dataclass(frozen=True)
class Part:
    """One path of a plan, from the root. `parent` is the part that it hangs on, at the step `branch` of both."""

    steps: tuple[PathStep, ...]
    parent: int | None = None
    branch: int = 0

    @property
    def route(self) -> Route:
        return tuple(label for step in self.steps for label in ([EPSILON] if step.descendant else []) + [step.label])


@dataclass(frozen=True)
class Plan:
    """How a query is filtered. `groups` are the alternatives of its union: parts that have to be joined.

    `needs_check`: reaching the accepting states is necessary for a match, and not sufficient.
    """

    parts: tuple[Part, ...]
    groups: tuple[tuple[int, ...], ...]
    needs_check: bool


def plan_query(query: Query | Transformation, ordered: bool = False) -> Plan:
    """The paths of a query. An ordered pattern is looked at again: a join knows nothing of order."""
    tree = query.matching.tree
    plain = [_split(path) for path in tree] if not ordered else []
    parts: list[Part] = []
    groups = []
    if plain and all(each is not None and len(each) <= PARTS_MAX for each in plain):
        for each in plain:
            assert each is not None
            first = len(parts)
            groups.append(tuple(range(first, first + len(each))))
            parts += [
                Part(part.steps, None if part.parent is None else part.parent + first, part.branch) for part in each
            ]
        return Plan(tuple(parts), tuple(groups), needs_check=False)
    for path in tree:
        groups.append((len(parts),))
        parts.append(Part(tuple(_skeleton(path))))
    return Plan(tuple(parts), tuple(groups), needs_check=True)


def _skeleton(path: Path) -> Iterator[PathStep]:
    """The longest beginning of a path that the NFA can follow, without its predicates."""
    for step in path.steps:
        if step.kind != "element" or step.axis not in ("child", "descendant"):
            return
        yield _path_step(step)


def _path_step(step: Step) -> PathStep:
    return PathStep(step.gap or step.axis == "descendant", label_of(step.uri, step.local))


def _split(path: Path) -> list[Part] | None:
    """The parts of a pattern, each behind the one it hangs on; None if it is more than a pattern of paths."""
    parts: list[Part] = []
    return parts if _split_path(path, (), None, parts) else None


def _split_path(path: Path, steps_above: tuple[PathStep, ...], parent: int | None, parts: list[Part]) -> bool:
    if not path.steps or (path.absolute and parent is not None) or path.variable is not None:
        return False
    if any(step.kind != "element" or step.axis != "child" for step in path.steps):
        return False
    number = len(parts)
    steps = steps_above + tuple(map(_path_step, path.steps))
    parts.append(Part(steps, parent, max(len(steps_above) - 1, 0)))
    for place, step in enumerate(path.steps, start=len(steps_above)):
        for condition in step.predicates:
            if not _split_condition(condition, steps[: place + 1], number, parts):
                return False
    return True


def _split_condition(condition: Condition, steps_above: tuple[PathStep, ...], parent: int, parts: list[Part]) -> bool:
    if isinstance(condition, And):
        return all(_split_condition(operand, steps_above, parent, parts) for operand in condition.operands)
    if not isinstance(condition, Exists) or len(condition.paths) != 1:
        return False
    return _split_path(condition.paths[0], steps_above, parent, parts)


# --- joining ----------------------------------------------------------------------------------------------------------

ChainElement = tuple[int, Name]
"""Of an element on the way from the root: where its start tag is (L), and its name."""
Chain = tuple[ChainElement, ...]


def join(parts: Sequence[Part], group: Sequence[int], chains: dict[int, list[Chain]]) -> bool:
    """Whether the paths that were matched, each with the elements that lead to it, fit together (as in YFilter, 3.4).

    Walking backward, nested parts are known before what they hang on. For each step of a path the depths are kept at
    which it can be; so all assignments are considered without being enumerated.
    """
    elements: dict[int, set[int]] = {}
    for number in reversed(group):
        part = parts[number]
        nested = [(parts[other].branch, elements[other]) for other in group if parts[other].parent == number]
        ends: set[int] = set()
        for chain in chains.get(number, ()):
            depths = _branch_depths(part, chain, nested)
            ends.update(chain[depth][0] for depth in depths)
        if not ends:
            return False
        elements[number] = ends
    return True


def _branch_depths(part: Part, chain: Chain, nested: Sequence[tuple[int, set[int]]]) -> list[int]:
    """Where the step that a nested part hangs on can be; for a main part, where its first step can."""

    def suits(step: int, depth: int) -> bool:
        left, name = chain[depth]
        return part.steps[step].label in labels_of_name(name) and all(
            left in elements for place, elements in nested if place == step
        )

    step, last = len(part.steps) - 1, len(chain) - 1
    depths = [last] if suits(step, last) else []
    end = 0 if part.parent is None else part.branch
    while depths and step > end:
        if part.steps[step].descendant:
            depths = [depth for depth in range(depths[-1]) if suits(step - 1, depth)]
        else:
            depths = [depth - 1 for depth in depths if depth and suits(step - 1, depth - 1)]
        step -= 1
    if part.parent is None and not part.steps[0].descendant:
        return [depth for depth in depths if depth == 0]
    return depths
