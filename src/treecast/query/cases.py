"""A Case: what is known of every document that a query matches, as a tree of things that the document must hold.

`Case.of(path)` reads one path of a query as facts: what its steps select becomes entries, its predicates become further
entries and tests on values, `not(…)` is noted as denied. What leaves a choice (`or`, a union, `//self::`, how long the
gap of a `//` is) waits as a list of alternatives: the documents of the case are those of its alternatives together.
Positions are dropped: a case may stand for more documents than the query matches, never for fewer. The entry 0 is the
document, the entry 1 its root element, of which every document has exactly one.

What is done to a case is counted by the Budget that it shares with its alternatives: about one for each entry that is
looked at, copied or changed. Where that is spent, OutOfStepsError is raised, and the answer is unknown.

    >>> import treecast
    >>> path, = normalize(treecast.parse("/a[b = 1 or c]//d").tree)
    >>> case = Case.of(path)
    >>> [entry.local for entry in case.entries]
    [None, 'a', 'd']
    >>> [[entry.local for entry in alternative.entries] for alternative in case.split(gaps_max=0)]
    [[None, 'a', 'd', 'b'], [None, 'a', 'd', 'c']]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from treecast.query.expressions import Relation
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
from treecast.query.values import Test

DOCUMENT, ROOT = 0, 1

_OPPOSITE: dict[Relation, Relation] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class OutOfStepsError(Exception):
    """The budget of a search is spent."""


class Budget:
    """How many steps a search may still take."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise OutOfStepsError


STEPS_MAX = 1_000_000  # of a case without a budget


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that the document holds: an element, an attribute, a text. `uri` and `local` are None where unknown."""

    kind: Literal["document", "element", "attribute", "text"]
    uri: str | None = None
    local: str | None = None
    parent: int = -1
    gap: bool = False  # it lies anywhere below `parent`, not just one level below
    gap_growth: int = 0  # how often the gap was made longer by a choice
    tests: tuple[Test, ...] = ()  # its string value passes them
    origins: tuple[tuple[int, Step], ...] = ()  # the step selects it from that entry, positions and all
    denials: tuple[Condition, ...] = ()  # they are false of it
    facts: tuple[Condition, ...] = ()  # true of it, beyond what the rest says


Alternative: TypeAlias = Callable[["Case"], None]


class Case:
    """Facts and open choices; `dead` says that no document fits. Made by `of`, taken apart by `split`."""

    __slots__ = ("attributes", "budget", "choices", "dead", "entries", "stand_ins")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.entries = [Entry("document"), Entry("element", parent=DOCUMENT)]
        self.stand_ins: dict[int, int] = {}  # an entry that turned out to be another one -> that one
        self.attributes: dict[tuple[int, str, str], int] = {}  # (element, uri, local) -> the attribute
        self.choices: list[tuple[Alternative, ...]] = []
        self.dead = False

    @classmethod
    def of(cls, path: Path, budget: Budget | None = None) -> Case:
        case = cls(budget or Budget(STEPS_MAX))
        case.follow(DOCUMENT, path.steps, ())
        return case

    def copy(self) -> Case:
        self.budget.spend(len(self.entries) + len(self.choices))
        twin = Case.__new__(Case)
        twin.budget = self.budget
        twin.entries, twin.stand_ins = self.entries.copy(), self.stand_ins.copy()
        twin.attributes = self.attributes.copy()
        twin.choices, twin.dead = self.choices.copy(), self.dead
        return twin

    def find(self, at: int) -> int:
        """The entry that stands for `at` now."""
        while at in self.stand_ins:
            at = self.stand_ins[at]
        return at

    def live(self) -> list[int]:
        return [at for at in range(len(self.entries)) if at not in self.stand_ins]

    # Facts in.

    def assume(self, at: int, condition: Condition) -> None:
        """Note that the condition, in normal form, is true of the entry."""
        self.budget.spend(1)
        at = self.find(at)
        match condition:
            case And(operands):
                for operand in operands:
                    self.assume(at, operand)
            case Or(operands):
                # A position means something else where other predicates stand before it.
                if not is_positional(condition):
                    self._grant(at, condition)
                self.choices.append(tuple(partial(Case.assume, at=at, condition=operand) for operand in operands))
            case Not(operand):
                self.entries[at] = replace(self.entries[at], denials=(*self.entries[at].denials, operand))
            case Exists((path,)):
                self._assume_path(at, path, ())
            case Compare((path,), relation, value):
                self._assume_path(at, path, ((relation, value),))
            case Exists(paths) | Compare(paths):
                self._grant(at, condition)
                single = [replace(condition, paths=(path,)) for path in paths]
                self.choices.append(tuple(partial(Case.assume, at=at, condition=one) for one in single))
            case Call(path, text):
                if text:  # the empty text is part of everything, even of nothing
                    self._grant(at, condition)
                    self._assume_path(at, path, ((condition.name, text),))
            case Term(_, requirement):
                if not condition.positional:
                    self._grant(at, condition)
                if requirement is not None:
                    self.assume(at, requirement)
            case Position() | Last():
                pass

    def _grant(self, at: int, condition: Condition) -> None:
        entry = self.entries[at]
        self.budget.spend(len(entry.facts))
        self.entries[at] = replace(entry, facts=(*entry.facts, condition))

    def _assume_path(self, at: int, path: Path, tests: tuple[Test, ...]) -> None:
        self.follow(DOCUMENT if path.absolute else at, path.steps, tests)

    def follow(self, at: int, steps: Sequence[Step], tests: tuple[Test, ...]) -> None:
        """Note that the steps lead from the entry to something that passes the tests."""
        for count, step in enumerate(steps, 1):
            self.budget.spend(1)
            at = self.find(at)
            context, rest = at, steps[count:]
            if step.axis == "descendant-or-self" or (step.axis == "self" and step.gap):
                self.choices.append(
                    (
                        partial(Case._follow_self, at=at, step=step, rest=rest, tests=tests),
                        partial(Case._follow_below, at=at, step=step, rest=rest, tests=tests),
                    )
                )
                return
            if step.axis == "self":
                self.narrow(at, step.kind, step.uri, step.local)
            else:
                at = self._place(at, step, step.gap or step.axis == "descendant")
            if self.dead:
                return
            self._land(context, at, step)
        at = self.find(at)
        if tests:
            self.entries[at] = replace(self.entries[at], tests=(*self.entries[at].tests, *tests))

    def _follow_self(self, at: int, step: Step, rest: Sequence[Step], tests: tuple[Test, ...]) -> None:
        self.narrow(at, step.kind, step.uri, step.local)
        self._land(at, at, step)
        self.follow(at, rest, tests)

    def _follow_below(self, at: int, step: Step, rest: Sequence[Step], tests: tuple[Test, ...]) -> None:
        below = self._place(at, step, gap=True)
        self._land(at, below, step)
        self.follow(below, rest, tests)

    def _land(self, context: int, at: int, step: Step) -> None:
        at = self.find(at)
        entry = self.entries[at]
        self.entries[at] = replace(entry, origins=(*entry.origins, (context, step)))
        for predicate in step.predicates:
            self.assume(at, predicate)

    def _place(self, at: int, step: Step, gap: bool) -> int:
        """The entry that the step selects: a new one, or one that it cannot but be."""
        at = self.find(at)
        if self.entries[at].kind not in ("document", "element"):
            self.dead = True  # nothing lies below an attribute or a text
            return at
        if at == DOCUMENT and not gap:
            if step.kind != "element":
                self.dead = True
                return at
            self.narrow(ROOT, "element", step.uri, step.local)
            return self.find(ROOT)
        tests: tuple[Test, ...] = (("!=", ""),) if step.kind == "text" else ()  # no text is empty
        self.entries.append(Entry(step.kind, step.uri, step.local, at, gap, tests=tests))
        position = len(self.entries) - 1
        self._note_attribute(position)
        return self.find(position)

    def narrow(self, at: int, kind: str, uri: str | None, local: str | None) -> None:
        """Note that the entry is of that kind and name."""
        at = self.find(at)
        entry = self.entries[at]
        fits = entry.kind == kind and _agree(uri, entry.uri) and _agree(local, entry.local)
        if not fits:
            self.dead = True
            return
        self.entries[at] = replace(
            entry, uri=entry.uri if uri is None else uri, local=entry.local if local is None else local
        )
        self._note_attribute(at)

    def merge(self, at: int, into: int) -> None:
        """Note that two entries are one and the same."""
        at, into = self.find(at), self.find(into)
        if at == into:
            return
        old = self.entries[at]
        self.narrow(into, old.kind, old.uri, old.local)
        into = self.find(into)
        target = self.entries[into]
        self.budget.spend(1 + len(target.tests) // 8)  # tuples are copied fast
        self.entries[into] = replace(
            target,
            tests=target.tests + old.tests,
            origins=target.origins + old.origins,
            denials=target.denials + old.denials,
            facts=target.facts + old.facts,
        )
        self.stand_ins[at] = into
        if old.kind != "element":
            return
        self.budget.spend(len(self.entries))
        for below in self.live():
            if self.entries[below].parent == at:
                self.entries[below] = replace(self.entries[below], parent=into)
                self._note_attribute(below)

    def _note_attribute(self, at: int) -> None:
        """An element has one attribute of a name: where another entry stands for it already, both are one."""
        entry = self.entries[at]
        if entry.kind == "attribute" and not entry.gap and entry.uri is not None and entry.local is not None:
            self.merge(at, self.attributes.setdefault((entry.parent, entry.uri, entry.local), at))

    # Choices out.

    def split(self, gaps_max: int) -> list[Case] | None:
        """The alternatives of the first open choice, the least specific one last; None where no choice is left.

        `gaps_max` bounds how often the gap before an element is made longer; attributes and texts get a parent anyway.
        """
        self.budget.spend(len(self.entries))
        choice = self.choices[0] if self.choices else self._close_gaps() or self._gap_choice(gaps_max)
        if choice is None:
            return None
        cases = []
        for alternative in choice:
            case = self.copy()
            del case.choices[: 1 if self.choices else 0]
            alternative(case)
            cases.append(case)
        return cases

    def _close_gaps(self) -> tuple[Alternative, ...]:
        """Where some element lies below and nothing more is known of it, there is a child as well: take that."""
        parents = {self.entries[at].parent for at in self.live()}
        for at in self.live():
            entry = self.entries[at]
            is_specific = entry.uri or entry.local or entry.tests or entry.denials or entry.facts or at in parents
            is_specific = is_specific or any(step.predicates for _, step in entry.origins)
            if entry.kind == "element" and entry.gap and entry.parent != DOCUMENT and not is_specific:
                return (partial(Case._hang, at=at, parent=entry.parent, gap=False),)
        return ()

    def _gap_choice(self, gaps_max: int) -> tuple[Alternative, ...] | None:
        for at in self.live():
            entry = self.entries[at]
            if not entry.gap:
                continue
            if entry.parent == DOCUMENT:
                if entry.kind == "element":
                    return partial(Case.merge, at=at, into=ROOT), partial(Case._hang, at=at, parent=ROOT, gap=True)
                return self._owners(at, ROOT)
            if entry.kind != "element":
                return self._owners(at, entry.parent)
            if entry.gap_growth < gaps_max:
                return (
                    partial(Case._hang, at=at, parent=entry.parent, gap=False),
                    partial(Case._widen_once, at=at),
                    partial(Case._widen, at=at),
                )
        return None

    def _owners(self, at: int, parent: int) -> tuple[Alternative, ...]:
        """Whose attribute or text it is: that of `parent` or of some element below it."""
        return partial(Case._hang, at=at, parent=parent, gap=False), partial(Case._own, at=at, parent=parent)

    def _hang(self, at: int, parent: int, gap: bool) -> None:
        self.entries[at] = replace(self.entries[at], parent=self.find(parent), gap=gap)
        self._note_attribute(at)

    def _own(self, at: int, parent: int) -> None:
        self._hang(at, self._add_element(parent, gap=True), gap=False)

    def _widen_once(self, at: int) -> None:
        """The gap is filled by one element."""
        self._hang(at, self._add_element(self.entries[at].parent, gap=False), gap=False)

    def _widen(self, at: int) -> None:
        """The gap is filled by at least two elements: what remains of it lies between them."""
        upper = self._add_element(self.entries[at].parent, gap=False)
        lower = self._add_element(upper, gap=True)
        self.entries[lower] = replace(self.entries[lower], gap_growth=self.entries[at].gap_growth + 1)
        self._hang(at, lower, gap=False)

    def _add_element(self, parent: int, gap: bool) -> int:
        self.entries.append(Entry("element", parent=self.find(parent), gap=gap))
        return len(self.entries) - 1


def _agree(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


# Normal form: negation stands before paths only, and an existing path needs no position at its end.


def normalize(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The paths, as conditions that something is selected, in the form that Case and covering expect."""
    return tuple(_trim(_normalize_path(path)) for path in paths)


def _normalize_path(path: Path) -> Path:
    return replace(path, steps=tuple(_normalize_step(step) for step in path.steps))


def _normalize_step(step: Step) -> Step:
    return replace(step, predicates=tuple(_normalize_condition(predicate) for predicate in step.predicates))


def _normalize_condition(condition: Condition) -> Condition:
    match condition:
        case And(operands):
            return And(tuple(_normalize_condition(operand) for operand in operands))
        case Or(operands):
            return Or(tuple(_normalize_condition(operand) for operand in operands))
        case Not(operand):
            return _negate(operand)
        case Exists(paths):
            return Exists(normalize(paths))
        case Compare(paths):
            return replace(condition, paths=tuple(_normalize_path(path) for path in paths))
        case Call(path):
            return replace(condition, path=_normalize_path(path))
        case Term(_, requirement) if requirement is not None:
            return replace(condition, requirement=_normalize_condition(requirement))
        case _:
            return condition


def _negate(condition: Condition) -> Condition:
    match condition:
        case And(operands):
            return Or(tuple(_negate(operand) for operand in operands))
        case Or(operands):
            return And(tuple(_negate(operand) for operand in operands))
        case Not(operand):
            return _normalize_condition(operand)
        case Position(relation) | Last(relation):
            return replace(condition, relation=_OPPOSITE[relation])
        case Compare((Path(False, ()),), "=" | "!=" as relation):
            return replace(condition, relation=_OPPOSITE[relation])  # of one string value they are opposites
        case _:
            return Not(_normalize_condition(condition))


def _trim(path: Path) -> Path:
    """Where something is selected there is a first one and a last one."""
    if not path.steps:
        return path
    *steps, final = path.steps
    predicates = list(final.predicates)
    while predicates and predicates[-1] in (Position("=", 1.0), Position("=", None)):
        predicates.pop()
    return replace(path, steps=(*steps, replace(final, predicates=tuple(predicates))))
