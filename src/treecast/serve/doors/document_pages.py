"""The pages of publishers: documents, one or many, and their sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from treecast.errors import TreecastError
from treecast.overlay.messages import NAME_CHARS_MAX, Document, RegisterSource, RemoveSource
from treecast.serve.access.access import Access
from treecast.serve.connection import now_ms
from treecast.serve.doors.batch_requests import read_batch
from treecast.serve.doors.batches import document_of
from treecast.serve.doors.calls import Call, Reply, json_reply, problem_reply, too_large
from treecast.serve.doors.forms import (
    BatchAnswer,
    BatchItem,
    BatchLine,
    DocumentAnswer,
    Filtering,
    SourceForm,
    SourcesAnswer,
    source_answer,
)
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import DoorError, Problem, problem_of_error
from treecast.serve.doors.publishing import Accepted, Answer, Outcome, Publisher
from treecast.serve.doors.refusals import Refusals
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import unknown_source

DEFAULT_SOURCE = "default"
"""For those who have only one. The door registers it."""
LOOK_S = 0.02
"""So often the door of a network's broker looks whether the registry has told that broker of a source."""


class DocumentPages:
    """Documents and sources. `owns_sources`: those of a broker that is in no network; others are told by a registry."""

    def __init__(
        self, client: LocalClient, settings: DoorSettings, refusals: Refusals, *, owns_sources: bool = True
    ) -> None:
        self._client = client
        self._owns_sources = owns_sources
        self._refusals = refusals
        self._settings = settings
        self.publisher = Publisher(client, settings)

    async def publish(self, call: Call) -> Reply:
        source = self._source(call)
        id = call.header(b"treecast-document-id")
        body = b""
        try:
            bytes_max = self._check_document(call, id)
            body = await call.body(bytes_max)
            call.access.charge(1, len(body))
            return _reply(*await self.publisher.publish(source, [Document(body, id)]))
        except DoorError as error:  # the broker has not seen it
            self._refusals.add(source, id[:NAME_CHARS_MAX], problem_of_error(error), body, now_ms())
            raise

    def publish_arrived(self, call: Call, body: bytes, answer: Callable[[Reply], None]) -> None:
        """`publish` for a document that has arrived as a whole, without a task. Raises as `publish` does."""
        source = self._source(call)
        id = call.header(b"treecast-document-id")

        def finish(outcomes: list[Outcome] | TreecastError) -> None:
            if isinstance(outcomes, TreecastError):
                answer(problem_reply(problem_of_error(outcomes)))
            else:
                answer(_reply(*outcomes))

        try:
            bytes_max = self._check_document(call, id)
            if len(body) > bytes_max:
                raise too_large(bytes_max)
            call.access.charge(1, len(body))
            self.publisher.submit(source, (Document(body, id),), finish)
        except DoorError as error:
            self._refusals.add(source, id[:NAME_CHARS_MAX], problem_of_error(error), body, now_ms())
            raise

    def _check_document(self, call: Call, id: str) -> int:
        """Whether one may be published now, as far as its header says; returns how large it may be."""
        if len(id) > NAME_CHARS_MAX:
            raise DoorError(f"an id has at most {NAME_CHARS_MAX} characters", code="TC414")
        call.access.check_rate()
        return call.access.document_bytes_max(self._settings.document_bytes_max)

    async def publish_batch(self, call: Call) -> Reply:
        """A line or a part that cannot be used is refused by itself."""
        source = self._source(call)
        items = await read_batch(call, self._settings)
        documents = [document for document in items if isinstance(document, Document)]
        outcomes = iter(await self.publisher.publish(source, documents) if documents else [])
        answers: list[Outcome] = []
        for item in items:
            if isinstance(item, Document):
                answers.append(next(outcomes))
            else:
                problem = problem_of_error(item.error)
                self._refusals.add(source, "", problem, item.data, now_ms())
                answers.append(problem)
        return json_reply(200, BatchAnswer([batch_item(answer) for answer in answers]))

    def publish_line(self, access: Access, source: str, line: BatchLine, finish: Answer) -> None:
        """Publish a document of a WebSocket. Raises TreecastError if the broker has not seen it."""
        source = source or DEFAULT_SOURCE
        access.check_source(source)
        access.check_rate()
        try:
            document = document_of(line, access.document_bytes_max(self._settings.document_bytes_max))
            access.charge(1, len(document.body))
            self.publisher.submit(source, (document,), finish)
        except DoorError as error:
            self._refusals.add(source, line.id, problem_of_error(error), line.document.encode()[:100], now_ms())
            raise

    def _source(self, call: Call) -> str:
        """The source that is named, if the token allows to publish to it."""
        source = call.text_parameter("source") or call.header(b"treecast-source") or DEFAULT_SOURCE
        call.access.check_source(source)
        return source

    # --- sources ------------------------------------------------------------------------------------------------------

    async def register_default(self) -> None:
        if self._owns_sources and DEFAULT_SOURCE not in self._client.expect_broker().tail.sources():
            await self._client.request(RegisterSource(DEFAULT_SOURCE))

    async def put_source(self, call: Call) -> Reply:
        form = await call.form(SourceForm, optional=True)
        await self._compile(form.schema)
        is_new = call.parameter not in self._client.expect_broker().tail.sources()
        if self._owns_sources:
            await self._client.request(RegisterSource(call.parameter, form.schema, form.description))
        else:
            await self._hear_of(call.parameter, form)
        return self._get_source(call.parameter, 201 if is_new else 200)

    async def _hear_of(self, id: str, form: SourceForm) -> None:
        """Wait until the broker has from the registry what the registry was told. Raises DoorError TC436."""
        try:
            async with asyncio.timeout(self._settings.answer_ms / 1000):
                while True:
                    row = self._client.expect_broker().tail.sources().get(id)
                    if row is not None and (row.schema, row.description) == (form.schema, form.description):
                        return
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            message = f"the broker has not heard of source {id[:NAME_CHARS_MAX]!r} yet"
            raise DoorError(message, code="TC436", hint="try again soon") from None

    async def _compile(self, schema: str) -> None:
        """In a thread: a large DTD takes a second. The broker then finds it. Raises DocumentError."""
        if schema:
            schemas = self._client.expect_broker().schemas
            schemas.keep(schema, await asyncio.to_thread(schemas.compile, schema))

    async def get_source(self, call: Call) -> Reply:
        return self._get_source(call.parameter, 200)

    def _get_source(self, id: str, status: int) -> Reply:
        row = self._client.expect_broker().tail.sources().get(id)
        if row is None:
            raise unknown_source(id)
        return json_reply(status, source_answer(id, row))

    async def delete_source(self, call: Call) -> Reply:
        if self._owns_sources:
            await self._client.request(RemoveSource(call.parameter))
        else:
            self._get_source(call.parameter, 200)  # whoever asks removes it at the registry
        return Reply(204)

    async def list_sources(self, call: Call) -> Reply:
        after = call.text_parameter("after")
        count = call.number_parameter("count", 100, self._settings.page_rows_max)
        rows = self._client.expect_broker().tail.sources()
        names = sorted(name for name in rows if name > after and call.access.sees_source(name))
        more = names[count - 1] if len(names) > count else ""
        return json_reply(200, SourcesAnswer([source_answer(name, rows[name]) for name in names[:count]], more))


def _reply(outcome: Outcome) -> Reply:
    if isinstance(outcome, Problem):
        return problem_reply(outcome)
    status = 200 if outcome.is_copy else 201
    if outcome.unreachable is None:
        return Reply(status, b'{"document":%d}' % outcome.document)
    return json_reply(status, DocumentAnswer(outcome.document, _filtering(outcome), list(outcome.unreachable)))


def batch_item(outcome: Outcome) -> BatchItem:
    if isinstance(outcome, Accepted):
        status, unreachable = 200 if outcome.is_copy else 201, list(outcome.unreachable or ())
        return BatchItem(status, outcome.document, filtering=_filtering(outcome), unreachable=unreachable)
    return BatchItem(outcome.status, problem=outcome)


def _filtering(outcome: Accepted) -> Filtering:
    if outcome.unreachable is None:
        return ""
    return "partial" if outcome.unreachable else "complete"
