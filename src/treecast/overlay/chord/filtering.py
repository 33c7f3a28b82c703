"""Documents on their way through the distributed NFA, recursively (Procedure 4): from state to state, all at once.

The publisher sends the document to the peer that is responsible for the start state. Whoever gets a state and an
element expands it (`fragment.py`), tells the hosts of what is accepted, and sends each target on to its peer. Siblings
and states are thus worked on in parallel. Every visit is answered when all that followed from it is done; so the
publisher learns that its document is through, and which states or hosts could not be reached. A visit that is not
answered is made again; one that arrives twice is not done twice.

A state may be reached with the same element from several sides, through `//`. It is expanded once, and whoever asks
waits for it: nothing is lost, since the elements that lead there are the same, and joins consider all assignments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treecast.document import Document, read
from treecast.errors import TreecastError
from treecast.index import Index
from treecast.overlay.chord.chord_messages import Member, Step
from treecast.overlay.chord.events import ROOT, Events, EventTree
from treecast.overlay.chord.fragment import Check, Fragment, Passage
from treecast.overlay.chord.identifiers import place_of_key
from treecast.overlay.chord.locations import Locations
from treecast.overlay.chord.nfa_messages import (
    FetchDocument,
    Fetched,
    NotifyHost,
    Satisfied,
    Visits,
    VisitsEnd,
    VisitsWork,
)
from treecast.overlay.chord.shedding import MARK, state_of

if TYPE_CHECKING:
    from treecast.overlay.chord.nfa_peer import NfaPeer

ANSWERS_MAX = 1_000
"""Answers that are kept, for those who ask again."""


class Batch:
    """Somebody who waits until visits are done. `end` hears of it."""

    def __init__(self, end: Callable[[Batch], None]) -> None:
        self.pending = 1
        self.misplaced: list[int] = []
        self.unreachable: dict[str, None] = {}
        self.chain = 0
        self._end = end

    def begin_part(self) -> None:
        self.pending += 1

    def end_part(self) -> None:
        self.pending -= 1
        if self.pending == 0:
            self._end(self)


class Visit:
    """A state at an element, and what followed from it."""

    __slots__ = ("chain", "marks", "pending", "unreachable", "waiting")

    def __init__(self) -> None:
        self.pending = 1
        self.marks: list[tuple[str, int]] = []
        """What hosts were told because of it."""
        self.waiting: list[Batch] = []
        self.unreachable: dict[str, None] = {}
        self.chain = 0

    def wait(self, batch: Batch) -> None:
        batch.begin_part()
        self.waiting.append(batch)

    def begin_part(self) -> None:
        self.pending += 1

    def end_part(self, unreachable: Sequence[str] = (), chain: int = 0) -> None:
        self.unreachable.update(dict.fromkeys(unreachable))
        self.chain = max(self.chain, chain)
        self.pending -= 1
        if self.pending:
            return
        waiting, self.waiting = self.waiting, []
        for batch in waiting:
            batch.unreachable.update(self.unreachable)
            batch.chain = max(batch.chain, self.chain)
            batch.end_part()


class Work:
    """A document, as one peer works on it."""

    def __init__(self, id: str, publisher: str, serial: int, body: bytes) -> None:
        self.id = id
        self.publisher = publisher
        self.serial = serial
        self.body = body
        self.document: Document | None = read(body) if body else None
        self.tree = EventTree(Events.of(self.document)) if self.document is not None else None
        self.visits: dict[tuple[str, int], Visit] = {}
        self.states: set[str] = set()
        self.told: set[tuple[str, int]] = set()
        """What hosts were told: ids of entries, with the element where that matters."""
        self.verdicts: dict[str, bool] = {}
        """By entry: what a look at the whole document has said."""

    def is_idle(self) -> bool:
        return all(visit.pending == 0 for visit in self.visits.values())


class Target:
    """A state that was reached, to be visited at its peer."""

    __slots__ = ("attempt", "chain", "element", "key", "tree", "visit", "work")

    def __init__(self, visit: Visit, work: Work, tree: EventTree, key: str, element: int, chain: int) -> None:
        self.visit = visit
        self.work = work
        self.tree = tree
        self.key = key
        self.element = element
        self.chain = chain
        self.attempt = 0


class Filtering:
    """What a peer does about documents."""

    def __init__(self, peer: NfaPeer) -> None:
        self._peer = peer
        self._works: OrderedDict[str, Work] = OrderedDict()
        self._batches: dict[tuple[str, int], Batch] = {}
        self._answers: OrderedDict[tuple[str, int], VisitsEnd] = OrderedDict()
        self._outgoing: dict[tuple[str, str, bool, int, int], list[tuple[Target, str]]] = {}
        """By peer, document, whether it is asked for its copies, chain, and element if that decides what travels."""
        self._fragments: dict[str, Fragment] = {}
        self._checks: OrderedDict[tuple[str, tuple[tuple[str, str], ...], bool], Index] = OrderedDict()
        self.locations = Locations(peer.nfa_settings.locations_max)

    # -- states

    def fragment(self, stored_key: str) -> Fragment:
        fragment = self._fragments.get(stored_key)
        if fragment is None:
            entries = [entry for entry in self._peer.entries.shelf.entries(stored_key) if entry.id != MARK]
            length = self._peer.nfa_settings.fragment_length
            fragment = self._fragments[stored_key] = Fragment(state_of(stored_key), entries, length)
        return fragment

    def forget_fragment(self, stored_key: str) -> None:
        """Its entries have changed."""
        self._fragments.pop(stored_key, None)

    def is_readable(self, stored_key: str, from_copy: bool) -> bool:
        """This peer has what there is to know about a state."""
        entries = self._peer.entries
        if from_copy or state_of(stored_key) != stored_key:
            # A copy that is not there does not mean a state that has nothing.
            return stored_key in entries.shelf and (from_copy or entries.is_ready(stored_key))
        return entries.is_ready(stored_key)

    # -- visits, at the peer that is responsible

    def take_visits(self, sender: str, message: Visits) -> None:
        question = (sender, message.nonce)
        if question in self._answers:
            self._peer.send(sender, self._answers[question])
            return
        if question in self._batches:
            self._peer.send(sender, VisitsWork(message.nonce))
            return
        work = self._work(message.document, message.publisher, message.serial, message.body)
        if work is None:
            return  # too much at once: it will be asked again
        tree = EventTree(message.events) if message.events is not None else work.tree
        batch = self._batches[question] = Batch(lambda batch: self._answer(question, batch))
        for number, (stored_key, element) in enumerate(message.items):
            self._peer.counts["visits received"] += 1
            if tree is None or element not in tree or not self.is_readable(stored_key, message.from_copy):
                batch.misplaced.append(number)
                continue
            if stored_key.partition("#")[0] == "" and work.serial == 0:
                work.serial = self._peer.shedding.next_serial()
            self._visit(work, tree, stored_key, element, batch, message.chain)
        batch.end_part()

    def _work(self, id: str, publisher: str, serial: int, body: bytes) -> Work | None:
        work = self._works.get(id)
        if work is None:
            if len(self._works) >= self._peer.nfa_settings.documents_max:
                idle = next((work.id for work in self._works.values() if work.is_idle()), None)
                if idle is None:
                    return None
                del self._works[idle]
            try:
                work = self._works[id] = Work(id, publisher, serial, body)
            except TreecastError:
                return None
        work.serial = max(work.serial, serial)
        return work

    def _visit(self, work: Work, tree: EventTree, stored_key: str, element: int, batch: Batch, chain: int) -> None:
        place = (state_of(stored_key), element)
        visit = work.visits.get(place)
        if visit is not None and visit.pending:
            visit.wait(batch)
            return
        if visit is not None and not visit.unreachable:
            return
        if visit is not None:
            work.told.difference_update(visit.marks)  # some hosts may not have heard it
        visit = work.visits[place] = Visit()
        visit.chain = chain
        visit.wait(batch)
        if stored_key not in work.states:
            work.states.add(stored_key)
            self._peer.shedding.count(stored_key, work.serial)
        self._peer.counts["expansions"] += 1
        accepted_passages, targets = self.fragment(stored_key).expand(tree, element)
        self.satisfy(work, tree, visit, accepted_passages)
        for key, child in targets:
            self.send_on(Target(visit, work, tree, key, child, chain + 1))
        visit.end_part()

    def _answer(self, question: tuple[str, int], batch: Batch) -> None:
        sender, nonce = question
        self._batches.pop(question, None)
        answer = self._answers[question] = VisitsEnd(nonce, batch.misplaced, list(batch.unreachable), batch.chain)
        if len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)
        self._peer.counts["answers"] += 1
        self._peer.send(sender, answer)

    def take_work(self, sender: str, message: VisitsWork) -> None:
        self._peer.calls.extend(sender, message.nonce, self._peer.settings.probes_max)

    # -- visits, at whoever sends them

    def publish(self, id: str, body: bytes, end: Callable[[Batch], None]) -> None:
        """Raises DocumentError. `end` hears when all is done."""
        work = self.begin_document(id, body)
        batch = Batch(end)
        visit = Visit()
        visit.wait(batch)
        assert work.tree is not None
        self.send_on(Target(visit, work, work.tree, "", ROOT, 1))
        visit.end_part()
        batch.end_part()

    def begin_document(self, id: str, body: bytes) -> Work:
        """A document of this publisher. It is kept here until it is through, whatever else is worked on."""
        return Work(id, self._peer.name, 0, body)

    def send_on(self, target: Target) -> None:
        target.visit.begin_part()
        self._route(target)

    def _route(self, target: Target) -> None:
        shedding = self._peer.shedding
        stored_key = shedding.choose(target.key) if target.attempt == 0 else target.key
        place = place_of_key(stored_key)
        members = self.locations.find(place)
        if members is not None:
            self._queue(target, stored_key, members)
            return

        def end(step: Step | None, hops: int) -> None:
            self._peer.counts["lookups"] += 1
            self._peer.counts["lookup hops"] += hops
            if step is None:
                self._retry(target)
            else:
                target.chain += hops
                self.locations.add(step)
                self._queue(target, stored_key, step.members)

        self._peer.lookup(place, end)

    def _queue(self, target: Target, stored_key: str, members: Sequence[Member]) -> None:
        """What goes to the same peer in one turn goes together."""
        member, from_copy = self.choose_member(members, target.attempt)
        is_whole = len(target.work.body) <= self._peer.nfa_settings.whole_bytes_max and target.work.body
        element = ROOT if is_whole else target.element
        place = (member.peer, target.work.id, from_copy, target.chain, element)
        self._outgoing.setdefault(place, []).append((target, stored_key))

    def choose_member(self, members: Sequence[Member], attempt: int) -> tuple[Member, bool]:
        """The owner; if it does not answer, one of those who hold copies."""
        silent = self._peer.calls.silent
        if attempt and members[0].peer in silent:
            for member in members[1 : self._peer.settings.replicas]:
                if member.peer not in silent:
                    return member, True
        return members[0], False

    def flush(self) -> None:
        """At the end of a turn: send what was queued."""
        while self._outgoing:
            (peer, _, from_copy, _, element), visits = self._outgoing.popitem()
            targets, keys = zip(*visits, strict=True)
            self._send_visits(peer, targets, keys, from_copy, is_whole=element == ROOT)

    def _send_visits(
        self, peer: str, targets: Sequence[Target], keys: Sequence[str], from_copy: bool, is_whole: bool
    ) -> None:
        first = targets[0]
        work = first.work
        is_whole = is_whole and len(work.body) <= self._peer.nfa_settings.whole_bytes_max and bool(work.body)
        events = None if is_whole else first.tree.events.fragment(first.element)
        items = [(key, target.element) for key, target in zip(keys, targets, strict=True)]
        chain = first.chain
        self._peer.counts["visits"] += len(items)
        self._peer.counts["visit frames"] += 1

        def message_of(nonce: int) -> Visits:
            body = work.body if is_whole else b""
            return Visits(nonce, work.id, work.publisher, work.serial, chain, items, body, events, from_copy)

        def hear(answer: VisitsEnd) -> None:
            misplaced_numbers = set(answer.misplaced)
            for number, target in enumerate(targets):
                if number in misplaced_numbers:
                    self._retry(target)
                else:
                    target.visit.end_part(answer.unreachable, answer.chain)

        def fail() -> None:
            for target in targets:
                self._retry(target)

        settings = self._peer.settings
        self._peer.calls.start(peer, message_of, hear, fail, settings.probe_ms, settings.probes_max)

    def _retry(self, target: Target) -> None:
        """It was not there, or did not answer: look for it once more, a little later."""
        settings = self._peer.nfa_settings
        target.attempt += 1
        self.locations.drop(place_of_key(target.key))
        self._peer.shedding.forget(target.key)
        if target.attempt >= settings.attempts_max:
            target.visit.end_part([target.key])
        else:
            delay_ms = self._peer.random.randint(settings.again_ms // 2, settings.again_ms)
            self._peer.after(delay_ms, lambda: self._route(target))

    # -- what is accepted

    def satisfy(
        self, work: Work, tree: EventTree, visit: Visit, accepted_passages: Sequence[tuple[str, Passage, int]]
    ) -> None:
        """Tell the hosts; a query with predicates is looked at again first."""
        unclear: list[tuple[str, Passage]] = []
        notices_by_host: dict[str, list[Satisfied]] = {}
        for id, passage, element in accepted_passages:
            mark = (id, element if passage.wants_chains else ROOT)
            if mark in work.told:
                continue
            work.told.add(mark)
            visit.marks.append(mark)
            if passage.check is not None:
                unclear.append((id, passage))
                continue
            chain = list(tree.chain(element)) if passage.wants_chains else []
            notices_by_host.setdefault(passage.host, []).append(Satisfied(passage.subscription, passage.part, chain))
        for host, notices in notices_by_host.items():
            self._notify(work, visit, host, notices, 0)
        if unclear:
            self._check(work, visit, unclear)

    def _check(self, work: Work, visit: Visit, unclear: list[tuple[str, Passage]]) -> None:
        if work.document is None:
            visit.begin_part()
            self._fetch(work, lambda: visit.end_part(), lambda: visit.end_part([work.publisher]), visit, unclear)
            return
        notices_by_host: dict[str, list[Satisfied]] = {}
        for _, passage in unclear:
            if passage.check is not None and self._holds(passage.check, work.document):
                notices_by_host.setdefault(passage.host, []).append(Satisfied(passage.subscription, passage.part))
        for host, notices in notices_by_host.items():
            self._notify(work, visit, host, notices, 0)

    def _fetch(
        self, work: Work, then: Callable[[], None], fail: Callable[[], None], visit: Visit,
        unclear: list[tuple[str, Passage]],
    ) -> None:  # fmt: skip
        """A predicate may need what has not travelled: ask the publisher for all of it."""

        def hear(answer: Fetched) -> None:
            if answer.body is None:
                fail()
                return
            if work.document is None:
                work.document = read(answer.body)
            self._check(work, visit, unclear)
            then()

        settings = self._peer.settings
        self._peer.counts["fetches"] += 1
        self._peer.calls.start(
            work.publisher, lambda nonce: FetchDocument(nonce, work.id), hear, fail, settings.probe_ms,
            settings.probes_max,
        )  # fmt: skip

    def _holds(self, check: Check, document: Document) -> bool:
        """The engine that decides all queries decides this one."""
        text = (check.query, tuple(sorted(check.namespaces.items())), check.ordered)
        index = self._checks.get(text)
        if index is None:
            index = Index(seed=0)
            index.add("q", check.query, namespaces=check.namespaces, ordered=check.ordered)
            self._checks[text] = index
            if len(self._checks) > self._peer.nfa_settings.checks_max:
                self._checks.popitem(last=False)
        try:
            return bool(index.match(document))
        except TreecastError:
            return False  # too much work to decide it

    def _notify(self, work: Work, visit: Visit, host: str, notices: list[Satisfied], attempt: int) -> None:
        """Until the host answers, or has not for too long. It delivers nothing twice."""
        if attempt == 0:
            visit.begin_part()
        self._peer.counts["notifications"] += 1

        def fail() -> None:
            if attempt + 1 >= self._peer.nfa_settings.notify_attempts_max:
                visit.end_part([host])
            else:
                self._peer.after(
                    self._peer.nfa_settings.again_ms << min(attempt, 4),
                    lambda: self._notify(work, visit, host, notices, attempt + 1),
                )

        settings = self._peer.settings
        self._peer.calls.start(
            host, lambda nonce: NotifyHost(nonce, work.id, work.publisher, notices), lambda answer: visit.end_part(),
            fail, settings.probe_ms, settings.probes_max,
        )  # fmt: skip
