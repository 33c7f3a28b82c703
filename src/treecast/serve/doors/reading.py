"""All documents in their order, for programs that work on the same stream: Spark, a copy, an archive.

The answer has one JSON object in each line:

    {"document": 17, "source": "wire", "published": "…", "body": "<news/>"}      with "encoding": "base64" if it is
                                                                                 not UTF-8
    {"document": 18, "source": "wire", "published": "…", "problem": "TC422"}     its bytes are damaged
    {"gone": [19, 40]}                                                           these are no longer kept
    {"store": "5f1c…", "first": 12, "last": 90, "next": 41}                      the last line: where to go on

What is answered for a number never changes, except that it may be gone later: so whoever remembers a number reads each
document once. `store` is another one if the broker has other data, whose numbers mean other documents. An answer
without its last line was cut off.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import msgspec

from treecast.overlay.broker import Broker
from treecast.overlay.storage import BodyGoneError, StorageError
from treecast.serve.doors.calls import Call, Reply
from treecast.serve.doors.envelopes import timestamp
from treecast.serve.doors.events import Feed
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.settings import DoorSettings

LINES = "application/x-ndjson"
NUMBER_MAX = 1 << 62


class DocumentLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A document; or, with a code as `problem`, that it cannot be read."""

    document: int
    source: str
    published: str
    body: str = ""
    encoding: str = ""
    id: str = ""
    problem: str = ""


class GoneLine(msgspec.Struct, frozen=True):
    """The first and the last of some documents that are no longer kept."""

    gone: tuple[int, int]


class EndLine(msgspec.Struct, frozen=True):
    """Everything up to `next` - 1 is answered. `first` and `last` are what is kept now; `first` is after `last` if
    nothing is."""

    store: str
    first: int
    last: int
    next: int


Line = DocumentLine | GoneLine | EndLine


def document_line(number: int, source: str, id: str, published_ms: int, body: bytes | StorageError) -> DocumentLine:
    time_text = timestamp(published_ms)
    if isinstance(body, StorageError):
        return DocumentLine(number, source, time_text, id=id, problem=body.code)
    try:
        return DocumentLine(number, source, time_text, body.decode(), id=id)
    except UnicodeDecodeError:
        return DocumentLine(number, source, time_text, base64.b64encode(body).decode(), "base64", id)


def lines_reply(lines: Iterator[Line]) -> Reply:
    encoder = msgspec.json.Encoder()
    return Reply(200, encoder.encode_lines(list(lines)), LINES, (("cache-control", "no-store"),))


class ReadingPages:
    """Documents for those who read all of them. Only what is durable is shown."""

    def __init__(self, client: LocalClient, feed: Feed, settings: DoorSettings) -> None:
        self._client = client
        self._feed = feed
        self._settings = settings

    async def read_documents(self, call: Call) -> Reply:
        count = call.number_parameter("count", self._settings.read_documents_max, self._settings.read_documents_max)
        first = call.number_parameter("from_document", 1, NUMBER_MAX)
        until = call.number_parameter("until_document", NUMBER_MAX, NUMBER_MAX)
        return lines_reply(self._lines(await self._client.current_broker(), first, until, count))

    def _lines(self, broker: Broker, next: int, until: int, count: int) -> Iterator[Line]:
        last = self._feed.last_document
        until = min(until, last)
        line_count = 0
        for number, row, body in broker.tail.kept(next - 1, until, count, self._settings.read_bytes_max):
            if number > next:
                yield GoneLine((next, number - 1))
            if isinstance(body, BodyGoneError):  # dropped just now
                yield GoneLine((number, number))
            else:
                yield document_line(number, row.source, row.id, row.published_ms, body)
            next = number + 1
            line_count += 1
        if not line_count and next <= until:  # nothing of it is kept
            yield GoneLine((next, until))
            next = until + 1
        yield EndLine(broker.store_id, broker.tail.first_document(), last, next)
