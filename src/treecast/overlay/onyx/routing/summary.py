"""A changing set of conjunctions, and the few of them that say it all: what a broker tells its parent.

A Summary counts conjunctions as they come and go. Those that no other covers are *visible*: their disjunction is the
routing query of all. When a visible one goes, what it covered comes back (O7). When there are more than `entries_max`
visible ones, broader ones are added that cover many of them: *rules* (O6). A rule is a conjunction like any other, only
that nobody subscribed to it; covering does the rest. When there is room again, rules go, and what they covered returns.

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

Theory of operation. Each hidden conjunction has a witness that covers it, itself visible or hidden. A new one asks the
index of visible structures (`structures.py`) who may cover it, and whom it may cover. Within a structure, tests are
looked up: what covers a conjunction has no test, or one of its tests, or one that follows from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from treecast.overlay.onyx.routing.covering import consequences, covers, follows, structure, tests_of
from treecast.overlay.onyx.routing.generalising import choose
from treecast.overlay.onyx.routing.routing_query import Conjunction, Delta, RoutingQuery
from treecast.overlay.onyx.routing.sample import Sample
from treecast.overlay.onyx.routing.settings import RoutingSettings
from treecast.overlay.onyx.routing.structures import Structures

_ROOM = 0.75  # of the budget, what generalisation leaves full
_SAMPLED = 2  # times the budget, up to which a sample decides what is generalised
_HALF = 0.5  # of the budget, below which rules may go


class _Bucket:
    """The visible conjunctions of one structure. Each is anchored at one of its tests: the rarest when it came."""

    __slots__ = ("anchored", "entries", "holding")

    def __init__(self) -> None:
        self.entries: dict[Conjunction, str] = {}  # conjunction -> its anchor, or "" where it has no test
        self.anchored: dict[str, dict[Conjunction, None]] = {}
        self.holding: dict[str, dict[Conjunction, None]] = {}  # each test that it implies -> conjunctions

    def add(self, conjunction: Conjunction) -> None:
        tests = sorted(tests_of(conjunction))
        anchor = min(tests, key=self.frequency, default="")
        self.entries[conjunction] = anchor
        self.anchored.setdefault(anchor, {})[conjunction] = None
        for test in _implied(tests):
            self.holding.setdefault(test, {})[conjunction] = None

    def remove(self, conjunction: Conjunction) -> None:
        _discard(self.anchored, self.entries.pop(conjunction), conjunction)
        for test in _implied(sorted(tests_of(conjunction))):
            _discard(self.holding, test, conjunction)

    def frequency(self, test: str) -> int:
        return len(self.holding.get(test, ()))

    def covered(self, conjunction: Conjunction) -> list[Conjunction]:
        """Those that the conjunction may cover."""
        tests = sorted(tests_of(conjunction))
        if not tests:
            return list(self.entries)
        return list(self.holding.get(min(tests, key=self.frequency), ()))


def _implied(tests: list[str]) -> dict[str, None]:
    """The tests, and what follows from them."""
    return dict.fromkeys(tests) | dict.fromkeys(more for test in tests for more in consequences(test))


def _discard(table: dict[str, dict[Conjunction, None]], key: str, conjunction: Conjunction) -> None:
    rows = table[key]
    del rows[conjunction]
    if not rows:
        del table[key]


def _hides(conjunction: Conjunction, other: Conjunction) -> bool:
    """Whether one covers the other; of two that cover each other, the first in order stays."""
    if not covers(conjunction, other, follows):
        return False
    return conjunction < other or not covers(other, conjunction, follows)


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
        self._late: dict[Conjunction, None] = {}  # rules that stand for a removal
        self._witness: dict[Conjunction, Conjunction] = {}
        self._hides: dict[Conjunction, dict[Conjunction, None]] = {}
        self._buckets: dict[Conjunction, _Bucket] = {}
        self._structures = Structures(seed=seed)
        self._visible: dict[Conjunction, None] = {}
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
        return tuple(self._rules)

    @property
    def is_late(self) -> bool:
        """Whether `refine` has something to do."""
        return bool(self._late)

    def query(self) -> RoutingQuery:
        """The routing query that wants whatever one of the conjunctions wants."""
        return RoutingQuery.of(self._visible)

    def rebuilt(self) -> RoutingQuery:
        """The same, computed anew from the conjunctions and the rules: for checks."""
        twin = Summary(self.settings)
        twin._enter([*self._counts, *(rule for rule in self._rules if rule not in self._counts)])
        return twin.query()

    def update(self, added: Iterable[Conjunction] = (), removed: Iterable[Conjunction] = ()) -> Delta:
        """Add and remove conjunctions, each as often as it is given. Raises ValueError for one that is not there."""
        added, removed = list(added), list(removed)
        self._check(added, removed)
        fresh = [each for each in dict.fromkeys(added) if each not in self._counts and each not in self._rules]
        for conjunction in added:
            self._counts[conjunction] = self._counts.get(conjunction, 0) + 1
        gone: list[Conjunction] = []
        for conjunction in removed:
            self._counts[conjunction] -= 1
            if not self._counts[conjunction]:
                del self._counts[conjunction]
                gone.append(conjunction)
        self._enter([each for each in fresh if each in self._counts])
        self._leave([each for each in gone if each not in self._rules and each in self])
        if len(self._visible) > self.settings.entries_max:
            self._generalise()
        elif removed:
            self._drop_rules()
        return self._delta()

    def refine(self) -> Delta:
        """Do what removals have left for later: as much work as there are conjunctions to bring back."""
        late, self._late = [rule for rule in self._late if rule in self._rules], {}
        for rule in late:
            del self._rules[rule]
        self._retire([rule for rule in late if rule not in self._counts])
        if len(self._visible) > self.settings.entries_max:
            self._generalise()
        return self._delta()

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
        rest = self._hide_covered(conjunctions)
        if not rest:
            return
        known = len(self._structures) > 0
        new: dict[Conjunction, list[Conjunction]] = {}  # by structure
        for conjunction in rest:
            new.setdefault(structure(conjunction), []).append(conjunction)
        self._show(rest)
        below: dict[Conjunction, None] = {}
        if known:
            for (_, ours), candidates in zip(new.items(), self._structures.below(list(new)), strict=True):
                for kind in candidates:
                    for conjunction in ours:
                        below |= dict.fromkeys(self._buckets[kind].covered(conjunction))
        self._hide_covered(list(dict.fromkeys([*rest, *below])))

    def _hide_covered(self, conjunctions: list[Conjunction]) -> list[Conjunction]:
        """Hide those that something visible covers; the others are returned."""
        if not conjunctions or not len(self._structures):
            return conjunctions
        kinds = list(dict.fromkeys(structure(each) for each in conjunctions))
        above = dict(zip(kinds, self._structures.above(kinds), strict=True))
        rest: list[Conjunction] = []
        hidden: list[Conjunction] = []
        for conjunction in conjunctions:
            witness = self._find_witness(conjunction, above[structure(conjunction)])
            if witness is None:
                rest.append(conjunction)
                continue
            # The witness may be hidden in its turn by what covers both: witnesses never form a circle.
            hidden.append(conjunction)
            self._witness[conjunction] = witness
            self._hides.setdefault(witness, {})[conjunction] = None
        self._unshow([each for each in hidden if each in self._visible])
        for conjunction in hidden:
            if conjunction in self._rules and conjunction not in self._counts:
                self._forget_rule(conjunction)
        return rest

    def _find_witness(self, conjunction: Conjunction, candidates: list[Conjunction]) -> Conjunction | None:
        tests = {"": None, **_implied(sorted(tests_of(conjunction)))}.keys()  # "": without any
        for kind in candidates:
            anchored = self._buckets[kind].anchored
            if tests.isdisjoint(anchored.keys()):
                continue
            for test in tests:
                for other in anchored.get(test, ()):
                    if other != conjunction and tests >= tests_of(other) and _hides(other, conjunction):
                        return other
        return None

    def _show(self, conjunctions: list[Conjunction]) -> None:
        kinds = [structure(each) for each in conjunctions]
        self._structures.add(dict.fromkeys(kind for kind in kinds if kind not in self._buckets))
        for conjunction, kind in zip(conjunctions, kinds, strict=True):
            self._before.setdefault(conjunction, False)
            self._visible[conjunction] = None
            self._buckets.setdefault(kind, _Bucket()).add(conjunction)

    def _unshow(self, conjunctions: Iterable[Conjunction]) -> None:
        empty: list[Conjunction] = []
        for conjunction in conjunctions:
            self._before.setdefault(conjunction, True)
            del self._visible[conjunction]
            kind = structure(conjunction)
            bucket = self._buckets[kind]
            bucket.remove(conjunction)
            if not bucket.entries:
                del self._buckets[kind]
                empty.append(kind)
        self._structures.remove(empty)

    def _forget_hidden(self, conjunction: Conjunction) -> None:
        """Take out a hidden conjunction: what it is the witness of goes to its own witness."""
        witness = self._witness.pop(conjunction)
        beside = self._hides[witness]
        del beside[conjunction]
        for child in self._hides.pop(conjunction, {}):
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
        for witness in touched:
            if witness in self._rules and witness not in self._counts and witness not in self._hides:
                self._forget_rule(witness)

    def _retire(self, conjunctions: list[Conjunction]) -> None:
        """Take out visible conjunctions, and bring back what they covered."""
        revived: dict[Conjunction, None] = {}
        for conjunction in conjunctions:
            for child in self._hides.pop(conjunction, {}):
                del self._witness[child]
                revived[child] = None
        self._unshow(conjunctions)
        self._enter(list(revived))

    # Rules.

    def _forget_rule(self, rule: Conjunction) -> None:
        """Take out a rule that is hidden, or that hides nothing."""
        del self._rules[rule]
        self._late.pop(rule, None)
        if rule in self._witness:
            self._forget_hidden(rule)
        elif rule in self._visible:
            self._unshow([rule])

    def _generalise(self) -> None:
        target = max(1, int(self.settings.entries_max * _ROOM))
        while len(self._visible) > self.settings.entries_max:
            # Half of the way at a time: a rule may cover more than those that it was chosen for.
            halfway = max(target, (len(self._visible) + target) // 2)
            # PERF: bench.onyx_routing, summarise: far beyond the budget a guess has to do, since matching takes long.
            sample = self._sample if len(self._visible) <= _SAMPLED * self.settings.entries_max else None
            chosen = [rule for rule in choose(self._visible, halfway, sample) if rule not in self._visible]
            for rule in chosen:
                self._rules[rule] = None
            self._enter([rule for rule in chosen if rule not in self._witness])
        for rule in [rule for rule in self._rules if rule not in self._counts and rule not in self._hides]:
            self._forget_rule(rule)

    def _drop_rules(self) -> None:
        """Where half of the budget is free, drop the rules whose place is cheap to fill."""
        limit = int(self.settings.entries_max * _ROOM)
        while self._rules and len(self._visible) < self.settings.entries_max * _HALF:
            rules = [rule for rule in self._rules if rule not in self._late]
            smallest = min(rules, key=lambda rule: (len(self._hides.get(rule, ())), rule), default=None)
            if smallest is None:
                return
            covered = len(self._hides.get(smallest, ()))
            if len(self._visible) - 1 + covered > limit or covered > self.settings.revived_max:
                return
            del self._rules[smallest]
            if smallest not in self._counts:
                self._retire([smallest])

    def _delta(self) -> Delta:
        before, self._before = self._before, {}
        added = [each for each, was in before.items() if not was and each in self._visible]
        removed = [each for each, was in before.items() if was and each not in self._visible]
        return Delta(RoutingQuery.of(added), RoutingQuery.of(removed))
