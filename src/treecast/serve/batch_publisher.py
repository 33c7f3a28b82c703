"""Publishes many documents over HTTP: in batches, a bounded number under way, and again with the same ids if need be.

    publisher = BatchPublisher(make_client, "default", finished=print)
    with publisher:
        publisher.add("monday.xml", b"<news/>", id="monday")
    print(publisher.counts)

Documents are gathered into batches, which threads send, each over a connection of its own. With one connection the
order of documents is kept. `add` waits while enough is under way, so memory is bounded however many documents come. A
batch without an answer is sent again, and the service drops what it has already: that needs ids, so documents without
ids are not sent twice once they may have arrived.

A document is finished when it is durable or refused. What concerns all documents (a wrong token, no connection for too
long) is raised by `add` or at the end instead.
"""

from __future__ import annotations

import base64
import gzip
import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from treecast.errors import TreecastError
from treecast.serve.http_client import Answer, AnswerError, HttpClient, NoAnswerError

JSON_LINES = "application/x-ndjson"
UNKNOWN_SOURCE = "TC410"
POLL_S = 0.2
"""How often a thread that waits looks whether something has changed."""


@dataclass(frozen=True, kw_only=True)
class PublishSettings:
    """How documents are sent."""

    connections_max: int = 1
    """With more than one, the order of documents is not kept."""
    batches_waiting_max: int = 2
    """Batches for each connection that are ready while one is under way."""
    batch_documents_max: int = 500
    batch_bytes_max: int = 4 << 20
    """A document that is larger goes by itself, as it is."""
    gather_ms: int = 500
    """A batch that is not full goes after so long."""
    compression: str = "none"
    """Of bodies: none, gzip or zstd."""
    compressed_bytes_min: int = 1_024
    """Smaller bodies are sent as they are."""


@dataclass(frozen=True)
class Outgoing:
    """A document to publish."""

    name: str
    body: bytes
    id: str


@dataclass(frozen=True)
class Finished:
    """What became of a document: `code` and `message` if it was refused."""

    name: str
    document: int = 0
    is_copy: bool = False
    code: str = ""
    message: str = ""
    unreachable: tuple[str, ...] = ()
    """From a ring: it was accepted, but could not get to these states and hosts yet."""


@dataclass
class Counts:
    accepted: int = 0
    copies: int = 0
    refused: int = 0
    partial: int = 0
    """Of those that a ring has accepted: they did not get everywhere yet."""

    @property
    def total(self) -> int:
        return self.accepted + self.copies + self.refused


class BatchPublisher:
    """Use it with `with`: at the end it waits for what is under way; after an exception it does not."""

    def __init__(
        self,
        make_client: Callable[[], HttpClient],
        source: str,
        finished: Callable[[Finished], None],
        settings: PublishSettings | None = None,
    ) -> None:
        """`finished` is called from other threads, one call at a time."""
        self.counts = Counts()
        self._settings = settings = settings or PublishSettings()
        self._finished = finished
        self._source = source
        self._clients = [make_client() for _ in range(settings.connections_max)]
        waiting_max = settings.connections_max * settings.batches_waiting_max
        self._batches: queue.Queue[list[Outgoing] | None] = queue.Queue(waiting_max)  # None is the end
        self._gathering = threading.Lock()
        self._batch: list[Outgoing] = []
        self._batch_bytes = 0
        self._batch_since = 0.0
        self._lock = threading.Lock()
        self._failure: TreecastError | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(client,), name="publisher", daemon=True)
            for client in self._clients
        ]

    def __enter__(self) -> BatchPublisher:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        try:
            if kind is None:
                self._flush()
                for _ in self._threads:
                    self._put(None)
                for thread in self._threads:
                    thread.join()
                if self._failure is not None:
                    raise self._failure
        finally:
            for client in self._clients:
                client.stop()

    # --- what comes in ------------------------------------------------------------------------------------------------

    def add(self, name: str, body: bytes, id: str = "") -> None:
        """Raises what concerns all documents."""
        now = time.monotonic()
        settings = self._settings
        is_full = len(self._batch) >= settings.batch_documents_max
        is_large = bool(self._batch) and self._batch_bytes + len(body) > settings.batch_bytes_max
        if is_full or is_large:
            self._flush()
        with self._gathering:
            if not self._batch:
                self._batch_since = now
            self._batch.append(Outgoing(name, body, id))
            self._batch_bytes += len(body)

    def _flush(self) -> None:
        batch = self._take()
        if batch:
            self._put(batch)

    def _take(self, age_ms: int = 0) -> list[Outgoing]:
        """What was gathered, if the first of it waits for so long."""
        with self._gathering:
            if age_ms and time.monotonic() - self._batch_since < age_ms / 1000:
                return []
            batch, self._batch, self._batch_bytes = self._batch, [], 0
        return batch

    def _put(self, batch: list[Outgoing] | None) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            try:
                return self._batches.put(batch, timeout=POLL_S)
            except queue.Full:
                continue

    # --- what goes out ------------------------------------------------------------------------------------------------

    def _run(self, client: HttpClient) -> None:
        while self._failure is None:
            try:
                batch = self._batches.get(timeout=POLL_S)
            except queue.Empty:  # who reads documents may have to wait for more, of standard input for example
                batch = self._take(self._settings.gather_ms)
            if batch is None:
                return
            try:
                if batch:
                    self._publish(client, batch)
            except TreecastError as error:
                with self._lock:
                    self._failure = self._failure or error

    def _publish(self, client: HttpClient, batch: Sequence[Outgoing]) -> None:
        """Raises what concerns all documents."""
        is_repeatable = all(document.id for document in batch)
        is_single = len(batch) == 1 and len(batch[0].body) > self._settings.batch_bytes_max
        try:
            answer = client.patiently(
                lambda: self._send_one(client, batch[0]) if is_single else self._send(client, batch),
                is_repeatable=is_repeatable,
            )
        except AnswerError as error:
            if error.status == 413 and len(batch) > 1:  # the service takes less at a time
                self._publish(client, batch[: len(batch) // 2])
                self._publish(client, batch[len(batch) // 2 :])
                return
            if len(batch) > 1 or error.status not in (400, 413, 422):
                raise
            text, _, hint = str(error).removeprefix(error.code).strip().partition("\n  hint: ")
            problem = {"status": error.status, "problem": {"code": error.code, "detail": text, "hint": hint}}
            self._finish(batch, [problem])
            return
        items = [{"status": answer.status, **answer.json}] if is_single else answer.json["documents"]
        if len(items) != len(batch):
            raise NoAnswerError(
                f"{client.url} answers for {len(items)} of {len(batch)} documents", is_sent=True, code="TC401"
            )
        self._finish(batch, items)

    def _send(self, client: HttpClient, batch: Sequence[Outgoing]) -> Answer:
        """One attempt. Raises AnswerError 503 if the broker wants some of them to come again: then all come again."""
        data = b"".join(map(encode_line, batch))
        headers = {"Content-Type": JSON_LINES}
        if self._settings.compression != "none" and len(data) >= self._settings.compressed_bytes_min:
            data = _compress(data, self._settings.compression)
            headers["Content-Encoding"] = self._settings.compression
        answer = client.ask("POST", f"/v1/documents:batch?source={quote(self._source, safe='')}", data, **headers)
        for item in answer.json["documents"]:
            problem = item.get("problem")
            if problem and problem["code"] == UNKNOWN_SOURCE:
                hint = "add --register, or name another one with --source"
                raise AnswerError(problem["detail"], code=UNKNOWN_SOURCE, hint=hint, status=404)
            if problem and item["status"] in (503, 507) and all(document.id for document in batch):
                raise AnswerError(problem["detail"], code=problem["code"], hint=problem.get("hint", ""), status=503)
        return answer

    def _send_one(self, client: HttpClient, document: Outgoing) -> Answer:
        headers: dict[str, str | bytes] = {"Content-Type": "application/xml"}
        if document.id:
            headers["Treecast-Document-Id"] = document.id.encode()
        try:
            return client.ask("POST", f"/v1/documents?source={quote(self._source, safe='')}", document.body, **headers)
        except AnswerError as error:
            if error.status != 507:
                raise
            raise AnswerError(str(error).removeprefix(error.code).strip(), code=error.code, status=503) from None

    def _finish(self, batch: Sequence[Outgoing], items: Sequence[Any]) -> None:
        with self._lock:
            for document, item in zip(batch, items, strict=True):
                problem = item.get("problem")
                if problem:
                    self.counts.refused += 1
                    hint = f"\n  hint: {problem['hint']}" if problem.get("hint") else ""
                    message = f"{problem['code']} {problem['detail']}{hint}"
                    self._finished(Finished(document.name, code=problem["code"], message=message))
                    continue
                is_copy = item["status"] == 200
                self.counts.copies += is_copy
                self.counts.accepted += not is_copy
                unreachable = tuple(item.get("unreachable", ()))
                self.counts.partial += bool(unreachable)
                self._finished(Finished(document.name, item["document"], is_copy, unreachable=unreachable))


def encode_line(document: Outgoing) -> bytes:
    """A line of a batch; bytes that are no UTF-8 travel as base64.

    >>> encode_line(Outgoing("a.xml", b"<a/>", "a")), encode_line(Outgoing("a.xml", b"<\\xff/>", ""))
    (b'{"document": "<a/>", "id": "a"}\\n', b'{"document": "PP8vPg==", "encoding": "base64"}\\n')
    """
    fields: dict[str, str] = {}
    try:
        fields["document"] = document.body.decode()
    except UnicodeDecodeError:
        fields = {"document": base64.b64encode(document.body).decode(), "encoding": "base64"}
    if document.id:
        fields["id"] = document.id
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _compress(data: bytes, kind: str) -> bytes:
    if kind == "gzip":
        return gzip.compress(data, 1, mtime=0)
    import pyarrow

    packed: bytes = pyarrow.compress(data, codec="zstd", asbytes=True)
    return packed
