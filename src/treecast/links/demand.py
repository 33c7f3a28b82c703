"""A Demand: what one subscription, or one link further down, allows to be done to documents before they reach it.

Two things may be done early:

- *Projection*: everything but its needs is removed (`treecast.links.needs`).
- *Restructuring*: the first steps of its own list are applied. Its `series` is these steps, written for the whole
  document; `remainder(k)` is what is still to be done after the first k of them.

Where one of the two is not allowed, a reason says why, as a phrase that follows an id.

    >>> from treecast.model import Subscription
    >>> demand = Demand.of(Subscription("q", "from /news/item drop //ad; rename //table to list; keep //p"))
    >>> len(demand.needs), len(demand.series)
    (1, 3)
    >>> demand.remainder(3).query
    'from /news/item keep //p'
    >>> Demand.of(Subscription("d", "/news/item")).unprojected
    'is delivered whole documents'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from treecast.errors import LimitError
from treecast.links.inside import inside
from treecast.links.needs import Need, UnsharedError, find_mixed, needs_of_paths, needs_of_shape
from treecast.model import Subscription
from treecast.query import Query, Transformation, parse
from treecast.query.shapes import Change, StepList
from treecast.query.tree import Condition
from treecast.query.writer import UnwritableError, Writer


@dataclass(frozen=True, slots=True)
class Early:
    """What is done to documents before they go over a link: a list of steps, as an index takes it.

    If nothing is left of a document, it is not sent on, because no one behind the link would get anything; but with
    `empty` everyone behind the link gets an empty payload. A document that a rename refuses (TC119) is refused for
    everyone. Limits are for deliveries: run it with limits that no document reaches.
    """

    text: str
    namespaces: Mapping[str, str] = field(default_factory=dict)
    empty: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """What is allowed: projection to `needs`, unless `unprojected` says why not; and the steps of `series`, where
    `unmoved` says why there are no more."""

    source: Subscription | Early | None
    """Whose demand it is; None is that of a link that passes documents on as they come."""
    needs: tuple[Need, ...] = ()
    unprojected: str = ""
    series: tuple[Change, ...] = ()
    lead: int = 0
    """How many steps of the series are not in its list: 1 if the series begins by keeping what the list starts from."""
    unmoved: str = ""
    empty: bool = False
    """Whether it is delivered an empty payload where nothing is left."""

    @classmethod
    def of(cls, subscription: Subscription) -> Demand:
        """The demand of a subscription; QueryError where its text is invalid."""
        query = parse(subscription.query, namespaces=subscription.namespaces)
        if isinstance(query, Query):
            return _of_query(subscription, query)
        tree = query.tree
        if isinstance(tree, StepList):
            return _of_list(subscription, tree)
        needs, reason = _needs(lambda: needs_of_shape(tree))
        return cls(subscription, needs, reason, unmoved="is no list of steps")

    @classmethod
    def of_link(cls, early: Early | None) -> Demand:
        """The demand of a link: what it does early may in turn be done earlier, by the link before it.

        QueryError where the text is invalid, ValueError where it is no list of steps for whole documents.
        """
        if early is None:
            return cls(None, unprojected="passes whole documents on", unmoved="passes whole documents on")
        tree = Transformation(early.text, early.namespaces).tree
        if not isinstance(tree, StepList) or tree.start is not None:
            raise ValueError("what is done before a link is a list of steps for whole documents")
        early_of(tree.changes, early.empty)  # a ValueError, where what is left of it could not be written down
        if early.empty:
            return cls(early, unprojected="wants every document", series=tree.changes, empty=True)
        first = tree.changes[0]
        if first.kind != "keep":
            return cls(early, unprojected="passes every document on", series=tree.changes)
        needs, reason = _needs(lambda: needs_of_paths(first.paths))
        return cls(early, needs, reason, tree.changes)

    def remainder(self, done: int) -> Subscription | Early | None:
        """What has to be done after the first `done` steps of the series; None: nothing, documents pass as they are."""
        if done == 0 or self.source is None:
            return self.source
        if isinstance(self.source, Early):
            changes = self.series[done:]
            return early_of(changes, self.source.empty) if changes else None
        own = done - self.lead
        if own <= 0:
            return self.source
        tree = parse(self.source.query, namespaces=self.source.namespaces).tree
        assert isinstance(tree, StepList)
        rest = replace(tree, changes=tree.changes[own:])
        writer = _writer(rest.changes)
        if rest.changes:
            return replace(self.source, query=writer.list(rest), namespaces=writer.namespaces)
        query = "/*" if rest.start is None else writer.paths(rest.start)
        return replace(self.source, query=query, namespaces=writer.namespaces, deliver="elements")


def early_of(changes: tuple[Change, ...], empty: bool) -> Early:
    """The steps as text."""
    writer = _writer(changes)
    return Early(writer.list(StepList(None, changes)), writer.namespaces, empty)


def _writer(changes: tuple[Change, ...]) -> Writer:
    return Writer(change.name for change in changes if change.name)


def _of_query(subscription: Subscription, query: Query) -> Demand:
    unmoved = "is no list of steps"
    if subscription.deliver == "document":
        return Demand(subscription, unprojected="is delivered whole documents", unmoved=unmoved)
    if subscription.ordered:
        return Demand(subscription, unprojected="is matched in order", unmoved=unmoved)
    needs, reason = _needs(lambda: needs_of_paths(query.tree))
    return Demand(subscription, needs, reason, unmoved=unmoved)


def _of_list(subscription: Subscription, tree: StepList) -> Demand:
    if tree.start is None:
        series, reason = _writable_part(tree, tree.changes, "")
        return Demand(subscription, (), "is delivered something of every document", series, unmoved=reason, empty=True)
    start = tree.start
    needs, unprojected = _needs(lambda: needs_of_paths(start))
    whole_needs, _ = _needs(lambda: needs_of_paths(start, whole=True))
    lead = (
        (Change("keep", tuple(need.to_path() for need in whole_needs), None),)
        if whole_needs and not find_mixed(whole_needs)
        else ()
    )
    series, unmoved = _writable_part(tree, (*lead, *inside(tree)[0]), inside(tree)[1], len(lead))
    return Demand(subscription, needs, unprojected, series, len(lead) if series else 0, unmoved)


def _writable_part(
    tree: StepList, series: tuple[Change, ...], unmoved: str, lead: int = 0
) -> tuple[tuple[Change, ...], str]:
    """The series, as far as it can be written: no step of the list moves if what is left of it could not be."""
    if len(series) > lead:
        writer = _writer(tree.changes)
        try:
            Transformation(writer.list(tree), writer.namespaces)
        except (UnwritableError, LimitError) as error:
            series, unmoved = series[:lead], f"has a step that cannot be written down: {error}"
    for size in range(len(series), 0, -1):
        try:
            early_of(series[:size], False)
        except UnwritableError as error:
            unmoved = f"has a step that cannot be written down: {error}"
        else:
            return series[:size], unmoved
    return (), unmoved


def _needs(ask: Callable[[], tuple[Need, ...]]) -> tuple[tuple[Need, ...], str]:
    try:
        return tuple(_writable(need) for need in ask()), ""
    except UnsharedError as reason:
        return (), str(reason)


def _writable(need: Need) -> Need:
    """The need without the conditions that cannot be written down: weaker, that is, more is kept."""
    try:
        Writer().path(need.path)
    except UnwritableError as error:
        raise UnsharedError(f"has a path that cannot be written down: {error}") from error
    return replace(
        need, alternatives=tuple(frozenset(filter(_is_writable, alternative)) for alternative in need.alternatives)
    )


def _is_writable(condition: Condition) -> bool:
    try:
        Writer().condition(condition)
    except UnwritableError:
        return False
    return True
