"""Documents that come one by one are handed to the broker in groups.

A request for each document would cost the broker more than the document. So what arrives while two groups are under way
waits, and forms the next one: alone, a document does not wait; under load, groups grow by themselves. Each document is
answered when its group is durable.

Publishers that were answered together send their next documents within a moment of each other, and each group costs two
syncs of the disk. So if only a few have come where the last group had many, the others are waited for, a moment.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
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
    unreachable: tuple[str, ...] | None = None
    """From a ring: what could not be reached. None: there is no ring."""


Outcome = Accepted | Problem
Answer = Callable[[list[Outcome] | TreecastError], None]
"""Is called once, with what became of each document of a request, or with why that is not known."""


class _Group:
    """Documents of one request."""

    __slots__ = ("answer", "documents", "since_ms", "size", "source")

    def __init__(self, source: str, documents: Sequence[Document], size: int, answer: Answer) -> None:
        self.source = source
        self.documents = documents
        self.size = size
        self.since_ms = steady_ms()
        self.answer = answer


class Publisher:
    """Hands documents to the broker, and says what became of each."""

    def __init__(self, client: LocalClient, settings: DoorSettings) -> None:
        self._client = client
        self._settings = settings
        self._waiting: deque[_Group] = deque()
        self._waiting_documents = 0
        self._waiting_bytes = 0
        self._under_way = 0
        self._last_count = 0  # documents of the group that was handed over last
        self._flush_handle: asyncio.Handle | None = None
        self._unanswered_groups: dict[_Group, None] = {}  # in the order in which they came
        client.on_tick.append(self._tick)

    async def publish(self, source: str, documents: Sequence[Document]) -> list[Outcome]:
        """What became of each, in order; when all of them are durable or refused. Raises DoorError TC436."""
        future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()

        def answer(outcome: list[Outcome] | TreecastError) -> None:
            if future.done():
                return  # whoever asked has gone
            if isinstance(outcome, TreecastError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self.submit(source, documents, answer)
        return await future

    def submit(self, source: str, documents: Sequence[Document], answer: Answer) -> None:
        """The same for those who do not wait in a task. Raises DoorError TC436, and then never answers."""
        self._client.expect_broker()
        size = sum(len(document.body) for document in documents)
        settings = self._settings
        if (
            self._waiting_documents + len(documents) > settings.waiting_documents_max
            or self._waiting_bytes + size > settings.waiting_bytes_max
        ):
            raise DoorError("too many documents wait", code="TC436", hint="try again soon, or send fewer at a time")
        group = _Group(source, documents, size, answer)
        self._waiting.append(group)
        self._waiting_documents += len(documents)
        self._waiting_bytes += size
        self._unanswered_groups[group] = None
        self._schedule()

    def _tick(self, _: int) -> None:
        """Give up those that wait too long: one look at the oldest now and then, not a timer for each."""
        limit = steady_ms() - self._settings.answer_ms
        for group in list(islice(self._unanswered_groups, self._settings.publish_documents_max)):
            if group.since_ms > limit:
                break
            del self._unanswered_groups[group]
            group.answer(no_answer())

    def _schedule(self) -> None:
        """All that arrives in this turn of the event loop goes together; or a moment later, with those to come."""
        if not self._waiting or self._under_way >= self._settings.publishes_max:
            return
        is_enough = self._waiting_documents * 2 >= self._last_count
        if self._flush_handle is not None:
            if not (is_enough and isinstance(self._flush_handle, asyncio.TimerHandle)):
                return
            self._flush_handle.cancel()
        loop = asyncio.get_running_loop()
        if is_enough:
            self._flush_handle = loop.call_soon(self._flush)
        else:
            self._flush_handle = loop.call_later(self._settings.gather_ms / 1000, self._flush)

    def _flush(self) -> None:
        self._flush_handle = None
        while self._waiting and self._under_way < self._settings.publishes_max:
            groups = self._take()
            documents = [Document(one.body, one.id, group.source) for group in groups for one in group.documents]
            try:
                answer = self._client.send(Publish("", documents))
            except TreecastError as error:
                whole = Answered(0, [], [Refusal(-1, error.code, str(error))])
                self._answer(groups, whole)
                continue
            self._under_way += 1
            answer.add_done_callback(lambda future, groups=groups: self._on_answer(future, groups))  # type: ignore[misc]

    def _take(self) -> list[_Group]:
        """The next groups, in order, as many as may go together: of any sources, as each group costs two syncs."""
        groups: list[_Group] = []
        count = size = 0
        while self._waiting:
            group = self._waiting[0]
            if groups and (
                count + len(group.documents) > self._settings.publish_documents_max
                or size + group.size > self._settings.publish_bytes_max
            ):
                break
            groups.append(self._waiting.popleft())
            count += len(group.documents)
            size += group.size
        self._last_count = count
        self._waiting_documents -= count
        self._waiting_bytes -= size
        return groups

    def _on_answer(self, future: asyncio.Future[Answered], groups: list[_Group]) -> None:
        self._under_way -= 1
        if not future.cancelled():
            self._answer(groups, future.result())
        self._schedule()

    def _answer(self, groups: list[_Group], answer: Answered) -> None:
        """Divide the answer among the requests."""
        refusals = {refusal.item: problem_of(refusal.code, refusal.message) for refusal in answer.refusals}
        copies = set(answer.copies)
        partial = {one.item: tuple(one.unreachable) for one in answer.partial or ()}
        nothing = None if answer.partial is None else ()
        whole = refusals.get(-1)
        place = 0
        for group in groups:
            outcomes: list[Outcome] = []
            for _ in group.documents:
                refusal_problem = whole or refusals.get(place)
                unreachable = partial.get(place, nothing)
                outcomes.append(refusal_problem or Accepted(answer.documents[place], place in copies, unreachable))
                place += 1
            if group in self._unanswered_groups:  # else it was given up
                del self._unanswered_groups[group]
                group.answer(outcomes)
