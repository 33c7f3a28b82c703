"""Takes a matching path apart into linear paths with value tests, and says where they meet (ONYX, section 4.1).

A query with nested paths is a main path and branches. Each becomes an absolute linear path; a branch meets the path it
hangs on in the element of one step. A main path whose last step has branches is a prefix of the first of them, which
then takes its place: so `/nitf[a][b]` gives two paths, not three.

    >>> from treecast.query import parse
    >>> one, = decompose(parse("/a[b/@x = 1][.//c]"))
    >>> str(one), [(step, str(branch)) for step, branch in one.branches]
    ('/a/b', [(1, '/a//c')])
    >>> one.tests[0][0], len(one.tests)
    (2, 1)

The language: paths of `/` and `//`, names and `*`; predicates that are nested paths, tests of values, and `and`. `or`
and `not` are for values of one element. Everything else is refused with TC150.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from treecast.engines.operators.path_nfa import LinearPath, NameTest
from treecast.engines.operators.value_tests import is_own_value, is_value_test
from treecast.errors import QueryError
from treecast.query import Query
from treecast.query.tree import And, Compare, Condition, Exists, Path, Step

_ITSELF = Path(False, ())


@dataclass(frozen=True)
class Linear:
    """A linear path, the tests of its steps (numbered from 1), and what hangs on its steps."""

    path: LinearPath
    tests: tuple[tuple[int, Condition], ...] = ()
    branches: tuple[tuple[int, Linear], ...] = ()

    def __str__(self) -> str:
        return "".join(("//" if gap else "/") + ("*" if name is None else name[1]) for gap, name in self.path)

    def flat(self) -> list[Linear]:
        """This path and all that hang on it, without saying where they meet."""
        return [replace(self, branches=()), *(each for _, branch in self.branches for each in branch.flat())]


def decompose(query: Query) -> list[Linear]:
    """One tree of linear paths for each path of the query's union; raises QueryError TC150 for what has none."""
    found = []
    for path in query.tree:
        if not path.absolute or not path.steps:
            raise _refuse(query, "a path that does not start at the root")
        found.append(_Decomposer(query).decompose((), path.steps))
    return found


class _Decomposer:
    def __init__(self, query: Query) -> None:
        self._query = query

    def decompose(self, prefix: LinearPath, steps: tuple[Step, ...]) -> Linear:
        """The linear path that begins with a prefix, whose tests are somebody else's."""
        if steps[-1].kind != "element":  # a value of the element before it, or of the one that the prefix leads to
            steps = self._with_last_value(steps)
        path: LinearPath = prefix
        tests: list[tuple[int, Condition]] = []
        branches: list[tuple[int, tuple[Step, ...]]] = []
        for step in steps:
            path = (*path, (step.gap, self._name(step)))
            for predicate in step.predicates:
                self._take(len(path), predicate, tests, branches)
        last = [steps for at, steps in branches if at == len(path)]
        others = [(at, self.decompose(path[:at], below)) for at, below in branches if at < len(path)]
        if not last:
            return Linear(path, tuple(tests), tuple(others))
        first = self.decompose(path, last[0])
        more = [(len(path), self.decompose(path, below)) for below in last[1:]]
        return Linear(first.path, (*tests, *first.tests), (*others, *more, *first.branches))

    def _take(
        self,
        at: int,
        condition: Condition,
        tests: list[tuple[int, Condition]],
        branches: list[tuple[int, tuple[Step, ...]]],
    ) -> None:
        """A predicate of the step `at`: more tests of it, or more branches."""
        if is_value_test(condition):
            tests.append((at, condition))
            return
        match condition:
            case And(operands):
                for operand in operands:
                    self._take(at, operand, tests, branches)
                return
            case Exists((Path(False, steps, None),)):
                pass
            case Compare((Path(False, steps, None),), relation, value):
                steps = (*steps[:-1], _with(steps[-1], Compare((_ITSELF,), relation, value)))
            case _:
                raise self._refused("this predicate")
        if len(steps) == 1 and steps[0].kind != "element":
            for test in self._value_tests(steps[0]):
                self._take(at, test, tests, branches)
        else:
            branches.append((at, steps))

    def _with_last_value(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """The path without its last step, an attribute or a text, which becomes tests of the element before it."""
        if len(steps) < 2:
            raise self._refused("a value of no element")
        element = steps[-2]
        for test in self._value_tests(steps[-1]):
            element = _with(element, test)
        return (*steps[:-2], element)

    def _value_tests(self, step: Step) -> list[Condition]:
        """A step to an attribute or a text as a test of its element. One comparison may be in it: more would have to be
        true of the same value."""
        bare = Path(False, (replace(step, predicates=()),))
        if not is_own_value(bare):
            raise self._refused("a value below any element")
        match step.predicates:
            case ():
                return [Exists((bare,))]
            case (Compare((Path(False, (), None),), relation, value),):
                return [Compare((bare,), relation, value)]
            case _:
                raise self._refused("this predicate")

    def _name(self, step: Step) -> NameTest:
        if step.kind != "element" or step.axis != "child":
            raise self._refused(f"the axis {step.axis!r}" if step.kind == "element" else "a value within a path")
        if step.uri is None and step.local is None:
            return None
        if step.uri is None or step.local is None:
            raise self._refused("a wildcard for a part of a name")
        return (step.uri, step.local)

    def _refused(self, what: str) -> QueryError:
        return _refuse(self._query, what)


def _with(step: Step, condition: Condition) -> Step:
    return replace(step, predicates=(*step.predicates, condition))


def _refuse(query: Query, what: str) -> QueryError:
    return QueryError(f"the operators of a plan cannot match {what}", code="TC150", query=query.text)
