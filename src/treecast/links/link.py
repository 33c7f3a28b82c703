"""A Link: the demands of all that lies behind it, what may be done to documents before it, and what is left to do.

    >>> from treecast.model import Subscription
    >>> link = Link()
    >>> link.add("q1", Demand.of(Subscription("q1", "for $n in $msg/news/item where $n/@area = 'SF' return $n/title")))
    True
    >>> link.early.text
    'keep /news/item[@area="SF"]'
    >>> link.add("q2", Demand.of(Subscription("q2", "/news/item[@area = 'NY']/@id", deliver="elements")))
    True
    >>> link.early.text
    'keep /news/item[@area="NY" and @id or @area="SF"]'
    >>> link.add("q3", Demand.of(Subscription("q3", "//title")))
    True
    >>> link.early.projection
    'q3 is delivered whole documents'

Theory of operation. Restructuring is tried first: how many first steps do the series of all demands have in common? A
trie of the series counts how many go through each of its places.

Then projection is tried: one `keep` of all needs. Needs are counted by path, and for each path by the alternatives, of
which one has to hold. Where there are too many alternatives, the conditions that all of them have are taken instead.
That may be none: then everything on the path is kept, and nothing that is needed is lost.

So adding or removing a demand costs as much as that demand is long. A new text costs at most `paths_max` times
`alternatives_max`, however many demands there are.

remainder(early(document)) == original(document), for every demand. For projection treecast.links.needs says why;
for restructuring it is the list itself, cut in two. A link behind another one is a demand of it:
`Demand.of_link(link.early)` is added to the link before, whose `remainder` for it is what is done between the two.

Source: ONYX, section 4.2.2. We differ: the paper's transformations are FLWR queries with one `for` clause; ours are
lists, which need no wrapper to rebuild and take several paths (`paths_max=1` is the paper's condition 1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from treecast.errors import LimitError
from treecast.links.demand import Demand, Early, early_of
from treecast.links.needs import Need, find_mixed
from treecast.model import Subscription
from treecast.query import Transformation
from treecast.query.shapes import Change
from treecast.query.tree import Condition, Path

_Key = TypeVar("_Key", bound=Hashable)

PATHS_MAX = 16
ALTERNATIVES_MAX = 16


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing can be done early: why no projection, and why no restructuring."""

    projection: str
    restructuring: str

    def __str__(self) -> str:
        return f"no early projection: {self.projection}; no early restructuring: {self.restructuring}"


@dataclass(slots=True)
class _Place:
    """A place in the trie of series: how many go through it, whose series end here, and the steps that follow."""

    count: int = 0
    ends: dict[Hashable, None] = field(default_factory=dict)
    after: dict[Change, _Place] = field(default_factory=dict)


@dataclass(slots=True)
class _PathTally:
    """What is needed of one path: its alternatives, each with its count, and in how many of them each condition is."""

    need: Need
    count: int = 0
    alternatives: Counter[frozenset[Condition]] = field(default_factory=Counter)
    conditions: Counter[Condition] = field(default_factory=Counter)

    def update(self, alternative: frozenset[Condition], by: int) -> None:
        self.count += by
        _count(self.alternatives, alternative, by)
        for condition in alternative:
            _count(self.conditions, condition, by)

    def shortest(self, alternatives_max: int) -> list[frozenset[Condition]]:
        """Alternatives that let through all that these do, at most so many; an empty one is always true."""
        if len(self.alternatives) > alternatives_max:
            some = next(iter(self.alternatives))
            return [frozenset(condition for condition in some if self.conditions[condition] == self.count)]
        return [one for one in self.alternatives if not any(other < one for other in self.alternatives)]


def _count(counts: Counter[_Key], key: _Key, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]


class Link:
    """Demands by key, with counts. `early` is what is done before the link, `remainder(key)` what is left for one.

    Not thread-safe; `copy()` is independent and cheap for small links.
    """

    def __init__(self, *, paths_max: int = PATHS_MAX, alternatives_max: int = ALTERNATIVES_MAX) -> None:
        self.paths_max = paths_max
        self.alternatives_max = alternatives_max
        self._demands: dict[Hashable, Demand] = {}
        self._series = {False: _Place(), True: _Place()}  # by Demand.empty
        self._tally_by_path: dict[Path, _PathTally] = {}
        self._bare: Counter[Path] = Counter()  # the same paths, without the conditions on the way
        self._depths: dict[tuple[int | None, bool], dict[Hashable, Need]] = {}
        self._unprojected: dict[Hashable, str] = {}
        self._done = 0  # steps of the series that the early form does
        self._early: Early | Nothing = _EMPTY

    def __len__(self) -> int:
        return len(self._demands)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._demands

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._demands)

    @property
    def early(self) -> Early | Nothing:
        """What all demands allow, or why there is nothing."""
        return self._early

    @property
    def done(self) -> int:
        """How many steps of every series the early form does; 0 where it is a projection, or nothing."""
        return self._done

    def add(self, key: Hashable, demand: Demand) -> bool:
        """Add a demand; whether the link before has to hear of it: of another `early`, or of the first demand."""
        return self.update({key: demand}, ())

    def update(self, added: Mapping[Hashable, Demand], removed: Iterable[Hashable]) -> bool:
        """Remove and then add many demands at once, for the price of one new text; the same answer as of `add`."""
        before = self._announcement()
        for key in removed:
            self._leave(key)
        for key, demand in added.items():
            self._enter(key, demand)
        self._refresh()
        return self._announcement() != before

    def _enter(self, key: Hashable, demand: Demand) -> None:
        if key in self._demands:
            raise ValueError(f"{key!r} is behind this link already")
        self._demands[key] = demand
        place = self._series[demand.empty]
        place.count += 1
        for change in demand.series:
            place = place.after.setdefault(change, _Place())
            place.count += 1
        place.ends[key] = None
        if demand.unprojected:
            self._unprojected[key] = demand.unprojected
        for need in demand.needs:
            self._depths.setdefault((need.depth, need.is_monotone), {})[key] = need
            _count(self._bare, _without_conditions(need.path), 1)
            for alternative in need.alternatives:
                self._tally_by_path.setdefault(need.path, _PathTally(need)).update(alternative, 1)

    def remove(self, key: Hashable) -> bool:
        """Remove a demand; whether the link before has to hear of it. KeyError where it is not there."""
        return self.update({}, (key,))

    def _leave(self, key: Hashable) -> None:
        demand = self._demands.pop(key)
        place = self._series[demand.empty]
        place.count -= 1
        for change in demand.series:
            above, place = place, place.after[change]
            place.count -= 1
            if not place.count:
                del above.after[change]
        place.ends.pop(key, None)
        self._unprojected.pop(key, None)
        for need in demand.needs:
            need_by_key = self._depths.get((need.depth, need.is_monotone), {})
            need_by_key.pop(key, None)
            if not need_by_key:
                self._depths.pop((need.depth, need.is_monotone), None)
            _count(self._bare, _without_conditions(need.path), -1)
            for alternative in need.alternatives:
                self._tally_by_path[need.path].update(alternative, -1)
                if not self._tally_by_path[need.path].count:
                    del self._tally_by_path[need.path]

    def replace(self, key: Hashable, demand: Demand) -> bool:
        """Put another demand in the place of one; whether the link before has to hear of it."""
        return self.update({key: demand}, (key,))

    def demand(self) -> Demand:
        """This link as a demand of the link before it."""
        return Demand.of_link(None if isinstance(self._early, Nothing) else self._early)

    def remainder(self, key: Hashable) -> Subscription | Early | None:
        """What is left to do for one demand, on what comes over the link; None: nothing, it passes as it is."""
        demand = self._demands[key]
        if isinstance(self._early, Early) and isinstance(demand.source, Early) and demand.source == self._early:
            return None
        return demand.remainder(self._done)

    def copy(self) -> Link:
        """An independent one."""
        twin = Link(paths_max=self.paths_max, alternatives_max=self.alternatives_max)
        for key, demand in self._demands.items():
            twin._enter(key, demand)
        twin._refresh()
        return twin

    def _announcement(self) -> tuple[bool, Early | None]:
        """What the link before knows of this one: it has to hear of a change."""
        return bool(self._demands), self._early if isinstance(self._early, Early) else None

    def _refresh(self) -> None:
        self._done = 0
        series, restructuring = self._shared_series()
        for size in range(len(series), 0, -1):
            early = _within_limits(early_of(series[:size], self._series[True].count > 0))
            if early:
                self._done, self._early = size, early
                return
        projection_early, projection = self._shared_needs()
        if projection_early:
            self._early = projection_early
        else:
            self._early = Nothing(projection, restructuring) if self._demands else _EMPTY

    def _shared_series(self) -> tuple[tuple[Change, ...], str]:
        """The steps with which all series begin, and why there are none."""
        plain, empty = self._series[False], self._series[True]
        if plain.count and empty.count:
            return (), "some lists are for whole documents and others are not"
        place = plain if plain.count else empty
        series: list[Change] = []
        while len(place.after) == 1 and not place.ends:
            ((change, place),) = place.after.items()
            series.append(change)
        if place.ends:
            key = next(iter(place.ends))
            return tuple(series), f"{key} {self._demands[key].unmoved or 'has no further steps'}"
        return tuple(series), "the first steps differ"

    def _shared_needs(self) -> tuple[Early | None, str]:
        if self._unprojected:
            key, reason = next(iter(self._unprojected.items()))
            return None, f"{key} {reason}"
        if len(self._bare) > self.paths_max:
            return None, f"more paths are bound than the limit, {self.paths_max}"
        bare = find_mixed(next(iter(needs.values())) for needs in self._depths.values())
        if bare:
            key = next(iter(self._depths[bare.depth, bare.is_monotone]))
            return None, f"{key} has conditions that could hold of elements whose content was removed"
        for conditions in (True, False):
            paths = sorted(self._paths(conditions), key=repr)
            early = _within_limits(early_of((Change("keep", tuple(paths), None),), False)) if paths else None
            if early:
                return early, ""
        return None, "the paths together are too long"

    def _paths(self, conditions: bool) -> Iterator[Path]:
        if len(self._tally_by_path) > self.paths_max:
            yield from self._bare  # more is kept, of elements at the same places
            return
        for path, tally in self._tally_by_path.items():
            yield tally.need.to_path(tally.shortest(self.alternatives_max)) if conditions else path


def _without_conditions(path: Path) -> Path:
    return replace(path, steps=tuple(replace(step, predicates=()) for step in path.steps))


def remainder_after(early: Early, subscription: Subscription) -> Subscription | None:
    """What is left to do for a subscription on a document to which this was done; None if that may have been too much.

    >>> remainder_after(Early("drop //ad", empty=True), Subscription("q", "drop //ad; keep //p")).query
    'keep //p'
    >>> remainder_after(Early("keep /news/item"), Subscription("q", "/news/item[@id]", deliver="elements")).query
    '/news/item[@id]'
    >>> remainder_after(Early("keep /news/item"), Subscription("q", "/news/ad", deliver="elements")) is None
    True

    ValueError or QueryError where `early` is no list of steps for whole documents.
    """
    link = Link()
    link.add("early", Demand.of_link(early))
    link.add("subscription", Demand.of(subscription))
    if link.remainder("early") is not None:
        return None  # together with the subscription, less may be done
    remainder = link.remainder("subscription")
    assert isinstance(remainder, Subscription)
    return remainder


def _within_limits(early: Early) -> Early | None:
    """The early form, if it is within the limits of the language."""
    try:
        Transformation(early.text, early.namespaces)
    except LimitError:
        return None
    return early


_EMPTY = Nothing("nothing is behind the link", "nothing is behind the link")
