"""A plan: routing queries, link transformations and local queries as one network of operators (ONYX, sections 4.1-4.3).

    >>> plan = Plan()
    >>> plan.add_route("broker5", '/nitf[head/@area="SF"][.//subject]')
    >>> plan.add_local("q1", '/nitf[head/@area="SF"]')
    >>> print(plan)
    1 path: state 3, /nitf/head
    2 selection of 1: step 2, [@area="SF"] -> local q1
    3 path: state 5, /nitf//subject
    4 and of 2, 3 -> route broker5

Theory of operation. A query is taken apart into linear paths (`decomposition`). The shared NFA matches them; what
remains are operators, numbered from 1, each made once for all queries that contain it:

- a *path* stands for an accepting state, and makes a tuple of elements for each way in which a path is matched;
- a *selection* keeps the tuples whose element of one step passes a value test;
- a *join* keeps the tuples whose element of one step is also in a tuple of another path: nested paths meet there;
- an *and* asks only that each of its inputs has a tuple: routing queries have these instead of joins;
- a *transformation* calls what builds a payload.

Operators are annotated with targets: the link to a broker, the transformation of a link, a local query. A target is
reached once an operator annotated with it has an output. The operators of a target belong to its class.

For each class an operator counts its *consumers*: targets it is annotated with, and operators behind it that have
consumers themselves. A run (`plan_run`) counts them down as targets are reached.

A plan only grows: to remove a query, build another plan. The broker's own tables (`overlay/onyx/routing`) change by
deltas; this one is there to measure what the paper describes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from treecast.document import Document
from treecast.engines.operators.decomposition import Linear, decompose
from treecast.engines.operators.path_nfa import PathNfa
from treecast.query import Query, Transformation, parse
from treecast.query.tree import Condition
from treecast.query.writer import UnwritableError, Writer

Build: TypeAlias = Callable[[Document], object]
"""Makes the payload of a transformation."""


class Priority(IntEnum):
    """The classes of operators and targets; the first is the most urgent."""

    ROUTE = 0
    TRANSFORMATION = 1
    LOCAL = 2


class Target(NamedTuple):
    """What a query is for: a link, the transformation of a link, or a local subscription."""

    priority: Priority
    name: str

    def __str__(self) -> str:
        return f"{self.priority.name.lower()} {self.name}"


@dataclass
class Operator:
    """One box of the network. `inputs` and `outputs` are numbers of operators."""

    kind: str
    inputs: tuple[int, ...] = ()
    outputs: list[int] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    path: int = 0
    """The accepting state whose tuples it makes, passes on or keeps; 0 if it has none."""
    columns: tuple[int, ...] = ()
    """Of a selection or a join: where in the tuples of each input the element is that it looks at."""
    condition: Condition | None = None
    build: Build | None = None
    text: str = ""
    """What it does, for people."""

    @property
    def takes_tuples(self) -> bool:
        """Whether it looks at each tuple of its inputs, not only at whether there is one."""
        return self.kind in ("selection", "join")


class Plan:
    """A network of operators over one NFA."""

    def __init__(self) -> None:
        self.nfa = PathNfa()
        self.operators: list[Operator] = [Operator("")]  # numbers start at 1
        self.places: dict[Target, list[int]] = {}
        """The operators that are annotated with a target."""
        self.sources: dict[int, int] = {}
        """Accepting state -> its path operator."""
        self.steps: dict[int, dict[int, int]] = {}
        """Accepting state -> the steps whose elements somebody asks for, each with its place in the tuples."""
        self.consumers: list[list[int]] = [[0] for _ in Priority]
        """Class -> operator -> how many consumers it has."""
        self.missing: list[int] = [0]
        """Operator -> how many inputs it waits for."""
        self._made: dict[tuple[object, ...], int] = {}

    def __len__(self) -> int:
        """The number of operators."""
        return len(self.operators) - 1

    def __str__(self) -> str:
        return "\n".join(self.describe())

    def add_route(self, link: str, query: str | Query | Transformation) -> None:
        """The documents that match the query, and perhaps others, go over the link: `and` takes the place of joins."""
        target = Target(Priority.ROUTE, link)
        for linear in decompose(_matching(query)):
            self._annotate(self._conjunction(linear), target)

    def add_transformation(self, link: str, query: str | Query | Transformation, build: Build) -> None:
        """What is done to a document on a link, if it goes over the link and matches."""
        self._add(Target(Priority.TRANSFORMATION, link), query, build)

    def add_local(self, id: str, query: str | Query | Transformation, build: Build | None = None) -> None:
        """A subscription of the broker's own clients; `build` makes what is delivered, where that is no filter."""
        self._add(Target(Priority.LOCAL, id), query, build)

    def describe(self) -> list[str]:
        """A line for each operator."""
        lines = []
        for number, operator in enumerate(self.operators[1:], start=1):
            inputs = " of " + ", ".join(map(str, operator.inputs)) if operator.inputs else ""
            text = f": {operator.text}" if operator.text else ""
            targets = " -> " + ", ".join(map(str, operator.targets)) if operator.targets else ""
            lines.append(f"{number} {operator.kind}{inputs}{text}{targets}")
        return lines

    def _add(self, target: Target, query: str | Query | Transformation, build: Build | None) -> None:
        ends = [self._joined(linear) for linear in decompose(_matching(query))]
        if build is None:
            for end in ends:
                self._annotate(end, target)
            return
        for end in ends:
            made = Operator("transformation", (end,), build=build, text=str(query))
            self._annotate(self._make(("transformation", end, target), made), target)

    def _conjunction(self, linear: Linear) -> int:
        inputs = tuple(sorted({self._selected(each) for each in linear.flat()}))
        if len(inputs) == 1:
            return inputs[0]
        return self._make(("and", inputs), Operator("and", inputs))

    def _joined(self, linear: Linear) -> int:
        number = self._selected(linear)
        for step, branch in linear.branches:
            other = self._joined(branch)
            state = self.operators[number].path
            columns = (self._column(state, step), self._column(self.operators[other].path, step))
            made = Operator("join", (number, other), path=state, columns=columns, text=f"step {step}")
            number = self._make(("join", number, other, step), made)
        return number

    def _selected(self, linear: Linear) -> int:
        """The path with its tests: in one order, so that more is shared."""
        state = self.nfa.add(linear.path)
        number = self._make(("path", state), Operator("path", path=state, text=f"state {state}, {linear}"))
        self.sources[state] = number
        self.steps.setdefault(state, {})
        written = sorted({(step, write(test)): test for step, test in linear.tests}.items(), key=lambda item: item[0])
        for (step, text), test in written:
            made = Operator(
                "selection",
                (number,),
                path=state,
                columns=(self._column(state, step),),
                condition=test,
                text=f"step {step}, [{text}]",
            )
            number = self._make(("selection", number, step, text), made)
        return number

    def _column(self, state: int, step: int) -> int:
        columns = self.steps[state]
        return columns.setdefault(step, len(columns))

    def _make(self, key: tuple[object, ...], operator: Operator) -> int:
        """The operator of this key, which is new or shared."""
        if key not in self._made:
            self.operators.append(operator)
            self.missing.append(len(operator.inputs))
            for each in self.consumers:
                each.append(0)
            self._made[key] = len(self)
            for number in operator.inputs:
                self.operators[number].outputs.append(len(self))
        return self._made[key]

    def _annotate(self, number: int, target: Target) -> None:
        places = self.places.setdefault(target, [])
        if target not in self.operators[number].targets:
            places.append(number)
            self.operators[number].targets.append(target)
            self._gain(number, target.priority)

    def _gain(self, number: int, priority: Priority) -> None:
        """One more consumer: if it is the first, the operators before it gain one as well."""
        consumers, gaining = self.consumers[priority], [number]
        while gaining:
            number = gaining.pop()
            consumers[number] += 1
            if consumers[number] == 1:
                gaining += self.operators[number].inputs


def write(condition: Condition) -> str:
    """The text of a condition: equal ones are equal tests."""
    try:
        writer = Writer()
        text = writer.condition(condition)
    except UnwritableError:
        return repr(condition)
    return f"{text} {sorted(writer.namespaces.items())}" if writer.namespaces else text


def _matching(query: str | Query | Transformation) -> Query:
    return (parse(query) if isinstance(query, str) else query).matching
