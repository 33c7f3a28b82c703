"""Generalisation of values: a few rules, as narrow as can be, for conjunctions that differ in nothing but their tests.

A *group* has conjunctions of one form: the same steps, with tests of the same kind at the same places. What they share
covers them all: equal tests stay, of texts it stays how all of them begin, and other tests are dropped. A group is cut
in parts by the next letter of a text or by a whole value; each part shares more. `divide` begins with one rule for each
group, and always cuts the one whose rule lets through most in vain for each conjunction behind it, as long as there is
room. So a few narrow groups stay as they are, and large ones get what is left.

    >>> codes = [(("/a", f'[@code="{code}"]'),) for code in ("x11", "x12", "y71", "y72", "y73")]
    >>> for size in (1, 2, 4, 5):
    ...     parts = divide(groups_of(codes), size, lambda rules: [1.0 for _ in rules])
    ...     print(sorted("".join(part.rule[0]) for part in parts))
    ['/a']
    ['/a[starts-with(@code, "x1")]', '/a[starts-with(@code, "y7")]']
    ['/a[@code="x11"]', '/a[@code="x12"]', '/a[starts-with(@code, "y7")]']
    ['/a[@code="x11"]', '/a[@code="x12"]', '/a[@code="y71"]', '/a[@code="y72"]', '/a[@code="y73"]']
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from treecast.overlay.onyx.routing.covering import beginning, is_always_true, start_of
from treecast.overlay.onyx.routing.routing_query import HOLE, TRUE, Conjunction, Path

_VALUES_FEW = 32  # different values up to which a group is cut by whole values
_ROUND = 0.5  # of the best gain: what is cut in the same round

FormKey = tuple[tuple[str, ...], ...]
"""The paths of a conjunction with marks in place of its tests."""
_Slot = tuple[str, str]
"""A test: its token, and the text that its value begins with, or "" where it does not say."""


class Form:
    """What the conjunctions of a group have in common: their steps, and of each test what it is about."""

    __slots__ = ("paths", "targets")

    def __init__(self, paths: list[list[str]], targets: list[str]) -> None:
        self.paths = paths
        """Steps as they are; "" where a test was."""
        self.targets = targets
        """By slot: the value that it speaks of, or "" where it is not about how a text begins."""

    @classmethod
    def of(cls, key: FormKey) -> Form:
        """The form of conjunctions that are read like this."""
        paths = [["" if token[0] != "/" else token for token in path] for path in key]
        return cls(paths, [token[2:] for path in key for token in path if token[0] != "/"])

    def fill(self, tests: Sequence[str]) -> Conjunction:
        """The conjunction with these tests; an empty one is dropped."""
        found: dict[Path, None] = {}
        place = 0
        for path in self.paths:
            tokens: list[str] = []
            for token in path:
                if not token:
                    token = tests[place]
                    place += 1
                if token:
                    tokens.append(token)
            if tokens and not is_always_true(tuple(tokens)):
                found[tuple(tokens)] = None
        return tuple(sorted(found)) if found else TRUE


class Part:
    """Conjunctions of a group, and the rule that covers them: what they share."""

    __slots__ = ("conjunctions", "form", "key", "rule", "slots", "starts")

    def __init__(
        self, key: FormKey, form: Form, conjunctions: list[Conjunction], slots: list[tuple[_Slot, ...]]
    ) -> None:
        self.key = key
        self.form = form
        self.conjunctions = conjunctions
        self.slots = slots
        """By conjunction: its tests."""
        self.starts: list[str | None] = []
        """By slot: how all texts begin; None if all tests are equal."""
        if len(conjunctions) == 1:
            self.rule = conjunctions[0]
            return
        tests: list[str] = []
        for target, column in zip(form.targets, zip(*slots, strict=True), strict=True):
            low, high = min(column), max(column)
            if low == high:
                self.starts.append(None)
                tests.append("" if low[0].startswith(HOLE) else low[0])  # equal holes have different sets behind them
                continue
            texts = [text for _, text in column]
            start = _common_start(min(texts), max(texts)) if target else ""
            self.starts.append(start)
            tests.append(beginning(target, start) if start else "")
        self.rule = form.fill(tests)

    def apart(self) -> list[Part]:
        """Each conjunction by itself."""
        return [
            Part(self.key, self.form, [each], [slots])
            for each, slots in zip(self.conjunctions, self.slots, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.conjunctions)

    def cut(self, room: int) -> list[Part] | None:
        """Parts that each share more; None if there are more than that."""
        best: tuple[bool, int, dict[str, list[int]]] | None = None
        for place, start in enumerate(self.starts):
            if start is None:
                continue
            target = self.form.targets[place]
            rows: dict[str, list[int]] = {}
            for number, slots in enumerate(self.slots):
                rows.setdefault(slots[place][0], []).append(number)
            if target and len(rows) > min(room, _VALUES_FEW):
                rows = self._by_next_letter(place, len(start) + 1)
            rank = (not target, len(rows))
            if len(rows) <= room and (best is None or rank < best[:2]):
                best = (*rank, rows)
        if best is None:
            return None
        return [
            Part(self.key, self.form, [self.conjunctions[row] for row in numbers], [self.slots[row] for row in numbers])
            for numbers in best[2].values()
        ]

    def _by_next_letter(self, place: int, length: int) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for number, slots in enumerate(self.slots):
            token, text = slots[place]
            # A text that ends here is a part of its own: nothing longer begins like it and is as narrow.
            rows.setdefault(text[:length] if len(text) >= length else token, []).append(number)
        return rows


def _common_start(text: str, other: str) -> str:
    size = next((place for place, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), len(text))
    return text[:size]


def groups_of(conjunctions: Iterable[Conjunction]) -> list[Part]:
    """The conjunctions by form, each group as one part."""
    forms: dict[FormKey, tuple[list[Conjunction], list[tuple[_Slot, ...]]]] = {}
    for conjunction in conjunctions:
        key, slots = read_form(conjunction)
        known = forms.get(key)
        if known is None:
            known = forms[key] = [], []
        known[0].append(conjunction)
        known[1].append(slots)
    return [Part(key, Form.of(key), *row) for key, row in forms.items()]


def read_form(conjunction: Conjunction) -> tuple[FormKey, tuple[_Slot, ...]]:
    """A conjunction as its form and its tests."""
    if len(conjunction) == 1:
        marks, slots = _read(conjunction[0])
        return (marks,), slots
    rows = sorted([_read(path) for path in conjunction])
    return tuple([row[0] for row in rows]), tuple([slot for row in rows for slot in row[1]])


def _read(path: Path) -> tuple[tuple[str, ...], tuple[_Slot, ...]]:
    """The path with marks for its tests, and the tests: `[=` and a target where it says how a text begins."""
    marks: list[str] = []
    slots: list[_Slot] = []
    for token in path:
        if token[0] == "/":
            marks.append(token)
            continue
        start = start_of(token)
        if start:
            marks.append(f"[={start[0]}")
            slots.append((token, start[1]))
        else:
            marks.append("[?")
            slots.append((token, ""))
    return tuple(marks), tuple(slots)


def divide(parts: Iterable[Part], size_max: int, lose: Callable[[list[Conjunction]], list[float]]) -> list[Part]:
    """The parts, cut into up to `size_max`. `lose` says of rules what share of documents each lets through in vain."""
    done: list[Part] = []
    heap: list[tuple[float, Conjunction, int, Part]] = []
    numbers = count()

    def take(rows: list[Part]) -> None:
        done.extend(row for row in rows if len(row) == 1)
        several = [row for row in rows if len(row) > 1]
        for row, lost in zip(several, lose([row.rule for row in several]), strict=True):
            heapq.heappush(heap, (-lost / (len(row) - 1), row.rule, next(numbers), row))

    take(list(parts))
    while heap and len(heap) + len(done) < size_max:
        # Rounds, because it is far cheaper to judge many rules at once.
        best = heap[0][0] * _ROUND
        cut: list[Part] = []
        size = len(heap) + len(done)
        while heap and size < size_max and heap[0][0] <= best:
            part = heapq.heappop(heap)[-1]
            rows = part.cut(size_max - size + 1)
            if rows is None:
                done.append(part)
            else:
                cut += rows
                size += len(rows) - 1
        take(cut)
    return done + [row for *_, row in heap]
