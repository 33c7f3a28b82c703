"""A changing set of conjunctions, and the few of them that say it all: what a broker tells its parent.

A Summary counts conjunctions as they come and go. Those that no other covers are *visible*: their disjunction is the
routing query of all. When a visible one goes, what it covered comes back (O7). When there are more than `entries_max`
visible ones, broader ones are added that cover many of them: *rules* (O6). A rule is a conjunction like any other, only
that nobody subscribed to it; covering does the rest. When there is room again, rules go, and what they covered returns.

Before that, conjunctions that differ in values become sets of values (`value_sets.py`): once a form has become sets,
all its conjunctions are in them, also those that come later. So one subscription more is one value more.

    >>> summary = Summary()
    >>> print(summary.update([(("/a", "/b"),), (("/a", "/c"),)]).added)
    /a/b or /a/c
    >>> delta = summary.update([(("/a",),)])
    >>> print(delta.added, "-", delta.removed)
    /a - /a/b or /a/c
    >>> print(summary.update([], [(("/a",),)]).added)
    /a/b or /a/c

The visible ones are a function of the set and the rules, whatever the order of changes (`rebuilt` computes it anew;
tests compare). Rules depend on history: they are chosen when the budget is met, and go only when half of it is free.
A removal does bounded work: where it would bring back more than `revived_max`, the conjunction stays as a rule for
now, which is broader than necessary, and `refine` removes it at a quiet moment.

Theory of operation. Each hidden conjunction has a witness that covers it, itself visible or hidden. A new one asks
those that are visible (`visible.py`) who covers it, and whom it may cover.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

import msgspec

from treecast.overlay.onyx.routing.generalising import choose
from treecast.overlay.onyx.routing.routing_query import (
    Conjunction,
    Delta,
    RoutingQuery,
    ValueRow,
    has_hole,
    without_holes,
)
from treecast.overlay.onyx.routing.sample import Sample
from treecast.overlay.onyx.routing.settings import RoutingSettings
from treecast.overlay.onyx.routing.summary_sets import SummarySets
from treecast.overlay.onyx.routing.value_groups import FormKey, Part, groups_of, read_form
from treecast.overlay.onyx.routing.value_sets import FORMS_EACH, Values, best_form
from treecast.overlay.onyx.routing.visible import Visible

_ROOM = 0.75  # of the budget, what generalisation leaves full
_GROUP_MIN = 64  # conjunctions of one form that make a large group
_ROUND = 1_000  # conjunctions that are taken in at once; of more, the shorter ones first
_REVIVED = 1_000  # conjunctions that come back with one change, unless they come back together
_IDLE_MAX = 8  # rounds of generalisation that change neither how many there are nor how many values
_HALF = 0.5  # of the budget, below which rules may go
_FEW = 0.25  # of the budget: conjunctions that are shown instead of sets, when there are no more


class Summary:
    """Conjunctions with their counts; `query` is what covers them all, within the budget."""

    def __init__(
        self, settings: RoutingSettings | None = None, *, sample: Sample | None = None, seed: int | None = None
    ) -> None:
        """`sample` has documents by which generalisations are judged."""
        self.settings = settings or RoutingSettings()
        self._sample = sample
        self._counts: dict[Conjunction, int] = {}
        self._rules: dict[Conjunction, None] = {}
        self._set_rules: dict[Conjunction, None] = {}  # set forms that stand for conjunctions of this summary
        self._sets = SummarySets()
        self._orphans: list[Conjunction] = []  # neither visible nor hidden, for the moment
        self._late: dict[Conjunction, None] = {}  # rules that stand for a removal
        self._witness: dict[Conjunction, Conjunction] = {}
        self._hides: dict[Conjunction, dict[Conjunction, None]] = {}
        self._seed = seed
        self._visible = Visible(seed=seed)
        self._judged = 0  # documents that the sample had when rules were chosen
        self._before: dict[Conjunction, bool] = {}  # what was visible when a change began, of what it touched

    def __len__(self) -> int:
        """How many conjunctions are visible."""
        return len(self._visible)

    @property
    def counts(self) -> Mapping[Conjunction, int]:
        """The conjunctions that were added, and how often."""
        return self._counts

    @property
    def rules(self) -> tuple[Conjunction, ...]:
        """The conjunctions that generalisation has added."""
        return (*self._rules, *self._set_rules)

    @property
    def values(self) -> int:
        """How many values the sets have that are visible."""
        return self._sets.total

    @property
    def is_late(self) -> bool:
        """Whether `refine` has something to do."""
        return bool(self._late)

    def query(self) -> RoutingQuery:
        """The routing query that wants whatever one of the conjunctions wants."""
        return RoutingQuery.of(self._visible, [(form, self._sets.values(form)) for form in self._sets.shown])

    def rebuilt(self, sets: Iterable[ValueRow] = ()) -> RoutingQuery:
        """The same, computed anew from the conjunctions, the rules and the values of those below: for checks."""
        twin = Summary(msgspec.structs.replace(self.settings, entries_max=1 << 32, values_max=1 << 32))
        twin._sets.forms = dict(self._sets.forms)
        for form, values in sets:
            twin._sets.change(form, values, (b"",) * len(values))
        rest = twin._join_sets([each for each in self._counts if each not in self._rules])
        twin._enter_rounds([*rest, *self._rules])
        return twin.query()

    def update(
        self,
        added: Iterable[Conjunction] = (),
        removed: Iterable[Conjunction] = (),
        values: Iterable[tuple[Conjunction, Sequence[bytes], Sequence[bytes]]] = (),
    ) -> Delta:
        """Add and remove conjunctions, each as often as it is given. Raises ValueError for one that is not there.

        `values`: for set forms among them the values that have come, and those that have gone.
        """
        added, removed = list(added), list(removed)
        self._check(added, removed)
        for form, more, less in values:
            self._sets.change(form, more, less)
        fresh = [each for each in dict.fromkeys(added) if each not in self._counts and not self._is_rule(each)]
        for conjunction in added:
            self._counts[conjunction] = self._counts.get(conjunction, 0) + 1
        gone: list[Conjunction] = []
        for conjunction in removed:
            self._counts[conjunction] -= 1
            if not self._counts[conjunction]:
                del self._counts[conjunction]
                gone.append(conjunction)
        self._enter([each for each in fresh if each in self._counts])
        self._leave([each for each in gone if not self._is_rule(each) and each in self])
        self._enter_orphans()
        if self._is_full:
            self._generalise()
        elif removed:
            self._drop_sets()
            self._drop_rules()
            self._enter_orphans()
            if self._is_full:
                self._generalise()
        return self._delta()

    def refine(self) -> Delta:
        """Do what was left for later: bring back what removals have left too wide, and choose rules anew that were
        guessed before there were documents to judge them by. It is as much work as there are conjunctions."""
        if self._is_guess:
            self._choose_anew()
            return self._delta()
        late, self._late = [rule for rule in self._late if rule in self._rules], {}
        for rule in late:
            del self._rules[rule]
        self._retire([rule for rule in late if rule not in self._counts])
        self._rejoin(late)
        self._enter_orphans()
        if self._is_full:
            self._generalise()
        return self._delta()

    def _is_rule(self, conjunction: Conjunction) -> bool:
        return conjunction in self._rules or conjunction in self._set_rules

    @property
    def _is_full(self) -> bool:
        settings = self.settings
        return len(self._visible) > settings.entries_max or self._sets.total > settings.values_max

    @property
    def _is_guess(self) -> bool:
        """Whether a sample knows far more now than when rules were chosen."""
        sample = self._sample
        return bool(self._rules) and sample is not None and sample.is_ready and 4 * self._judged < len(sample)

    def _choose_anew(self) -> None:
        self._before = dict.fromkeys(self._visible, True)
        for conjunction, witness in self._witness.items():
            self._leave_set(conjunction, witness)
        for form in self._sets.shown:
            self._sets.hide(form)
        self._sets.forms.clear()
        self._rules, self._set_rules, self._late, self._witness, self._hides = {}, {}, {}, {}, {}
        self._visible = Visible(seed=self._seed)
        self._enter(list(self._counts))
        if self._is_full:
            self._generalise()
        self._judged = len(self._sample or ())

    def __contains__(self, conjunction: object) -> bool:
        return conjunction in self._visible or conjunction in self._witness

    def _check(self, added: list[Conjunction], removed: list[Conjunction]) -> None:
        """Refuse what would leave a count below 0, before anything has changed."""
        balance: dict[Conjunction, int] = {}
        for conjunction in removed:
            balance[conjunction] = balance.get(conjunction, 0) - 1
        for conjunction in added if balance else ():
            if conjunction in balance:
                balance[conjunction] += 1
        for conjunction, change in balance.items():
            if self._counts.get(conjunction, 0) + change < 0:
                raise ValueError("a conjunction is removed more often than it was added")

    # Visible and hidden.

    def _enter(self, conjunctions: list[Conjunction]) -> None:
        """Take in conjunctions that are neither visible nor hidden."""
        conjunctions = self._join_sets(conjunctions)
        if len(conjunctions) <= _ROUND:
            self._enter_some(conjunctions)
        elif len(conjunctions) + len(self._visible) <= self.settings.entries_max:
            self._enter_rounds(conjunctions)
        else:
            # PERF: bench.onyx_routing, summarise: where values are too many to be shown, they are not compared at all.
            groups = groups_of(conjunctions)
            self._enter_rounds([each for group in groups if len(group) < _GROUP_MIN for each in group.conjunctions])
            self._enter_groups([group for group in groups if len(group) >= _GROUP_MIN])

    def _enter_groups(self, groups: list[Part]) -> None:
        """Take in large groups of conjunctions that differ in values only, as rules where there is no room for them."""
        witnesses = self._visible.find_witnesses([group.rule for group in groups])
        left: list[Part] = []
        for group, witness in zip(groups, witnesses, strict=True):
            if witness is None:
                left.append(group)
                continue
            for each in group.conjunctions:
                self._hide(each, witness)
        rows = self._make_sets(left)
        left = [group for group in left if group.key not in self._sets.forms]
        if len(rows) + len(self._visible) > self.settings.entries_max:
            chosen = self._choose(left)
            for rule, members in chosen.items():
                self._add_rule(rule, members)
                for each in members:
                    rows.pop(each, None)
            rows |= dict.fromkeys(rule for rule in chosen if rule not in self)
        self._enter_rounds(list(rows))

    def _choose(self, groups: Iterable[Part] = ()) -> dict[Conjunction, list[Conjunction]]:
        self._judged = max(self._judged, len(self._sample or ()))
        return choose(self._visible, ceil(self.settings.entries_max * _ROOM), self._sample, groups)

    def _enter_rounds(self, conjunctions: list[Conjunction]) -> None:
        # PERF: bench.onyx_routing, summarise: short ones first. What they cover is never shown, and shown is few.
        rows = sorted(conjunctions, key=_length)
        first, count = 0, _ROUND
        while first < len(rows):
            self._enter_some(rows[first : first + count])
            first, count = first + count, 2 * count

    def _enter_some(self, conjunctions: list[Conjunction]) -> None:
        rest = self._hide_covered(conjunctions)
        if not rest:
            return
        known = len(self._visible) > 0
        self._show(rest)
        below = self._visible.below(rest) if known else ()
        self._hide_covered(list(dict.fromkeys([*rest, *below])))

    def _hide_covered(self, conjunctions: list[Conjunction]) -> list[Conjunction]:
        """Hide those that something visible covers; the others are returned."""
        if not conjunctions or not len(self._visible):
            return conjunctions
        rest: list[Conjunction] = []
        hidden: list[Conjunction] = []
        witnesses = self._visible.find_witnesses(conjunctions)
        for conjunction, witness in zip(conjunctions, witnesses, strict=True):
            if witness is None:
                rest.append(conjunction)
                continue
            # The witness may be hidden in its turn by what covers both: witnesses never form a circle.
            hidden.append(conjunction)
            self._hide(conjunction, witness)
        self._unshow([each for each in hidden if each in self._visible])
        for conjunction in hidden:
            if self._is_rule(conjunction) and conjunction not in self._counts:
                self._forget_rule(conjunction)
        return rest

    def _hide(self, conjunction: Conjunction, witness: Conjunction) -> None:
        self._witness[conjunction] = witness
        self._hides.setdefault(witness, {})[conjunction] = None

    def _show(self, conjunctions: list[Conjunction]) -> None:
        self._visible.show(conjunctions)
        for conjunction in conjunctions:
            self._before.setdefault(conjunction, False)
            if has_hole(conjunction):
                self._sets.show(conjunction)

    def _unshow(self, conjunctions: list[Conjunction]) -> None:
        self._visible.unshow(conjunctions)
        for conjunction in conjunctions:
            self._before.setdefault(conjunction, True)
            if has_hole(conjunction):
                self._sets.hide(conjunction)

    def _forget_hidden(self, conjunction: Conjunction) -> None:
        """Take out a hidden conjunction: what it is the witness of goes to its own witness."""
        witness = self._witness.pop(conjunction)
        self._leave_set(conjunction, witness)
        beside = self._hides[witness]
        del beside[conjunction]
        for child in self._hides.pop(conjunction, {}):
            self._leave_set(child, conjunction)
            self._witness[child] = witness
            beside[child] = None
        if not beside:
            del self._hides[witness]

    def _leave(self, conjunctions: list[Conjunction]) -> None:
        """Take out conjunctions; what the visible ones of them covered comes back."""
        gone: list[Conjunction] = []
        touched: dict[Conjunction, None] = {}
        for conjunction in conjunctions:
            witness = self._witness.get(conjunction)
            if witness is not None:
                self._forget_hidden(conjunction)
                touched[witness] = None
            elif len(self._hides.get(conjunction, ())) > self.settings.revived_max:
                self._rules[conjunction] = None
                self._late[conjunction] = None
            else:
                gone.append(conjunction)
        self._retire(gone)
        self._forget_idle(touched)

    def _forget_idle(self, rules: Iterable[Conjunction]) -> None:
        """Take out rules that hide nothing any more."""
        for rule in rules:
            if not self._is_rule(rule) or rule in self._hides:
                continue
            if rule not in self._counts:
                self._forget_rule(rule)
            else:
                self._set_rules.pop(rule, None)

    def _retire(self, conjunctions: list[Conjunction]) -> None:
        """Take out conjunctions, and bring back what the visible ones of them covered."""
        revived: dict[Conjunction, None] = {}
        for conjunction in conjunctions:
            if conjunction in self._witness:  # a rule that was wanted as well, when something wider came
                self._forget_hidden(conjunction)
                continue
            for child in self._hides.pop(conjunction, {}):
                del self._witness[child]
                self._leave_set(child, conjunction)
                revived[child] = None
        self._unshow([conjunction for conjunction in conjunctions if conjunction in self._visible])
        self._enter(list(revived))

    # Sets of values.

    def _join_sets(self, conjunctions: list[Conjunction]) -> list[Conjunction]:
        """Take in those that are in sets; the others are returned."""
        if not self._sets.forms:
            return conjunctions
        rest: list[Conjunction] = []
        found: dict[Conjunction, list[tuple[Conjunction, Values]]] = {}
        for conjunction in conjunctions:
            is_other = conjunction in self._rules or has_hole(conjunction)
            row = None if is_other else self._sets.form_of(conjunction)
            if row is None:
                rest.append(conjunction)
            else:
                found.setdefault(row[0], []).append((conjunction, row[1]))
        fresh = dict.fromkeys(form for form in found if form not in self)
        self._set_rules |= fresh
        self._enter_rounds(list(fresh))
        rest = [each for each in rest if each not in fresh]  # a form that somebody below has came with what is in it
        for form, rows in found.items():
            if form not in self._visible:  # something covers it, and so them
                rest += [conjunction for conjunction, _ in rows]
                continue
            self._set_rules[form] = None
            for conjunction, values in rows:
                self._hide(conjunction, form)
                self._sets.join(form, values)
                self._release(conjunction)
        return rest

    def _release(self, conjunction: Conjunction) -> None:
        """What it hides is to be looked at anew: what covers something is visible, and not in a set."""
        for child in self._hides.pop(conjunction, {}):
            del self._witness[child]
            self._orphans.append(child)

    def _rejoin(self, rules: Iterable[Conjunction]) -> None:
        """What is no rule any more, but somebody wants, is in the set of its form if there is one."""
        rows = [each for each in rules if each in self._counts and self._sets.form_of(each) is not None]
        self._retire(rows)
        self._enter(rows)

    def _leave_set(self, conjunction: Conjunction, witness: Conjunction) -> None:
        """A conjunction is not behind this witness any more, which may be a set form."""
        if has_hole(witness):
            row = self._sets.form_of(conjunction)
            assert row is not None
            self._sets.leave(*row)

    def _make_sets(self, groups: list[Part]) -> dict[Conjunction, None]:
        """Make sets of the largest groups, until there is room; of those that are not visible, the conjunctions that
        are in none are returned."""
        rows = dict.fromkeys(each for group in groups for each in group.conjunctions if each not in self._visible)
        room, total = ceil(self.settings.entries_max * _ROOM), sum(map(len, groups))
        keys: set[FormKey] = set()
        for group in sorted(groups, key=len, reverse=True):
            if len(rows) + len(self._visible) <= room or len(group) < self.settings.set_values_min:
                break
            found = best_form(group, max(1, room * len(group) // total), self.settings.set_values_min)
            if found is None or 2 * found[1] > len(group) or self._sets.total + found[2] > self.settings.values_max:
                continue
            self._sets.forms[group.key] = found[0]
            keys.add(group.key)
            members = [each for each in group.conjunctions if self._sets.form_of(each) is not None]
            self._unshow([each for each in members if each in self._visible])
            for each in members:
                rows.pop(each, None)
            rows |= dict.fromkeys(self._join_sets(members))
        if keys:
            self._gather(keys)
        return rows

    def _gather(self, keys: set[FormKey]) -> None:
        """Of forms that have become sets, whatever is here is in them, visible or hidden: so sets do not depend on
        history."""

        def is_meant(conjunction: Conjunction) -> bool:
            is_other = has_hole(conjunction) or conjunction in self._rules
            return not is_other and read_form(conjunction)[0] in keys

        shown = [each for each in self._visible if is_meant(each) and self._sets.form_of(each) is not None]
        hidden = {each: above for each, above in self._witness.items() if not has_hole(above) and is_meant(each)}
        for conjunction, witness in hidden.items():
            del self._witness[conjunction], self._hides[witness][conjunction]
            if not self._hides[witness]:
                del self._hides[witness]
        self._unshow(shown)
        rest = self._join_sets([*shown, *hidden])
        for conjunction in rest:
            if conjunction in hidden:
                self._hide(conjunction, hidden[conjunction])
        self._enter_rounds([each for each in rest if each not in hidden])
        self._forget_idle(dict.fromkeys(hidden.values()))

    def _drop_sets(self) -> None:
        """Where most of the budget is free, and there are few conjunctions in sets, they come back."""
        few = min(self.settings.entries_max * _FEW, self.settings.revived_max)
        if self._set_rules and len(self._visible) + self._sets.members <= few:
            revived = self._dissolve(list(self._set_rules))
            self._sets.forms.clear()
            self._enter(revived)

    def _dissolve(self, forms: list[Conjunction]) -> list[Conjunction]:
        """Take out set forms; the conjunctions that were in them are returned."""
        revived: list[Conjunction] = []
        for form in forms:
            for child in self._hides.pop(form, {}):
                del self._witness[child]
                self._leave_set(child, form)
                revived.append(child)
            del self._set_rules[form]
        self._unshow([form for form in forms if form not in self._counts and form in self._visible])
        return revived

    def _dissolve_forms(self) -> list[Part]:
        """Take out the set forms of those forms that have far more of them by now than when they were made; fewer
        tests stay when they are made anew."""
        by_key: dict[FormKey, list[Conjunction]] = {}
        for form in self._set_rules:
            by_key.setdefault(read_form(next(iter(self._hides[form])))[0], []).append(form)
        parts: list[Part] = []
        for key, forms in by_key.items():
            if len(forms) > 2 * FORMS_EACH:
                members = self._dissolve(forms)
                del self._sets.forms[key]
                parts += groups_of(members)
        return parts

    def _drop_holes(self) -> dict[Conjunction, list[Conjunction]]:
        """Rules in place of the largest sets, so that there is room for the others: any value will do."""
        chosen: dict[Conjunction, list[Conjunction]] = {}
        if self._sets.total <= self.settings.values_max:
            return chosen
        excess = self._sets.total - int(self.settings.values_max * _ROOM)
        for form in sorted(self._sets.shown, key=lambda form: (-self._sets.size(form), form)):
            if excess <= 0:
                break
            excess -= self._sets.size(form)
            chosen.setdefault(without_holes(form), []).append(form)
        return chosen

    def _enter_orphans(self) -> None:
        while self._orphans:
            rows, self._orphans = dict.fromkeys(self._orphans), []
            self._enter([each for each in rows if (each in self._counts or each in self._rules) and each not in self])

    # Rules.

    def _forget_rule(self, rule: Conjunction) -> None:
        """Take out a rule that is hidden, or that hides nothing."""
        self._rules.pop(rule, None)
        self._set_rules.pop(rule, None)
        self._late.pop(rule, None)
        if rule in self._witness:
            self._forget_hidden(rule)
        elif rule in self._visible:
            self._unshow([rule])

    def _generalise(self) -> None:
        """Say less until there is room. What is the same after some rounds stays: nothing can be left out of it."""
        idle = 0
        while self._is_full and idle < _IDLE_MAX:
            before = len(self._visible), self._sets.total
            if len(self._visible) > self.settings.entries_max:
                groups = groups_of(each for each in self._visible if not has_hole(each))
                self._enter_rounds(list(self._make_sets([group for group in groups if len(group) > 1])))
                self._enter_rounds(list(self._make_sets(self._dissolve_forms())))
            chosen = self._choose() if len(self._visible) > self.settings.entries_max else self._drop_holes()
            for rule, members in chosen.items():
                self._add_rule(rule, members)
            self._enter_rounds([rule for rule in chosen if rule not in self])
            self._enter_orphans()
            idle = idle + 1 if before == (len(self._visible), self._sets.total) else 0
        self._forget_idle(list(self._rules))

    def _add_rule(self, rule: Conjunction, members: list[Conjunction]) -> None:
        """Note a rule, and hide what it was chosen for; what else it covers is found as for any conjunction."""
        self._rules[rule] = None
        if rule in self._witness and has_hole(self._witness[rule]):
            self._forget_hidden(rule)
        self._unshow([each for each in members if each in self._visible])
        for each in members:
            self._hide(each, rule)
            if self._is_rule(each) and each not in self._counts:
                self._forget_rule(each)

    def _drop_rules(self) -> None:
        """Where half of the budget is free, drop the rules whose place is cheap to fill, some at a time."""
        if not self._rules or len(self._visible) >= self.settings.entries_max * _HALF:
            return
        if self._sets.total > self.settings.values_max * _HALF:  # what comes back may be values
            return
        room = int(self.settings.entries_max * _ROOM) - len(self._visible)
        dropped: list[Conjunction] = []
        revived = 0
        sizes = [(len(self._hides.get(rule, ())), rule) for rule in self._rules if rule not in self._late]
        heapq.heapify(sizes)
        while sizes:
            covered, rule = heapq.heappop(sizes)
            room -= covered - 1
            revived += covered
            if room < 0 or revived > (_REVIVED if dropped else self.settings.revived_max):
                break
            dropped.append(rule)
        for rule in dropped:
            del self._rules[rule]
        self._retire([rule for rule in dropped if rule not in self._counts])
        self._rejoin(dropped)

    def _delta(self) -> Delta:
        before, self._before = self._before, {}
        added = [each for each, was in before.items() if not was and each in self._visible]
        removed = [each for each, was in before.items() if was and each not in self._visible]
        more: list[ValueRow] = []
        less: list[ValueRow] = []
        for form, came, went in self._sets.take_changes():
            if form in self._visible and before.get(form, True):
                more += [(form, came)] if any(came) else []
                less += [(form, went)] if any(went) else []
        more += [(form, self._sets.values(form)) for form in added if has_hole(form)]
        return Delta(RoutingQuery.of(added, more), RoutingQuery.of(removed, less))


def _length(conjunction: Conjunction) -> tuple[int, Conjunction]:
    return sum(map(len, conjunction)), conjunction
