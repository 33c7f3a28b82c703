"""Many event streams: events that are written without waking the tasks of their streams, and open files for them."""

from __future__ import annotations

import asyncio
import resource
from typing import Any
from unittest.mock import Mock

import pytest

from treecast.overlay.broker.progress import Progress
from treecast.overlay.broker.tail import Published
from treecast.serve.doors.events import Feed, Stream
from treecast.serve.doors.http_server import allow_files
from treecast.serve.doors.settings import DoorSettings

pytestmark = pytest.mark.house


class Reader:
    """The connection of a stream, and what came over it: `now` without its task, `later` through it."""

    def __init__(self) -> None:
        self.now: list[bytes] = []
        self.later: list[bytes] = []
        self.is_slow = False

    def write_now(self, data: bytes) -> bool:
        if not self.is_slow:
            self.now.append(data)
        return not self.is_slow

    async def write(self, data: bytes) -> None:
        self.later.append(data)


def published(document: int) -> Published:
    return Published(document, 0, ["a"], [b"<a>%d</a>" % document])


async def serve(reader: Reader, steps: Any) -> Stream:
    client = Mock(on_opened=[], on_current=[], on_announced=[], on_tick=[], last_document=0)
    broker = client.expect_broker.return_value = client.broker
    broker.store_id = "5f1c0a2bcc"
    broker.tail.progress.return_value = Progress(0)
    broker.tail.last_document.return_value = 0
    feed = Feed(client, DoorSettings())
    feed._on_opened(broker)
    stream = feed.open(["a"], "")
    stream.connection = reader
    running = asyncio.create_task(feed.run(stream, reader.write))
    await asyncio.sleep(0.01)
    await steps(feed._on_announced)
    stream.close()
    await running
    return stream


def test_an_event_is_written_without_waking_the_task() -> None:
    reader = Reader()

    async def steps(announce: Any) -> None:
        before = len(reader.later)
        announce(published(1))
        announce(published(2))
        assert len(reader.now) == 2 and len(reader.later) == before
        size, _, event = reader.now[0].partition(b"\r\n")
        assert int(size, 16) == len(event) - 2 and b"<a>1</a>" in event and event.endswith(b"\n\n\r\n")

    assert asyncio.run(serve(reader, steps)).place == (2, "a")


def test_what_cannot_be_written_at_once_goes_through_the_task_and_nothing_overtakes_it() -> None:
    reader = Reader()

    async def steps(announce: Any) -> None:
        reader.is_slow = True
        announce(published(1))
        reader.is_slow = False
        announce(published(2))  # the task has not written the first one yet
        assert reader.now == []
        await asyncio.sleep(0.01)
        assert b"<a>1</a>" in reader.later[-1] and b"<a>2</a>" in reader.later[-1]
        announce(published(3))
        assert len(reader.now) == 1

    assert asyncio.run(serve(reader, steps)).place == (3, "a")


def test_open_files_are_allowed_as_far_as_the_system_permits() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, before[1]))
        allow_files(2_000)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (2_000, before[1])
        allow_files(1_500)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (2_000, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
