"""What may be done to documents before they cross the links of one root's tree: plans, kept by deltas, and applied.

Theory of operation (ONYX, section 4.2.2; the algebra is that of `treecast.links`). A broker has one plan for each
target: its own subscribers, and each child. What all of them allow together is its own plan, which it tells its parent
when it changes, as a part of the version that its routing query is in too. So a plan is a value of bounded size for a
link, however many subscribers are behind it. A plan that is too long, that is not understood, or that must do for
somebody who wants whole documents, is `WHOLE`: nothing is done.

A document goes over a link only if routing has chosen the link; only then, and once for all links with the same plan,
is it changed. A subscription makes of what a plan leaves the same as of the document itself, if the plan allows for
that subscription; and so it does of what several such plans leave, one after the other, on several links. That all
plans on the way allow for what a broker wants is what a covered version says (`tree.py`): a version is one of the
routing query and of the plan. What a root sends to repair a gap is whole.

    >>> import treecast
    >>> from treecast.overlay.onyx.network_messages import Parcel
    >>> plan = EarlyPlan(NetworkSettings())
    >>> plan.set("b2", Plan("keep /news/item[@area='SF']")), plan.set("b3", Plan("keep /news/item[@area='NY']"))
    (True, True)
    >>> plan.own.steps
    'keep /news/item[@area="NY" or @area="SF"]'
    >>> data = b'<news><item area="SF">Fog</item><item area="LA">Sun</item></news>'
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

import msgspec

from treecast.document import Document
from treecast.errors import TreecastError
from treecast.links import Demand, Early, Link, Restructuring
from treecast.overlay.onyx.link_formats import TEXT, Arrival
from treecast.overlay.onyx.network_messages import Plan
from treecast.overlay.onyx.settings import NetworkSettings

NOBODY = Plan(is_wanted=False)
"""Nobody wants anything."""
WHOLE = Plan()
"""Documents go as they are."""
ANNOUNCED_MAX = 64
"""Plans of before that are remembered: documents that were changed by them may still be on their way."""


def plan_of(link: Link, bytes_max: int) -> Plan:
    """What all behind a link allow, as it is told to the parent."""
    if not len(link):
        return NOBODY
    early = link.early
    if not isinstance(early, Early):
        return WHOLE
    plan = Plan(early.text, dict(sorted(early.namespaces.items())), early.empty)
    return plan if _size(plan) <= bytes_max else WHOLE


def demand_of(plan: Plan) -> Demand | None:
    """A plan as a demand of the link before it; None: there is none. QueryError or ValueError if it makes no sense."""
    if not plan.is_wanted:
        return None
    early = Early(plan.steps, plan.namespaces, plan.empty) if plan.steps else None
    return Demand.of_link(early).for_projection()


def mark_of(plan: Plan) -> str:
    """A short name for what was done to a document."""
    return hashlib.blake2b(msgspec.msgpack.encode(plan), digest_size=8).hexdigest()


def _size(plan: Plan) -> int:
    return sum(len(text.encode()) for text in (plan.steps, *plan.namespaces, *plan.namespaces.values()))


class EarlyPlan:
    """The plans of one broker in the tree of one root."""

    def __init__(self, settings: NetworkSettings) -> None:
        self._settings = settings
        self._link = Link()
        self._plans: dict[str, Plan] = {}
        self._actions: dict[str, Restructuring] = {}  # by mark, of the plans that are in use
        self._marks: dict[str, str] = {}  # by target
        self.own = NOBODY
        """What the parent is told."""
        self._announced: OrderedDict[str, Plan] = OrderedDict()
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
            action = Restructuring(Early(plan.steps, plan.namespaces)) if plan.steps else None
        except (TreecastError, ValueError):
            self.misunderstood += 1
            return self.set(target, WHOLE)
        self._plans[target] = plan
        self._marks[target] = mark_of(plan) if action else ""
        if action:
            self._actions.setdefault(self._marks[target], action)
        if not plan.is_wanted:
            del self._plans[target], self._marks[target]
        self._actions = {mark: self._actions[mark] for mark in self._marks.values() if mark}
        self._link.update({} if demand is None else {target: demand}, [target] if target in self._link else [])
        return self._refresh()

    def _refresh(self) -> bool:
        own = plan_of(self._link, self._settings.plan_bytes_max)
        if own == self.own:
            return False
        self.own = own
        if own.steps:
            mark = mark_of(own)
            self._announced[mark] = own
            self._announced.move_to_end(mark)
            if len(self._announced) > ANNOUNCED_MAX:
                self._announced.popitem(last=False)
        return True

    def plan(self, target: str) -> Plan:
        return self._plans.get(target, NOBODY)

    def targets(self) -> Mapping[str, Plan]:
        return self._plans

    def resolve(self, mark: str) -> Plan | None:
        """The plan that a mark stands for, if this broker has announced it."""
        return self._announced.get(mark)

    def begin(self) -> EarlyWork:
        """For the documents of one range."""
        return EarlyWork(self._actions, self._marks)


class EarlyWork:
    """Changes the documents of one range, each once for every plan that is needed."""

    def __init__(self, actions: Mapping[str, Restructuring], marks: Mapping[str, str]) -> None:
        self._actions = actions
        self._marks = marks
        self._results: dict[tuple[str, int], Arrival | None] = {}

    def apply(self, target: str, arrivals: list[Arrival]) -> tuple[list[Arrival], int]:
        """What goes over the link to a target, of documents that routing has chosen for it, and how many bytes of text
        need not go."""
        mark = self._marks.get(target, "")
        if not mark or not arrivals:
            return arrivals, 0
        self._change([arrival for arrival in arrivals if (mark, arrival.number) not in self._results], mark)
        results = [self._results[mark, arrival.number] for arrival in arrivals]
        left = [arrival for arrival in results if arrival is not None]
        return left, _text_bytes(arrivals) - _text_bytes(left)

    def _change(self, arrivals: list[Arrival], mark: str) -> None:
        readable: list[tuple[Arrival, Document]] = []
        for arrival in arrivals:
            # What cannot be read here goes as it is: it is not for a broker on the way to say that nobody below can.
            self._results[mark, arrival.number] = arrival
            if arrival.document is not None:
                readable.append((arrival, arrival.document))
        answers = self._actions[mark].apply_many([document for _, document in readable])
        for (arrival, _), answer in zip(readable, answers, strict=True):
            self._results[mark, arrival.number] = _changed(arrival, answer, mark)


def _changed(arrival: Arrival, answer: Document | TreecastError | None, mark: str) -> Arrival | None:
    """What is sent instead of a document; None: nothing, because nobody behind the link gets anything of it."""
    if answer is None:
        return None
    if isinstance(answer, TreecastError):
        return arrival  # too much work, perhaps
    body = answer.data
    if not arrival.early and len(body) >= len(arrival.body):
        return arrival
    return Arrival(msgspec.structs.replace(arrival.parcel, format=TEXT, body=body, early=mark), answer)


def _text_bytes(arrivals: list[Arrival]) -> int:
    return sum(len(arrival.body) for arrival in arrivals)
