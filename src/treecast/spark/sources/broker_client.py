"""Reads a broker's documents over HTTP, on the driver and in tasks: `GET /v1/documents:read` (docs/guide/service.md).

A broker that is away or busy is asked again, so a restart of it is only a pause. What it answers is checked: an answer
without its last line was cut off, and is asked for again.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from treecast.errors import PipelineError
from treecast.spark.sources.broker_options import BrokerOptions

PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.1, 5.0
"""Between two attempts: the first pause, doubled each time."""
REQUEST_SECONDS = 60.0
ANSWER_BYTES_MAX = 1 << 30
BUSY = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Extent:
    """What a broker has: the id of its data, the first document that is kept, and the last one."""

    store: str
    first: int
    last: int


@dataclass(frozen=True)
class BrokerDocument:
    """A document, or (`problem`) why it cannot be read."""

    number: int
    source: str
    id: str
    published: str
    body: bytes | None
    problem: str = ""


@dataclass(frozen=True)
class Gone:
    """Documents that are no longer kept."""

    first: int
    last: int


Items = list[BrokerDocument | Gone]


class BrokerClient:
    """A connection that is made again when it breaks."""

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options
        self._connection: HTTPConnection | None = None

    def extent(self) -> Extent:
        """Raises PipelineError (TC757) if the broker does not answer."""
        return self._read(f"from_document={1 << 60}")[1]

    def documents(self, store: str, first: int, last: int) -> Iterator[BrokerDocument | Gone]:
        """Those with the numbers from `first` to `last`, in order. Raises PipelineError (TC757, TC758)."""
        while first <= last:
            items, extent, following = self._read_all(f"from_document={first}&until_document={last}")
            check_store(extent, store)
            if following <= first or extent.last < last:
                text = f"the broker has no document {max(first, extent.last + 1)}, which it had"
                raise PipelineError(text, code="TC758", hint="start again with another checkpoint directory")
            yield from items
            first = following

    def _read(self, query: str) -> tuple[Items, Extent]:
        return self._read_all(query)[:2]

    def _read_all(self, query: str) -> tuple[Items, Extent, int]:
        """Some lines, what the broker has, and the number to go on with."""
        end = time.monotonic() + self._options.timeout_seconds
        pause = PAUSE_SECONDS
        while True:
            try:
                return _parse(self._get(f"/v1/documents:read?{query}"))
            except _TryAgainError as error:
                self.close()
                if time.monotonic() + pause > end:
                    raise PipelineError(f"no broker answers at {self._options.url}: {error}", code="TC757") from None
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _get(self, path: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._options.token}"} if self._options.token else {}
        try:
            if self._connection is None:
                parts = urlsplit(self._options.url)
                kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
                self._connection = kind(parts.hostname or "", parts.port, timeout=REQUEST_SECONDS)
            self._connection.request("GET", urlsplit(self._options.url).path.rstrip("/") + path, headers=headers)
            answer = self._connection.getresponse()
            body = answer.read(ANSWER_BYTES_MAX)
        except (OSError, HTTPException) as error:
            raise _TryAgainError(str(error) or type(error).__name__) from None
        if answer.status in BUSY:
            raise _TryAgainError(f"status {answer.status}")
        if answer.status != 200:
            text = body[:500].decode("utf-8", "replace")
            hint = "the option token" if answer.status in (401, 403) else ""
            raise PipelineError(f"the broker answers with {answer.status}: {text}", code="TC757", hint=hint)
        return body

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _TryAgainError(Exception):
    pass


def check_store(extent: Extent, store: str) -> None:
    """Raise PipelineError (TC758) if the broker has other data now."""
    if extent.store != store:
        text = "the broker has other data than the query began with, whose numbers mean other documents"
        raise PipelineError(text, code="TC758", hint="start again with another checkpoint directory")


def _parse(body: bytes) -> tuple[Items, Extent, int]:
    items: Items = []
    try:
        *lines, end = [json.loads(line) for line in body.splitlines()]
        extent = Extent(end["store"], end["first"], end["last"])
        items += [_item(line) for line in lines]
        return items, extent, int(end["next"])
    except (ValueError, KeyError, TypeError):
        raise _TryAgainError("the answer is cut off, or is not one of a broker") from None


def _item(line: dict[str, Any]) -> BrokerDocument | Gone:
    if "gone" in line:
        return Gone(*line["gone"])
    body: bytes | None = None
    if "problem" not in line:
        text = line.get("body", "")
        body = base64.b64decode(text) if line.get("encoding") else text.encode()
    names = (line["source"], line.get("id", ""), line["published"])
    return BrokerDocument(line["document"], *names, body, line.get("problem", ""))
