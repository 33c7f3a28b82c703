"""Sets of values: one conjunction that stands for many, which differ in a value, and the values, 5 bytes each (O6).

A *set form* is a conjunction with a hole where the others have a value: `[#@code]`. What is behind a hole is a set of
hashes. A document is wanted if it matches the form, and has a value of the set at the place of each hole: in an
attribute of an element of that name, or as the text of one. So a value that is not in the set is told apart, but for
one in 2^40 for each value of the set; one that is in the set always passes.

    >>> code = SetForm.of((("/news", "/item", '[@code="x1"]', '[@lang="en"]'),), keep=(1,))
    >>> describe(code.form_of((("/news", "/item", '[@code="x2"]', '[@lang="de"]'),))[0])
    '/news/item[#@code][@lang="de"]'
    >>> code.form_of((("/news", "/item", '[@code="x2"]', '[@lang="de"]'),))[1]
    (('x2',),)
    >>> code.form_of((("/news",),)) is None
    True

Holes of one form that are about the same value of elements of the same name share a set. All values of a conjunction
are in it: what it matches has one of them, at least. A form that is only a path and a hole at its end (`path_of`) is
decided by the values alone, without a machine: there the value has to stand where the path leads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from treecast import _native
from treecast.overlay.onyx.routing.routing_query import LOCAL, URI, Conjunction, describe, holes_of, is_plain
from treecast.overlay.onyx.routing.value_groups import Form, FormKey, Part, read_form

__all__ = ["SetForm", "ValueCounts", "best_form", "describe", "hole", "path_of", "places_of", "value_hashes"]

Values = tuple[tuple[str, ...], ...]
"""The values of a conjunction, for each of the holes of its form."""
_VALUES_EACH = 8  # conjunctions that a set form stands for, on average, where other tests are kept
_NAME = rf"(?:{URI}[^{URI}{LOCAL}]+{LOCAL})?[^\W\d][\w.-]*"
_STEP = re.compile(rf"(?P<gap>//?)(?P<name>\*|{_NAME})")
_HOLE = re.compile(rf"\[#(?:\.|@{_NAME})\]")
FORMS_EACH = 64  # set forms that come of one form: a document that matches them all asks each for its values


def _is_equality(test: str) -> bool:
    """Whether a test that says how a text begins says all of it."""
    return not test.startswith("[starts-with(")


def hole(target: str) -> str:
    """The token of a hole where the value of `target` was tested."""
    return f"[#{target}]"


def places_of(form: Conjunction) -> list[tuple[str, str, str, str]]:
    """For each hole, where its values are: URI and name of elements, "" for any; URI and name of an attribute, "" for
    the text of the element."""
    return [(*_expanded(name if is_plain(name) else ""), *_expanded(target[1:])) for name, target in holes_of(form)]


def path_of(form: Conjunction) -> list[tuple[bool, str, str]]:
    """Of a form that asks for nothing but a path and one value of the element at its end: for each step whether it is
    to descendants, URI and name, "" for any. Of any other: nothing.

    >>> path_of((("/news", "//item", "[#@code]"),))
    [(False, '', 'news'), (True, '', 'item')]
    >>> path_of((("/news", "//item", "[#@code]", '[@lang="en"]'),))
    []
    """
    if len(form) != 1 or len(form[0]) < 2:
        return []
    *steps, test = form[0]
    found = [_STEP.fullmatch(step) for step in steps]
    if not _HOLE.fullmatch(test) or not all(found):
        return []
    return [(one["gap"] == "//", *_expanded(one["name"].removesuffix("*"))) for one in found if one]


def _expanded(name: str) -> tuple[str, str]:
    uri, _, local = name.removeprefix(URI).rpartition(LOCAL)
    return uri, local


class SetForm:
    """How the conjunctions of one form become set forms: which of their tests stay, become holes, or are dropped."""

    __slots__ = ("_form", "_places", "_sets", "_tests", "key")

    def __init__(self, key: FormKey, form: Form, holes: Iterable[int], keep: Iterable[int]) -> None:
        """`holes`: the tests that become holes, by number; `keep`: those that stay."""
        self.key = key
        self._form = form
        open_to, kept = frozenset(holes), frozenset(keep)
        self._tests = [
            hole(target) if number in open_to else None if number in kept else ""
            for number, target in enumerate(form.targets)
        ]
        names = _names_of_tests(form)
        sets = sorted({(names[number], form.targets[number]) for number in open_to})
        self._sets = len(sets)
        self._places = [(number, sets.index((names[number], form.targets[number]))) for number in sorted(open_to)]

    @classmethod
    def of(cls, conjunction: Conjunction, keep: Iterable[int] = ()) -> SetForm:
        """For conjunctions of the form of this one: all tests but those that stay become holes."""
        key, _ = read_form(conjunction)
        form = Form.of(key)
        kept = set(keep)
        return cls(key, form, [n for n, target in enumerate(form.targets) if target and n not in kept], kept)

    def form_of(self, conjunction: Conjunction) -> tuple[Conjunction, Values] | None:
        """The set form that stands for a conjunction, and its values; None where it has another form, or no values."""
        key, slots = read_form(conjunction)
        return self.of_slots(slots) if key == self.key else None

    def of_slots(self, slots: Sequence[tuple[str, str]]) -> tuple[Conjunction, Values] | None:
        """The same for a conjunction of this form, given as its tests."""
        values: list[list[str]] = [[] for _ in range(self._sets)]
        for number, place in self._places:
            token, text = slots[number]
            if not _is_equality(token):
                return None
            values[place].append(text)
        tests = [slots[number][0] if test is None else test for number, test in enumerate(self._tests)]
        return self._form.fill(tests), tuple(map(tuple, values))


def _names_of_tests(form: Form) -> list[str]:
    """By test: the name test of its step."""
    names: list[str] = []
    for path in form.paths:
        name = ""
        for token in path:
            if token:
                name = token.lstrip("/")
            else:
                names.append(name)
    return names


def _is_element(name: str) -> bool:
    """Whether a step is to elements, not to attributes or texts."""
    return name[:1] != "@" and name != "text()"


def best_form(part: Part, forms_max: int, values_min: int = 2) -> tuple[SetForm, int, int] | None:
    """How to make set forms of the conjunctions of a group, how many, and about how many values they have; None if
    no test has as many values as `values_min`.

    The test with most values becomes a hole. Others stay as long as few set forms come of it; then they become holes
    as well, or are dropped where they are not about a value as a whole.
    """
    columns = list(zip(*part.slots, strict=True)) if part.slots and part.slots[0] else []
    counts = [len(set(column)) for column in columns]
    names = _names_of_tests(part.form)
    open_to = [
        number
        for number, target in enumerate(part.form.targets)
        if target
        and counts[number] > 1
        and target != "text()"
        and _is_equality(columns[number][0][0])
        and _is_element(names[number])
    ]
    widest = max(open_to, key=lambda number: (counts[number], -number), default=None)
    if widest is None or counts[widest] < values_min:
        return None
    holes, keep = {widest}, list[int]()
    size = 1
    limit = max(1, min(forms_max, FORMS_EACH, len(part) // _VALUES_EACH))
    for number in sorted(range(len(columns)), key=lambda number: counts[number]):
        if number == widest:
            continue
        chosen = [columns[other] for other in (*keep, number)]
        combined = counts[number] if not keep else len(set(zip(*chosen, strict=True)))
        if combined <= limit:
            keep.append(number)
            size = combined
        elif number in open_to:
            holes.add(number)
    return SetForm(part.key, part.form, holes, keep), size, len(part) * len(holes)


class ValueCounts:
    """The sets behind the holes of one set form, each value with how often it was added.

    >>> counts = ValueCounts(1)
    >>> counts.change([value_hashes(["a", "b"])], [b""])
    >>> counts.change([value_hashes(["a"])], [value_hashes(["b"])])
    >>> [len(values) for values in counts.values()], [len(row) // 5 for row in counts.added()]
    ([5], [1])
    """

    __slots__ = ("_came", "_sets", "_went")

    def __init__(self, holes: int) -> None:
        self._sets = [_native.ValueSet() for _ in range(holes)]
        self._came: list[list[bytes]] = [[] for _ in range(holes)]
        self._went: list[list[bytes]] = [[] for _ in range(holes)]

    def __len__(self) -> int:
        return sum(map(len, self._sets))

    def change(self, more: Sequence[bytes], less: Sequence[bytes]) -> None:
        """Count the values of each hole once more, or once less."""
        for place, values in enumerate(self._sets):
            if more[place]:
                self._came[place].append(values.count(more[place]))
            if less[place]:
                self._went[place].append(values.uncount(less[place]))

    def values(self) -> tuple[bytes, ...]:
        """All of them, for each hole, in order."""
        return tuple(values.values() for values in self._sets)

    def added(self) -> tuple[bytes, ...]:
        """Those that have come since `settle`."""
        return tuple(map(_net, self._came, self._went))

    def removed(self) -> tuple[bytes, ...]:
        """Those that have gone since `settle`."""
        return tuple(map(_net, self._went, self._came))

    def settle(self) -> None:
        """Everybody knows what has changed."""
        for rows in (*self._came, *self._went):
            rows.clear()


def _net(rows: list[bytes], others: list[bytes]) -> bytes:
    if len(rows) == 1 and not others:
        return rows[0]
    if not rows:
        return b""
    return _native.value_difference(_native.sorted_values(b"".join(rows)), _native.sorted_values(b"".join(others)))


def value_hashes(values: Iterable[str]) -> bytes:
    """The hashes of values, one after the other."""
    return _native.value_hashes(list(values))
