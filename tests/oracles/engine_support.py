"""What each engine of the papers supports, decided from the syntax tree, independently of the engines.

`supported(engine, query)` decides in tests whether a query is to be accepted and matched, or refused with TC150.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import treecast
from treecast import engines
from treecast.query.tree import And, Call, Compare, Condition, Exists, Path, Position, Step

ENGINES = engines.names(variants=True)
PUBLISHED = [name for name in ENGINES if name not in ("auto", "lazydfa")]


@dataclass(frozen=True)
class Filters:
    """Paths of `/` and `//` with predicates on attributes, text and position, and perhaps with nested paths."""

    nested: bool

    def __call__(self, paths: tuple[Path, ...], ordered: bool) -> bool:
        return all(self._steps(path.steps, ordered) for path in paths)

    def _steps(self, steps: tuple[Step, ...], ordered: bool) -> bool:
        return all(self._value(step) if step.kind != "element" else self._element(step, ordered) for step in steps)

    def _element(self, step: Step, ordered: bool) -> bool:
        return step.axis == "child" and all(
            self._predicate(predicate, step, ordered, first=place == 0)
            for place, predicate in enumerate(step.predicates)
        )

    def _predicate(self, predicate: Condition, step: Step, ordered: bool, *, first: bool) -> bool:
        match predicate:
            case And(operands):
                return all(self._predicate(operand, step, ordered, first=first) for operand in operands)
            case Position(_, number):
                return number is not None and first and (step.uri is None) == (step.local is None)
            case Exists((Path(False, steps),)) | Compare((Path(False, steps),)):
                return self._path(steps, ordered)
            case _:
                return False

    def _path(self, steps: tuple[Step, ...], ordered: bool) -> bool:
        """A path in a predicate."""
        if not steps:
            return True
        branches = steps[0].kind == "element"
        if (branches and (ordered or not self.nested)) or (steps[-1].kind != "element" and steps[-1].gap):
            return False
        return self._steps(steps, ordered)

    @staticmethod
    def _value(step: Step) -> bool:
        """A final attribute or text(), with comparisons of its value."""

        def plain(condition: Condition) -> bool:
            match condition:
                case And(operands):
                    return all(plain(operand) for operand in operands)
                case Exists((Path(False, ()),)) | Compare((Path(False, ()),)):
                    return True
                case _:
                    return False

        return step.axis in ("child", "attribute") and all(plain(predicate) for predicate in step.predicates)


@dataclass(frozen=True)
class Trees:
    """Conjunctive tree patterns; with `single_path`, those whose steps have at most one child, or value."""

    single_path: bool

    def __call__(self, paths: tuple[Path, ...], ordered: bool) -> bool:
        if not any(step.predicates for path in paths for step in path.steps):
            return True  # the normal form of plain paths knows nothing but `/` and `//`
        return all(self._steps(path.steps) for path in paths)

    def _steps(self, steps: tuple[Step, ...], *, valued: bool = False) -> bool:
        return all(
            self._step(step, children=not last, values=last and valued)
            for step, last in zip(steps, [False] * (len(steps) - 1) + [True], strict=True)
        )

    def _step(self, step: Step, *, children: int, values: bool) -> bool:
        conditions = [self._asked(condition) for condition in step.predicates]
        if step.axis not in ("child", "descendant", "attribute") or None in conditions:
            return False
        for below, has_value in (part for parts in conditions for part in parts or ()):
            if not self._branches(below):
                values = values or has_value
            elif step.kind == "element" and self._steps(below, valued=has_value):
                children += 1
            else:
                return False
        return children <= 64 and not (self.single_path and children + values > 1)

    def _asked(self, condition: Condition) -> list[tuple[tuple[Step, ...], bool]] | None:
        """The paths that must lead somewhere, and whether to a value; None for what is no conjunction of such."""
        match condition:
            case And(operands):
                parts = [self._asked(operand) for operand in operands]
                return None if None in parts else [part for several in parts for part in several or ()]
            case Exists((Path(False, below),)):
                return [(below, False)]
            case Compare((Path(False, below),)):
                return [(below, True)]
            case Call(Path(False, below), text) if self._single(below):
                return [(below, True)] if text else []
        return None

    @staticmethod
    def _branches(steps: tuple[Step, ...]) -> bool:
        """Whether the path leads away from its element: not `.`, and no test of the element's own name."""
        own = len(steps) == 1 and steps[0].axis == "self" and not steps[0].gap and not steps[0].predicates
        return bool(steps) and not own

    @staticmethod
    def _single(steps: tuple[Step, ...]) -> bool:
        """`.` or one named attribute: what contains() looks at is then the only item."""
        if not steps:
            return True
        first = steps[0]
        has_name = first.uri is not None and first.local is not None
        return len(steps) == 1 and first.kind == "attribute" and not first.gap and has_name


SUPPORT: dict[str, Callable[[tuple[Path, ...], bool], bool]] = {
    "xfilter": Filters(nested=False),
    "hybrid": Filters(nested=False),
    "yfilter": Filters(nested=True),
    "yfilter-inline": Filters(nested=True),
    "xtrie": Trees(single_path=False),
    "xtrie-single-path": Trees(single_path=True),
}


def supported(engine: str, text: str, namespaces: Mapping[str, str] | None = None, *, ordered: bool = False) -> bool:
    """Whether the engine has to take the query, or to refuse it."""
    if engine not in PUBLISHED:
        return True
    return SUPPORT[engine](treecast.parse(text, namespaces=namespaces).matching.tree, ordered)


def check_refused(index: treecast.Index, text: str, namespaces: Mapping[str, str] | None, *, ordered: bool) -> None:
    """The query is refused, alone and among others, with its code and a hint, and nothing changes."""
    before = len(index)
    subscription = treecast.Subscription("refused", text, namespaces or {}, ordered)

    def alone() -> None:
        index.add("refused", text, namespaces=namespaces, ordered=ordered)

    def among_others() -> None:
        index.add_many([("welcome", "/a"), subscription])

    for attempt in (alone, among_others):
        try:
            attempt()
        except treecast.QueryError as error:
            assert error.code == "TC150", error
            assert "auto" in error.hint
        else:
            raise AssertionError(f"{text} was not refused by {index.engine}")
    assert len(index) == before
    assert "refused" not in index and "welcome" not in index
