"""What is kept of the hub, as records of the broker. Fields go by position, new ones to the end with a default."""

from __future__ import annotations

import hashlib

import msgspec

SUBSCRIBERS, POSITIONS, TOPICS = "websub", "websub-positions", "websub-topics"
"""Kinds of records. The key of the last is a topic's id, that of the others `subscriber_key`."""


class _Row(msgspec.Struct, frozen=True, array_like=True):
    pass


class SubscriberRow(_Row, frozen=True):
    """`websub[key]`: a callback that gets a topic until its lease ends."""

    topic: str
    """The id of the subscription that is the topic,"""
    topic_url: str
    """and its URL, as the subscriber wrote it."""
    callback: str
    secret: bytes
    until_ms: int
    position: int
    """The last document before it subscribed."""


class PositionRow(_Row, frozen=True):
    """`websub-positions[key]`: all up to this document is done."""

    document: int


class TopicRow(_Row, frozen=True):
    """`websub-topics[id]`: the last document for a topic, and its payload if it is not too large. 0: none so far."""

    document: int = 0
    payload: bytes | None = None


def subscriber_key(topic_url: str, callback: str) -> str:
    """Topic and callback identify a subscriber (section 5.1.1)."""
    return hashlib.sha256(f"{topic_url}\0{callback}".encode()).hexdigest()


encode = msgspec.msgpack.Encoder().encode
decode_subscriber = msgspec.msgpack.Decoder(SubscriberRow).decode
decode_position = msgspec.msgpack.Decoder(PositionRow).decode
decode_topic = msgspec.msgpack.Decoder(TopicRow).decode
