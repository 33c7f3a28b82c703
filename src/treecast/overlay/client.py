"""A client of a broker as a state machine: it publishes, subscribes and receives. No I/O.

Each request gets a *ticket*, and sooner or later an `Answered` event with it. Requests are sent in order, up to
`WINDOW_MAX` at a time, and sent again until they are answered, whatever happens to connections, to messages on their
way, or to the broker. `treecast.serve.client` runs this on a socket; `treecast.sim` in a simulated world.

    >>> from random import Random
    >>> from treecast.overlay.messages import Answer, Welcome
    >>> client = Client("alice", "broker", Random(1))
    >>> ticket, (hello,) = client.publish("news", [b"<a/>"], now_ms=0)
    >>> (publish,) = client.receive("broker", Welcome("broker", "5f1c", 7, nonce=hello.message.nonce, lease=3), 0)
    >>> publish.message.number, publish.message.command.source
    (8, 'news')
    >>> client.receive("broker", Answer(8, [1], lease=3), 0)
    [Deliver(event=Answered(ticket=1, documents=[1], refusals=[], copies=[], places=[], partial=None), sender='')]

Numbers of requests belong to the client's name and outlive it, so it begins with a handshake: `Hello`, and a `Welcome`
that says which number was answered last, and which *lease* to put into requests. Requests and answers with another
lease are ignored: those of an earlier life of this client may still be on their way. A new handshake begins when a
connection is new, and when answers do not come.

Two clients must not use one name at the same time. Deliveries are in `receiver.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, assert_never

import msgspec

from treecast.errors import PeerError
from treecast.overlay.frames import FRAME_BYTES_MAX, FrameError
from treecast.overlay.messages import (
    NAME_CHARS_MAX,
    WINDOW_MAX,
    Answer,
    Attached,
    Command,
    Confirmation,
    Deliveries,
    Detach,
    Document,
    Hello,
    Inspect,
    Inspected,
    Kind,
    Partial,
    Pause,
    Place,
    Publish,
    Redeliver,
    Refusal,
    RegisterSource,
    RemoveSource,
    Replay,
    Request,
    Subscribe,
    SubscribeMany,
    SubscriptionOptions,
    Unsubscribe,
    Welcome,
    opened,
)
from treecast.overlay.peer import Deliver, Effect, Send
from treecast.overlay.receiver import CREDIT_MAX, Delivery, Receiver, ReceiverSettings, Roster, Settled
from treecast.overlay.retry import Retry

__all__ = ["Answered", "Client", "ClientError", "ClientSettings", "Delivery"]

SESSION_NAME_CHARS_MAX = 100
"""What is left of a name's length for the names of sessions, which begin with the client's name."""
_SLACK_BYTES = 4_096  # the header of a packet, and its names
_BYTES_PER_DOCUMENT = 4  # the length of a body
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Request)


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and limits of a client."""

    queue_max: int = 1_000
    """Requests that wait behind those that were sent."""
    window_max: int = WINDOW_MAX
    request_ms: int = 2_000
    """What has no answer is sent again after so long, then after twice as long, and so on."""
    request_ms_max: int = 30_000
    receivers_max: int = 64
    receiver: ReceiverSettings = ReceiverSettings()


class Answered(msgspec.Struct, frozen=True):
    """An event: the broker has done what was asked for, or refused it. The fields are those of `Answer`."""

    ticket: int
    documents: list[int]
    refusals: list[Refusal]
    copies: list[int] = []
    places: list[Place] = []
    partial: list[Partial] | None = None


class ClientError(PeerError):
    """TC405: too much waits already. Nothing was sent."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"TC405 {message}\n  hint: {hint}", code="TC405", hint=hint)


class _Pending:
    """A request that has a number."""

    __slots__ = ("command", "is_answered", "ticket")

    def __init__(self, ticket: int, command: Command) -> None:
        self.ticket = ticket
        self.command = command
        self.is_answered = False


class Client:
    """A `Peer` that talks to one broker."""

    def __init__(self, name: str, broker: str, random: Random, settings: ClientSettings | None = None) -> None:
        if not 0 < len(name) <= NAME_CHARS_MAX - SESSION_NAME_CHARS_MAX:
            raise ValueError(f"a client's name has 1 to {NAME_CHARS_MAX - SESSION_NAME_CHARS_MAX} characters")
        self.name = name
        self.store = ""
        """Identifies the broker's data, for ids of deliveries."""
        self._broker = broker
        self._random = random
        self._settings = settings or ClientSettings()
        self._life = random.getrandbits(62) + 1  # names of sessions are never used twice
        self._tickets = 0
        self._questions = 0
        self._queue: deque[tuple[int, Command]] = deque()
        self._pending: deque[_Pending] = deque()
        self._first = 1  # the number of the first pending request
        self._lease = 0
        self._nonce = 0  # of the handshake that is under way, or 0
        self._is_welcome = False
        self._hello_retry = Retry(random, self._settings.request_ms, self._settings.request_ms_max)
        self._request_retry = Retry(random, self._settings.request_ms, self._settings.request_ms_max)
        self._roster = Roster()
        self._receivers: dict[int, Receiver] = {}
        self._by_session: dict[str, Receiver] = {}
        self._receiver_count = 0
        self._confirmations = 0

    # --- requests -----------------------------------------------------------------------------------------------------

    def register_source(
        self, source: str, now_ms: int, *, schema: str = "", description: str = ""
    ) -> tuple[int, list[Effect]]:
        return self.request(RegisterSource(source, schema, description), now_ms)

    def remove_source(self, source: str, now_ms: int) -> tuple[int, list[Effect]]:
        return self.request(RemoveSource(source), now_ms)

    def publish(self, source: str, documents: Iterable[bytes | Document], now_ms: int) -> tuple[int, list[Effect]]:
        batch = [item if isinstance(item, Document) else Document(item) for item in documents]
        return self.request(Publish(source, batch), now_ms)

    def subscribe(
        self,
        id: str,
        query: str,
        now_ms: int,
        *,
        namespaces: Mapping[str, str] | None = None,
        ordered: bool = False,
        deliver: str = "document",
        options: SubscriptionOptions | None = None,
    ) -> tuple[int, list[Effect]]:
        command = Subscribe(id, query, dict(namespaces or {}), ordered, deliver, options or SubscriptionOptions())
        return self.request(command, now_ms)

    def subscribe_many(self, subscriptions: Sequence[Subscribe], now_ms: int) -> tuple[int, list[Effect]]:
        return self.request(SubscribeMany(list(subscriptions)), now_ms)

    def unsubscribe(self, id: str, now_ms: int) -> tuple[int, list[Effect]]:
        return self.request(Unsubscribe(id), now_ms)

    def pause(self, id: str, now_ms: int, *, paused: bool = True) -> tuple[int, list[Effect]]:
        return self.request(Pause(id, paused), now_ms)

    def replay(self, id: str, now_ms: int, *, from_document: int = 0, from_ms: int = 0) -> tuple[int, list[Effect]]:
        return self.request(Replay(id, from_document, from_ms), now_ms)

    def redeliver(self, letters: Sequence[int], now_ms: int) -> tuple[int, list[Effect]]:
        return self.request(Redeliver(list(letters)), now_ms)

    def request(self, command: Command, now_ms: int) -> tuple[int, list[Effect]]:
        """Send a command when its turn comes; returns its ticket. Raises if it is too large, or too many wait."""
        if not self.has_room():
            raise ClientError(
                "too many requests wait", f"at most {self._settings.queue_max} may: wait for answers first"
            )
        _check(command)
        self._tickets += 1
        self._queue.append((self._tickets, command))
        return self._tickets, self._send_more(now_ms)

    def inspect(self, kind: Kind, *, after: str = "", count_max: int = 100) -> tuple[int, list[Effect]]:
        """Look at the broker; returns the number of the question.

        The answer comes as an `Inspected` event, or not at all: then ask again.
        """
        self._questions += 1
        return self._questions, [Send(self._broker, Inspect(self._questions, kind, after, count_max))]

    def has_room(self) -> bool:
        """A request would be accepted."""
        return len(self._queue) < self._settings.queue_max

    def is_welcome(self) -> bool:
        """The broker has answered the last `Hello`. All that it had accepted before that is durable."""
        return self._is_welcome and not self._nonce

    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._queue) + sum(not item.is_answered for item in self._pending)

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def attach(
        self, subscriptions: Sequence[str], now_ms: int, *, credit: int = 1_000, is_patient: bool = False
    ) -> tuple[int, list[Effect]]:
        """Receive from these subscriptions, holding at most `credit` deliveries that are not acknowledged.

        `is_patient`: as long as it likes. Otherwise `acknowledge_ms` of the subscription decides.
        """
        if not 0 < credit <= CREDIT_MAX:
            raise ValueError(f"a credit is 1 to {CREDIT_MAX}")
        if len(self._receivers) >= self._settings.receivers_max:
            raise ClientError("too many receivers", f"at most {self._settings.receivers_max}: detach one")
        self._receiver_count += 1
        receiver = Receiver(
            self._receiver_count,
            f"{self.name}.{self._life:x}",
            self._life,
            self._broker,
            subscriptions,
            credit,
            self._random,
            self._settings.receiver,
            self._roster,
            is_patient,
        )
        self._receivers[receiver.number] = receiver
        self._by_session[receiver.session] = receiver
        return receiver.number, receiver.tick(now_ms)

    def detach(self, receiver: int, now_ms: int) -> list[Effect]:
        """Receive no more. What was not acknowledged goes to others, or comes again later."""
        gone = self._receivers.pop(receiver, None)
        if gone is None:
            return []
        del self._by_session[gone.session]
        return gone.detach()

    def ask(self, receiver: int, credit: int, now_ms: int) -> list[Effect]:
        """Hold so many deliveries from now on; 0 is none."""
        return self._receivers[receiver].ask(credit, now_ms) if receiver in self._receivers else []

    def acknowledge(self, deliveries: Iterable[Delivery], now_ms: int, *, singly: bool = False) -> list[Effect]:
        """The application has dealt with these. `singly`: the broker is told at once, also of parts of a message."""
        return self._settle(deliveries, now_ms, is_failed=False, singly=singly)

    def fail(self, deliveries: Iterable[Delivery], now_ms: int, *, singly: bool = False) -> list[Effect]:
        """The application could not deal with these: they are tried again later, some times."""
        return self._settle(deliveries, now_ms, is_failed=True, singly=singly)

    def settle(self, deliveries: Sequence[Delivery], now_ms: int, *, is_failed: bool) -> tuple[int, list[Effect]]:
        """Acknowledge or fail these, which one session has brought; returns a number.

        A `Settled` event with it tells when that is stored.
        """
        self._confirmations += 1
        number = self._confirmations
        receiver = self._by_session.get(deliveries[0].session)
        if receiver is None:
            return number, [Deliver(Settled(number, list(deliveries)))]
        return number, receiver.settle(deliveries, is_failed, now_ms, confirmation=number)

    def postpone(self, delivery: Delivery, wait_ms: int, reason: str = "") -> list[Effect]:
        """The application could not deal with this one, and wants it again after so long; 0: it is given up."""
        receiver = self._by_session.get(delivery.session)
        return receiver.postpone(delivery, wait_ms, reason) if receiver else []

    def join(self, receiver: int) -> list[Effect]:
        """Receive also from those subscriptions that did not exist before."""
        return self._receivers[receiver].join() if receiver in self._receivers else []

    def _settle(self, deliveries: Iterable[Delivery], now_ms: int, *, is_failed: bool, singly: bool) -> list[Effect]:
        by_session: dict[str, list[Delivery]] = {}
        for delivery in deliveries:
            by_session.setdefault(delivery.session, []).append(delivery)
        effects: list[Effect] = []
        for session, settled in by_session.items():
            if session in self._by_session:
                effects += self._by_session[session].settle(settled, is_failed, now_ms, singly)
        return effects

    # --- the peer -----------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        match message:
            case Answer():
                return self._take_answer(message, now_ms)
            case Welcome():
                return self._take_welcome(message, now_ms)
            case Inspected():
                return [Deliver(message)]
            case Deliveries() | Attached() | Confirmation() | Detach():
                return self._take_for_receiver(message, now_ms)
            case _:
                return []  # it is for other peers

    def tick(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self._nonce or not self._is_welcome:
            effects += self._hello(now_ms)
        elif self._pending and self._request_retry.is_due(now_ms):
            # Every second time the client finds out where it stands: the broker may have started anew.
            if self._request_retry.count % 2:
                effects += self._send_pending(now_ms)
            else:
                effects += self._begin_handshake(now_ms)
        for receiver in self._receivers.values():
            effects += receiver.tick(now_ms)
        return effects

    def turn_to(self, broker: str, now_ms: int) -> list[Effect]:
        """Talk to another peer from now on, which knows all that the first one has answered: a registry's backup."""
        if broker == self._broker:
            return []
        self._broker = broker
        return self._begin_handshake(now_ms)

    def connected(self, now_ms: int) -> list[Effect]:
        """A connection is new. Not needed for correctness: it only saves waiting."""
        effects = self._begin_handshake(now_ms)
        for receiver in self._receivers.values():
            effects += receiver.connected(now_ms)
        return effects

    # --- the handshake ------------------------------------------------------------------------------------------------

    def _begin_handshake(self, now_ms: int) -> list[Effect]:
        self._nonce = 0
        self._hello_retry.reset()
        return self._hello(now_ms)

    def _hello(self, now_ms: int) -> list[Effect]:
        """Say hello, until there is a welcome."""
        if not self._hello_retry.is_due(now_ms):
            return []
        if not self._nonce:
            self._nonce = self._random.getrandbits(62) + 1
        self._hello_retry.start(now_ms)
        return [Send(self._broker, Hello(self.name, nonce=self._nonce))]

    def _take_welcome(self, message: Welcome, now_ms: int) -> list[Effect]:
        if not self._nonce or message.nonce != self._nonce:
            return []  # of another handshake: what it says may be out of date
        self._nonce = 0
        self._hello_retry.reset()
        if not self._first - 1 <= message.answered < self._first + len(self._pending):
            # The first handshake, or the broker has lost what it had: what is pending gets new numbers.
            self._pending = deque(item for item in self._pending if not item.is_answered)
            self._first = message.answered + 1
        self._is_welcome = True
        self._lease = message.lease
        self.store = message.store
        return [*self._send_pending(now_ms), *self._send_more(now_ms)]

    # --- the window ---------------------------------------------------------------------------------------------------

    def _send_more(self, now_ms: int) -> list[Effect]:
        """Number and send what waits, as far as the window allows."""
        if not self._is_welcome or self._nonce:
            return self._hello(now_ms)
        effects: list[Effect] = []
        while self._queue and len(self._pending) < self._settings.window_max:
            if not self._pending:
                self._request_retry.reset()
            if not self._request_retry.count:
                self._request_retry.start(now_ms)
            item = _Pending(*self._queue.popleft())
            self._pending.append(item)
            effects.append(self._request_of(self._first + len(self._pending) - 1, item))
        return effects

    def _send_pending(self, now_ms: int) -> list[Effect]:
        """Send again everything that has no answer."""
        if self._pending:
            self._request_retry.start(now_ms)
        return [
            self._request_of(number, item)
            for number, item in enumerate(self._pending, self._first)
            if not item.is_answered
        ]

    def _request_of(self, number: int, item: _Pending) -> Send:
        return Send(self._broker, Request(number, item.command, self._lease))

    def _take_answer(self, message: Answer, now_ms: int) -> list[Effect]:
        place = message.number - self._first
        if message.lease != self._lease or not 0 <= place < len(self._pending):
            return []
        item = self._pending[place]
        if item.is_answered:
            return []
        item.is_answered = True
        while self._pending and self._pending[0].is_answered:
            self._pending.popleft()
            self._first += 1
        self._request_retry.reset()
        if self._pending:
            self._request_retry.start(now_ms)
        answered = Answered(
            item.ticket,
            list(message.documents),
            list(message.refusals),
            list(message.copies),
            list(message.places),
            message.partial,
        )
        return [Deliver(answered), *(self._send_more(now_ms) if self._queue else [])]

    # --- receivers ----------------------------------------------------------------------------------------------------

    def _take_for_receiver(self, message: Deliveries | Attached | Confirmation | Detach, now_ms: int) -> list[Effect]:
        receiver = self._by_session.get(message.session)
        if receiver is None:
            # Of an earlier life, or detached: nobody will acknowledge it.
            end = Detach(message.session, "unknown", self._roster.serial)
            return [] if isinstance(message, Confirmation | Detach) else [Send(self._broker, end)]
        match message:
            case Deliveries():
                effects = receiver.take_deliveries(opened(message), self.store, now_ms)
            case Attached():
                effects = receiver.take_attached(message, now_ms)
            case Confirmation():
                effects = receiver.take_confirmation(message)
            case Detach():
                effects = receiver.take_detach(message, now_ms)
            case _:
                assert_never(message)
        if receiver.session != message.session:
            del self._by_session[message.session]
            self._by_session[receiver.session] = receiver
        return effects


def _check(command: Command) -> None:
    """Refuse what would never arrive. A publication is looked at without copying its documents."""
    size = count = 0
    if isinstance(command, Publish):
        count = len(command.documents)
        size = sum(len(document.body) for document in command.documents)
        command = Publish(command.source, [msgspec.structs.replace(one, body=b"") for one in command.documents])
    try:
        encoded = _ENCODER.encode(Request(1, command))
        _DECODER.decode(encoded)
    except (msgspec.MsgspecError, ValueError, OverflowError, TypeError) as error:
        raise FrameError(f"a message cannot be encoded: {error}", code="TC404") from None
    if size + len(encoded) + _BYTES_PER_DOCUMENT * count + _SLACK_BYTES > FRAME_BYTES_MAX:
        raise FrameError(
            f"{size} bytes of documents are too much for a message",
            code="TC402",
            hint=f"a message has at most {FRAME_BYTES_MAX} bytes: publish fewer documents at once",
        )
