"""The pages of a worker: those of the HTTP door that make sense without a store of one's own.

Forms, answers and problems are those of the door (`treecast.serve.doors`). What a fleet does not offer is answered with
501 and TC490.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

from treecast.durable import unused_name
from treecast.errors import DocumentError, TreecastError
from treecast.index import Index
from treecast.overlay.broker import BrokerSettings
from treecast.overlay.broker.refused import check_name
from treecast.overlay.broker.schemas import Schemas
from treecast.overlay.messages import NAME_CHARS_MAX, Document
from treecast.serve.access.access import Access
from treecast.serve.access.refusals import AccessRefusedError, no_token
from treecast.serve.connection import now_ms
from treecast.serve.doors.batch_requests import read_batch
from treecast.serve.doors.calls import Call, Reply, json_reply, problem_reply
from treecast.serve.doors.document_pages import DEFAULT_SOURCE, batch_item
from treecast.serve.doors.event_replies import EVENT_HEADERS, EVENT_STREAM, close_when_gone, read_event_request
from treecast.serve.doors.forms import (
    BatchAnswer,
    PullAnswer,
    PullForm,
    SettleAnswer,
    SettleForm,
    SourceAnswer,
    SourceForm,
    SourcesAnswer,
    SubscriptionAnswer,
    SubscriptionForm,
    SubscriptionsAnswer,
)
from treecast.serve.doors.problems import DoorError, Problem, problem_of_error
from treecast.serve.doors.publishing import Accepted, Outcome
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.fleet.backbone import Backbone, Outgoing
from treecast.serve.fleet.catalog import Catalog
from treecast.serve.fleet.feed import FleetFeed, FleetStream
from treecast.serve.fleet.parts import Parts
from treecast.serve.fleet.pulls import FleetPulls
from treecast.serve.fleet.records import DocumentRecord, SourceRecord, SubscriptionRecord, encode
from treecast.workload.validator import Validator

READ_AT_ONCE_BYTES = 64 << 10
"""More than that is checked in a thread."""


class FleetDocumentPages:
    """Documents and sources."""

    def __init__(self, backbone: Backbone, catalog: Catalog, parts: Parts, settings: DoorSettings) -> None:
        self._backbone = backbone
        self._catalog = catalog
        self._parts = parts
        self._settings = settings
        self._empty = Index()  # to find out whether documents are well-formed,
        self._schemas = Schemas(BrokerSettings())  # and valid, where their source has a DTD
        self._waiting_documents = self._waiting_bytes = 0

    async def publish(self, call: Call) -> Reply:
        source = self._source(call)
        id = call.header(b"treecast-document-id")
        if len(id) > NAME_CHARS_MAX:
            raise DoorError(f"an id has at most {NAME_CHARS_MAX} characters", code="TC414")
        call.access.check_rate()
        body = await call.body(call.access.document_bytes_max(self._settings.document_bytes_max))
        call.access.charge(1, len(body))
        (outcome,) = await self._publish(source, [Document(body, id)])
        if isinstance(outcome, Problem):
            return problem_reply(outcome)
        return Reply(200 if outcome.is_copy else 201, b'{"document":%d}' % outcome.document)

    async def publish_batch(self, call: Call) -> Reply:
        """A line or a part that cannot be used is refused by itself."""
        source = self._source(call)
        items = await read_batch(call, self._settings)
        documents = [document for document in items if isinstance(document, Document)]
        outcomes = iter(await self._publish(source, documents) if documents else [])
        answers = [next(outcomes) if isinstance(one, Document) else problem_of_error(one.error) for one in items]
        return json_reply(200, BatchAnswer([batch_item(answer) for answer in answers]))

    def _source(self, call: Call) -> str:
        source = call.text_parameter("source") or call.header(b"treecast-source") or DEFAULT_SOURCE
        call.access.check_source(source)
        return source

    async def _publish(self, source: str, documents: Sequence[Document]) -> list[Outcome]:
        """What became of each; when all of them are stored or refused. Raises TreecastError if none may be stored."""
        if source not in self._catalog.sources and source != DEFAULT_SOURCE:
            await self._catalog.catch_up()
            self._catalog.expect_source(source)
        size = sum(len(document.body) for document in documents)
        settings = self._settings
        if (
            self._waiting_documents + len(documents) > settings.waiting_documents_max
            or self._waiting_bytes + size > settings.waiting_bytes_max
        ):
            raise DoorError("too many documents wait", code="TC436", hint="try again soon, or send fewer at a time")
        self._waiting_documents += len(documents)
        self._waiting_bytes += size
        try:
            bodies = [document.body for document in documents]
            record = self._catalog.sources.get(source)
            validator = self._schemas.validator(record.schema) if record is not None and record.schema else None
            if size > READ_AT_ONCE_BYTES:
                problems = await asyncio.to_thread(self._check, bodies, validator)
            else:
                problems = self._check(bodies, validator)
            return await self._store(source, documents, problems)
        finally:
            self._waiting_documents -= len(documents)
            self._waiting_bytes -= size

    def _check(self, bodies: list[bytes], validator: Validator | None) -> dict[int, Problem]:
        """What is wrong with documents, by their places."""
        problems: dict[int, Problem] = {}
        start = 0
        while start < len(bodies):
            part = self._empty.render_part(bodies[start:], report=True)
            for place, error in part.rejected:
                problems[start + place] = problem_of_error(error)
            start += len(part.deliveries)
        for place, body in enumerate(bodies):
            try:
                if validator is not None and place not in problems:
                    self._schemas.check(validator, body)
            except DocumentError as error:
                problems[place] = problem_of_error(error)
        return problems

    async def _store(self, source: str, documents: Sequence[Document], problems: dict[int, Problem]) -> list[Outcome]:
        outgoing: list[Outgoing] = []
        within_ms = self._settings.answer_ms
        published_ms = now_ms()
        for place, document in enumerate(documents):
            if place in problems:
                continue
            record = DocumentRecord(source, document.id, published_ms, document.body)
            if self._parts.is_large(document.body):
                key = await self._parts.put(document.body, within_ms=within_ms)
                record = DocumentRecord(source, document.id, published_ms, b"", key)
            outgoing.append(Outgoing(self._backbone.names.document, encode(record), _message_id(source, document.id)))
        receipts = iter(await self._backbone.store(outgoing, within_ms=within_ms))
        outcomes: list[Outcome] = []
        for place, document in enumerate(documents):
            if place in problems:
                outcomes.append(problems[place])
            else:
                one = next(receipts)
                outcomes.append(Accepted(one.sequence, one.is_copy and bool(document.id)))
        return outcomes

    # --- sources ------------------------------------------------------------------------------------------------------

    async def put_source(self, call: Call) -> Reply:
        form = await call.form(SourceForm, optional=True)
        check_name(call.parameter, "source")
        record = SourceRecord(call.parameter, form.schema, form.description)
        if form.schema:
            self._schemas.keep(form.schema, await asyncio.to_thread(self._schemas.compile, form.schema))
        is_new = await self._catalog.put_source(record)
        return json_reply(201 if is_new else 200, _source_answer(record))

    async def get_source(self, call: Call) -> Reply:
        await self._catalog.catch_up()
        return json_reply(200, _source_answer(self._catalog.expect_source(call.parameter)))

    async def delete_source(self, call: Call) -> Reply:
        await self._catalog.remove_source(call.parameter)
        return Reply(204)

    async def list_sources(self, call: Call) -> Reply:
        await self._catalog.catch_up()
        after = call.text_parameter("after")
        count = call.number_parameter("count", 100, self._settings.page_rows_max)
        rows = self._catalog.sources
        names = sorted(name for name in rows if name > after and call.access.sees_source(name))
        more = names[count - 1] if len(names) > count else ""
        return json_reply(200, SourcesAnswer([_source_answer(rows[name]) for name in names[:count]], more))


class FleetSubscriptionPages:
    """Subscriptions and what they get."""

    def __init__(self, catalog: Catalog, feed: FleetFeed, pulls: FleetPulls, settings: DoorSettings) -> None:
        self._catalog = catalog
        self._feed = feed
        self._pulls = pulls
        self._settings = settings

    async def put_subscription(self, call: Call) -> Reply:
        form = await call.form(SubscriptionForm)
        check_name(call.parameter, "id")
        if form.expires_ms:
            raise not_offered("a subscription that expires")
        command = form.command(call.parameter)
        record = SubscriptionRecord(
            command.id, command.query, command.namespaces, command.ordered, command.deliver, command.options
        )
        self._check_count(call.access, record.id)
        is_new = await self._catalog.subscribe(record)
        return json_reply(201 if is_new else 200, _subscription_answer(record))

    def _check_count(self, access: Access, id: str) -> None:
        """Raises AccessRefusedError TC605 if the token may not have one more."""
        limit = access.limits.subscriptions_max
        if not limit or id in self._catalog.subscriptions:
            return
        if sum(access.scopes.allows_subscription(one) for one in self._catalog.subscriptions) >= limit:
            hint = "remove one first"
            raise AccessRefusedError(f"the token may have {limit} subscriptions", code="TC605", hint=hint)

    async def get_subscription(self, call: Call) -> Reply:
        await self._catalog.catch_up()
        return json_reply(200, _subscription_answer(self._catalog.expect(call.parameter)))

    async def delete_subscription(self, call: Call) -> Reply:
        await self._catalog.unsubscribe(call.parameter)
        await self._pulls.remove(call.parameter)
        return Reply(204)

    async def list_subscriptions(self, call: Call) -> Reply:
        if call.text_parameter("search"):
            raise not_offered("a search among subscriptions")
        await self._catalog.catch_up()
        count = call.number_parameter("count", 100, self._settings.page_rows_max)
        rows = self._catalog.subscriptions_after(call.text_parameter("after"), count + 1, call.access.sees_subscription)
        more = rows[count - 1].id if len(rows) > count else ""
        return json_reply(200, SubscriptionsAnswer([_subscription_answer(row) for row in rows[:count]], more))

    # --- deliveries ---------------------------------------------------------------------------------------------------

    async def pull(self, call: Call) -> Reply:
        form = await call.form(PullForm, optional=True)
        envelopes = await self._pulls.pull(call.parameter, form.max, form.wait_ms)
        if call.access.is_ended:  # while it waited: what came is for others
            await self._pulls.settle(call.parameter, [envelope.delivery for envelope in envelopes], is_failed=True)
            raise no_token()
        return json_reply(200, PullAnswer(envelopes))

    async def acknowledge(self, call: Call) -> Reply:
        return await self._settle(call, is_failed=False)

    async def fail(self, call: Call) -> Reply:
        return await self._settle(call, is_failed=True)

    async def _settle(self, call: Call, *, is_failed: bool) -> Reply:
        form = await call.form(SettleForm)
        ids = list(dict.fromkeys(form.deliveries))
        unknown = await self._pulls.settle(call.parameter, ids, is_failed)
        return json_reply(200, SettleAnswer(len(ids) - len(unknown), unknown))

    async def events(self, call: Call) -> Reply | None:
        """Answers by itself, as long as the other side listens."""
        if call.scope["method"] == "HEAD":
            return Reply(200, b"", EVENT_STREAM)
        ids, position = read_event_request(call)
        stream = await self._feed.open(ids, position)
        try:
            with call.access.holding(stream.close):
                await self._send_events(call, stream)
        finally:
            await self._feed.close(stream)
        return None

    async def _send_events(self, call: Call, stream: FleetStream) -> None:
        async def write(data: bytes) -> None:
            await call.send({"type": "http.response.body", "body": data, "more_body": True})

        watching = asyncio.create_task(close_when_gone(call, stream.close))
        try:
            await call.send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
            await self._feed.run(stream, write)
            await call.send({"type": "http.response.body", "body": b""})
        finally:
            watching.cancel()


def not_offered(what: str) -> TreecastError:
    hint = "a broker with a store of its own has it: treecast up --data DIR"
    return DoorError(f"{what} is not offered by a fleet", code="TC490", hint=hint)


def _message_id(source: str, id: str) -> str:
    """By which NATS recognises a second copy: of the publisher's id, or of this request alone."""
    if not id:
        return unused_name()
    return hashlib.sha256(f"{source}\0{id}".encode("utf-8", "surrogatepass")).hexdigest()


def _subscription_answer(record: SubscriptionRecord) -> SubscriptionAnswer:
    options = record.options
    return SubscriptionAnswer(
        record.id,
        record.query,
        record.namespaces,
        record.ordered,
        record.deliver,
        options.attempts_max,
        options.acknowledge_ms,
        options.expires_ms,
        False,
    )


def _source_answer(record: SourceRecord) -> SourceAnswer:
    return SourceAnswer(record.id, record.schema, record.description)
