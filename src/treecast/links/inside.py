"""The steps of a list that starts somewhere (`from F …`) as steps on the whole document, so that they can come early.

Theory of operation. The list takes out each element that F selects as a separate tree; `/x/y` and `//y` in a step
start at that tree. On the document the same elements are F/self::x/y, and F//y with F/self::y. Doing the step there
and taking the trees out afterwards gives the same, if

1. no binding lies inside another: then a step for one tree is a step for no other. F has child steps only, of one
   length;
2. every binding stays what F selects: no step drops or renames its root (an unwrapped root stays anyway), and what
   the predicates of F read is out of the reach of the steps: elements and attributes, over children, of other names
   than the steps drop, rename or give. An `unwrap` brings content up, so then attributes only;
3. no tree becomes empty: it would still be delivered, empty, whereas an element that is gone is not selected. So
   `keep` ends the series.

A prefixed name ends it too: which prefix it gets depends on those that are used round it. Source: ONYX, section
4.2.2, early restructuring, which gives no steps; these are ours.

    >>> import treecast
    >>> from treecast.query.writer import Writer
    >>> steps = treecast.parse("from /news/item drop //ad, /item/@id; keep //p").tree
    >>> series, reason = inside(steps)
    >>> [Writer().change(change) for change in series]
    ['drop /news/item//ad | /news/item/self::item/@id']
    >>> reason
    'keeps parts of its trees, of which one may become empty'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from treecast.links.needs import UnsharedError
from treecast.links.reading import looks_outside, may_be, reads
from treecast.query.shapes import Change, StepList
from treecast.query.tree import Condition, Path, is_positional

PATHS_MAX = 64  # of one step on the whole document


def inside(steps: StepList) -> tuple[tuple[Change, ...], str]:
    """As many of the first steps as can be done on the whole document, and why not the next one ("": all can)."""
    changes: list[Change] = []
    try:
        for change in steps.changes:
            changes.append(_move_change(change, _start(steps)))
    except UnsharedError as reason:
        return tuple(changes), str(reason)
    return tuple(changes), ""


def _start(steps: StepList) -> tuple[Path, ...]:
    start = steps.start or ()
    if any(step.gap or step.axis != "child" for path in start for step in path.steps):
        raise UnsharedError("starts from elements that may lie inside each other")
    if len({len(path.steps) for path in start}) > 1:
        raise UnsharedError("starts from elements at different depths, which may lie inside each other")
    return start


def _move_change(change: Change, start: tuple[Path, ...]) -> Change:
    if change.kind == "keep":
        raise UnsharedError("keeps parts of its trees, of which one may become empty")
    if change.name and change.name.prefix:
        raise UnsharedError("gives a name with a prefix, which depends on the prefixes round it")
    _check_untouched(tuple(predicate for path in start for step in path.steps for predicate in step.predicates), change)
    paths = tuple(new_path for path in change.paths for origin in start for new_path in _move(path, origin, change))
    if not paths:
        raise UnsharedError("has a step for the root of its trees, which nothing unwraps")
    if len(paths) > PATHS_MAX:
        raise UnsharedError(f"would need more than {PATHS_MAX} paths in one step")
    return replace(change, paths=paths)


def _check_untouched(conditions: tuple[Condition, ...], change: Change) -> None:
    """What the conditions read is out of the step's reach."""
    names = reads(conditions)
    if names is None or (change.kind == "unwrap" and names.elements):
        raise UnsharedError("starts from elements by conditions that its steps may change")
    names_by_kind = {"element": names.elements, "attribute": names.attributes, "text": frozenset()}
    new_names = [(change.name.uri, change.name.local)] if change.name else []
    for path in change.paths:
        last = path.steps[-1]
        if any(
            may_be(name, other) for name in ((last.uri, last.local), *new_names) for other in names_by_kind[last.kind]
        ):
            raise UnsharedError("starts from elements by conditions that its steps may change")


def _move(path: Path, origin: Path, change: Change) -> Iterator[Path]:
    """The path from the document, for the trees of one origin."""
    first, *rest = path.steps
    if looks_outside(tuple(step.predicates for step in path.steps)):
        raise UnsharedError("has a step with a condition that looks at its whole tree")
    if any(step.axis in ("self", "descendant-or-self") for step in rest):
        raise UnsharedError("has a step by axes that may lead back to the root of its trees")
    if first.axis == "self" or (first.gap and first.axis.startswith("descendant")):
        raise UnsharedError("has a step that begins in an unusual way")
    if first.kind != "element":
        yield replace(origin, steps=(*origin.steps, first))
        return
    root = origin.steps[-1]
    may_reach_root = may_be((first.uri, first.local), (root.uri, root.local))
    if may_reach_root and any(is_positional(predicate) for predicate in first.predicates):
        raise UnsharedError("counts positions that the root of its trees may have")
    if may_reach_root and not rest and change.kind != "unwrap":
        raise UnsharedError("has a step that may drop or rename the root of its trees")
    direct = first.axis == "child" and not first.gap
    if (direct or may_reach_root) and (rest or change.kind != "unwrap"):
        yield replace(origin, steps=(*origin.steps, replace(first, axis="self", gap=False), *rest))
    if not direct:
        below = first if first.axis == "child" else replace(first, axis="descendant")
        yield replace(origin, steps=(*origin.steps, below, *rest))
