"""Documents that come one by one are handed to the broker in groups.

A request for each document would cost the broker more than the document. So what arrives while two groups are under way
waits, and forms the next one: alone, a document does not wait; under load, groups grow by themselves. Each document is
answered when its group is durable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice

import msgspec

from treecast.errors import TreecastError
from treecast.overlay.client import Answered
from treecast.overlay.messages import Document, Publish, Refusal
from treecast.serve.connection import steady_ms
from treecast.serve.doors.local import LocalClient, no_answer
from treecast.serve.doors.problems import DoorError, Problem, problem_of
from treecast.serve.doors.settings import DoorSettings


class Accepted(msgspec.Struct, frozen=True):
    """A document is durable. `is_copy`: one with the same id was published before, and has this number."""

    document: int
    is_copy: bool


Outcome = Accepted | Problem


class _Group:
    """Documents of one request."""

    __slots__ = ("documents", "future", "since_ms", "size", "source")

    def __init__(self, source: str, documents: list[Document], size: int) -> None:
        self.source = source
        self.documents = documents
        self.size = size
        self.since_ms = steady_ms()
        self.future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()


class Publisher:
    """Hands documents to the broker, and says what became of each."""

    def __init__(self, client: LocalClient, settings: DoorSettings) -> None:
        self._client = client
        self._settings = settings
        self._waiting: deque[_Group] = deque()
        self._waiting_documents = 0
        self._waiting_bytes = 0
        self._under_way = 0
        self._is_scheduled = False
        self._unanswered: dict[_Group, None] = {}  # in the order in which they came
        client.on_tick.append(self._tick)

    async def publish(self, source: str, documents: Sequence[Document]) -> list[Outcome]:
        """What became of each, in order; when all of them are durable or refused. Raises DoorError TC436."""
        self._client.expect_broker()
        size = sum(len(document.body) for document in documents)
        settings = self._settings
        if (
            self._waiting_documents + len(documents) > settings.waiting_documents_max
            or self._waiting_bytes + size > settings.waiting_bytes_max
        ):
            raise DoorError("too many documents wait", code="TC436", hint="try again soon, or send fewer at a time")
        group = _Group(source, list(documents), size)
        self._waiting.append(group)
        self._waiting_documents += len(documents)
        self._waiting_bytes += size
        self._schedule()
        self._unanswered[group] = None
        try:
            return await group.future
        finally:
            self._unanswered.pop(group, None)

    def _tick(self, _: int) -> None:
        """Give up those that wait too long: one look at the oldest now and then, not a timer for each."""
        limit = steady_ms() - self._settings.answer_ms
        for group in list(islice(self._unanswered, self._settings.publish_documents_max)):
            if group.since_ms > limit:
                break
            if not group.future.done():
                group.future.set_exception(no_answer())

    def _schedule(self) -> None:
        """All that arrives in this turn of the event loop goes together."""
        if not self._is_scheduled and self._under_way < self._settings.publishes_max:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        while self._waiting and self._under_way < self._settings.publishes_max:
            groups = self._take()
            documents = [document for group in groups for document in group.documents]
            try:
                answer = self._client.send(Publish(groups[0].source, documents))
            except TreecastError as error:
                whole = Answered(0, [], [Refusal(-1, error.code, str(error))])
                _answer(groups, whole)
                continue
            self._under_way += 1
            answer.add_done_callback(lambda future, groups=groups: self._answered(future, groups))  # type: ignore[misc]

    def _take(self) -> list[_Group]:
        """The next groups that share a source, in order, as many as may go together."""
        groups: list[_Group] = []
        count = size = 0
        while self._waiting:
            group = self._waiting[0]
            if groups and (
                group.source != groups[0].source
                or count + len(group.documents) > self._settings.publish_documents_max
                or size + group.size > self._settings.publish_bytes_max
            ):
                break
            groups.append(self._waiting.popleft())
            count += len(group.documents)
            size += group.size
        self._waiting_documents -= count
        self._waiting_bytes -= size
        return groups

    def _answered(self, future: asyncio.Future[Answered], groups: list[_Group]) -> None:
        self._under_way -= 1
        if not future.cancelled():
            _answer(groups, future.result())
        self._schedule()


def _answer(groups: list[_Group], answered: Answered) -> None:
    """Divide the answer among the requests."""
    refusals = {refusal.item: problem_of(refusal.code, refusal.message) for refusal in answered.refusals}
    copies = set(answered.copies)
    whole = refusals.get(-1)
    place = 0
    for group in groups:
        outcomes: list[Outcome] = []
        for _ in group.documents:
            refused = whole or refusals.get(place)
            outcomes.append(refused or Accepted(answered.documents[place], place in copies))
            place += 1
        if not group.future.done():
            group.future.set_result(outcomes)
