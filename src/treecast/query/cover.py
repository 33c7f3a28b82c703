"""Covering: is every document that one query matches also matched by another? For routing, aggregation and merging.

    >>> import treecast
    >>> treecast.parse("//b[@c > 1]").covers(treecast.parse("/a/b[@c = 3][d]"))
    True
    >>> treecast.parse("/a/b").covers(treecast.parse("//b"))
    False

Theory of operation. The covered query is read as a Case (treecast.query.cases): a tree of what each matching document
holds. The covering query is evaluated over that tree as over a document, and only what is certain counts: a child step
goes along an edge of one level, `//` along any edges downwards, a name test needs that name to be known, a comparison
has to follow from the known tests of the value. If it holds there, it holds in every document of the case: this is the
homomorphism of Miklau and Suciu (Containment and Equivalence for a Fragment of XPath, 2004). They show that queries of
`/ // []` and of `/ * []` have one whenever one contains the other. Otherwise the case is split: its `or`s, its unions,
the length of a gap where the covering query has wildcards to fill it. All alternatives have to be covered; a case that
no document fits is covered by anything. `not(x)` holds where assuming x as well leaves no document.

The answer True is always right. False may mean that nobody knows: docs/guide/covering.md says when. An evaluation takes
time polynomial in both queries, and no more than CASES_MAX cases are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from treecast.query.cases import DOCUMENT, Case, counts, normal
from treecast.query.tree import (
    And,
    Compare,
    Condition,
    Contains,
    Exists,
    Last,
    Not,
    Or,
    Path,
    Position,
    StartsWith,
    Step,
)
from treecast.query.values import Test, implies, impossible

CASES_MAX = 256  # beyond the one that each path of the covered query needs
GAPS_MAX = 3  # how often one gap is made longer
DENIALS_MAX = 3  # how deep not() is reasoned about inside not()


def covers(covering: tuple[Path, ...], covered: tuple[Path, ...]) -> bool:
    """Whether it is certain that what matches the union `covered` matches the union `covering`."""
    search = _Search(normal(covering), CASES_MAX + len(covered))
    return all(search.prove(Case.of(path)) for path in normal(covered))


class _Search:
    """The covering query, and how many cases may still be looked at."""

    def __init__(self, goal: tuple[Path, ...], cases_left: int) -> None:
        self.goal = goal
        self.cases_left = cases_left
        self.gaps_max = min(GAPS_MAX, max(_wildcards(path) for path in goal))

    def prove(self, case: Case) -> bool:
        """Whether the goal holds in every document of the case."""
        return self._settle(case, self.goal, self.gaps_max, 0)

    def refute(self, case: Case, depth: int) -> bool:
        """Whether no document fits the case."""
        return depth <= DENIALS_MAX and self._settle(case, (), 0, depth)

    def _settle(self, case: Case, goal: tuple[Path, ...], gaps_max: int, depth: int) -> bool:
        pending = [case]
        while pending:
            case = pending.pop()
            self.cases_left -= 1
            if self.cases_left < 0:
                return False
            if case.dead:
                continue
            judge = _Judge(self, case, depth)
            if judge.contradicts() or any(judge.walk(path, DOCUMENT) for path in goal):
                continue
            alternatives = case.split(gaps_max)
            if alternatives is None:
                return False
            pending += alternatives
        return True


class _Judge:
    """Evaluates conditions over one case: True is certain, False may be unknown."""

    def __init__(self, search: _Search, case: Case, depth: int) -> None:
        self.search = search
        self.case = case
        self.depth = depth
        self.entries = case.entries
        self.children: list[list[int]] = [[] for _ in self.entries]
        self.below: list[list[int]] = [[] for _ in self.entries]
        for at in case.live():
            above = self.entries[at].parent
            if above >= 0 and not self.entries[at].gap:
                self.children[above].append(at)
            while above >= 0:
                self.below[above].append(at)
                above = self.entries[above].parent
        self.known: dict[tuple[int, int], bool] = {}  # (condition, entry) -> whether it holds there

    def contradicts(self) -> bool:
        """Whether no document can be like this."""
        live = [(at, self.entries[at]) for at in self.case.live()]
        if any(impossible(entry.tests) for _, entry in live):
            return True
        return any(self.holds(condition, at) for at, entry in live for condition in entry.denied)

    def holds(self, condition: Condition, at: int) -> bool:
        key = (id(condition), at)  # conditions live as long as the search
        if key not in self.known:
            self.known[key] = condition in self.entries[at].granted or self._holds(condition, at)
        return self.known[key]

    def _holds(self, condition: Condition, at: int) -> bool:
        match condition:
            case And(operands):
                return all(self.holds(operand, at) for operand in operands)
            case Or(operands):
                return any(self.holds(operand, at) for operand in operands)
            case Exists(paths):
                return any(self.walk(path, at) for path in paths)
            case Compare(paths, relation, value):
                return any(self._passes(found, (relation, value)) for path in paths for found in self.walk(path, at))
            case Contains(path, text):
                return self._first_passes(at, path, ("contains", text))
            case StartsWith(path, text):
                return self._first_passes(at, path, ("starts-with", text))
            case Not(operand):
                if operand in self.entries[at].denied:
                    return True
                supposed = self.case.copy()
                supposed.assume(at, operand)
                return self.search.refute(supposed, self.depth + 1)
            case Position(relation, number):
                return relation == "<=" if number is None else _always(relation, number)
            case Last(relation, number):
                return _always(relation, number)
        raise AssertionError(condition)

    def _passes(self, at: int, test: Test) -> bool:
        if implies(self.entries[at].tests, test):
            return True
        if test[0] != "contains" or self.entries[at].kind != "element":
            return False
        # The text of an element holds that of everything below it.
        inner = (self.entries[below] for below in self.below[at])
        return any(entry.kind != "attribute" and implies(entry.tests, test) for entry in inner)

    def _first_passes(self, at: int, path: Path, test: Test) -> bool:
        """Whether the first thing that the path selects passes the test; of several, nobody knows the first."""
        if not test[1]:
            return True
        known = (
            ("contains" if isinstance(first, Contains) else "starts-with", first.text)
            for first in self.entries[at].granted
            if isinstance(first, Contains | StartsWith) and first.path == path
        )
        if implies(tuple(known), test):
            return True
        return _selects_one(path) and any(self._passes(found, test) for found in self.walk(path, at))

    def walk(self, path: Path, at: int) -> set[int]:
        """The entries that the path is certain to select from `at`."""
        reached = {DOCUMENT if path.absolute else at}
        for step in path.steps:
            reached = {found for context in reached for found in self._step(step, context)}
        return reached

    def _step(self, step: Step, context: int) -> Iterator[int]:
        for at in self._candidates(step, context):
            entry = self.entries[at]
            named = (step.uri is None or step.uri == entry.uri) and (step.local is None or step.local == entry.local)
            if entry.kind == step.kind and named and all(self.holds(predicate, at) for predicate in step.predicates):
                yield at
        if any(counts(predicate) for predicate in step.predicates):
            yield from self._counted(step, context)

    def _candidates(self, step: Step, context: int) -> list[int]:
        if step.axis == "descendant-or-self" or (step.axis == "self" and step.gap):
            return [context, *self.below[context]]
        if step.axis == "self":
            return [context]
        return self.below[context] if step.gap or step.axis == "descendant" else self.children[context]

    def _counted(self, step: Step, context: int) -> Iterator[int]:
        """What a step with positions selects: known where the case has the same step, as far as it counts."""
        counting = 1 + max(i for i, predicate in enumerate(step.predicates) if counts(predicate))
        for at in self.case.live():
            for start, origin in self.entries[at].origins:
                same = (
                    self.case.find(start) == context
                    and origin.predicates[:counting] == step.predicates[:counting]
                    and (origin.axis, origin.gap, origin.kind) == (step.axis, step.gap, step.kind)
                    and (origin.uri, origin.local) == (step.uri, step.local)
                )
                if same and all(self.holds(predicate, at) for predicate in step.predicates[counting:]):
                    yield at


def _always(relation: str, number: float) -> bool:
    """Whether every number from 1 on stands in the relation."""
    match relation:
        case ">=":
            return number <= 1
        case ">":
            return number < 1
        case "!=":
            return number < 1 or not number.is_integer()
        case _:
            return False


def _selects_one(path: Path) -> bool:
    """Whether the path never selects more than one thing."""
    for place, step in enumerate(path.steps):
        attribute = step.axis == "attribute" and step.uri is not None and step.local is not None
        root = path.absolute and place == 0 and step.axis == "child"
        if step.gap or not (attribute or root or step.axis == "self"):
            return False
    return True


def _wildcards(path: Path) -> int:
    """The most element steps without a full name that follow each other, in the path or in a predicate of it."""
    most = run = 0
    for step in path.steps:
        run = run + 1 if step.kind == "element" and None in (step.uri, step.local) else 0
        most = max([most, run, *(_wildcards(inner) for predicate in step.predicates for inner in _paths(predicate))])
    return most


def _paths(condition: Condition) -> Iterator[Path]:
    match condition:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _paths(operand)
        case Not(operand):
            yield from _paths(operand)
        case Exists(paths) | Compare(paths):
            yield from paths
        case Contains(path) | StartsWith(path):
            yield path
        case _:
            return
