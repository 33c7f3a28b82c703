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

from treecast import _native
from treecast.document import AnyDocument, read_many
from treecast.document import Document as ReadDocument
from treecast.errors import DocumentError, TreecastError
from treecast.index import Index
from treecast.index.rendering import FormCodec
from treecast.overlay.broker.archive import Archive
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.lanes import DocumentColumns, Stored
from treecast.overlay.broker.recent_ids import RecentIds
from treecast.overlay.broker.refused import NAME_BYTES_MAX, RequestError, refusal
from treecast.overlay.broker.rows import DOCUMENTS, RECENT, EarlyRow, RecentRow, decode_many, encode
from treecast.overlay.broker.schemas import Schemas
from treecast.overlay.broker.sessions import Session
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.tail import Published, Refused
from treecast.overlay.broker.turn import PublishedBatch, Turn
from treecast.overlay.messages import Publish, Refusal
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import AppendMany, DeleteBefore, PutMany
from treecast.workload.validator import Validator

EXCERPT_BYTES_MAX = 1_000
"""Of a refused document, for whoever wants to know what it was."""


class InForm(Protocol):
    """A document that another broker of the network has accepted, where it has this number; in the form of a link."""

    @property
    def number(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def published_ms(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class NativeParcels(Protocol):
    """Documents of a message, as native columns too."""

    @property
    def native(self) -> _native.Parcels: ...
    def __len__(self) -> int: ...
    def __getitem__(self, places: slice, /) -> Sequence[InForm]: ...


class Incoming(InForm, Protocol):
    """The same, read. Its body is its text."""

    @property
    def content(self) -> AnyDocument:
        """What an index takes: the document, where it was read already."""

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

Prepare = Callable[[Index, list[bytes]], tuple[_native.DeliveryBatch, object] | None]
"""Renders documents that are published, in place of the index, and finds what else is needed of them in the same turn.
None: it does not."""


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
        self.prepare: Prepare | None = None
        self._recent = RecentIds(settings.duplicates_max)
        """By source and publisher's id."""

    def load(self) -> None:
        after = 0
        while rows := self._shadow.scan(RECENT, after, 10_000):
            after = rows[-1][0]
            for (number, _), row in zip(rows, decode_many([data for _, data in rows], RecentRow), strict=True):
                self._recent.add(row.name, number, row.published_ms)

    def publish(
        self,
        command: Publish,
        validators: Mapping[str, Validator | None],
        refused_sources: Mapping[str, TreecastError],
        turn: Turn,
    ) -> tuple[list[int], list[Refusal], list[int]]:
        """The number of each document, 0 for a refused one; the refusals; and the places of duplicates.

        `validators`: what documents are checked by, for each source that is not refused.
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
        sources = command.sources()
        refusals = [
            refusal(refused_sources[source], place) for place, source in enumerate(sources) if source in refused_sources
        ]
        copies: list[tuple[int, int]] = []  # a second one in this batch, and the first
        fresh = self._fresh(command, sources, numbers, refusals, copies)
        known = [place for place, number in enumerate(numbers) if number]
        start = 0
        while start < len(fresh):
            start += self._accept(command, sources, validators, fresh[start:], numbers, refusals, turn)
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
                        *(document.source or command.source, document.id, refused.code, refused.message),
                        *(len(document.body), bytes(document.body[:EXCERPT_BYTES_MAX]), turn.now_ms),
                    )
                    for document in documents
                ]

    def _fresh(
        self,
        command: Publish,
        sources: list[str],
        numbers: list[int],
        refusals: list[Refusal],
        copies: list[tuple[int, int]],
    ) -> list[int]:
        """The places of documents that are not refused, and were not published before."""
        fresh: list[int] = []
        seen: dict[str, int] = {}
        refused = {refusal.item for refusal in refusals}
        for place, document in enumerate(command.documents):
            if place in refused:
                continue
            if document.id:
                if len(document.id.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
                    refusals.append(Refusal(place, "TC414", f"TC414 the id must have 1-{NAME_BYTES_MAX} bytes"))
                    continue
                name = f"{sources[place]}\0{document.id}"
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
        all_sources: list[str],
        validators: Mapping[str, Validator | None],
        places: list[int],
        numbers: list[int],
        refusals: list[Refusal],
        turn: Turn,
    ) -> int:
        """Match and store as many of these documents as fit into one part; returns how many that were."""
        bodies = [command.documents[place].body for place in places]
        batch, documents, prepared = self._render(bodies)
        count = batch.documents
        sources = [all_sources[place] for place in places[:count]]
        ids = [command.documents[place].id for place in places[:count]]
        accepted = self._judge(batch, [validators[source] for source in sources], bodies, places, refusals)
        columns = DocumentColumns(sources, ids, [turn.now_ms] * count, "", [0] * count)
        stored = self._store(batch, accepted, columns, turn, bodies)
        for place, number in zip(places, stored, strict=False):
            numbers[place] = number
        kept = [at for at, number in enumerate(stored) if number]
        if kept:
            accepted_batch = PublishedBatch(
                sources=[sources[at] for at in kept],
                numbers=[stored[at] for at in kept],
                ids=[ids[at] for at in kept],
                bodies=[bodies[at] for at in kept],
                documents=[documents[at] for at in kept],
                prepared=prepared,
                places=kept,
            )
            turn.published.append(accepted_batch)
        if any(ids):
            self._remember(sources, ids, stored, turn)
        return count

    def _render(self, bodies: list[bytes]) -> tuple[_native.DeliveryBatch, list[AnyDocument | None], object]:
        """The deliveries of as many as fit, and what is needed of them later in the turn: documents, or what was
        prepared."""
        made = self.prepare(self._index, bodies) if self.prepare is not None else None
        if made is not None:
            return made[0], [None] * len(bodies), made[1]
        documents: list[AnyDocument] = list(bodies)
        if self.keeps_documents:
            read = read_many(bodies, limits=self._index.limits)
            documents = [one if isinstance(one, ReadDocument) else body for one, body in zip(read, bodies, strict=True)]
        return self._index.render_columns(documents, report=True, texts=_native.Texts.all), list(documents), None

    def _judge(
        self,
        batch: _native.DeliveryBatch,
        validators: list[Validator | None],
        bodies: list[bytes],
        places: list[int],
        refusals: list[Refusal],
    ) -> list[bool]:
        """Which documents are accepted; the refusals of the others."""
        rejected: dict[int, DocumentError] = dict(batch.rejected)
        if not rejected and not any(validators) and not self._settings.refuse_unwanted:
            return [True] * batch.documents
        accepted = []
        for at, count in enumerate(_native.delivery_counts(batch)):
            error = rejected.get(at) or self._objection(validators[at], bodies[at], count)
            if error is not None:
                refusals.append(refusal(error, places[at]))
            accepted.append(error is None)
        return accepted

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
            batch = used.render_columns([one.content for one in some], report=True, texts=_native.Texts.matched)
            self.refused += len(batch.rejected)  # their root read them, so its limits are wider than ours
            columns = _columns_of(origin, some)
            for at, one in enumerate(some):
                if one.early:
                    columns.early[at] = encode(_early_row(resolve(one.early)))
            texts = [one.body for one in some] if self._settings.announces else ()
            self._store(batch, None, columns, turn, texts)
            start += batch.documents

    def take_parcels(self, origin: str, codec: FormCodec, parcels: NativeParcels, turn: Turn) -> bool:
        """The same for documents in the form of a link, which nothing was done to on the way. False: one of them cannot
        be read, and nothing was stored."""
        # PERF: bench/network_cpu.py. A document is read, matched and rendered in one go, and nothing is kept of it.
        batches: list[tuple[int, _native.DeliveryBatch]] = []
        start = 0
        while start < len(parcels):
            batch = self._index.render_parcels(codec, parcels.native, start)
            if batch.rejected and not codec.is_text:
                return False
            batches.append((start, batch))
            start += batch.documents
        for begin, batch in batches:
            self.refused += len(batch.rejected)
            backlog = self._backlog
            numbers = backlog.last_document, self.last_body
            stored, sessions = backlog.lanes.store_parcels(batch, parcels.native, begin, origin, *numbers)
            self._store_rows(stored, sessions, turn)
            if batch.refused:
                self._announce(batch, stored.numbers, _columns_of(origin, parcels[begin:]), (), turn)
        return True

    @property
    def reads_forms(self) -> bool:
        """Whether `take_parcels` may be called: whoever is told of each delivery has to have it."""
        return not self._settings.announces

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
        accepted: Sequence[bool] | None,
        columns: DocumentColumns,
        turn: Turn,
        texts: Sequence[bytes] = (),
    ) -> list[int]:
        """Store those that are accepted, or, without that, that somebody gets; returns their numbers. `texts` are
        needed only where deliveries are announced."""
        backlog = self._backlog
        stored, sessions = backlog.lanes.store(batch, accepted, columns, backlog.last_document, self.last_body)
        self._store_rows(stored, sessions, turn)
        if stored.rows[0] and (self._settings.announces or batch.refused):
            self._announce(batch, stored.numbers, columns, texts, turn)
        return stored.numbers

    def _store_rows(self, stored: Stored, sessions: Sequence[Session], turn: Turn) -> None:
        """What lanes have made of a batch."""
        backlog = self._backlog
        keys, rows = stored.rows
        if not keys:
            return
        data, ends = stored.bodies
        turn.changes += (AppendMany(self.last_body + 1, data, ends), PutMany(DOCUMENTS, keys, rows))
        backlog.last_document = keys[-1]
        self.last_body += len(ends)
        for session in sessions:
            backlog.on_lanes[session.name] = session
        for at, group in groupby(stored.others, itemgetter(0)):
            backlog.enqueue(stored.numbers[at], [id for _, id in group], turn)

    def _announce(
        self,
        batch: _native.DeliveryBatch,
        numbers: Sequence[int],
        columns: DocumentColumns,
        texts: Sequence[bytes],
        turn: Turn,
    ) -> None:
        """Say who gets what, to whoever wants to know; deliveries that were refused become dead letters."""
        announces = self._settings.announces
        ids, choices = _native.delivery_lists(batch)
        distinct = _native.distinct_payloads(batch, [bytes(text) for text in texts]) if announces else []
        refusals = batch.refusals
        begin = first = 0
        for at, count in enumerate(_native.delivery_counts(batch)):
            end = begin + count
            origin = (columns.origin, columns.origin_numbers[at])
            published_ms = columns.published_ms[at]
            if numbers[at] and announces:
                places = [place for place in range(begin, end) if choices[place] >= 0]
                contents = [distinct[at][choices[place] - first] for place in places]
                payloads = [texts[at] if one is None else one for one in contents]
                who = [ids[place] for place in places]
                turn.events.append(Published(numbers[at], published_ms, who, payloads, origin))
            for place in range(begin, end):
                if numbers[at] and choices[place] < 0:
                    code = refusals[-1 - choices[place]].code
                    self._backlog.add_letter(ids[place], numbers[at], published_ms, code, 0, b"", turn, origin)
            begin = end
            first += len(distinct[at]) if announces else 0

    def _remember(self, sources: Sequence[str], ids: Sequence[str], numbers: Sequence[int], turn: Turn) -> None:
        """Publishers' own ids, to recognise a second copy."""
        rows = zip(sources, ids, numbers, strict=False)
        names = {number: f"{source}\0{id}" for source, id, number in rows if id and number}
        for number, name in names.items():
            self._recent.add(name, number, turn.now_ms)
        if names:
            recent = [encode(RecentRow(name, turn.now_ms)) for name in names.values()]
            turn.changes.append(PutMany(RECENT, list(names), recent))

    def _forget_old(self, turn: Turn) -> None:
        """Publishers' ids that are old, or too many."""
        if last := self._recent.forget(turn.now_ms, self._settings.duplicates_ms):
            turn.changes.append(DeleteBefore(RECENT, last + 1))


def _early_row(change: Change | None) -> EarlyRow:
    return EarlyRow(change.steps, change.namespaces, change.empty) if change else EarlyRow()


def _columns_of(origin: str, documents: Sequence[InForm | Incoming]) -> DocumentColumns:
    return DocumentColumns(
        [one.source for one in documents],
        [one.id for one in documents],
        [one.published_ms for one in documents],
        origin,
        [one.number for one in documents],
        {},
    )
