"""Published documents: duplicates dropped, the others matched, and stored with the list of who gets what.

A batch is matched by one native call. For each accepted document there is one row, and one body in the log; payloads
that differ from the document itself have bodies of their own, each once however many subscriptions get it.
"""

from __future__ import annotations

from collections import OrderedDict

from treecast.errors import DocumentError
from treecast.index import Index
from treecast.overlay.broker.archive import Archive
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.refused import NAME_BYTES_MAX, RequestError, refusal
from treecast.overlay.broker.rows import DOCUMENTS, RECENT, DocumentRow, RecentRow, decode
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.tail import Published
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Document, Publish, Refusal
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Append, DeleteBefore


class Intake:
    """Accepts documents."""

    def __init__(
        self, shadow: Shadow, archive: Archive, backlog: Backlog, index: Index, settings: BrokerSettings
    ) -> None:
        self._shadow = shadow
        self._archive = archive
        self._backlog = backlog
        self._index = index
        self._settings = settings
        self.last_body = 0
        self.refused = self.duplicates = 0
        self._recent: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """By source and publisher's id: the number of the document, and when it was published. Oldest first."""

    def load(self) -> None:
        after = 0
        while rows := self._shadow.scan(RECENT, after, 10_000):
            for number, data in rows:
                row = decode(data, RecentRow)
                self._recent[row.name] = (number, row.published_ms)
            after = rows[-1][0]

    def publish(self, command: Publish, turn: Turn) -> tuple[list[int], list[Refusal], list[int]]:
        """The number of each document, 0 for a refused one; the refusals; and the places of duplicates."""
        if len(command.documents) > self._settings.documents_per_publish_max:
            raise RequestError(
                f"{len(command.documents)} documents in one request",
                code="TC411",
                hint=f"at most {self._settings.documents_per_publish_max}",
            )
        if self._shadow.body_bytes() > self._settings.store_bytes_max:
            raise RequestError("the store is full", code="TC415", hint="subscribers have to catch up first")
        numbers = [0] * len(command.documents)
        refusals: list[Refusal] = []
        copies: list[tuple[int, int]] = []  # a second one in this batch, and the first
        fresh = self._fresh(command, numbers, refusals, copies)
        known = [place for place, number in enumerate(numbers) if number]
        start = 0
        while start < len(fresh):
            start += self._accept(command, fresh[start:], numbers, refusals, turn)
        for place, original in copies:
            numbers[place] = numbers[original]
            if numbers[place]:
                known.append(place)
            else:
                error = next(r for r in refusals if r.item == original)
                refusals.append(Refusal(place, error.code, error.message))
        self._forget_old(turn)
        self.refused += len(refusals)
        return numbers, sorted(refusals, key=lambda r: r.item), known

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
                if name in self._recent:
                    numbers[place] = self._recent[name][0]
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
        self, command: Publish, places: list[int], numbers: list[int], refusals: list[Refusal], turn: Turn
    ) -> int:
        """Match and store as many of these documents as fit into one part; returns how many that were."""
        bodies = [command.documents[place].body for place in places]
        part = self._index.render_part(bodies, report=True)
        rejected: dict[int, DocumentError] = dict(part.rejected)
        ends = part.deliveries.offsets.to_pylist()
        rows = part.deliveries.values
        ids = rows.field("subscription").to_pylist()
        column = rows.field("payload")
        choices = column.indices.to_pylist()
        payloads = column.dictionary
        codes = rows.field("code").to_pylist() if rows.field("code").null_count < len(rows) else None
        for at in range(len(ends) - 1):
            place = places[at]
            if (error := rejected.get(at)) is not None:
                refusals.append(refusal(error, place))
                continue
            begin, end = ends[at], ends[at + 1]
            matches = _Matches(ids[begin:end], choices[begin:end], codes[begin:end] if codes else None)
            numbers[place] = self._store(command.source, command.documents[place], matches, payloads, turn)
        return len(ends) - 1

    def _store(self, source: str, document: Document, matches: _Matches, payloads: object, turn: Turn) -> int:
        number = self._backlog.last_document + 1
        self._backlog.last_document = number
        own = self._append(document.body, turn)
        bodies: dict[int, int] = {}
        contents: dict[int, bytes] = {}
        for choice in matches.distinct():
            payload = contents[choice] = payloads[choice].as_py()  # type: ignore[index]
            bodies[choice] = own if payload == document.body else self._append(payload, turn)
        accepted = [id for id, choice in zip(matches.ids, matches.choices, strict=True) if choice is not None]
        row = DocumentRow(
            source,
            document.id,
            turn.now_ms,
            own,
            len(document.body),
            accepted,
            [bodies[choice] for choice in matches.choices if choice is not None],
        )
        turn.put(DOCUMENTS, number, row)
        self._archive.remember(number, row)
        if document.id:
            name = f"{source}\0{document.id}"
            self._recent[name] = (number, turn.now_ms)
            turn.put(RECENT, number, RecentRow(name, turn.now_ms))
        if self._settings.announces:
            chosen = [contents[choice] for choice in matches.choices if choice is not None]
            turn.events.append(Published(number, turn.now_ms, accepted, chosen))
        for id, code in matches.refused():
            self._backlog.add_letter(id, number, turn.now_ms, code, 0, b"", turn)
        self._backlog.enqueue(number, accepted, turn)
        return number

    def _append(self, body: bytes, turn: Turn) -> int:
        self.last_body += 1
        turn.changes.append(Append(self.last_body, body))
        return self.last_body

    def _forget_old(self, turn: Turn) -> None:
        """Publishers' ids that are old, or too many."""
        last = 0
        while self._recent:
            number, published_ms = next(iter(self._recent.values()))
            is_old = turn.now_ms - published_ms > self._settings.duplicates_ms
            if not is_old and len(self._recent) <= self._settings.duplicates_max:
                break
            self._recent.popitem(last=False)
            last = number
        if last:
            turn.changes.append(DeleteBefore(RECENT, last + 1))


class _Matches:
    """The subscriptions that a document satisfies, with the number of the payload of each; None for a refused one."""

    __slots__ = ("choices", "codes", "ids")

    def __init__(self, ids: list[str], choices: list[int | None], codes: list[str | None] | None) -> None:
        self.ids = ids
        self.choices = choices
        self.codes = codes

    def distinct(self) -> list[int]:
        return list(dict.fromkeys(choice for choice in self.choices if choice is not None))

    def refused(self) -> list[tuple[str, str]]:
        if self.codes is None:
            return []
        return [(id, code) for id, code in zip(self.ids, self.codes, strict=True) if code is not None]
