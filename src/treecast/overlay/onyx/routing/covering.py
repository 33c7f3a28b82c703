"""When one conjunction covers another: every document that the second matches, the first matches too.

Linear paths allow a fast and certain answer. A path covers another if its steps can be laid over steps of the other:
a child step over the child step that follows, a `//` step over any later one, a name over the same name, `*` over any,
and each test over a test there that implies it. A conjunction covers another if each of its paths covers one of the
other's. That is a homomorphism (Miklau and Suciu, Containment and Equivalence for a Fragment of XPath, 2004): true is
certain. And it is transitive, so the uncovered conjunctions of a set do not depend on the order in which they came.

    >>> embeds(("//p",), ("/nitf", "/body", "//p", '[@lang="en"]'))
    True
    >>> covers((("/a",),), (("/a", "/b"), ("//c",)))
    True
    >>> structure((("/a", "[@x=1]", "/b"),))
    (('/a', '/b'),)

A *structure* is a conjunction without tests. `structure_document` is a document that everything matches that covers
the structure: so an index finds what covers a conjunction among any number of others (`structures.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from xml.sax.saxutils import quoteattr

from treecast.overlay.onyx.routing.routing_query import LOCAL, PATTERN, URI, XML, Conjunction, Path, is_plain, root_of
from treecast.query.values import implies as value_implies
from treecast.query.values import is_impossible

_NAME = rf"(?:{URI}[^{LOCAL}]*{LOCAL})?[^=!<>()\[\]*, ]+"
_TARGET = rf"\.|text\(\)|@{_NAME}"
_VALUE = r"\"[^\"]*\"|'[^']*'|-?[0-9.]+"
_COMPARE = re.compile(rf"\[({_TARGET})(=|!=|<=|>=|<|>)({_VALUE})\]")
_CALL = re.compile(rf"\[([a-z-]+)\(({_TARGET}), (\"[^\"]*\"|'[^']*')\)\]")
_EXISTS = re.compile(rf"\[(text\(\)|@{_NAME})\]")
_LOCAL_NAME = re.compile(r"\*\[local-name\(\)=\"([^\"]*)\"\]")
_FURTHER = frozenset(f"{URI}!<>()* ")  # none of them is in the name of an attribute that is compared and nothing else
_FRESH = "_"  # the name of elements of which nothing is known


class _Test(NamedTuple):
    """A test that can be reasoned about: a value of the element, and what it has to pass, or "" if it has to exist."""

    target: str
    relation: str
    value: str | float


class _Step(NamedTuple):
    gap: bool
    name: str
    tests: Path


_Steps: TypeAlias = tuple[_Step, ...]


@lru_cache(maxsize=1 << 16)
def read_test(token: str) -> _Test | None:
    """A test as its parts; None for `or`, `not` and whatever else is only equal to itself."""
    if found := _COMPARE.fullmatch(token):
        value = found[3]
        return _Test(found[1], found[2], value[1:-1] if value[0] in "\"'" else float(value))
    if found := _CALL.fullmatch(token):
        return _Test(found[2], found[1], found[3][1:-1])
    if found := _EXISTS.fullmatch(token):
        return _Test(found[1], "", "")
    return None


@lru_cache(maxsize=1 << 16)
def test_implies(known: str, asked: str) -> bool:
    """Whether an element that passes the first test is certain to pass the second."""
    if known == asked:
        return True
    left, right = read_test(known), read_test(asked)
    if left is None or right is None or left.target != right.target:
        return False
    if not right.relation:
        return _is_presence(left)
    if not left.relation:
        return False
    # Of several texts, a comparison speaks of some, a function of the first.
    if right.target == "text()" and _is_call(right) and not _is_call(left):
        return False
    # A function of an empty text holds even where there is nothing.
    if not _is_presence(left):
        return False
    return value_implies(((left.relation, left.value),), (right.relation, right.value))


def _is_call(test: _Test) -> bool:
    return test.relation[:1].isalpha()


def _is_presence(test: _Test) -> bool:
    """Whether the test says that there is a value: one of the empty text holds even where there is nothing."""
    return not _is_call(test) or bool(test.value)


def start_of(token: str) -> tuple[str, str] | None:
    """The value that a test speaks of, and how it has to begin; None where the test does not say.

    >>> start_of('[@code="ab-123"]'), start_of('[starts-with(., "ab")]'), start_of("[@code]")
    (('@code', 'ab-123'), ('.', 'ab'), None)
    """
    # PERF: bench.onyx_routing, summarise: most tests are of this form, and each of many literals is seen once.
    if token.startswith("[@"):
        target, found, text = token[1:-2].partition('="')
        if found and '"' not in text and _FURTHER.isdisjoint(target):
            return (target, text) if text else None
    test = read_test(token)
    if test is None or not isinstance(test.value, str) or not test.value:
        return None
    # Of several texts, `=` speaks of some, a function of the first.
    is_first = test.relation == "starts-with" or (test.relation == "=" and test.target != "text()")
    return (test.target, test.value) if is_first else None


def presence_of(token: str) -> str | None:
    """What follows from a test of an attribute or a text: that there is one.

    >>> presence_of('[@code="ab"]'), presence_of("[@code]"), presence_of('[starts-with(., "ab")]')
    ('[@code]', None, None)
    """
    if token.startswith("[@"):
        target, found, text = token[1:-2].partition('="')
        if found and '"' not in text and _FURTHER.isdisjoint(target):
            return f"[{target}]"
    if token.startswith("[#@"):  # a hole: some value of a set
        return f"[{token[2:]}"
    test = read_test(token)
    if test is None or not test.relation or test.target == "." or not _is_presence(test):
        return None
    return f"[{test.target}]"


def beginning(target: str, text: str) -> str:
    """The test that a value begins with a text."""
    return f"[starts-with({target}, '{text}')]" if '"' in text else f'[starts-with({target}, "{text}")]'


def follows(known: str, asked: str) -> bool:
    """A part of `test_implies` that needs no search: what `Visible` finds by looking up tests.

    >>> follows('[@code="ab-123"]', '[starts-with(@code, "ab")]'), follows("[@price>3]", "[@price>2]")
    (True, False)
    """
    if known == asked:
        return True
    test = read_test(asked)
    if test is None:
        return False
    if not test.relation:
        return presence_of(known) == asked
    start = start_of(known) if test.relation == "starts-with" and test.value else None
    return start is not None and start[0] == test.target and start[1].startswith(str(test.value))


@lru_cache(maxsize=1 << 15)
def split(path: Path) -> _Steps:
    """The steps of a path."""
    steps: list[_Step] = []
    for token in path:
        if token[0] == "[":
            gap, name, tests = steps[-1]
            steps[-1] = _Step(gap, name, (*tests, token))
        else:
            gap = token.startswith("//")
            steps.append(_Step(gap, token[1 + gap :], ()))
    return tuple(steps)


def embeds(path: Path, other: Path, implies: Callable[[str, str], bool] = test_implies) -> bool:
    """Whether every document that matches `other` is certain to match `path`."""
    if path == other:
        return True
    if path[0][0] == PATTERN or other[0][0] == PATTERN:
        return False
    wanted, given = split(path), split(other)
    if len(wanted) > len(given):
        return False
    reached = {-1}
    for step in wanted:
        first = min(reached)
        reached = {
            place
            for place in range(first + 1, len(given))
            if (step.gap or (place - 1 in reached and not given[place].gap)) and _fits(step, given[place], implies)
        }
        if not reached:
            return False
    return True


def _fits(step: _Step, given: _Step, implies: Callable[[str, str], bool]) -> bool:
    if step.name != given.name and not _name_covers(step.name, given.name):
        return False
    return all(any(implies(known, test) for known in given.tests) for test in step.tests)


def _name_covers(name: str, other: str) -> bool:
    if _is_leaf(name) or _is_leaf(other):
        return False
    if name == "*":
        return True
    if name.endswith("*"):  # all names of a namespace
        return other.startswith(name[:-1])
    local = _LOCAL_NAME.fullmatch(name)
    return local is not None and is_plain(other) and other.rpartition(LOCAL)[2] == local[1]


def _is_leaf(name: str) -> bool:
    return name[0] == "@" or name == "text()"


def covers(conjunction: Conjunction, other: Conjunction, implies: Callable[[str, str], bool] = test_implies) -> bool:
    """Whether every document that matches `other` is certain to match `conjunction`."""
    return all(any(embeds(path, theirs, implies) for theirs in other) for path in conjunction)


def is_always_true(path: Path) -> bool:
    """Whether every document matches."""
    return path in (("/*",), ("//*",))


def strengthen(paths: Iterable[Path]) -> list[Path] | None:
    """The paths, each with all that they together say of the root element; None if no document matches them all.

    A document has one root element, so what one path says of it holds for the others.
    """
    rows = list(paths)
    if any(_contradicts(step.tests) for path in rows if path[0][0] == "/" for step in split(path)):
        return None
    rooted = [split(path)[0] for path in rows if path[0][0] == "/" and not path[0].startswith("//")]
    if len(rooted) < 2:
        return rows
    name: str | None = "*"
    for step in rooted:
        name = _meet(name, step.name) if name else None
    tests = strongest(test for step in rooted for test in step.tests)
    if name is None or _contradicts(tests):
        return None
    strong: dict[Path, None] = {}
    for path in rows:
        first = split(path)[0] if path[0][0] == "/" else None
        is_rooted = first is not None and not first.gap
        strong[(f"/{name}", *tests, *path[1 + len(first.tests) :]) if first and is_rooted else path] = None
    return list(strong)


def _meet(name: str, other: str) -> str | None:
    """The name test that passes what both pass; None if that is nothing."""
    if name == other or _name_covers(name, other):
        return other
    if _name_covers(other, name):
        return name
    for left, right in ((name, other), (other, name)):
        local = _LOCAL_NAME.fullmatch(right)
        if local is not None and left.endswith(f"{LOCAL}*"):
            return left[:-1] + local[1]
    return None


def strongest(tests: Iterable[str]) -> Path:
    """The tests in order, without those that another implies."""
    rows = sorted(set(tests))
    return tuple(
        test
        for place, test in enumerate(rows)
        if not any(
            test_implies(other, test) and (not test_implies(test, other) or at < place)
            for at, other in enumerate(rows)
            if at != place
        )
    )


def _contradicts(tests: Path) -> bool:
    """Whether no element passes all of the tests; where that is not certain, False."""
    if len(tests) < 2:
        return False
    values: dict[str, list[tuple[str, str | float]]] = {}
    for token in tests:
        test = read_test(token)
        if test is not None and test.relation and test.target != "text()":
            values.setdefault(test.target, []).append((test.relation, test.value))
    return any(is_impossible(tuple(rows)) for rows in values.values())


def may_interact(tests: Iterable[tuple[str, str]]) -> bool:
    """Whether two different tests, each given with the name of its step, may speak of one value.

    Then whether one implies or contradicts the other depends on their literals. So may whether one can hold at all.
    """
    seen: dict[str, list[str]] = {}  # target -> names of steps
    for name, token in tests:
        test = read_test(token)
        if test is not None and not test.relation:
            continue
        if test is not None and test.relation[0] in "<>" and isinstance(test.value, str):
            return True  # a text that is compared as a number may be none
        target = "" if test is None else test.target  # "": of several values, or of none
        others = [row for key, rows in seen.items() for row in rows if not key or not target or key == target]
        if others and (not is_plain(name) or any(other == name or not is_plain(other) for other in others)):
            return True
        seen.setdefault(target, []).append(name)
    return False


@lru_cache(maxsize=1 << 15)
def structure(conjunction: Conjunction) -> Conjunction:
    """The conjunction without its tests and tree patterns: it covers it."""
    bare = [tuple([token for token in path if token[0] == "/"]) for path in conjunction]
    return tuple(sorted(dict.fromkeys(path for path in bare if path)))


@lru_cache(maxsize=1 << 15)
def tests_of(conjunction: Conjunction) -> Path:
    """What a conjunction has beyond its structure: tests of any step, tree patterns, each once."""
    return tuple(dict.fromkeys([token for path in conjunction for token in path if token[0] != "/"]))


def structure_document(paths: Conjunction) -> bytes:
    """A document that matches the structure, and by its form as little else as possible.

    A `*` becomes an element of a name of its own; so does what lies in the gap of a `//`.
    """
    branches: list[str] = []
    for path in paths:
        steps = split(path)
        branches.append(_inside(steps if steps[0].gap else steps[1:]))
    return _element(root_of(paths)[1:], "".join(branches)).encode()


def _inside(steps: _Steps) -> str:
    """The elements of the steps, inside each other."""
    inner = ""
    for step in reversed(steps):
        if step.name == "text()":
            inner = _element("*", "x")
        elif step.name[0] == "@":
            name, declaration = _tag(step.name[1:])
            inner = f'<{_FRESH}{declaration} {name}=""/>'
        else:
            inner = _element(step.name, inner)
            inner = _element("*", inner) if step.gap else inner
    return inner


def _element(test: str, inner: str) -> str:
    name, declaration = _tag(test)
    return f"<{name}{declaration}>{inner}</{name}>"


def _tag(test: str) -> tuple[str, str]:
    """A name that passes a name test, and the declaration of its prefix."""
    if found := _LOCAL_NAME.fullmatch(test):
        return f"n:{found[1]}", f' xmlns:n="{_FRESH}"'
    uri, _, local = test.removeprefix(URI).rpartition(LOCAL)
    local = local.replace("*", _FRESH)
    if uri == XML:
        return f"xml:{local}", ""
    return (f"n:{local}", f" xmlns:n={quoteattr(uri)}") if uri else (local, "")
