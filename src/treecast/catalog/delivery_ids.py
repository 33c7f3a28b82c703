"""Ids of deliveries: the same delivery always has the same id, in any process.

A delivery is identified by its subscription, by its document's key (for example file, offset and ordinal), and in a
stream by the stream and the batch. An id is a SHA-256 of these, so no one can make two deliveries with the same id.

    >>> file_id("sport", ["a.xml", 0])
    '8d058ce966d79b5eb588479847cdfa351b473ceb'
    >>> message_key_fields(("file",))
    ('stream', 'batch', 'file', 'subscription')

A broker's documents are numbered, and its data has an id:

    >>> delivery_id("5f1c", 7, "sport")
    '2be2d8ab66c9daf57cd085c5988865cef2c3cae602bc8a01922874a25ec98300'

There are two kinds, for files and for messages. Both stay as they are forever: they identify files and messages that
exist already. For something new use `message_id`, which has all of its bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

FILE_ID_CHARS = 40


def file_id(subscription: str, key: Sequence[str | int | None]) -> str:
    """The id of a delivery that is a file: 40 hexadecimal digits. In a stream the key begins with stream and batch."""
    text = json.dumps([subscription, *key], ensure_ascii=False, separators=(",", ":"))
    return _digest(text)[:FILE_ID_CHARS]


def message_key_fields(identity: Sequence[str]) -> tuple[str, ...]:
    """The fields of the JSON object that the id of a message is made of, in their order.

    `identity` names the columns that identify a document in its batch; `stream` and `batch` are values of the sink.
    """
    return ("stream", "batch", *identity, "subscription")


def message_id(key: str) -> str:
    """The id of a delivery that is a message: 64 hexadecimal digits.

    The key is that JSON object, without white space and with its nulls. It comes as text, since identities may be of
    any type that a DataFrame has, and Spark alone writes all of them.
    """
    return _digest(key)


def delivery_id(store: str, document: int, subscription: str) -> str:
    """The id of a broker's delivery: that of a message whose key is `{"store":…,"document":…,"subscription":…}`."""
    key = {"store": store, "document": document, "subscription": subscription}
    return message_id(json.dumps(key, ensure_ascii=False, separators=(",", ":")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
