"""A service that is killed under load, with clients nobody here wrote: event streams, and two kinds of WebSockets.

Publishers send documents with ids of their own, and send again what had no answer. Each reader has a subscription of
its own that matches every document. At the end each of them must have got every document that was acknowledged.
"""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import httpx_sse
import websocket
import websockets.sync.client

from support.served_http import Service

WAIT_S = 10
PATIENCE_S = 120
PUBLISHERS = 2
CREDIT = 20
QUIET_S = 0.3
AWAY = (
    OSError,
    http.client.HTTPException,
    httpx.HTTPError,
    websockets.WebSocketException,
    websocket.WebSocketException,
)
"""What clients say when the service is gone; a TimeoutError is an OSError."""


class DoorsTrial:
    """`with DoorsTrial(path) as trial`: everything runs; `kill` as often as you like, then `finish`."""

    def __init__(self, directory: Path) -> None:
        self.service = Service(directory / "data")
        self.published: dict[str, int] = {}
        """By id: the number of each document that was acknowledged."""
        self.received: dict[str, set[int]] = {"events": set(), "websockets": set(), "websocket-client": set()}
        self.held: dict[str, dict[str, int]] = {"websockets": {}, "websocket-client": {}}
        """What WebSockets have got, and not acknowledged yet."""
        self.repeated = 0
        self.connects = 0
        self.faults: list[str] = []
        self._is_publishing = True
        self._is_over = False
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> DoorsTrial:
        self.service.start()
        for id in self.received:
            self.service.subscribe(id, "/load", attempts_max=1_000_000)
        readers = (self._read_events, self._read_websockets, self._read_websocket_client)
        tasks: list[Callable[[], None]] = [lambda read=read: self._retry(read) for read in readers]  # type: ignore[misc]
        tasks += [lambda number=number: self._publish(number) for number in range(PUBLISHERS)]  # type: ignore[misc]
        self._threads = [threading.Thread(target=task, daemon=True) for task in tasks]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over, self._is_publishing = True, False
        for thread in self._threads:
            thread.join(PATIENCE_S)
        self.service.__exit__()

    def wait(self, is_done: Callable[[], bool]) -> bool:
        end = time.monotonic() + PATIENCE_S
        while not is_done() and time.monotonic() < end and not self.faults:
            time.sleep(0.002)
        return is_done()

    def kill(self, documents: int = 20) -> None:
        """Once all readers have got some more, and while WebSockets hold what they have not acknowledged."""
        before = {id: len(numbers) for id, numbers in self.received.items()}

        def is_time() -> bool:
            has_more = all(len(self.received[id]) >= before[id] + documents for id in before)
            return has_more and all(len(held_documents) >= 2 for held_documents in self.held.values())

        assert self.wait(is_time), self.faults
        self.service.end(signal.SIGKILL)
        self.service.start()

    def finish(self) -> dict[str, set[int]]:
        """By reader: what it did not get."""
        self._is_publishing = False
        for thread in self._threads[-PUBLISHERS:]:
            thread.join(PATIENCE_S)
        expected = set(self.published.values())
        self.wait(lambda: all(expected <= numbers for numbers in self.received.values()))
        return {id: expected - numbers for id, numbers in self.received.items()}

    # --- publishers ---------------------------------------------------------------------------------------------------

    def _publish(self, publisher: int) -> None:
        connection: http.client.HTTPConnection | None = None
        number = 0
        while self._is_publishing:
            id = f"{publisher}-{number}"
            body = f"<load id='{id}'>{'x' * (number % 7) * 500}</load>"
            try:
                connection = connection or self.service.connect()
                connection.request("POST", "/v1/documents", body, {"Treecast-Document-Id": id})
                answer = connection.getresponse()
                data = answer.read()
            except AWAY:
                connection = None
                time.sleep(0.05)
                continue
            if answer.status in (200, 201):
                self.published[id] = json.loads(data)["document"]
                self.repeated += answer.status == 200
                number += 1
            elif answer.status != 503:
                self.faults.append(f"{id}: {answer.status} {data!r}")
                return

    # --- readers ------------------------------------------------------------------------------------------------------

    def _retry(self, read: Callable[[], None]) -> None:
        while not self._is_over:
            try:
                self.connects += 1
                read()
            except AWAY:
                time.sleep(0.05)
            except Exception as error:
                self.faults.append(f"{read.__name__}: {error!r}")
                return

    _last_event_id = ""

    def _read_events(self) -> None:
        headers = {"Last-Event-ID": self._last_event_id} if self._last_event_id else {}
        url = f"http://127.0.0.1:{self.service.port}/v1/events?subscription=events"
        with httpx.Client(timeout=2) as client, httpx_sse.connect_sse(client, "GET", url, headers=headers) as source:
            for event in source.iter_sse():
                if event.event == "delivery":
                    self.received["events"].add(json.loads(event.data)["document"])
                elif event.event == "gone":
                    self.faults.append(event.data)
                self._last_event_id = event.id
                if self._is_over:
                    return

    def _read_websockets(self) -> None:
        with websockets.sync.client.connect(self._url("websockets"), open_timeout=WAIT_S, close_timeout=1) as socket:
            self._take("websockets", lambda: socket.recv(QUIET_S), socket.send)

    def _read_websocket_client(self) -> None:
        socket = websocket.create_connection(self._url("websocket-client"), WAIT_S)
        socket.settimeout(QUIET_S)
        try:
            self._take("websocket-client", socket.recv, socket.send)
        finally:
            socket.shutdown()  # type: ignore[no-untyped-call]

    def _url(self, id: str) -> str:
        return f"ws://127.0.0.1:{self.service.port}/v1/socket?subscription={id}"

    def _take(self, reader: str, receive: Callable[[], Any], send: Callable[[str], Any]) -> None:
        """A delivery counts when it is about to be acknowledged, and that is done for several at once: what a service
        forgets before that is missing at the end."""
        held_documents = self.held[reader] = {}
        send(json.dumps({"credit": CREDIT}))
        while not self._is_over:
            is_quiet = False
            try:
                message = json.loads(receive())
                if "delivery" in message:
                    held_documents[message["delivery"]] = message["document"]
            except (TimeoutError, websocket.WebSocketTimeoutException):
                is_quiet = True
            if len(held_documents) >= CREDIT // 2 or (held_documents and is_quiet):
                self.received[reader].update(held_documents.values())
                send(json.dumps({"ack": list(held_documents)}))
                held_documents.clear()
