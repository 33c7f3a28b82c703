"""Ids of deliveries: the same for the same delivery, whoever makes it and however often.

A delivery is told from all others by its subscription, by what tells its document apart (say file, offset and ordinal),
and in a stream by the stream and the batch. An id is a SHA-256 of that, so nobody can choose one that meets another.

    >>> file_id("sport", ["a.xml", 0])
    '8d058ce966d79b5eb588479847cdfa351b473ceb'
    >>> message_key_fields(("file",))
    ('stream', 'batch', 'file', 'subscription')

There are two, for files and for messages. Both stay as they are for ever: files that were written and messages that
were published are known again by them. For something new take `message_id`, which has all of its bits.
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

    `identity` names the columns that tell documents of a batch apart; `stream` and `batch` are values of the sink.
    """
    return ("stream", "batch", *identity, "subscription")


def message_id(key: str) -> str:
    """The id of a delivery that is a message: 64 hexadecimal digits.

    The key is that JSON object, without white space and with its nulls. It comes as text, since identities may be of
    any type that a DataFrame has, and Spark alone writes all of them.
    """
    return _digest(key)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
