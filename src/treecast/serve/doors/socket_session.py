"""What is said on a WebSocket: deliveries with acknowledgement and credit, and documents to publish.

A socket has one session with the broker. The other side says how many deliveries it wants to hold (`credit`), gets so
many, and gets more as it acknowledges (`ack`) or fails them (`fail`). What is not acknowledged comes again, here or on
another socket, always with the same id: at least once, also when either side is killed.

Every message of the other side is a `SocketMessage`. Ours are an `Envelope` for each delivery, or one of the `Socket…`
structs of `forms.py`: which one, the name of its first field says. This module knows nothing of frames: `web_socket.py`
does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Protocol

import msgspec

from treecast.errors import TreecastError
from treecast.overlay.messages import NAME_CHARS_MAX
from treecast.overlay.receiver import Delivered, Delivery, Interrupted, Opened
from treecast.serve.access.access import Access
from treecast.serve.access.refusals import no_token
from treecast.serve.connection import steady_ms
from treecast.serve.doors.calls import decode_form
from treecast.serve.doors.document_pages import DocumentPages, batch_item
from treecast.serve.doors.envelopes import envelope_of
from treecast.serve.doors.forms import (
    BatchLine,
    SocketInterrupted,
    SocketMessage,
    SocketOpened,
    SocketPublish,
    SocketPublished,
    SocketUnknown,
)
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import DoorError, problem_of_error
from treecast.serve.doors.publishing import Outcome
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import check_subscription, unknown_subscription


class Side(Protocol):
    """What a session needs of the connection to its other side."""

    def say(self, content: Any) -> None:
        """Send a struct."""

    def ease(self) -> None:
        """Fewer documents wait for an answer."""

    def end(self, error: TreecastError) -> None:
        """Close it, and say why."""


class SocketSession:
    """One socket. `receive` raises DoorError, and then the socket is to be closed."""

    def __init__(self, sockets: Sockets, access: Access, subscriptions: Sequence[str], side: Side) -> None:
        self._sockets = sockets
        self._access = access
        self._client = sockets.client
        self._settings = sockets.settings
        self._say = side.say
        self._ease = side.ease
        self._subscriptions: list[str] = []
        self._acknowledge_ms: dict[str, int] = {}
        self._receiver: int | None = None
        self._credit = 0  # what the other side wants to hold
        self._credit_asked = 0  # what the broker may let us hold
        self._held_deliveries: dict[str, tuple[Delivery, int]] = {}
        """By id: what is not acknowledged, without its payload, and since when."""
        self._checked_ms = steady_ms()
        self.publishing = 0
        """Documents that have no answer yet."""
        self.is_paused = False
        """The other side does not read fast enough."""
        self.is_closed = False
        self._holding = ExitStack()
        self._holding.enter_context(access.holding(lambda: side.end(no_token())))
        try:
            if subscriptions:
                self._choose(subscriptions)
        except BaseException:
            self._holding.close()
            raise

    # --- what the other side says -------------------------------------------------------------------------------------

    def receive(self, text: bytes) -> None:
        """A message. Raises DoorError if it cannot be used; if only its document cannot be, that is answered."""
        try:
            message, refusal = decode_form(text, SocketMessage), None
        except DoorError as error:
            message, refusal = _without_document(text, error)
        if message.subscriptions is not None:
            self._choose(message.subscriptions)
        if message.credit is not None:
            self._set_credit(message.credit)
        unknown = [*self._settle(message.ack, is_failed=False), *self._settle(message.fail, is_failed=True)]
        if unknown:
            self._say(SocketUnknown(unknown))
        if message.publish is not None:
            self._publish(message.publish)
        if refusal is not None:
            self._say(refusal)

    def _choose(self, subscriptions: Sequence[str]) -> None:
        """What this socket receives from, once and for all."""
        if self._subscriptions:
            raise DoorError("the subscriptions of a socket cannot be changed", code="TC460", hint="open another one")
        ids = list(dict.fromkeys(subscriptions))
        most = self._settings.subscriptions_per_stream_max
        if not 1 <= len(ids) <= most:
            raise DoorError(f"{len(ids)} subscriptions for one socket", code="TC460", hint=f"1 to {most}")
        tail = self._client.expect_broker().tail
        for id in ids:
            check_subscription(self._access, id)
            row = tail.subscription(id)
            if row is None:
                raise unknown_subscription(id)
            self._acknowledge_ms[id] = row.options.acknowledge_ms
        self._subscriptions = ids
        self._say(SocketOpened(ids))

    def _set_credit(self, credit: int) -> None:
        if not self._subscriptions:
            raise DoorError("credit for no subscription", code="TC460", hint="say which subscriptions first")
        if credit > self._settings.socket_credit_max:
            raise DoorError(f"a credit of {credit}", code="TC460", hint=f"at most {self._settings.socket_credit_max}")
        self._credit = credit
        self.ask()

    def ask(self) -> None:
        """Tell the broker how much we may hold: never much more than is held, as payloads may be large."""
        ahead = 0 if self.is_paused else self._settings.socket_ahead
        credit = min(self._credit, len(self._held_deliveries) + ahead)
        room = self._credit_asked - len(self._held_deliveries)
        if credit == self._credit_asked or (
            self._credit_asked <= self._credit and ahead // 2 <= room <= 2 * ahead and ahead
        ):
            return  # about right: not a message for each delivery
        self._credit_asked = credit
        if self._receiver is not None:
            self._client.ask(self._receiver, credit)
        elif credit:
            self._receiver = self._client.attach(self._subscriptions, credit, self._take)

    def _settle(self, ids: Sequence[str], *, is_failed: bool) -> list[str]:
        """Returns those that are not held: they were settled before, or took too long and come again."""
        unknown: list[str] = []
        deliveries: list[Delivery] = []
        for id in ids:
            entry = self._held_deliveries.pop(id, None)
            if entry is None:
                unknown.append(id)
            else:
                deliveries.append(entry[0])
        if deliveries:
            self._client.settle(deliveries, is_failed=is_failed)
            self.ask()
        return unknown

    # --- what the broker says -----------------------------------------------------------------------------------------

    def _take(self, event: Delivered | Opened | Interrupted) -> None:
        if self.is_closed:
            return
        if isinstance(event, Delivered):
            now = steady_ms()
            for delivery in event.deliveries:
                before = self._held_deliveries.pop(delivery.id, None)
                if before is not None:  # the broker did not wait for it any longer
                    self._client.settle([before[0]], is_failed=True)
                self._held_deliveries[delivery.id] = (msgspec.structs.replace(delivery, payload=b""), now)
                self._say(envelope_of(delivery, delivery.attempt))
            self.ask()
        elif isinstance(event, Interrupted):  # all of it comes again, in another session with the broker
            self._held_deliveries.clear()
            self._say(SocketInterrupted(event.reason))

    def check(self, now: int) -> None:
        """Forget what was not acknowledged in time: the broker delivers it again, perhaps to others."""
        if not self._held_deliveries or now - self._checked_ms < min(self._acknowledge_ms.values()) // 4:
            return
        self._checked_ms = now
        late = [
            id for id, (d, since) in self._held_deliveries.items() if now - since > self._acknowledge_ms[d.subscription]
        ]
        self._settle(late, is_failed=True)

    def close(self) -> None:
        """The socket is closed. What is not acknowledged goes to others, or waits."""
        if self.is_closed:
            return
        self.is_closed = True
        self._sockets.remove(self)
        self._holding.close()
        if self._receiver is not None:
            self._client.detach(self._receiver)

    # --- documents ----------------------------------------------------------------------------------------------------

    def _publish(self, form: SocketPublish) -> None:
        def finish(outcomes: list[Outcome] | TreecastError) -> None:
            self.publishing -= 1
            if self.is_closed:
                return
            outcome = problem_of_error(outcomes) if isinstance(outcomes, TreecastError) else outcomes[0]
            self._say(SocketPublished(batch_item(outcome), form.ref))
            self._ease()

        self.publishing += 1
        try:
            line = BatchLine(form.document, form.id, form.encoding)
            self._sockets.documents.publish_line(self._access, form.source, line, finish)
        except TreecastError as error:
            finish(error)


def _without_document(text: bytes, error: DoorError) -> tuple[SocketMessage, SocketPublished]:
    """The rest of a message whose document cannot be used, and the answer to that. Raises `error` if more is wrong."""
    try:
        fields = decode_form(text, dict[str, Any])
        form = fields.pop("publish")
        message = msgspec.convert(fields, SocketMessage)
    except (DoorError, KeyError, msgspec.ValidationError):
        raise error from None
    ref = form.get("ref") if isinstance(form, dict) else None
    known_ref = ref if isinstance(ref, str) and len(ref) <= NAME_CHARS_MAX else ""
    return message, SocketPublished(batch_item(problem_of_error(error)), known_ref)


class Sockets:
    """The sessions of all sockets of a door."""

    def __init__(self, client: LocalClient, documents: DocumentPages, settings: DoorSettings) -> None:
        self.client = client
        self.documents = documents
        self.settings = settings
        self._sessions: dict[SocketSession, None] = {}
        self._checked_ms = 0
        client.on_tick.append(self._tick)

    def __len__(self) -> int:
        return len(self._sessions)

    def expect_room(self) -> None:
        """Raises DoorError if there is no broker, or there are too many sockets."""
        self.client.expect_broker()
        if len(self._sessions) >= self.settings.sockets_max:
            raise DoorError("there are too many sockets", code="TC417")

    def open(self, access: Access, subscriptions: Sequence[str], side: Side) -> SocketSession:
        """Raises DoorError, or AccessRefusedError."""
        session = SocketSession(self, access, subscriptions, side)
        self._sessions[session] = None
        return session

    def remove(self, session: SocketSession) -> None:
        self._sessions.pop(session, None)

    def _tick(self, _: int) -> None:
        now = steady_ms()
        if now - self._checked_ms < 1_000:
            return
        self._checked_ms = now
        for session in list(self._sessions):
            session.check(now)
