"""What may be done to documents before they cross the links of one root's tree: plans, kept by deltas, and applied.

Theory of operation (ONYX, section 4.2.2; the algebra is that of `treecast.links`). A broker has one plan for each
target: its own subscribers, and each child. What all of them allow together is its own plan, which it tells its parent
when it changes, as a part of the version that its routing query is in too. So a plan is a value of bounded size for a
link, however many subscribers are behind it. A plan that is too long, that is not understood, or that must do for
somebody who wants whole documents, is `WHOLE`: nothing is done.

A document goes over a link only if routing has chosen the link; only then, and once for all links with the same plan,
is it changed. That all plans on the way allow for what a broker wants is what a covered version says (`tree.py`): a
version is one of the routing query and of the plan. What a root sends to repair a gap is whole.

- *Projection*, `keep P`: a subscription makes of what a plan leaves the same as of the document itself, and so it does
  of what several plans leave, one after the other. So nobody has to know what was done.
- *Restructuring*, a series of steps that all lists behind the link begin with: what is done is not to be done again. A
  document names the plan by its mark. Who gets it knows the plan, because it is its own, or the beginning of one; it
  does the steps that are left: for its links here, for its subscribers in `early_index.py`. A mark that is not known,
  or that does not fit, costs a question to the root.

    >>> import treecast
    >>> plan = EarlyPlan(NetworkSettings())
    >>> plan.set("b2", Plan("keep /news/item[@area='SF']")), plan.set("b3", Plan("keep /news/item[@area='NY']"))
    (True, True)
    >>> plan.own.steps
    'keep /news/item[@area="NY" or @area="SF"]'
    >>> data = b'<news><item area="SF">Fog</item><item area="LA">Sun</item></news>'
    >>> from treecast.overlay.onyx.network_messages import Parcel
    >>> arrival = Arrival(Parcel(1, "s", "", 0, "text", data), treecast.read(data))
    >>> work = plan.begin()
    >>> [one.body for one in work.apply("b2", [arrival])[0]], work.apply("b3", [arrival])
    ([b'<news><item area="SF">Fog</item></news>'], ([], 65))
    >>> plan.set("b3", WHOLE), plan.own == WHOLE
    (True, True)
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from treecast.document import Document
from treecast.errors import TreecastError
from treecast.links import Demand, Early, Link, Restructuring
from treecast.links.demand import early_of
from treecast.overlay.onyx.link_formats import TEXT, Arrival
from treecast.overlay.onyx.network_messages import Plan
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.query.shapes import Change

NOBODY = Plan(is_wanted=False)
"""Nobody wants anything."""
WHOLE = Plan()
"""Documents go as they are."""
KNOWN_MAX = 256
"""Plans of before that are remembered: documents that were changed by them may still be on their way."""


def plan_of(link: Link, bytes_max: int) -> Plan:
    """What all behind a link allow, as it is told to the parent."""
    if not len(link):
        return NOBODY
    early = link.early
    if not isinstance(early, Early):
        return WHOLE
    plan = _plan(early)
    return plan if _size(plan) <= bytes_max else WHOLE


def _plan(early: Early) -> Plan:
    return Plan(early.text, dict(sorted(early.namespaces.items())), early.empty)


def demand_of(plan: Plan) -> Demand | None:
    """A plan as a demand of the link before it; None: there is none. QueryError or ValueError if it makes no sense."""
    if not plan.is_wanted:
        return None
    return _demand(plan.steps, tuple(plan.namespaces.items()), plan.empty)


@lru_cache(maxsize=256)
def _demand(steps: str, namespaces: tuple[tuple[str, str], ...], empty: bool) -> Demand:
    """The trees of all roots have the same plans, mostly."""
    return Demand.of_link(Early(steps, dict(namespaces), empty) if steps else None)


def early_of_plan(plan: Plan) -> Early:
    """The same as `treecast.links` has it."""
    return Early(plan.steps, plan.namespaces, plan.empty)


def mark_of(plan: Plan, changes: tuple[Change, ...]) -> str:
    """A short name for what was done to a document by these steps of a plan."""
    kind = _PROJECTED if len(changes) == 1 and changes[0].kind == "keep" and not plan.empty else _RESTRUCTURED
    return kind + hashlib.blake2b(msgspec.msgpack.encode(plan), digest_size=8).hexdigest()


def is_projection(plan: Plan) -> bool:
    """Whether it does nothing that would have to be known further down."""
    demand = demand_of(plan)
    return demand is None or not plan.steps or mark_of(plan, demand.series).startswith(_PROJECTED)


def is_restructured(mark: str) -> bool:
    """Whether steps were done that nobody is to do again."""
    return mark != "" and not mark.startswith(_PROJECTED)


_PROJECTED, _RESTRUCTURED = "p", "s"
_Known = tuple[Plan, tuple[Change, ...]]


def _size(plan: Plan) -> int:
    return sum(len(text.encode()) for text in (plan.steps, *plan.namespaces, *plan.namespaces.values()))


class _Stage:
    """A plan that is applied before links: its steps, and what does those of them that are left."""

    def __init__(self, plan: Plan, demand: Demand) -> None:
        self.plan = plan
        self.changes = demand.series
        self.mark = mark_of(plan, demand.series)
        self._demand = demand
        self._actions: dict[int, Restructuring | None] = {}  # by how many steps were done before

    def action(self, done: int) -> Restructuring | None:
        """What has to be done after the first steps; None: nothing."""
        if done not in self._actions:
            rest = self._demand.remainder(done)
            assert rest is None or isinstance(rest, Early)
            self._actions[done] = None if rest is None else Restructuring(rest)
        return self._actions[done]


class EarlyPlan:
    """The plans of one broker in the tree of one root."""

    def __init__(self, settings: NetworkSettings) -> None:
        self._settings = settings
        self._link = Link()
        self._plans: dict[str, Plan] = {}
        self._stages: dict[str, _Stage] = {}  # by target, where something is done; equal plans share one
        self.own = NOBODY
        """What the parent is told."""
        self._known: OrderedDict[str, _Known] = OrderedDict()
        """By mark: what the parent was told, and how that begins."""
        self.misunderstood = 0

    def set(self, target: str, plan: Plan | None) -> bool:
        """Give a target a plan, or none; says whether the parent has to hear of it."""
        plan = plan or NOBODY
        if _size(plan) > self._settings.plan_bytes_max:
            plan = WHOLE
        if plan == self._plans.get(target, NOBODY):
            return False
        try:
            demand = demand_of(plan)
            stage = self._stage(plan, demand) if plan.steps and demand else None
        except (TreecastError, ValueError):
            self.misunderstood += 1
            return self.set(target, WHOLE)
        self._plans.pop(target, None)
        self._stages.pop(target, None)
        if plan.is_wanted:
            self._plans[target] = plan
        if stage is not None:
            self._stages[target] = stage
        self._link.update({} if demand is None else {target: demand}, [target] if target in self._link else [])
        return self._refresh()

    def _stage(self, plan: Plan, demand: Demand) -> _Stage:
        same = (stage for stage in self._stages.values() if stage.plan == plan)
        return next(same, None) or _Stage(plan, demand)

    def _refresh(self) -> bool:
        own = plan_of(self._link, self._settings.plan_bytes_max)
        if own == self.own:
            return False
        self.own = own
        demand = demand_of(own)
        if own.steps and demand:
            for size in range(1, len(demand.series)):
                begin = demand.series[:size]
                self._remember(_plan(early_of(begin, own.empty)), begin)
            self._remember(own, demand.series)
        return True

    def _remember(self, plan: Plan, changes: tuple[Change, ...]) -> None:
        """Documents may come to which this was done."""
        mark = mark_of(plan, changes)
        self._known[mark] = (plan, changes)
        self._known.move_to_end(mark)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def plan(self, target: str) -> Plan:
        return self._plans.get(target, NOBODY)

    def resolve(self, mark: str) -> Plan | None:
        """The plan that a mark stands for, if this broker knows it."""
        known = self._known.get(mark)
        return known[0] if known else None

    def understands(self, parcels: Parcels) -> bool:
        """Whether this broker knows what was done to documents, as far as it has to."""
        if parcels.is_unchanged:
            return True
        marks = {parcel.early for parcel in parcels}
        return all(mark in self._known for mark in marks if is_restructured(mark))

    def changes(self, target: str) -> bool:
        """Documents are changed before they go to a target."""
        return target in self._stages

    def begin(self) -> EarlyWork:
        """For the documents of one range."""
        return EarlyWork(self._stages, self._known)


class EarlyWork:
    """Changes the documents of one range, each once for every plan that is needed."""

    def __init__(self, stages: Mapping[str, _Stage], known: Mapping[str, _Known]) -> None:
        self._stages = stages
        self._known = known
        self._results: dict[tuple[str, int], Arrival | None] = {}

    def apply(self, target: str, arrivals: list[Arrival]) -> tuple[list[Arrival], int]:
        """What goes over the link to a target, of documents that routing has chosen for it, and how many bytes of text
        need not go."""
        stage = self._stages.get(target)
        if stage is None or not arrivals:
            return arrivals, 0
        by_done: dict[int, list[tuple[Arrival, Document]]] = {}
        for arrival in arrivals:
            if (stage.mark, arrival.number) in self._results:
                continue
            # What cannot be read here goes as it is: it is not for a broker on the way to say that nobody below can.
            self._results[stage.mark, arrival.number] = arrival
            done = self._done(stage, arrival.early)
            if arrival.document is not None and done is not None:
                by_done.setdefault(done, []).append((arrival, arrival.document))
        for done, some in by_done.items():
            self._change(stage, done, some)
        results = [self._results[stage.mark, arrival.number] for arrival in arrivals]
        left = [arrival for arrival in results if arrival is not None]
        return left, _text_bytes(arrivals) - _text_bytes(left)

    def _done(self, stage: _Stage, mark: str) -> int | None:
        """How many steps of a plan were done already; None: others were, so nothing can be done here."""
        if not is_restructured(mark):
            return 0
        if mark not in self._known:
            return None
        _, changes = self._known[mark]
        return len(changes) if stage.changes[: len(changes)] == changes else None

    def _change(self, stage: _Stage, done: int, arrivals: list[tuple[Arrival, Document]]) -> None:
        action = stage.action(done)
        if action is None:
            return
        answers = action.apply_many([document for _, document in arrivals])
        for (arrival, _), answer in zip(arrivals, answers, strict=True):
            self._results[stage.mark, arrival.number] = _changed(arrival, answer, stage)


def _changed(arrival: Arrival, answer: Document | TreecastError | None, stage: _Stage) -> Arrival | None:
    """What is sent instead of a document; None: nothing, because nobody behind the link gets anything of it."""
    if answer is None:
        return arrival if stage.plan.empty else None  # everyone gets something of it, empty as it is
    if isinstance(answer, TreecastError):
        return arrival  # too much work, perhaps, or a name that is there already: whoever gets it will see
    body = answer.data
    if not arrival.early and len(body) >= len(arrival.body):
        return arrival
    return Arrival(msgspec.structs.replace(arrival.parcel, format=TEXT, body=body, early=stage.mark), answer)


def _text_bytes(arrivals: list[Arrival]) -> int:
    return sum(len(arrival.body) for arrival in arrivals)
