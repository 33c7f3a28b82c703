"""What every door says and reads around a stream of server-sent events, whoever makes the events."""

from __future__ import annotations

from collections.abc import Callable

from treecast.serve.doors.calls import Call
from treecast.serve.doors.visible import check_subscription

EVENT_STREAM = "text/event-stream"
EVENT_HEADERS = [
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def read_event_request(call: Call) -> tuple[list[str], str]:
    """The subscriptions to receive from, each once, and where to go on. Raises if the token may not have one."""
    position = call.header(b"last-event-id") or call.text_parameter("last_event_id")
    ids = list(dict.fromkeys(call.query("subscription")))
    for id in ids:
        check_subscription(call.access, id)
    return ids, position


async def close_when_gone(call: Call, close: Callable[[], None]) -> None:
    """Wait until the other side has gone."""
    while (await call.receive())["type"] != "http.disconnect":
        pass
    close()
