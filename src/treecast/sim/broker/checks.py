"""What must hold of a broker's deliveries, decided from the history of its clients alone.

The oracle is `treecast.Index`, an index for each query by itself; no code of the broker takes part. For a document that
a client published and a subscription, the history says which *states* of the subscription the broker may have seen: a
version of it (its query at that time) or none. If an operation was under way at the same time, there is more than one.

- A delivery is **allowed** if its payload is what one of these versions gives for this document, or if a replay
  explains it.
- It is **required** if there is just one such version, it matches, the document was acknowledged, and the subscription
  was not removed later. A required delivery was received by someone who acknowledged it, or is a dead letter.
- What a client has acknowledged, and was told to be stored, never comes again to a subscription that it alone receives.
  Not so after a replay, or as a dead letter that was asked for.
- The first receipts of a subscription have the documents of a publisher in the order in which they were published.
  Not so if several clients share the subscription, or after a replay.
- What was refused is never delivered. A document that was published twice under one id is delivered as one.
- Documents are accepted for sources that are registered, and for no others.
- An answer is that of its request, and not of another.

Each check returns texts that say what is wrong; none is good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from treecast.errors import DocumentError, QueryError
from treecast.index import Index
from treecast.overlay.messages import (
    Advance,
    Document,
    Publish,
    RegisterSource,
    RemoveSource,
    Replay,
    Subscribe,
    Unsubscribe,
)
from treecast.sim.broker.history import NEVER_US, History, Operation, Receipt

TEXTS_MAX = 5
"""Of one kind that a report has."""


@lru_cache(maxsize=512)
def _index_of(query: str, deliver: str) -> Index:
    index = Index(seed=1)
    index.add("q", query, deliver=deliver)  # type: ignore[arg-type]
    return index


@lru_cache(maxsize=8_192)
def _payload_of(query: str, deliver: str, body: bytes) -> bytes | None:
    try:
        deliveries = _index_of(query, deliver).render(body)
    except DocumentError:
        return None
    return deliveries[0].payload if deliveries else None


def payload_of(version: Subscribe, body: bytes) -> bytes | None:
    """What an index of this subscription alone gives for a document; None if it does not match."""
    assert not version.namespaces and not version.ordered, "the scenario draws none"
    return _payload_of(version.query, version.deliver, body)


@lru_cache(maxsize=512)
def _is_valid(query: str) -> bool:
    try:
        _index_of(query, "document")
    except QueryError:
        return False
    return True


class State(msgspec.Struct, frozen=True):
    """What a subscription may have been from one time to another."""

    version: Subscribe | None
    begin_us: int
    end_us: int
    operation: int


class Publication(msgspec.Struct, frozen=True):
    """A document of a client. `number` is None if its answer never came."""

    document: Document
    operation: Operation
    item: int
    number: int | None


class Letter(msgspec.Struct, frozen=True):
    """A dead letter that the broker keeps."""

    subscription: str
    document: int
    payload: bytes
    reason: str = ""


class Checks:
    """The checks of one history.

    `expiring` are subscriptions that may be removed at any time. `damaged` are documents that the broker's disk has
    lost: they need not be delivered, and dead letters of them may be empty.
    """

    def __init__(
        self,
        history: History,
        letters: Iterable[Letter],
        *,
        expiring: frozenset[str] = frozenset(),
        damaged: frozenset[int] = frozenset(),
    ) -> None:
        self._history = history
        self._damaged = damaged
        self._letters = list(letters)
        self._expiring = expiring
        self._publications_by_number: dict[int, list[Publication]] = {}
        self._in_doubt: list[Publication] = []
        self._operations_of: dict[str, list[Operation]] = {}
        self._replays: dict[str, list[Operation]] = {}
        self._advances: dict[str, list[tuple[Operation, int]]] = {}
        for operation in history.operations:
            self._sort_in(operation)
        self._states = {id: list(self._states_of(id)) for id in self._operations_of}

    def _sort_in(self, operation: Operation) -> None:
        command = operation.command
        if operation.is_refused or not _is_fitting(operation):
            return
        if isinstance(command, Publish):
            numbers = operation.answer.documents if operation.answer else [None] * len(command.documents)
            for item, (document, number) in enumerate(zip(command.documents, numbers, strict=True)):
                if number is None:
                    self._in_doubt.append(Publication(document, operation, item, None))
                elif number:
                    self._publications_by_number.setdefault(number, []).append(
                        Publication(document, operation, item, number)
                    )
        elif isinstance(command, Unsubscribe) or (isinstance(command, Subscribe) and _is_valid(command.query)):
            self._operations_of.setdefault(command.id, []).append(operation)
        elif isinstance(command, Replay):
            self._replays.setdefault(command.id, []).append(operation)
        elif isinstance(command, Advance):
            for id, last in command.positions:
                self._advances.setdefault(id, []).append((operation, last))

    def _states_of(self, id: str) -> Iterator[State]:
        """Each state ends for sure when a later operation was done for sure."""
        operations = self._operations_of[id]
        ends = [NEVER_US] * (len(operations) + 1)
        for place in range(len(operations) - 1, -1, -1):
            done_us = operations[place].answered_us if operations[place].is_done else NEVER_US
            ends[place] = min(ends[place + 1], done_us or NEVER_US)
        yield State(None, -1, ends[0], -1)
        for place, operation in enumerate(operations):
            version = operation.command if isinstance(operation.command, Subscribe) else None
            yield State(version, operation.sent_us, ends[place + 1], operation.place)

    def states(self, id: str, publication: Publication) -> list[State]:
        """What the subscription may have been when this document was published."""
        begin_us, end_us = publication.operation.sent_us, publication.operation.effect_until_us
        return [state for state in self._states.get(id, ()) if state.begin_us <= end_us and state.end_us >= begin_us]

    # -- the checks

    def all(self) -> list[str]:
        """Everything that is wrong in the end, the most telling first."""
        wrong: list[str] = []
        for check in (
            self.answers,
            self.numbers,
            self.sources,
            self.wrong,
            self.duplicates,
            self.disorder,
            self.repeated,
            self.missing,
        ):
            wrong += list(check())[:TEXTS_MAX]
        return wrong

    def answers(self) -> Iterator[str]:
        """Answers that cannot be those of their requests."""
        for operation in self._history.operations:
            if operation.is_done and not _is_fitting(operation):
                yield f"{operation.client} asked for {operation.command} and was answered {operation.answer}"

    def numbers(self) -> Iterator[str]:
        """Numbers of documents ascend for each publisher, and name one document."""
        last: dict[str, tuple[int, Publication]] = {}
        seen_numbers: set[int] = set()
        for number, publications in sorted(self._publications_by_number.items()):
            bodies = {publication.document.body for publication in publications}
            if len(bodies) > 1:
                yield f"document {number} is the number of {len(bodies)} different documents"
        in_order = sorted(
            (publication for several in self._publications_by_number.values() for publication in several),
            key=lambda publication: (publication.operation.place, publication.item),
        )
        for publication in in_order:
            number = publication.number or 0
            client = publication.operation.client
            if number in seen_numbers:
                continue  # the second copy of a document has the number of the first
            seen_numbers.add(number)
            if client in last and last[client][0] > number and not self._may_be_copy(publication):
                yield f"{client} published {last[client][0]} before {number}"
            last[client] = (number, publication)

    def _may_be_copy(self, publication: Publication) -> bool:
        """An earlier copy of it may have been accepted without an answer, and then gave it its number."""
        id = publication.document.id
        return bool(id) and any(other.document.id == id for other in self._in_doubt)

    def sources(self) -> Iterator[str]:
        """Publications that were accepted or refused although their source was not, or was, registered."""
        owners: dict[str, set[str]] = {}
        for operation in self._history.operations:
            if isinstance(operation.command, RegisterSource | RemoveSource):
                owners.setdefault(operation.command.source, set()).add(operation.client)
        is_registered: dict[str, bool | None] = {}  # as far as is known
        for operation in self._history.operations:
            command = operation.command
            if isinstance(command, RegisterSource | RemoveSource) and not operation.is_refused:
                is_known = operation.is_done and len(owners[command.source]) == 1
                is_registered[command.source] = isinstance(command, RegisterSource) if is_known else None
            elif isinstance(command, Publish) and operation.answer is not None:
                is_unknown = any(refusal.code == "TC410" for refusal in operation.answer.refusals)
                if is_registered.get(command.source) is is_unknown:
                    yield f"{operation.client} published to {command.source}, and the answer was {operation.answer}"

    def candidates(self, number: int) -> list[Publication]:
        """The documents that this number may stand for."""
        if number not in self._publications_by_number:
            return self._in_doubt
        # Copies count: one that has no answer may have been the first that was accepted. Those that were sent when
        # another one had its answer were not.
        ids = {(_source(one), one.document.id) for one in self._publications_by_number[number] if one.document.id}
        copies = [doubtful for doubtful in self._in_doubt if (_source(doubtful), doubtful.document.id) in ids]
        first_us = min(one.operation.effect_until_us for one in self._publications_by_number[number])
        return [one for one in self._publications_by_number[number] + copies if one.operation.sent_us <= first_us]

    def wrong(self) -> Iterator[str]:
        """Deliveries and dead letters that no subscription explains."""
        for receipt in self._history.receipts:
            if not self._is_allowed(receipt.subscription, receipt.document, receipt.payload):
                yield f"{receipt.client} received what is not its own: {_text(receipt)}"
        for letter in self._letters:
            if letter.document in self._damaged and not letter.payload:
                continue
            if not self._is_allowed(letter.subscription, letter.document, letter.payload):
                yield f"a dead letter that no one subscribed to: {letter}"

    def _is_allowed(self, id: str, number: int, payload: bytes) -> bool:
        for publication in self.candidates(number):
            for state in self.states(id, publication):
                if state.version is not None and payload_of(state.version, publication.document.body) == payload:
                    return True
            for replay in self._replays.get(id, ()):
                if self._is_replayed(id, number, payload, publication, replay):
                    return True
        return False

    def _is_replayed(self, id: str, number: int, payload: bytes, publication: Publication, replay: Operation) -> bool:
        if number < (_first_of(replay) or 0) or publication.operation.sent_us > replay.effect_until_us:
            return False
        return any(
            state.version is not None and payload_of(state.version, publication.document.body) == payload
            for state in self._states.get(id, ())
            if state.end_us >= replay.sent_us
        )

    def duplicates(self) -> Iterator[str]:
        """One document that was delivered under two numbers, although it has an id."""
        numbers: dict[tuple[str, str, str], set[int]] = {}
        bodies: dict[bytes, tuple[str, str]] = {}
        for one in [*self._in_doubt, *(one for several in self._publications_by_number.values() for one in several)]:
            if one.document.id:
                bodies[one.document.body] = (_source(one), one.document.id)
        for number, several in self._publications_by_number.items():
            for one in several:
                if one.document.id:
                    numbers.setdefault(("", _source(one), one.document.id), set()).add(number)
        for receipt in self._history.receipts:
            if receipt.payload in bodies:  # whole documents, which tell themselves apart
                key = (receipt.subscription, *bodies[receipt.payload])
                numbers.setdefault(key, set()).add(receipt.document)
        for (id, source, name), several_numbers in numbers.items():
            if len(several_numbers) > 1:
                where = f"subscription {id}" if id else "answers"
                yield f"document {name!r} of source {source} has numbers {sorted(several_numbers)} in {where}"

    def disorder(self) -> Iterator[str]:
        """First receipts that are not in the order of publishing."""
        last: dict[tuple[str, str], int] = {}
        seen_pairs: set[tuple[str, int]] = set()
        for receipt in self._history.receipts:
            pair = (receipt.subscription, receipt.document)
            if pair in seen_pairs:
                continue
            seen_pairs.add(pair)
            if not self._is_ordered(receipt.subscription) or pair in self._history.redelivered:
                continue
            publishers = {
                publication.operation.client for publication in self._publications_by_number.get(receipt.document, ())
            }
            if len(publishers) != 1:
                continue
            key = (receipt.subscription, publishers.pop())
            if last.get(key, 0) > receipt.document:
                yield f"{receipt.client} received {last[key]} of {key[1]} before {_text(receipt)}"
            last[key] = max(last.get(key, 0), receipt.document)

    def _is_ordered(self, id: str) -> bool:
        return id not in self._replays and len(self._history.attached.get(id, ())) <= 1

    def repeated(self) -> Iterator[str]:
        """Deliveries that came again after their client was told that its acknowledgement is stored."""
        first_first = reversed(self._history.confirmed)  # of several of one delivery, the first remains
        confirmed_us = {(one.client, one.subscription, one.document): one.time_us for one in first_first}
        for receipt in self._history.receipts:
            if not self._is_ordered(receipt.subscription):
                continue
            if (receipt.subscription, receipt.document) in self._history.redelivered:
                continue
            known_us = confirmed_us.get((receipt.client, receipt.subscription, receipt.document), NEVER_US)
            if receipt.time_us > known_us:
                yield f"{receipt.client} received what it had acknowledged and was confirmed: {_text(receipt)}"

    def missing(self) -> Iterator[str]:
        """Required deliveries that nobody received."""
        letters = {(letter.subscription, letter.document) for letter in self._letters}
        for pair in self.required_pairs():
            if pair in letters or pair in self._history.acknowledged:
                continue
            if pair in self._history.received:
                yield f"document {pair[1]} was not dealt with and never came again to subscription {pair[0]}"
            else:
                yield f"document {pair[1]} was acknowledged and never reached subscription {pair[0]}"
        last_us = {(receipt.subscription, receipt.document): receipt.time_us for receipt in self._history.receipts}
        for id, number, since_us in self.replayed_pairs():
            if last_us.get((id, number), -1) < since_us and (id, number) not in letters:
                yield f"document {number} was not replayed to subscription {id}"

    def required_pairs(self) -> Iterator[tuple[str, int]]:
        """Pairs of subscription and document that must be delivered in the end."""
        for number in self._publications_by_number:
            if number in self._damaged:
                continue
            # Of several copies one counts, and it is not known which: all must agree.
            copies = self.candidates(number)
            for id in self._states:
                if id not in self._expiring and all(self._is_required(id, publication) for publication in copies):
                    yield id, number

    def _is_required(self, id: str, publication: Publication) -> bool:
        states = self.states(id, publication)
        if len(states) != 1 or states[0].version is None:
            return False
        if payload_of(states[0].version, publication.document.body) is None:
            return False
        removals = (o for o in self._operations_of[id] if isinstance(o.command, Unsubscribe))
        if any(removal.place > states[0].operation for removal in removals):
            return False
        if self._may_be_advanced(id, publication, publication.operation.sent_us):
            return False
        return not any(self._is_overridden(id, publication, replay) for replay in self._replays.get(id, ()))

    def _may_be_advanced(self, id: str, publication: Publication, since_us: int) -> bool:
        """Somebody may have said after this time that it was delivered without a session."""
        return any(
            advance.effect_until_us >= since_us and (publication.number is None or publication.number <= last)
            for advance, last in self._advances.get(id, ())
        )

    def _is_overridden(self, id: str, publication: Publication, replay: Operation) -> bool:
        """A replay starts over at a document: what the subscription still waited for is replaced by what it matches."""
        if replay.effect_until_us < publication.operation.sent_us:
            return False
        first = _first_of(replay)
        if first is None or publication.number is None or publication.number < first:
            return True
        return any(
            state.version is None or payload_of(state.version, publication.document.body) is None
            for state in self._states[id]
            if state.end_us >= replay.sent_us
        )

    def replayed_pairs(self) -> Iterator[tuple[str, int, int]]:
        """What the last replay of a subscription must deliver again, and after which time: (id, document, time)."""
        for id, replays in self._replays.items():
            replay = replays[-1]
            first = _first_of(replay)
            changes = [state for state in self._states.get(id, ()) if state.end_us >= replay.sent_us]
            if first is None or len(changes) != 1 or changes[0].version is None or id in self._expiring:
                continue
            for number, several in self._publications_by_number.items():
                publication = several[0]
                is_later = publication.operation.effect_until_us > replay.sent_us
                if is_later or number < first or number in self._damaged:
                    continue
                if self._may_be_advanced(id, publication, replay.sent_us):
                    continue
                if payload_of(changes[0].version, publication.document.body) is not None:
                    yield id, number, replay.sent_us


def _is_fitting(operation: Operation) -> bool:
    """As many documents are in the answer as the request is about. Without an answer, nothing is known."""
    command, answer = operation.command, operation.answer
    documents_expected = len(command.documents) if isinstance(command, Publish) else int(isinstance(command, Replay))
    return answer is None or len(answer.documents) == documents_expected


def _first_of(replay: Operation) -> int | None:
    """The document that a replay begins with; None if its answer never came."""
    return replay.answer.documents[0] if replay.answer and replay.answer.documents else None


def _source(publication: Publication) -> str:
    command = publication.operation.command
    assert isinstance(command, Publish)
    return command.source


def _text(receipt: Receipt) -> str:
    return (
        f"document {receipt.document} for {receipt.subscription}, attempt {receipt.attempt}, "
        f"at {receipt.time_us / 1e6:.3f} s: {receipt.payload.decode(errors='replace')[:100]}"
    )
