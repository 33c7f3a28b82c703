"""Published documents: duplicates dropped, the others matched, and stored with the list of who gets what.

Documents that are not well-formed, or not valid by the DTD of their source, are refused before anything is stored.

A batch is matched by one native call. For each accepted document there is one row, and one body in the log; payloads
that differ from the document itself have bodies of their own, each once however many subscriptions get it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Protocol

import msgspec

from treecast import _native
from treecast.document import AnyDocument, read_many
from treecast.document import Document as ReadDocument
from treecast.errors import DocumentError, TreecastError
from treecast.index import Index
from treecast.overlay.broker.archive import Archive
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.recent_ids import RecentIds
from treecast.overlay.broker.refused import NAME_BYTES_MAX, RequestError, refusal
from treecast.overlay.broker.rows import DOCUMENTS, RECENT, EarlyRow, PackedDocumentRow, RecentRow, decode_many
from treecast.overlay.broker.schemas import Schemas
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.tail import Published, Refused
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Document, Publish, Refusal
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Append, DeleteBefore
from treecast.workload.validator import Validator

EXCERPT_BYTES_MAX = 1_000
"""Of a refused document, for whoever wants to know what it was."""


class Incoming(Protocol):
    """A document that was accepted by another broker of the network, where it has this number."""

    @property
    def number(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def published_ms(self) -> int: ...
    @property
    def body(self) -> bytes:
        """Its text,"""

    @property
    def content(self) -> AnyDocument:
        """and what an index takes: the document, where it was read already."""

    @property
    def early(self) -> str:
        """A mark, if it was changed on the way."""


class Change(Protocol):
    """What was done to a document on the way."""

    @property
    def steps(self) -> str: ...
    @property
    def namespaces(self) -> dict[str, str]: ...
    @property
    def empty(self) -> bool: ...


Resolve = Callable[[str], Change | None]


def unresolved(mark: str) -> Change | None:
    return None


class Intake:
    """Accepts documents."""

    def __init__(
        self,
        shadow: Shadow,
        archive: Archive,
        backlog: Backlog,
        index: Index,
        schemas: Schemas,
        settings: BrokerSettings,
    ) -> None:
        self._schemas = schemas
        self._shadow = shadow
        self._archive = archive
        self._backlog = backlog
        self._index = index
        self._settings = settings
        self.last_body = 0
        self.refused = self.duplicates = 0
        self.keeps_documents = False
        """What is published is read into a Document, for whoever needs it in the same turn (`Turn.published`)."""
        self._recent = RecentIds(settings.duplicates_max)
        """By source and publisher's id."""

    def load(self) -> None:
        after = 0
        while rows := self._shadow.scan(RECENT, after, 10_000):
            after = rows[-1][0]
            for (number, _), row in zip(rows, decode_many([data for _, data in rows], RecentRow), strict=True):
                self._recent.add(row.name, number, row.published_ms)

    def publish(
        self, command: Publish, validator: Validator | None, turn: Turn
    ) -> tuple[list[int], list[Refusal], list[int]]:
        """The number of each document, 0 for a refused one; the refusals; and the places of duplicates.

        `validator`: what documents of this source are checked by.
        """
        if len(command.documents) > self._settings.documents_per_publish_max:
            raise RequestError(
                f"{len(command.documents)} documents in one request",
                code="TC411",
                hint=f"at most {self._settings.documents_per_publish_max}",
            )
        if self.is_full():
            raise RequestError("the store is full", code="TC415", hint="subscribers have to catch up first")
        numbers = [0] * len(command.documents)
        refusals: list[Refusal] = []
        copies: list[tuple[int, int]] = []  # a second one in this batch, and the first
        fresh = self._fresh(command, numbers, refusals, copies)
        known = [place for place, number in enumerate(numbers) if number]
        start = 0
        while start < len(fresh):
            start += self._accept(command, validator, fresh[start:], numbers, refusals, turn)
        for place, original in copies:
            numbers[place] = numbers[original]
            if numbers[place]:
                known.append(place)
            else:
                error = next(r for r in refusals if r.item == original)
                refusals.append(Refusal(place, error.code, error.message))
        self._forget_old(turn)
        self.announce_refused(command, refusals, turn)
        return numbers, sorted(refusals, key=lambda r: r.item), known

    def announce_refused(self, command: Publish, refusals: list[Refusal], turn: Turn) -> None:
        """Count what is refused, and say so to whoever runs the broker. A refusal of item -1 is one of all of them."""
        for refused in refusals:
            documents = command.documents if refused.item < 0 else [command.documents[refused.item]]
            self.refused += len(documents)
            if self._settings.announces:
                turn.events += [
                    Refused(
                        *(command.source, document.id, refused.code, refused.message),
                        *(len(document.body), bytes(document.body[:EXCERPT_BYTES_MAX]), turn.now_ms),
                    )
                    for document in documents
                ]

    def _fresh(
        self, command: Publish, numbers: list[int], refusals: list[Refusal], copies: list[tuple[int, int]]
    ) -> list[int]:
        """The places of documents that were not published before."""
        fresh: list[int] = []
        seen: dict[str, int] = {}
        for place, document in enumerate(command.documents):
            if document.id:
                if len(document.id.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
                    refusals.append(Refusal(place, "TC414", f"TC414 the id must have 1-{NAME_BYTES_MAX} bytes"))
                    continue
                name = f"{command.source}\0{document.id}"
                if (known := self._recent.number_of(name)) is not None:
                    numbers[place] = known
                    self.duplicates += 1
                    continue
                if name in seen:
                    copies.append((place, seen[name]))
                    self.duplicates += 1
                    continue
                seen[name] = place
            fresh.append(place)
        return fresh

    def _accept(
        self,
        command: Publish,
        validator: Validator | None,
        places: list[int],
        numbers: list[int],
        refusals: list[Refusal],
        turn: Turn,
    ) -> int:
        """Match and store as many of these documents as fit into one part; returns how many that were."""
        bodies = [command.documents[place].body for place in places]
        contents: list[AnyDocument] = list(bodies)
        if self.keeps_documents:
            read = read_many(bodies, limits=self._index.limits)
            contents = [one if isinstance(one, ReadDocument) else body for one, body in zip(read, bodies, strict=True)]
        batch = self._index.render_columns(contents, report=True)
        rejected: dict[int, DocumentError] = dict(batch.rejected)
        counts = _native.delivery_counts(batch)
        accepted: list[Document | None] = []
        for at, count in enumerate(counts):
            error = rejected.get(at) or self._objection(validator, bodies[at], count)
            if error is not None:
                refusals.append(refusal(error, places[at]))
            accepted.append(None if error is not None else command.documents[places[at]])
        stored = self._store(batch, accepted, [command.source] * len(counts), counts, turn)
        for at, document in enumerate(accepted):
            if document is not None:
                number = numbers[places[at]] = stored[at]
                self._remember(command.source, document.id, number, turn)
                turn.published.append((number, command.source, document.id, document.body, contents[at]))
        return len(counts)

    def take(
        self,
        origin: str,
        documents: Sequence[Incoming],
        turn: Turn,
        resolve: Resolve = unresolved,
        index: Index | None = None,
    ) -> None:
        """Documents that were accepted by another broker, which `origin` names: what somebody here gets is stored.

        The caller sees to it that none comes twice.
        """
        used = self._index if index is None else index
        start = 0
        while start < len(documents):
            some = documents[start:]
            batch = used.render_columns([one.content for one in some], report=True)
            rejected = {at for at, _ in batch.rejected}
            self.refused += len(rejected)  # their root read them, so its limits are wider than ours
            counts = _native.delivery_counts(batch)
            wanted = [
                one if count and at not in rejected else None
                for at, (one, count) in enumerate(zip(some, counts, strict=False))
            ]
            early = {
                at: _early_row(resolve(one.early)) for at, one in enumerate(wanted) if one is not None and one.early
            }
            self._store(batch, wanted, [one.source for one in some], counts, turn, origin, early)
            start += len(counts)

    def _objection(self, validator: Validator | None, body: bytes, count: int) -> TreecastError | None:
        """Why a well-formed document is refused all the same."""
        try:
            if validator is not None:
                self._schemas.check(validator, body)
        except DocumentError as error:
            return error
        if self._settings.refuse_unwanted and not count:
            return RequestError("nobody wants this document", code="TC419", hint="no subscription matches it")
        return None

    def is_full(self) -> bool:
        return self._shadow.body_bytes() > self._settings.store_bytes_max

    def _store(
        self,
        batch: _native.DeliveryBatch,
        documents: Sequence[Document | Incoming | None],
        sources: Sequence[str],
        counts: Sequence[int],
        turn: Turn,
        origin: str = "",
        early: Mapping[int, EarlyRow] | None = None,
    ) -> list[int]:
        """Store those that are not None, and who gets what of them; returns their numbers."""
        # PERF: bench/network_cpu.py. What is done for each delivery is native; here is what is done for each document.
        texts = [_text(one) if one is not None and count else b"" for one, count in zip(documents, counts, strict=True)]
        distinct = _native.distinct_payloads(batch, texts)
        numbers, published, origin_numbers, bodies, own = [], [], [], [], []
        for at, document in enumerate(documents):
            if document is None:
                numbers.append(0)
                published.append(0)
                origin_numbers.append(0)
                own.append(0)
                bodies += [0] * len(distinct[at])
                continue
            self._backlog.last_document += 1
            numbers.append(self._backlog.last_document)
            published.append(turn.now_ms if isinstance(document, Document) else document.published_ms)
            origin_numbers.append(0 if isinstance(document, Document) else document.number)
            own.append(self._append(document.body, turn))
            bodies += [own[at] if one is None else self._append(one, turn) for one in distinct[at]]
        lanes = self._backlog.lanes
        rows, others, sessions = lanes.enqueue(batch, numbers, published, origin, origin_numbers, bodies)
        for at, (document, fields) in enumerate(zip(documents, rows, strict=True)):
            if document is not None and fields is not None:
                row = PackedDocumentRow(
                    *(sources[at], document.id, published[at], own[at], len(document.body)),
                    *(msgspec.Raw(fields[0]), msgspec.Raw(fields[1]), origin, origin_numbers[at]),
                    early.get(at) if early else None,
                )
                turn.put(DOCUMENTS, numbers[at], row)
        if self._settings.announces or batch.refused:
            self._announce(batch, numbers, published, distinct, documents, counts, turn, (origin, origin_numbers))
        for session in sessions:
            self._backlog.on_lanes[session.name] = session
        for at, group in groupby(others, itemgetter(0)):
            self._backlog.enqueue(numbers[at], [id for _, id in group], turn)
        return numbers

    def _announce(
        self,
        batch: _native.DeliveryBatch,
        numbers: Sequence[int],
        published: Sequence[int],
        distinct: Sequence[Sequence[bytes | None]],
        documents: Sequence[Document | Incoming | None],
        counts: Sequence[int],
        turn: Turn,
        origins: tuple[str, Sequence[int]],
    ) -> None:
        """Say who gets what, to whoever wants to know; deliveries that were refused become dead letters."""
        ids, choices = _native.delivery_lists(batch)
        refusals = batch.refusals
        begin = first = 0
        for at, document in enumerate(documents):
            end = begin + counts[at]
            if document is not None:
                accepted = [place for place in range(begin, end) if choices[place] >= 0]
                contents = [distinct[at][choices[place] - first] for place in accepted]
                origin = (origins[0], origins[1][at])
                if self._settings.announces:
                    payloads = [document.body if one is None else one for one in contents]
                    who = [ids[place] for place in accepted]
                    turn.events.append(Published(numbers[at], published[at], who, payloads, origin))
                for place in range(begin, end):
                    if choices[place] < 0:
                        code = refusals[-1 - choices[place]].code
                        self._backlog.add_letter(ids[place], numbers[at], published[at], code, 0, b"", turn, origin)
            begin = end
            first += len(distinct[at])

    def _remember(self, source: str, id: str, number: int, turn: Turn) -> None:
        """A publisher's own id, to recognise a second copy."""
        if id:
            name = f"{source}\0{id}"
            self._recent.add(name, number, turn.now_ms)
            turn.put(RECENT, number, RecentRow(name, turn.now_ms))

    def _append(self, body: bytes, turn: Turn) -> int:
        self.last_body += 1
        turn.changes.append(Append(self.last_body, body))
        return self.last_body

    def _forget_old(self, turn: Turn) -> None:
        """Publishers' ids that are old, or too many."""
        if last := self._recent.forget(turn.now_ms, self._settings.duplicates_ms):
            turn.changes.append(DeleteBefore(RECENT, last + 1))


def _early_row(change: Change | None) -> EarlyRow:
    return EarlyRow(change.steps, change.namespaces, change.empty) if change else EarlyRow()


def _text(document: Document | Incoming) -> bytes:
    """Whoever publishes in this process may give other buffers."""
    body = document.body
    return body if type(body) is bytes else bytes(body)
