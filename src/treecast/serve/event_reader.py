"""Reads event streams of the service, and goes on by itself after a lost connection or a restart.

    for event in EventReader(client, ["sport"], note=print).events():
        print(event.data)

The id of the last event that came is sent along when the stream is opened again, so nothing is missed and nothing comes
twice. The first connection must succeed; after that, the stream is opened again for as long as the settings say.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from treecast.errors import TreecastError
from treecast.serve.http_client import HttpClient, NoAnswerError, Note

READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Event:
    """`name` is that of the event, `delivery` or `gone`; `data` is JSON."""

    id: str
    name: str
    data: bytes


class EventDecoder:
    """Bytes in, events out, as the HTML standard says, for what the service sends.

    >>> decoder = EventDecoder(1_000)
    >>> decoder.feed(b"id: 1\\nevent: delivery\\nda"), decoder.feed(b"ta: {}\\n\\n:\\n\\n")
    ([], [Event(id='1', name='delivery', data=b'{}')])
    """

    def __init__(self, event_bytes_max: int, last_id: str = "") -> None:
        self.last_id = last_id
        """Of the last event that is complete; also if it had no data."""
        self._id = last_id
        self._event_bytes_max = event_bytes_max
        self._rest = bytearray()
        self._searched = 0
        self._name = ""
        self._data: list[bytes] = []
        self._bytes = 0

    def feed(self, piece: bytes) -> list[Event]:
        """The events that are complete now. Raises ValueError if one is too large."""
        self._rest += piece
        events: list[Event] = []
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, self._searched))) >= 0:
            line = bytes(self._rest[begin:end]).removesuffix(b"\r")
            begin = end + 1
            event = self._line(line)
            if event is not None:
                events.append(event)
        del self._rest[:begin]
        self._searched = len(self._rest)
        if self._bytes + len(self._rest) > self._event_bytes_max:
            raise ValueError(f"an event has more than {self._event_bytes_max} bytes")
        return events

    def _line(self, line: bytes) -> Event | None:
        if line:
            self._bytes += len(line)
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                self._data.append(value)
            elif field == b"event":
                self._name = value.decode("utf-8", "replace")
            elif field == b"id" and b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            return None
        name, data = self._name, self._data
        self._name, self._data, self._bytes = "", [], 0
        self.last_id = self._id
        return Event(self.last_id, name or "message", b"\n".join(data)) if data else None


class EventReader:
    """One stream of some subscriptions."""

    def __init__(self, client: HttpClient, subscriptions: Sequence[str], note: Note) -> None:
        self.last_id = ""
        """Of the last event that was handed out: where the stream goes on."""
        self._client = client
        self._path = "/v1/events?" + urlencode([("subscription", id) for id in subscriptions])
        self._note = note

    def events(self) -> Iterator[Event]:
        """For ever. Raises AnswerError if the service refuses, NoAnswerError when all attempts are over."""
        settings = self._client.settings
        response = self._open()
        while True:
            decoder = EventDecoder(settings.event_bytes_max, self.last_id)
            try:
                while piece := response.read1(READ_BYTES):
                    for event in decoder.feed(piece):
                        self.last_id = event.id
                        yield event
                    self.last_id = decoder.last_id  # a mark without data
                reason = "the service ended it"
            except ValueError as error:
                raise NoAnswerError(str(error), is_sent=True, code="TC401") from None
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self._client.close()
            self._note(f"the connection was lost ({reason}); trying again")
            response = self._resume()
            self._note("connected again")

    def _open(self) -> http.client.HTTPResponse:
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        response = self._client.open("GET", self._path, None, headers, self._client.settings.silence_ms)
        if response.status != 200:
            raise self._client.refusal(response)
        return response

    def _resume(self) -> http.client.HTTPResponse:
        settings = self._client.settings
        end = time.monotonic() + settings.resume_ms / 1000
        pause_ms = settings.retry_ms
        while True:
            try:
                return self._open()
            except TreecastError as error:
                self._client.close()
                pause_s = self._client.pause_after(error, pause_ms, True)
                if pause_s is None or time.monotonic() + pause_s > end:
                    raise
            time.sleep(pause_s)
            pause_ms = min(pause_ms * 2, settings.retry_ms_max)
