"""The pages of publishers: documents, one or many, and their sources."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from treecast.errors import TreecastError
from treecast.overlay.messages import NAME_CHARS_MAX, Document, RegisterSource, RemoveSource
from treecast.serve.doors.calls import Call, Reply, decode_form, json_reply, problem_reply, too_large
from treecast.serve.doors.forms import (
    BatchAnswer,
    BatchItem,
    BatchLine,
    SourceForm,
    SourcesAnswer,
    source_answer,
)
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.multipart import boundary_of, is_multipart, split_parts
from treecast.serve.doors.problems import DoorError, Problem, problem_of_error
from treecast.serve.doors.publishing import Accepted, Outcome, Publisher
from treecast.serve.doors.settings import DoorSettings

DEFAULT_SOURCE = "default"
"""For those who have only one. The door registers it."""


class DocumentPages:
    """Documents and sources."""

    def __init__(self, client: LocalClient, settings: DoorSettings) -> None:
        self._client = client
        self._settings = settings
        self.publisher = Publisher(client, settings)

    async def publish(self, call: Call) -> Reply:
        source = self._source(call)
        id = _document_id(call.header(b"treecast-document-id"))
        body = await call.body(self._settings.document_bytes_max)
        return _reply(*await self.publisher.publish(source, [Document(body, id)]))

    def publish_arrived(self, call: Call, body: bytes, answer: Callable[[Reply], None]) -> None:
        """`publish` for a document that has arrived as a whole, without a task. Raises as `publish` does."""
        source = self._source(call)
        id = _document_id(call.header(b"treecast-document-id"))
        if len(body) > self._settings.document_bytes_max:
            raise too_large(self._settings.document_bytes_max)

        def finish(outcomes: list[Outcome] | TreecastError) -> None:
            if isinstance(outcomes, TreecastError):
                answer(problem_reply(problem_of_error(outcomes)))
            else:
                answer(_reply(*outcomes))

        self.publisher.submit(source, (Document(body, id),), finish)

    async def publish_batch(self, call: Call) -> Reply:
        """JSON lines, or multipart. A line or a part that cannot be used is refused by itself."""
        source = self._source(call)
        content_type = call.header(b"content-type")
        if is_multipart(content_type):
            boundary_of(content_type)  # before all of it arrives
        body = await call.body(self._settings.batch_bytes_max)
        most = self._settings.documents_per_batch_max
        given = split_parts(body, content_type, most) if is_multipart(content_type) else _split_lines(body, most)
        documents = [document for document in given if isinstance(document, Document)]
        outcomes = iter(await self.publisher.publish(source, documents) if documents else [])
        return json_reply(
            200,
            BatchAnswer(
                [batch_item(problem_of_error(one) if isinstance(one, DoorError) else next(outcomes)) for one in given]
            ),
        )

    def _source(self, call: Call) -> str:
        return call.text_parameter("source") or call.header(b"treecast-source") or DEFAULT_SOURCE

    # --- sources ------------------------------------------------------------------------------------------------------

    async def register_default(self) -> None:
        if DEFAULT_SOURCE not in self._client.expect_broker().tail.sources():
            await self._client.request(RegisterSource(DEFAULT_SOURCE))

    async def put_source(self, call: Call) -> Reply:
        form = await call.form(SourceForm, optional=True)
        is_new = call.parameter not in self._client.expect_broker().tail.sources()
        await self._client.request(RegisterSource(call.parameter, form.schema, form.description))
        return self._get_source(call.parameter, 201 if is_new else 200)

    async def get_source(self, call: Call) -> Reply:
        return self._get_source(call.parameter, 200)

    def _get_source(self, id: str, status: int) -> Reply:
        row = self._client.expect_broker().tail.sources().get(id)
        if row is None:
            raise DoorError(f"no source is called {id!r}", code="TC410")
        return json_reply(status, source_answer(id, row))

    async def delete_source(self, call: Call) -> Reply:
        await self._client.request(RemoveSource(call.parameter))
        return Reply(204)

    async def list_sources(self, call: Call) -> Reply:
        after = call.text_parameter("after")
        count = call.number_parameter("count", 100, self._settings.page_rows_max)
        rows = self._client.expect_broker().tail.sources()
        names = sorted(name for name in rows if name > after)
        more = names[count - 1] if len(names) > count else ""
        return json_reply(200, SourcesAnswer([source_answer(name, rows[name]) for name in names[:count]], more))


def _reply(outcome: Outcome) -> Reply:
    if isinstance(outcome, Problem):
        return problem_reply(outcome)
    return Reply(200 if outcome.is_copy else 201, b'{"document":%d}' % outcome.document)


def _split_lines(body: bytes, count_max: int) -> list[Document | DoorError]:
    """The documents of a batch of JSON lines, and for a line that cannot be used, why. Raises DoorError TC411."""
    lines = [line for line in body.split(b"\n") if line.strip()]
    if len(lines) > count_max:
        raise DoorError(f"{len(lines)} documents in one batch", code="TC411", hint=f"at most {count_max}")
    documents: list[Document | DoorError] = []
    for line in lines:
        try:
            documents.append(document_of(decode_form(line, BatchLine)))
        except DoorError as error:
            documents.append(error)
    return documents


def _document_id(id: str) -> str:
    if len(id) > NAME_CHARS_MAX:
        raise DoorError(f"an id has at most {NAME_CHARS_MAX} characters", code="TC414")
    return id


def document_of(line: BatchLine) -> Document:
    """Raises DoorError TC434."""
    if line.encoding == "base64":
        try:
            return Document(base64.b64decode(line.document, validate=True), line.id)
        except (binascii.Error, ValueError):
            raise DoorError("the document is not base64", code="TC434") from None
    return Document(line.document.encode("utf-8", "surrogatepass"), line.id)


def batch_item(outcome: Outcome) -> BatchItem:
    if isinstance(outcome, Accepted):
        return BatchItem(200 if outcome.is_copy else 201, outcome.document)
    return BatchItem(outcome.status, problem=outcome)
