"""`map`: a subscription to its routing query (ONYX, section 4.2.1).

A subscription's matching path is taken apart into absolute linear paths: one for the path itself and one for each path
nested in its predicates, each with the tests of the steps that it goes through. One that another implies is left out.
Together they are a conjunction; `or`, unions and `descendant-or-self::` give several. What a linear path cannot say is
relaxed to true: positions, last(), counts, order, `not` about other elements, the rule that two paths meet in one
element. So a routing query matches whatever the subscription matches, and perhaps more.

We differ from the paper in one thing: `not` and `or` about a step's own values stay with the step, as any test does.

    >>> from treecast.model import Subscription
    >>> print(map_subscription(Subscription("s", '/nitf[head/pubdata/@area="SF"][.//tobject[2]]/body')))
    /nitf//tobject and /nitf/body and /nitf/head/pubdata[@area="SF"]
    >>> print(map_subscription(Subscription("s", "/a[@x=1 or b]/c")))
    /a/b and /a/c or /a[@x=1]/c

Theory of operation. `Mapper` walks the steps with a *trail*: the steps so far, each with its tests. A predicate
becomes alternatives: tests that join the step, and paths that start at it. The walk forks for every alternative, and
what ends it, the trail and the trails of nested paths, is a conjunction. A syntax tree of a kind that is not known
here is true; an axis that is not known ends the path before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice, product
from typing import NamedTuple, TypeAlias

from treecast.model import Subscription
from treecast.overlay.onyx.routing.covering import covers, embeds, is_always_true, may_interact, strengthen
from treecast.overlay.onyx.routing.generalising import choose
from treecast.overlay.onyx.routing.routing_query import LOCAL, PATTERN, TRUE, URI, Conjunction, Path, RoutingQuery
from treecast.overlay.onyx.routing.settings import RoutingSettings
from treecast.query import Query, parse
from treecast.query import tree as syntax
from treecast.query.tree import And, Call, Compare, Condition, Exists, Not, Or, Step, Term
from treecast.query.writer import UnwritableError, Writer

_BELOW = ("descendant", "descendant-or-self")
_ITSELF = syntax.Path(False, ())


class _Place(NamedTuple):
    """One step of a trail; a leaf is an attribute or a text somewhere below the step before it."""

    gap: bool
    uri: str | None
    local: str | None
    tests: frozenset[str] = frozenset()
    leaf: str = ""


_Trail: TypeAlias = tuple[_Place, ...]
# What a step's predicates may ask for together: tests of the step, and paths from it.
_Alternative: TypeAlias = tuple[frozenset[str], tuple[syntax.Path, ...]]
_ALWAYS: list[_Alternative] = [(frozenset(), ())]
# A trail, and what else a document must hold.
_Way: TypeAlias = tuple[_Trail, frozenset[Path]]


def map_subscription(subscription: Subscription, settings: RoutingSettings | None = None) -> RoutingQuery:
    """The routing query of a subscription; raises QueryError for one that no index would take.

    For many subscriptions use a `SubscriptionMapper`, which remembers shapes.
    """
    return map_query(parse(subscription.query, namespaces=subscription.namespaces).matching, settings)


def map_query(query: Query, settings: RoutingSettings | None = None) -> RoutingQuery:
    """The routing query of a matching path."""
    return Mapper(settings or RoutingSettings()).map(query.tree)


def _uncovered(conjunctions: list[Conjunction]) -> list[Conjunction]:
    """Those that no other covers; the first of those that cover each other."""
    kept: list[Conjunction] = []
    for each in conjunctions:
        if not any(covers(other, each) for other in kept):
            kept = [other for other in kept if not covers(each, other)] + [each]
    return kept


def shared(conjunctions: Iterable[Conjunction]) -> Conjunction:
    """What all of the conjunctions ask for: the paths that each of them has or implies. True where there is nothing.

    >>> shared([(("/a", "/b"), ("/a", "/c")), (("/a", "/c", "[@x]"),)])
    (('/a', '/c'),)
    """
    rows = list(dict.fromkeys(conjunctions))
    if not rows:
        return TRUE
    kept = [path for row in rows for path in row if all(any(embeds(path, other) for other in each) for each in rows)]
    return tidy(dict.fromkeys(kept)) or TRUE


def tidy(paths: Iterable[Path]) -> Conjunction | None:
    """The paths as a conjunction: in order, without those that others imply; None if no document has them all."""
    strong = strengthen(dict.fromkeys(path for path in paths if not is_always_true(path)))
    if strong is None:
        return None
    kept: list[Path] = []
    for path in sorted(strong, key=_by_length):
        if not any(embeds(path, other) for other in kept):
            kept.append(path)
    return tuple(sorted(kept))


def _by_length(path: Path) -> tuple[int, Path]:
    return -len(path), path


class _TokenWriter(Writer):
    """Writes conditions with URIs instead of prefixes."""

    def _prefix(self, step: Step) -> str:
        if step.uri == "" and step.local is None:
            raise UnwritableError("any name without namespace")
        if step.uri and (URI in step.uri or LOCAL in step.uri):
            raise UnwritableError("a namespace that no document has")
        return f"{URI}{step.uri}{LOCAL}" if step.uri else ""


_WRITER = _TokenWriter()


class Mapper:
    """Maps one query; `is_independent` says afterwards that other literals would have been mapped alike."""

    def __init__(self, settings: RoutingSettings) -> None:
        self.settings = settings
        self.is_limited = False
        self._places: dict[tuple[str, str], None] = {}  # the name of a step and a test of it

    @property
    def is_independent(self) -> bool:
        """Whether no two tests may speak of the same value, and no limit was met."""
        return not self.is_limited and not may_interact(self._places)

    def map(self, paths: Iterable[syntax.Path]) -> RoutingQuery:
        """The routing query of a union of paths."""
        most = self.settings.conjunctions_max
        conjunctions = list(dict.fromkeys(found for path in paths for found in self.conjunctions(path)))
        if TRUE in conjunctions:
            return RoutingQuery.of([TRUE])
        if len(conjunctions) > most:
            self.is_limited = True
            broader = choose(conjunctions, most)
            gone = {each for members in broader.values() for each in members}
            conjunctions = [*(each for each in conjunctions if each not in gone), *broader]
        return RoutingQuery.of(_uncovered(sorted(conjunctions)))

    def conjunctions(self, path: syntax.Path) -> list[Conjunction]:
        """One for each way to match the path."""
        most = self.settings.paths_max
        found: list[Conjunction] = []
        for trail, others in self._walk((), path.steps):
            paths = sorted({self._tokens(trail), *others} if trail else others, key=_by_length)
            conjunction = tidy(paths[: 4 * most])
            self.is_limited = self.is_limited or len(paths) > most
            if conjunction is not None:
                found.append(tuple(sorted(sorted(conjunction, key=_by_length)[:most])))
        found = list(dict.fromkeys(found))
        if self.settings.exact and found:
            pattern = _pattern(path)
            found = [tuple(sorted((*conjunction, pattern))) for conjunction in found] if pattern else found
        return found

    def _walk(self, trail: _Trail, steps: tuple[Step, ...]) -> list[_Way]:
        """All ways to follow the steps from the trail; where they are too many, those of fewer steps."""
        ways: list[_Way] = [(trail, frozenset())]
        for step in steps:
            if not _is_known(step):
                break
            if not step.predicates and step.axis == "child" and step.kind == "element":
                # PERF: bench.onyx_routing, mapping of shapes that are new: most steps are like this.
                place = _Place(step.gap, step.uri, step.local)
                ways = [(at if at and at[-1].leaf else (*at, place), others) for at, others in ways]
                continue
            further = self._few(ways, step)
            if further is None:
                further = self._few(ways, replace(step, predicates=()))
            if further is None:
                break
            ways = further
        return ways

    def _few(self, ways: list[_Way], step: Step) -> list[_Way] | None:
        """The ways, one step further; None if they are too many."""
        most = self.settings.conjunctions_max
        found = list(islice((way for at, others in ways for way in self._step(at, others, step)), most + 1))
        self.is_limited = self.is_limited or len(found) > most
        return list(dict.fromkeys(found)) if len(found) <= most else None

    def _step(self, at: _Trail, others: frozenset[Path], step: Step) -> Iterator[_Way]:
        if at and at[-1].leaf:
            yield at, others  # nothing is below a leaf that a linear path could ask for
            return
        if step.kind != "element":
            yield from ((trail, others) for trail in _leaf(at, step))
            return
        for start in _starts(at, step):
            for tests, nested in self._predicates(step.predicates):
                here = (*start[:-1], start[-1]._replace(tests=start[-1].tests | tests))
                for found in self._nested(here, nested):
                    yield here, others | found

    def _nested(self, here: _Trail, paths: tuple[syntax.Path, ...]) -> Iterator[frozenset[Path]]:
        """What nested paths add: one set for each way to match them all."""
        choices = [
            [
                others | {self._tokens(trail)} if trail else others
                for trail, others in self._walk(() if path.absolute else here, path.steps)
            ]
            for path in paths
        ]
        while _count(choices) > self.settings.conjunctions_max:
            self.is_limited = True
            choices.remove(max(choices, key=len))
        for choice in product(*choices):
            yield frozenset().union(*choice)

    def _tokens(self, trail: _Trail) -> Path:
        tokens: list[str] = []
        for place in trail:
            name = place.leaf or _element_name(place.uri, place.local)
            tests = sorted(place.tests)
            self._places |= dict.fromkeys((name, test) for test in tests)
            tokens += ["//" + name if place.gap else "/" + name, *tests]
        return tuple(tokens)

    def _predicates(self, predicates: tuple[Condition, ...]) -> list[_Alternative]:
        found = _ALWAYS
        for predicate in predicates:
            found = self._both(found, self._condition(predicate))
        return found

    def _both(self, left: list[_Alternative], right: list[_Alternative]) -> list[_Alternative]:
        if len(left) * len(right) > self.settings.conjunctions_max:
            self.is_limited = True
            return min(left, right, key=len)
        return [(tests | more, (*paths, *others)) for tests, paths in left for more, others in right]

    def _condition(self, condition: Condition) -> list[_Alternative]:
        """The alternatives of a condition of a step: none if it is never true, _ALWAYS if nothing can be said."""
        match condition:
            case And(operands):
                return self._predicates(operands)
            case _ if _is_own(condition):
                test = _test(condition)
                return _ALWAYS if test is None else [(frozenset((test,)), ())]
            case Or(operands):
                return self._any([self._condition(operand) for operand in operands])
            case Exists(paths):
                return self._any([self._path(path) for path in paths])
            case Compare(paths, relation, value):
                return self._any([self._path(_ending(path, Compare((_ITSELF,), relation, value))) for path in paths])
            case Call(path, text) if text:
                return self._path(_ending(path, _call(condition, _ITSELF)))
            case Term(_, requirement) if requirement is not None:
                return self._condition(requirement)
            case _:
                return _ALWAYS

    def _any(self, choices: list[list[_Alternative]]) -> list[_Alternative]:
        found = [alternative for choice in choices for alternative in choice]
        is_true = any(not tests and not paths for tests, paths in found)
        self.is_limited = self.is_limited or len(found) > self.settings.conjunctions_max
        return _ALWAYS if is_true or len(found) > self.settings.conjunctions_max else found

    def _path(self, path: syntax.Path) -> list[_Alternative]:
        if not path.steps:
            return _ALWAYS
        if not path.absolute and len(path.steps) == 1 and _is_leaf(path.steps[0]):
            test = _leaf_test(path.steps[0])
            return _ALWAYS if test is None else [(frozenset((test,)), ())]
        return [(frozenset(), (path,))]


def _count(choices: list[list[frozenset[Path]]]) -> int:
    count = 1
    for choice in choices:
        count *= len(choice)
    return count


def _is_known(step: Step) -> bool:
    if step.kind == "element":
        return step.axis in ("child", "self", *_BELOW)
    return step.kind in ("attribute", "text") and step.axis in ("child", "attribute", *_BELOW)


def _is_below(step: Step) -> bool:
    """Whether what it selects may lie deeper than one level."""
    return step.gap or step.axis in _BELOW


def _starts(at: _Trail, step: Step) -> Iterator[_Trail]:
    """The trails that lead to what an element step selects, without its predicates."""
    below = _is_below(step)
    if step.axis == "self" or step.axis == "descendant-or-self":
        if at and (place := _narrowed(at[-1], step)) is not None:
            yield (*at[:-1], place)
        if not below:
            return
    yield (*at, _Place(below, step.uri, step.local))


def _narrowed(place: _Place, step: Step) -> _Place | None:
    """The place, if it may also have the name of the step."""
    uri = step.uri if place.uri is None else place.uri
    local = step.local if place.local is None else place.local
    if (step.uri is not None and step.uri != uri) or (step.local is not None and step.local != local):
        return None
    return place._replace(uri=uri, local=local)


def _leaf(at: _Trail, step: Step) -> Iterator[_Trail]:
    """The trail with an attribute or text: a test of its element, or a last step after `//`."""
    if _is_below(step):
        bare = replace(step, gap=False, axis="attribute" if step.kind == "attribute" else "child", predicates=())
        name = _written(bare)
        tests = frozenset(test for test in map(_own_test, step.predicates) if test is not None)
        yield (*at, _Place(True, None, None, tests, name)) if name else at
    elif at:
        test = _leaf_test(step)
        yield at if test is None else (*at[:-1], at[-1]._replace(tests=at[-1].tests | {test}))


def _leaf_test(step: Step) -> str | None:
    """An attribute or text of an element as a test of that element; None if it cannot be written."""
    kept = tuple(predicate for predicate in step.predicates if _own_test(predicate) is not None)
    bare = syntax.Path(False, (replace(step, predicates=()),))
    match kept:
        case (Compare((only,), relation, value),) if only == _ITSELF:
            return _test(Compare((bare,), relation, value))
        case (Call(only, _),) if only == _ITSELF and step.uri is not None and step.local is not None:
            return _test(_call(kept[0], bare))
        case _:
            return _test(Exists((syntax.Path(False, (replace(step, predicates=kept),)),)))


def _call(condition: Condition, path: syntax.Path) -> Condition:
    """The same function of another path."""
    assert isinstance(condition, Call)
    return replace(condition, path=path)


def _own_test(condition: Condition) -> str | None:
    """A condition as a test, if it is about nothing but values of the element itself."""
    return _test(condition) if _is_own(condition) else None


def _is_own(condition: Condition) -> bool:
    match condition:
        case And(operands) | Or(operands):
            return all(_is_own(operand) for operand in operands)
        case Not(operand):
            return _is_own(operand)
        case Exists(paths):
            return all(path.steps and _is_own_path(path) for path in paths)
        case Compare(paths):
            return all(_is_own_path(path) for path in paths)
        case Call(path):
            return _is_own_path(path)
        case _:
            return False


def _is_own_path(path: syntax.Path) -> bool:
    """`.`, an attribute or text(): without predicates."""
    if path.absolute or path.variable is not None or len(path.steps) > 1:
        return False
    return all(_is_leaf(step) and not step.predicates for step in path.steps)


def _is_leaf(step: Step) -> bool:
    """Whether it selects attributes or texts of the element itself."""
    return step.kind != "element" and _is_known(step) and not _is_below(step)


def _ending(path: syntax.Path, condition: Condition) -> syntax.Path:
    """The path with one more predicate at its end."""
    if not path.steps:
        return syntax.Path(False, (Step("self", False, "element", None, None, (condition,)),))
    *before, last = path.steps
    return replace(path, steps=(*before, replace(last, predicates=(*last.predicates, condition))))


def _test(condition: Condition) -> str | None:
    try:
        return f"[{_WRITER.condition(condition)}]"
    except UnwritableError:
        return None


def _written(step: Step) -> str:
    try:
        return _WRITER.path(syntax.Path(False, (step,)))
    except UnwritableError:
        return ""


@lru_cache(maxsize=1 << 14)
def _element_name(uri: str | None, local: str | None) -> str:
    return _written(Step("child", False, "element", uri, local)) or "*"


def _pattern(path: syntax.Path) -> Path | None:
    """The token of a whole tree pattern."""
    try:
        return (PATTERN + _WRITER.path(path),)
    except UnwritableError:
        return None
