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

The answer True is always right. False may mean that it is unknown: docs/guide/covering.md says when. No more than
CASES_MAX cases are looked at, and all of them together may take a number of steps that is linear in the two queries: an
entry looked at, copied or tested is about one step. What is not settled by then is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from treecast.query.cases import DOCUMENT, Budget, Case, OutOfStepsError, normalize
from treecast.query.functions import FUNCTIONS
from treecast.query.tree import (
    And,
    Call,
    Compare,
    Condition,
    Exists,
    Last,
    Not,
    Or,
    Path,
    Position,
    Step,
    Term,
    is_positional,
)
from treecast.query.values import Test, implies, is_impossible

CASES_MAX = 256  # beyond the one that each path of the covered query needs
GAPS_MAX = 3  # how often one gap is made longer
DENIALS_MAX = 3  # how deep not() is reasoned about inside not()
STEPS_MIN = 300_000  # for any two queries: a fraction of a second
STEPS_EACH = 16  # for each step and condition of either


def covers(covering: tuple[Path, ...], covered: tuple[Path, ...]) -> bool:
    """Whether it is certain that what matches the union `covered` matches the union `covering`."""
    budget = Budget(STEPS_MIN + STEPS_EACH * (_size(covering) + _size(covered)))
    search = _Search(normalize(covering), CASES_MAX + len(covered), budget)
    try:
        return all(search.prove(Case.of(path, budget)) for path in normalize(covered))
    except OutOfStepsError:
        return False


def matches_nothing(paths: tuple[Path, ...]) -> bool:
    """Whether it is certain that no document matches the union."""
    budget = Budget(STEPS_MIN + STEPS_EACH * _size(paths))
    search = _Search((), CASES_MAX + len(paths), budget)
    try:
        return all(search.refute(Case.of(path, budget), 0) for path in normalize(paths))
    except OutOfStepsError:
        return False


class _Search:
    """The covering query, and what of cases and steps is left."""

    def __init__(self, goal: tuple[Path, ...], cases_left: int, budget: Budget) -> None:
        self.goal = goal
        self.cases_left = cases_left
        self.budget = budget
        self.gaps_max = min(GAPS_MAX, max((_wildcards(path) for path in goal), default=0))

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
            evaluator = _CaseEvaluator(self, case, depth)
            if evaluator.contradicts() or any(evaluator.reaches(path, DOCUMENT) for path in goal):
                continue
            alternatives = case.split(gaps_max)
            if alternatives is None:
                return False
            pending += alternatives
        return True


class _CaseEvaluator:
    """Evaluates conditions over one case: True is certain, False may be unknown."""

    def __init__(self, search: _Search, case: Case, depth: int) -> None:
        self.search = search
        self.case = case
        self.depth = depth
        self.budget = search.budget
        self.entries = case.entries
        self.live = case.live()
        self.budget.spend(len(self.entries))
        self.children: list[list[int]] = [[] for _ in self.entries]
        self.hanging: list[list[int]] = [[] for _ in self.entries]  # children, and what hangs on a gap
        for at in self.live:
            above = self.entries[at].parent
            if above >= 0:
                self.hanging[above].append(at)
                if not self.entries[at].gap:
                    self.children[above].append(at)
        self.answers: dict[tuple[int, int], bool] = {}  # (condition, entry) -> whether it holds there
        self.denials: dict[int, frozenset[Condition]] = {}  # entry -> what is denied of it, once somebody asked

    def contradicts(self) -> bool:
        """Whether no document can be like this."""
        live = [(at, self.entries[at]) for at in self.live]
        self.budget.spend(len(live) + sum(len(entry.tests) for _, entry in live))
        if any(is_impossible(entry.tests) for _, entry in live):
            return True
        return any(self.holds(condition, at) for at, entry in live for condition in entry.denials)

    def holds(self, condition: Condition, at: int) -> bool:
        key = (id(condition), at)  # conditions live as long as the search
        if key not in self.answers:
            self.budget.spend(1 + len(self.entries[at].facts))
            self.answers[key] = condition in self.entries[at].facts or self._holds(condition, at)
        return self.answers[key]

    def _holds(self, condition: Condition, at: int) -> bool:
        match condition:
            case And(operands):
                return all(self.holds(operand, at) for operand in operands)
            case Or(operands):
                return any(self.holds(operand, at) for operand in operands)
            case Exists(paths):
                return any(self.reaches(path, at) for path in paths)
            case Compare(paths, relation, value):
                return any(self._passes(end, (relation, value)) for path in paths for end in self.walk(path, at))
            case Call(path, text):
                return self._first_passes(at, path, (condition.name, text))
            case Not(operand):
                if self._is_denied(operand, at):
                    return True
                assumption = self.case.copy()
                assumption.assume(at, operand)
                return self.search.refute(assumption, self.depth + 1)
            case Position(relation, number):
                return relation == "<=" if number is None else _always(relation, number)
            case Last(relation, number):
                return _always(relation, number)
            case Term():
                return False  # unknown, but where the same term is granted
        raise AssertionError(condition)

    def _is_denied(self, condition: Condition, at: int) -> bool:
        if at not in self.denials:
            self.budget.spend(len(self.entries[at].denials))
            self.denials[at] = frozenset(self.entries[at].denials)
        return condition in self.denials[at]

    def _passes(self, at: int, test: Test) -> bool:
        self.budget.spend(1 + len(self.entries[at].tests))
        if implies(self.entries[at].tests, test):
            return True
        function = FUNCTIONS.get(test[0])
        if function is None or not (function.before and function.after) or self.entries[at].kind != "element":
            return False
        # The text of an element holds that of everything below it.
        inner = (self.entries[below] for below in self._below({at}))
        return any(entry.kind != "attribute" and implies(entry.tests, test) for entry in inner)

    def _first_passes(self, at: int, path: Path, test: Test) -> bool:
        """Whether the first thing that the path selects passes the test; of several, the first is unknown."""
        if not test[1]:
            return True
        calls = (
            (first.name, first.text)
            for first in self.entries[at].facts
            if isinstance(first, Call) and first.path == path
        )
        if implies(tuple(calls), test):
            return True
        return _selects_one(path) and any(self._passes(end, test) for end in self.walk(path, at))

    def walk(self, path: Path, at: int) -> set[int]:
        """The entries that the path is certain to select from `at`."""
        return self._walk(path, path.steps, at)

    def reaches(self, path: Path, at: int) -> bool:
        """Whether the path is certain to select anything: of its last step, one entry is enough."""
        if not path.steps:
            return True
        ends = self._walk(path, path.steps[:-1], at)
        return bool(ends) and any(True for _ in self._step(path.steps[-1], ends))

    def _walk(self, path: Path, steps: Sequence[Step], at: int) -> set[int]:
        ends = {DOCUMENT if path.absolute else at}
        for step in steps:
            if not ends:
                break
            ends = set(self._step(step, ends))
        return ends

    def _step(self, step: Step, contexts: set[int]) -> Iterator[int]:
        candidates = self._candidates(step, contexts)
        self.budget.spend(1 + len(candidates))
        for at in sorted(candidates, reverse=True):  # most is known of what a query ends with, and that was added last
            entry = self.entries[at]
            has_name = (step.uri is None or step.uri == entry.uri) and (step.local is None or step.local == entry.local)
            if entry.kind == step.kind and has_name and all(self.holds(predicate, at) for predicate in step.predicates):
                yield at
        if any(is_positional(predicate) for predicate in step.predicates):
            yield from self._select_by_position(step, contexts)

    def _candidates(self, step: Step, contexts: set[int]) -> Collection[int]:
        if step.axis == "descendant-or-self" or (step.axis == "self" and step.gap):
            return contexts | self._below(contexts)
        if step.axis == "self":
            return contexts
        if step.gap or step.axis == "descendant":
            return self._below(contexts)
        return [at for context in contexts for at in self.children[context]]

    def _below(self, contexts: set[int]) -> set[int]:
        """Everything below one of them; what is below several is looked at once."""
        below: set[int] = set()
        pending = list(contexts)
        while pending:
            for at in self.hanging[pending.pop()]:
                if at not in below:
                    below.add(at)
                    pending.append(at)
        self.budget.spend(len(below))
        return below

    def _select_by_position(self, step: Step, contexts: set[int]) -> Iterator[int]:
        """What a step with positions selects: known where the case has the same step, as far as it counts."""
        counting = 1 + max(i for i, predicate in enumerate(step.predicates) if is_positional(predicate))
        for at in self.live:
            self.budget.spend(1 + len(self.entries[at].origins))
            for start, origin in self.entries[at].origins:
                same = (
                    self.case.find(start) in contexts
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
        case Call(path):
            yield path
        case Term(_, requirement) if requirement is not None:
            yield from _paths(requirement)
        case _:
            return


def _size(paths: tuple[Path, ...]) -> int:
    """How many steps and conditions there are, in predicates too."""
    size = 0
    pending = list(paths)
    while pending:
        path = pending.pop()
        size += 1 + len(path.steps)
        for step in path.steps:
            size += len(step.predicates)
            pending += [inner for predicate in step.predicates for inner in _paths(predicate)]
    return size
