"""Runs a plan on a document: in which order operators run, and which need not (ONYX, sections 4.2.1 and 4.3.1).

    >>> from treecast.document import read
    >>> plan = Plan()
    >>> for number in range(3):
    ...     plan.add_route("broker5", f"/a/b[@x > {number}]")
    >>> run_plan(plan, read(b'<a><b x="9"/></a>')).predicates
    1
    >>> run_plan(plan, read(b'<a><b x="9"/></a>'), RunSettings(short_cuts=False)).predicates
    3

Theory of operation. The NFA runs over the whole document. Its accepting states, in the order in which they were
reached, make the first operators ready; any other is ready once each of its inputs has an output. What waits for an
input without output never runs.

*Short-cuts* (O5). When a target is reached, the operators annotated with it lose a consumer; one that has none left is
skipped, and takes a consumer from its inputs. So the analysis costs as much in all as the network has edges.

*Priorities* (O9). There are three queues, first come, first served: routes, transformations, local queries. An
operator goes into the most urgent one that still needs it, and a queue is served when those before it are empty. An
operator that no route needs but a transformation does is in the *wait queue* until one of its links is chosen; if a
local query needs it as well, it is in the last queue meanwhile. Without priorities there is one queue, and
transformations are built before it is known whether their link takes the document.

Where the paper leaves it open: operators run when the NFA has seen the whole document, since the document has been read
by then anyway; an operator whose output only has to exist stops at its first tuple, with short-cuts or without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from treecast.document import Document
from treecast.engines.operators.path_nfa import NfaRun
from treecast.engines.operators.path_tuples import PathTuples, Tuple
from treecast.engines.operators.plan import Operator, Plan, Priority, Target
from treecast.engines.operators.value_tests import ElementValues, holds

Watch: TypeAlias = Callable[[Target | None], None]
"""Called when a link was chosen, with its target, and after every other operator that a route needed, with None."""


@dataclass(frozen=True)
class RunSettings:
    """Which mechanisms are on, and how much one path may match."""

    short_cuts: bool = True
    priorities: bool = True
    tuples_max: int = 100_000
    """Tuples of one path in one document; with `//` an element may be matched in many ways."""

    def __post_init__(self) -> None:
        if self.tuples_max < 1:
            raise ValueError("tuples_max must be positive")


@dataclass
class Outcome:
    """What a document is for, and what it took to find that out."""

    links: list[str] = field(default_factory=list)
    """The links that were chosen, first things first."""
    transformed: dict[str, object] = field(default_factory=dict)
    """Link -> what its transformation built. Only of chosen links."""
    local: list[str] = field(default_factory=list)
    delivered: dict[str, object] = field(default_factory=dict)
    """Local query -> what its transformation built."""
    operators: int = 0
    """Operators that ran."""
    skipped: int = 0
    """Operators that were ready, and that nobody needed any more."""
    waited: int = 0
    """Operators that were left in the wait queue."""
    predicates: int = 0
    """Evaluations of a value test on an element."""
    tuples: int = 0
    built: int = 0
    """Transformations that ran."""
    routed_after: int = 0
    """How many operators had run when the last one ran that a route needed: then all links are known."""


def run_plan(
    plan: Plan, document: Document, settings: RunSettings | None = None, watch: Watch | None = None
) -> Outcome:
    """Match a document. Raises DocumentLimitError TC341 where a path is matched in too many ways."""
    return _PlanRun(plan, document, settings or RunSettings(), watch).run()


class _PlanRun:
    """The state of one run. Lists have an entry for each operator."""

    def __init__(self, plan: Plan, document: Document, settings: RunSettings, watch: Watch | None) -> None:
        self._plan, self._document, self._settings, self._watch = plan, document, settings, watch
        self._values = ElementValues(document)
        self._consumers = [list(each) for each in plan.consumers]
        self._missing = list(plan.missing)
        self._outputs: list[list[Tuple] | None] = [None] * len(plan.operators)
        self._queues: list[deque[int]] = [deque() for _ in Priority]
        self._waiting: dict[int, None] = {}
        self._necessary: set[int] = set()  # for a transformation whose link was chosen
        self._reached: set[Target] = set()
        self._payloads: dict[Target, object] = {}
        self._outcome = Outcome()

    def run(self) -> Outcome:
        matched = self._plan.nfa.run(self._document)
        for state in matched.accepted:
            self._enqueue(self._plan.sources[state])
        while (number := self._next()) is not None:
            self._perform(number, matched)
        self._outcome.waited = len(self._waiting)
        self._finish()
        return self._outcome

    def _finish(self) -> None:
        for target, payload in self._payloads.items():
            if target.priority is Priority.LOCAL:
                self._outcome.delivered[target.name] = payload
            elif Target(Priority.ROUTE, target.name) in self._reached:
                self._outcome.transformed[target.name] = payload

    # Which operator is next.

    def _enqueue(self, number: int) -> None:
        """An operator that is ready."""
        needed = [each[number] > 0 for each in self._consumers]
        if not self._settings.priorities:
            if any(needed):
                self._queues[0].append(number)
            else:
                self._skip()
        elif needed[Priority.ROUTE]:
            self._queues[Priority.ROUTE].append(number)
        elif needed[Priority.TRANSFORMATION] and number in self._necessary:
            self._queues[Priority.TRANSFORMATION].append(number)
        else:
            if needed[Priority.TRANSFORMATION]:
                self._waiting[number] = None
            if needed[Priority.LOCAL]:
                self._queues[Priority.LOCAL].append(number)
            elif not needed[Priority.TRANSFORMATION]:
                self._skip()

    def _skip(self) -> None:
        self._outcome.skipped += 1

    def _next(self) -> int | None:
        while (place := next((place for place, queue in enumerate(self._queues) if queue), None)) is not None:
            number = self._queues[place].popleft()
            if self._outputs[number] is not None:
                continue  # it was in two queues
            if self._is_needed(number, place):
                self._waiting.pop(number, None)
                return number
            if number not in self._waiting:
                self._enqueue(number)  # into the queue that needs it now, if there is one
        return None

    def _is_needed(self, number: int, queue: int) -> bool:
        if not self._settings.priorities:
            return any(consumers[number] for consumers in self._consumers)
        return self._consumers[queue][number] > 0

    # Running one.

    def _perform(self, number: int, matched: NfaRun) -> None:
        operator = self._plan.operators[number]
        self._outcome.operators += 1
        is_routing = self._consumers[Priority.ROUTE][number] > 0  # a route that was chosen needs it no more
        output = self._output(number, operator, matched)
        self._outputs[number] = output
        if is_routing:
            self._outcome.routed_after = self._outcome.operators
        if output:
            for target in operator.targets:
                self._reach(target)
            for following in operator.outputs:
                self._missing[following] -= 1
                if not self._missing[following]:
                    self._enqueue(following)
        if is_routing and self._watch is not None:
            self._watch(None)

    def _output(self, number: int, operator: Operator, matched: NfaRun) -> list[Tuple]:
        one_is_enough = not any(self._plan.operators[each].takes_tuples for each in operator.outputs)
        match operator.kind:
            case "path":
                return self._make_tuples(operator, matched, one_is_enough)
            case "selection":
                return self._select(operator, one_is_enough)
            case "join":
                return self._join(operator, one_is_enough)
            case "and":
                return [()]
            case _:
                assert operator.build is not None
                self._outcome.built += 1
                payload = operator.build(self._document)
                for target in operator.targets:
                    self._payloads[target] = payload
                return [()]

    def _select(self, operator: Operator, one_is_enough: bool) -> list[Tuple]:
        assert operator.condition is not None
        column, found = operator.columns[0], []
        known: dict[int, bool] = {}  # tuples that others need may have an element more than once
        for row in self._input(operator, 0):
            element = row[column]
            if element not in known:
                self._outcome.predicates += 1
                known[element] = holds(operator.condition, self._values, element)
            if known[element]:
                found.append(row)
                if one_is_enough:
                    break
        return found

    def _join(self, operator: Operator, one_is_enough: bool) -> list[Tuple]:
        left, right = operator.columns
        others = {row[right] for row in self._input(operator, 1)}
        found = []
        for row in self._input(operator, 0):
            if row[left] in others:
                found.append(row)
                if one_is_enough:
                    break
        return found

    def _input(self, operator: Operator, place: int) -> list[Tuple]:
        rows = self._outputs[operator.inputs[place]]
        assert rows is not None
        return rows

    def _make_tuples(self, operator: Operator, matched: NfaRun, one_is_enough: bool) -> list[Tuple]:
        """The tuples of a path: the elements of the steps that somebody asks for, found by going back up the stack."""
        steps = self._plan.steps[operator.path]
        if one_is_enough or not steps:
            self._outcome.tuples += 1
            return [(0,) * len(steps)]
        trail = self._plan.nfa.trail(operator.path)
        rows = PathTuples(self._document.parents, matched, trail, steps, self._settings.tuples_max).all()
        self._outcome.tuples += len(rows)
        return rows

    # What a target sets off.

    def _reach(self, target: Target) -> None:
        if target in self._reached:
            return
        self._reached.add(target)
        if target.priority is Priority.ROUTE:
            self._outcome.links.append(target.name)
            if self._watch is not None:
                self._watch(target)
            self._need_transformation(target.name)
        elif target.priority is Priority.LOCAL:
            self._outcome.local.append(target.name)
        if self._settings.short_cuts:
            for place in self._plan.places[target]:
                self._lose(place, target.priority)

    def _lose(self, number: int, priority: Priority) -> None:
        """One consumer less: with the last, the operators before it lose one as well."""
        consumers, losing = self._consumers[priority], [number]
        while losing:
            number = losing.pop()
            consumers[number] -= 1
            if not consumers[number]:
                losing += self._plan.operators[number].inputs

    def _need_transformation(self, link: str) -> None:
        """A link was chosen: what waits for its transformation waits no longer."""
        marking = list(self._plan.places.get(Target(Priority.TRANSFORMATION, link), ()))
        while marking:
            number = marking.pop()
            if number not in self._necessary:
                self._necessary.add(number)
                marking += self._plan.operators[number].inputs
        for number in [number for number in self._waiting if number in self._necessary]:
            del self._waiting[number]
            self._enqueue(number)
