"""The sets of values of a summary: which forms of conjunctions have become sets, and how often each value was added.

    >>> sets = SummarySets()
    >>> one, two = [(("/news", "/item", f'[@code="{code}"]'),) for code in ("x1", "x2")]
    >>> form = SetForm.of(one)
    >>> sets.forms[form.key] = form
    >>> for conjunction in (one, two):
    ...     sets.join(*sets.form_of(conjunction))
    >>> sets.show(sets.form_of(one)[0])
    >>> sets.total
    2
    >>> sets.leave(*sets.form_of(two))
    >>> sets.total
    1

A value is counted once for each conjunction here that has it, and once if somebody below has it in a set. Values are
hashed and counted many at a time, when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treecast.overlay.onyx.routing.routing_query import Conjunction, holes_of
from treecast.overlay.onyx.routing.value_groups import FormKey, read_form
from treecast.overlay.onyx.routing.value_sets import SetForm, ValueCounts, Values, value_hashes


class SummarySets:
    """By set form its values. `forms` are the forms of conjunctions whose values are sets."""

    def __init__(self) -> None:
        self.forms: dict[FormKey, SetForm] = {}
        self.members = 0
        """Conjunctions whose values are here."""
        self._counts: dict[Conjunction, ValueCounts] = {}
        self._texts: dict[Conjunction, tuple[list[list[str]], list[list[str]]]] = {}  # to be counted, and uncounted
        self._shown: dict[Conjunction, None] = {}
        self._changed: dict[Conjunction, None] = {}
        self._total = 0

    def form_of(self, conjunction: Conjunction) -> tuple[Conjunction, Values] | None:
        """The set form that stands for a conjunction, and its values."""
        key, slots = read_form(conjunction)
        form = self.forms.get(key)
        return form.of_slots(slots) if form is not None else None

    def join(self, form: Conjunction, values: Values) -> None:
        """A conjunction of these values is behind the set form from now on."""
        self.members += 1
        for row, more in zip(self._waiting(form)[0], values, strict=True):
            row.extend(more)

    def leave(self, form: Conjunction, values: Values) -> None:
        """It is not any more."""
        self.members -= 1
        for row, less in zip(self._waiting(form)[1], values, strict=True):
            row.extend(less)

    def _waiting(self, form: Conjunction) -> tuple[list[list[str]], list[list[str]]]:
        waiting = self._texts.get(form)
        if waiting is None:
            holes = range(len(holes_of(form)))
            waiting = self._texts[form] = [[] for _ in holes], [[] for _ in holes]
        return waiting

    def change(self, form: Conjunction, more: Sequence[bytes], less: Sequence[bytes]) -> None:
        """Somebody below has more values, or fewer."""
        counts = self._counts.get(form)
        if counts is None:
            counts = self._counts[form] = ValueCounts(len(holes_of(form)))
        before = len(counts)
        counts.change(more, less)
        self._changed[form] = None
        if form in self._shown:
            self._total += len(counts) - before

    def _count(self) -> None:
        waiting, self._texts = self._texts, {}
        for form, (more, less) in waiting.items():
            self.change(form, [value_hashes(row) for row in more], [value_hashes(row) for row in less])

    def show(self, form: Conjunction) -> None:
        """The set form is announced: its values count."""
        self._count()
        self._shown[form] = None
        self._total += self.size(form)

    def hide(self, form: Conjunction) -> None:
        """It is not announced any more."""
        self._count()
        del self._shown[form]
        self._total -= self.size(form)

    @property
    def total(self) -> int:
        """The values of all set forms that are shown."""
        self._count()
        return self._total

    @property
    def shown(self) -> list[Conjunction]:
        """The set forms that are shown."""
        return list(self._shown)

    def size(self, form: Conjunction) -> int:
        """How many values a set form has."""
        counts = self._counts.get(form)
        return len(counts) if counts is not None else 0

    def values(self, form: Conjunction) -> tuple[bytes, ...]:
        """The values of a set form, for each of its holes."""
        self._count()
        counts = self._counts.get(form)
        return counts.values() if counts is not None else (b"",) * len(holes_of(form))

    def take_changes(self) -> Iterator[tuple[Conjunction, tuple[bytes, ...], tuple[bytes, ...]]]:
        """The set forms whose values have changed since, with those that came, and those that went."""
        self._count()
        changed, self._changed = self._changed, {}
        for form in changed:
            counts = self._counts[form]
            yield form, counts.added(), counts.removed()
            counts.settle()
            if not len(counts) and form not in self._shown:
                del self._counts[form]
