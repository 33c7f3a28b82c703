"""What a fleet keeps in NATS: the streams, their subjects, and the messages in them.

A fleet called `news` has four streams:

    treecast-news-catalog      treecast.news.catalog.…      the last state of each subscription and source
    treecast-news-documents    treecast.news.document       what was published; a document's number is its place here
    treecast-news-deliveries   treecast.news.delivery.…     who gets what, by subscription
    treecast-news-parts        treecast.news.part.…         bodies that are too large for one message

Messages are arrays in MessagePack: fields go by position, new ones to the end with a default.

>>> Names("news").delivery("sport news")
'treecast.news.delivery.sha256-6c200341cbf513a32a0620314d7bd5d23659319b6fe19f04c333bb03e9832a39'
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from treecast.names import subject_token
from treecast.overlay.messages import SubscriptionOptions
from treecast.serve.fleet.fleet_error import BackboneError
from treecast.serve.fleet.settings import FleetSettings

CATALOG, DOCUMENTS, DELIVERIES, PARTS = "catalog", "documents", "deliveries", "parts"
NAME = re.compile("[A-Za-z0-9_-]{1,32}")
NANOSECONDS = 1_000_000
"""In a millisecond."""


class _Record(msgspec.Struct, frozen=True, array_like=True):
    pass


class SubscriptionRecord(_Record, frozen=True):
    """Without a query, it was removed."""

    id: str
    query: str = ""
    namespaces: dict[str, str] = {}
    ordered: bool = False
    deliver: str = "document"
    options: SubscriptionOptions = SubscriptionOptions()


class SourceRecord(_Record, frozen=True):
    id: str
    schema: str = ""
    description: str = ""
    is_removed: bool = False


class DocumentRecord(_Record, frozen=True):
    """`body`, or `parts` if it is elsewhere."""

    source: str
    id: str
    published_ms: int
    body: bytes
    parts: str = ""


class DeliveryRecord(_Record, frozen=True):
    document: int
    published_ms: int
    subscription: str
    payload: bytes
    parts: str = ""


AnyRecord = TypeVar("AnyRecord", bound=_Record)
_ENCODER = msgspec.msgpack.Encoder()
_DECODERS: dict[type, msgspec.msgpack.Decoder[object]] = {}


def encode(record: _Record) -> bytes:
    return _ENCODER.encode(record)


def decode(data: bytes, kind: type[AnyRecord]) -> AnyRecord:
    """Raises BackboneError if something else was written to the stream."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.msgpack.Decoder(kind)
    try:
        return decoder.decode(data)  # type: ignore[return-value]
    except (msgspec.MsgspecError, ValueError) as error:
        raise BackboneError(f"a message in the backbone is not one of ours: {error}") from None


class Names:
    """Of the streams, subjects and consumers of one fleet."""

    def __init__(self, fleet: str) -> None:
        if not NAME.fullmatch(fleet):
            hint = "letters, digits, - and _, at most 32 of them"
            raise BackboneError(f"a fleet cannot be called {fleet[:100]!r}", hint=hint)
        self._prefix = f"treecast.{fleet}"
        self._stream = f"treecast-{fleet}"
        self.document = f"{self._prefix}.document"
        self.live = f"{self._prefix}.live"
        self.settle = f"{self._prefix}.settle"

    def stream(self, kind: str) -> str:
        return f"{self._stream}-{kind}"

    def subscription(self, id: str) -> str:
        return f"{self._prefix}.catalog.subscription.{subject_token(id)}"

    def source(self, id: str) -> str:
        return f"{self._prefix}.catalog.source.{subject_token(id)}"

    def is_source(self, subject: str) -> bool:
        return subject.startswith(f"{self._prefix}.catalog.source.")

    def delivery(self, subscription: str) -> str:
        return f"{self._prefix}.delivery.{subject_token(subscription)}"

    def live_delivery(self, subscription: str) -> str:
        """Where NATS announces a delivery once it is stored."""
        return f"{self.live}.{subject_token(subscription)}"

    def part(self, key: str, place: int) -> str:
        return f"{self._prefix}.part.{key}.{place}"

    def streams(self, settings: FleetSettings) -> dict[str, dict[str, object]]:
        """How each is made, by its kind."""

        def stream(kind: str, subject: str, bytes_max: int, ms_max: int, discard: str) -> dict[str, object]:
            return {
                "name": self.stream(kind),
                "subjects": [f"{self._prefix}.{subject}"],
                "retention": "limits",
                "storage": "file",
                "num_replicas": settings.replicas,
                "max_bytes": bytes_max,
                "max_age": ms_max * NANOSECONDS,
                "discard": discard,
                "duplicate_window": settings.duplicates_ms * NANOSECONDS,
                "allow_direct": True,
            }

        catalog = stream(CATALOG, "catalog.>", settings.catalog_bytes_max, 0, "new")
        documents = stream(DOCUMENTS, "document", settings.documents_bytes_max, settings.documents_ms_max, "new")
        delivery_limits = (settings.deliveries_bytes_max, settings.deliveries_ms_max)
        deliveries = stream(DELIVERIES, "delivery.>", *delivery_limits, "old")
        # A part is needed as long as the document and its deliveries are.
        parts_ms = settings.documents_ms_max + settings.deliveries_ms_max
        parts = stream(PARTS, "part.>", settings.parts_bytes_max, parts_ms, "new")
        return {
            CATALOG: {**catalog, "max_msgs_per_subject": 1},
            DOCUMENTS: documents,
            DELIVERIES: {**deliveries, "republish": {"src": f"{self._prefix}.delivery.>", "dest": f"{self.live}.>"}},
            PARTS: {**parts, "max_msgs_per_subject": 1},
        }
