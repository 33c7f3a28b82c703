"""Published documents: duplicates dropped, the others matched, and stored with the list of who gets what.

Documents that are not well-formed, or not valid by the DTD of their source, are refused before anything is stored.

A batch is matched by one native call. For each accepted document there is one row, and one body in the log; payloads
that differ from the document itself have bodies of their own, each once however many subscriptions get it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from treecast.document import AnyDocument, read_many
from treecast.document import Document as ReadDocument
from treecast.errors import DocumentError, TreecastError
from treecast.index import Index
from treecast.overlay.broker.archive import Archive
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.recent_ids import RecentIds
from treecast.overlay.broker.refused import NAME_BYTES_MAX, RequestError, refusal
from treecast.overlay.broker.rows import DOCUMENTS, RECENT, DocumentRow, EarlyRow, RecentRow, decode_many
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
        part = self._index.render_part(contents, report=True)
        rejected: dict[int, DocumentError] = dict(part.rejected)
        matches = Matches(part.deliveries)
        for at in range(matches.documents):
            place = places[at]
            error = rejected.get(at) or self._objection(validator, bodies[at], matches, at)
            if error is not None:
                refusals.append(refusal(error, place))
            else:
                document = command.documents[place]
                number = self._store(command.source, document, matches, at, turn)
                numbers[place] = number
                self._remember(command.source, document.id, number, turn)
                turn.published.append((number, command.source, document.id, document.body, contents[at]))
        return matches.documents

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
            part = used.render_part([one.content for one in documents[start:]], report=True)
            rejected = dict(part.rejected)
            matches = Matches(part.deliveries)
            for at in range(matches.documents):
                document = documents[start + at]
                if at in rejected:
                    self.refused += 1  # its root read it, so its limits are wider than ours
                elif not matches.is_empty(at):
                    early = _early_row(resolve(document.early)) if document.early else None
                    self._store(document.source, document, matches, at, turn, (origin, document.number), early)
            start += matches.documents

    def _objection(self, validator: Validator | None, body: bytes, matches: Matches, at: int) -> TreecastError | None:
        """Why a well-formed document is refused all the same."""
        try:
            if validator is not None:
                self._schemas.check(validator, body)
        except DocumentError as error:
            return error
        if self._settings.refuse_unwanted and matches.is_empty(at):
            return RequestError("nobody wants this document", code="TC419", hint="no subscription matches it")
        return None

    def is_full(self) -> bool:
        return self._shadow.body_bytes() > self._settings.store_bytes_max

    def _store(
        self,
        source: str,
        document: Document | Incoming,
        matches: Matches,
        at: int,
        turn: Turn,
        origin: tuple[str, int] = ("", 0),
        early: EarlyRow | None = None,
    ) -> int:
        published_ms = turn.now_ms if isinstance(document, Document) else document.published_ms
        number = self._backlog.last_document + 1
        self._backlog.last_document = number
        own = self._append(document.body, turn)
        ids, choices, refused = matches.of(at)
        bodies: dict[int, int] = {}
        contents: dict[int, bytes] = {}
        for choice in dict.fromkeys(choices):
            payload = contents[choice] = matches.payload(choice)
            bodies[choice] = own if payload == document.body else self._append(payload, turn)
        payloads = [bodies[choice] for choice in choices]
        row = DocumentRow(source, document.id, published_ms, own, len(document.body), ids, payloads, *origin, early)
        turn.put(DOCUMENTS, number, row)
        self._archive.rows.remember(number, row)
        if self._settings.announces:
            contents_of = [contents[choice] for choice in choices]
            turn.events.append(Published(number, published_ms, ids, contents_of, origin))
        for id, code in refused:
            self._backlog.add_letter(id, number, published_ms, code, 0, b"", turn, origin)
        self._backlog.enqueue(number, ids, turn)
        return number

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


class Matches:
    """The deliveries of some documents, as lists. PERF: bench/broker.py: Arrow's scalars cost more than matching."""

    def __init__(self, deliveries: Any) -> None:
        self._ends: list[int] = deliveries.offsets.to_pylist()
        self.documents = len(self._ends) - 1
        rows = deliveries.values
        self._ids: list[str] = rows.field("subscription").to_pylist()
        column = rows.field("payload")
        self._choices: list[int] = column.indices.to_pylist()
        codes = rows.field("code")
        self._codes: list[str | None] | None = codes.to_pylist() if codes.null_count < len(codes) else None
        _, ends, data = column.dictionary.buffers()
        self._first = column.dictionary.offset
        self._payload_ends = memoryview(ends).cast("q") if ends is not None else memoryview(b"")
        self._payloads = memoryview(data) if data is not None else memoryview(b"")

    def of(self, at: int) -> tuple[list[str], list[int], list[tuple[str, str]]]:
        """Of one document: subscriptions, the numbers of their payloads, and those that were refused, with codes."""
        begin, end = self._ends[at], self._ends[at + 1]
        ids, choices = self._ids[begin:end], self._choices[begin:end]
        if self._codes is None:
            return ids, choices, []
        codes = self._codes[begin:end]
        accepted = [place for place, code in enumerate(codes) if code is None]
        refused = [(id, code) for id, code in zip(ids, codes, strict=True) if code is not None]
        return [ids[place] for place in accepted], [choices[place] for place in accepted], refused

    def is_empty(self, at: int) -> bool:
        return self._ends[at] == self._ends[at + 1]

    def payload(self, choice: int) -> bytes:
        begin, end = self._payload_ends[self._first + choice], self._payload_ends[self._first + choice + 1]
        return bytes(self._payloads[begin:end])  # views are compared byte by byte, which takes longer than copying them
