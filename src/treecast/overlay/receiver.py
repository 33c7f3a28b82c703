"""A client's side of a session: it takes deliveries in order, asks for what is missing, and acknowledges.

`Client` has one `Receiver` for each `attach`. When the broker ends a session, or has forgotten it after a restart, the
receiver opens another one under a new name. What was not acknowledged then comes again, with the same `Delivery.id`.

Acknowledgements may be lost as everything else. The broker would then deliver again after a while; to make that rare,
each one is repeated once, a little later, together with its neighbours. One that is to be confirmed is repeated until
the broker says that it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from treecast.catalog.delivery_ids import delivery_id
from treecast.overlay.messages import (
    FLOW_MS,
    ITEMS_MAX,
    Acknowledge,
    Attach,
    Attached,
    Confirmation,
    Deliveries,
    Detach,
    Flow,
    Postponed,
)
from treecast.overlay.peer import Deliver, Effect, Send
from treecast.overlay.retry import Retry

CREDIT_MAX = 10_000
"""Deliveries that an application may hold without acknowledging them."""


class ReceiverSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and limits of sessions."""

    attach_ms: int = 1_000
    """An `Attach` without an answer is repeated after so long, then after twice as long, and so on."""
    attach_ms_max: int = 10_000
    flow_ms: int = FLOW_MS
    repeat_ms: int = 10_000
    """Acknowledgements are repeated once, after so long, or when there is another connection."""
    repeats_max: int = 10_000
    """At most so many messages and failed items are."""
    part_ms: int = 1_000
    """A message is acknowledged when all its items are dealt with; if that takes so long, those that are."""
    early_max: int = 64
    """Messages that arrived before one that is missing are kept, at most so many."""


class Delivery(msgspec.Struct, frozen=True):
    """One document for one subscription. `session`, `message` and `place` say what to acknowledge."""

    subscription: str
    document: int
    published_ms: int
    attempt: int
    payload: bytes
    store: str
    session: str
    message: int
    place: int
    origin: str = ""
    """In a network: the store of the root broker that the document was published at, if not at this one,"""
    origin_number: int = 0
    """and its number there."""

    @property
    def id(self) -> str:
        """The same for each attempt, in any session, from any broker: to recognise what was delivered before."""
        return delivery_id(self.origin or self.store, self.origin_number or self.document, self.subscription)


class Delivered(msgspec.Struct, frozen=True):
    """An event: deliveries have arrived. `receiver` is what `attach` returned."""

    receiver: int
    deliveries: list[Delivery]


class Opened(msgspec.Struct, frozen=True):
    """An event: deliveries may come. `unknown` has the subscriptions that do not exist."""

    receiver: int
    unknown: list[str]


class Interrupted(msgspec.Struct, frozen=True):
    """An event: the broker has ended the session. Another one is being opened."""

    receiver: int
    reason: str


class Settled(msgspec.Struct, frozen=True):
    """An event: the broker has stored what was settled with this number, so what was acknowledged never comes again.

    Those that are `doubtful` may, or may not: they took too long, or the session ended before the broker said anything.
    """

    number: int
    doubtful: list[Delivery]


class Roster:
    """The sessions of a client, and how often one has begun or ended."""

    __slots__ = ("names", "serial")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.serial = 0

    def begin(self, name: str) -> None:
        self.names[name] = None
        self.serial += 1

    def end(self, name: str) -> None:
        if self.names.pop(name, self) is not self:
            self.serial += 1

    def others(self, name: str) -> list[str]:
        return [other for other in self.names if other != name]


class Receiver:
    """Receives from some subscriptions, through one session after the other."""

    def __init__(
        self,
        number: int,
        prefix: str,
        life: int,
        broker: str,
        subscriptions: Sequence[str],
        credit: int,
        random: Random,
        settings: ReceiverSettings,
        roster: Roster,
        is_patient: bool = False,
    ) -> None:
        self.number = number
        self._prefix = prefix
        self._life = life
        self._broker = broker
        self._subscriptions = list(subscriptions)
        self._credit = credit
        self._is_patient = is_patient
        self._settings = settings
        self._roster = roster
        self._random = random
        self._retry = Retry(random, settings.attach_ms, settings.attach_ms_max)
        self._sessions = 0
        self.session = ""
        """The name of the session that is open, or is being opened."""
        self._new_session()

    def _new_session(self) -> None:
        self._roster.end(self.session)
        self._sessions += 1
        self.session = f"{self._prefix}.{self.number}.{self._sessions}"
        self._roster.begin(self.session)
        self.is_open = False
        self._is_attached = False  # deliveries may overtake the answer to our Attach, which says what is unknown
        self._epoch = 0
        self._received = 0
        self._early: dict[int, Deliveries] = {}
        self._open_places: dict[int, set[int]] = {}  # by message: what the application has not dealt with
        # What was not dealt with, by message: whatever acknowledges the message says so again, for it may arrive first.
        self._failed: dict[int, list[tuple[int, int]]] = {}
        self._postponed: dict[int, list[Postponed]] = {}
        self._held = 0
        self._opened_ms = 0
        self._flow_sent_ms = 0
        self._has_news = False  # messages have come
        self._must_tell = False  # the broker does not know what has
        self._parts: dict[int, list[tuple[int, bool]]] = {}  # by message: places that were settled, and if they failed
        self._parts_since_ms = 0
        self._has_asked = False  # for what is missing
        self._repeats: list[int] = []
        self._repeats_failed: list[tuple[int, int]] = []
        self._repeats_postponed: list[Postponed] = []
        self._repeat_since_ms = 0
        self._unconfirmed: dict[int, tuple[Acknowledge, list[Delivery]]] = {}
        """By its number: what the broker has not said to be stored."""
        self._confirmation_retry = Retry(self._random, self._settings.attach_ms, self._settings.attach_ms_max)

    @property
    def held(self) -> int:
        """Deliveries that the application has and did not acknowledge."""
        return self._held

    # --- what the broker sends ----------------------------------------------------------------------------------------

    def take_attached(self, message: Attached, now_ms: int) -> list[Effect]:
        if self._is_other(message.epoch):
            return self._renew("the broker has opened it twice", now_ms)
        if self._is_attached:
            return []
        self._is_attached = True
        if not self.is_open:
            self._open(now_ms)
        return [Deliver(Opened(self.number, list(message.unknown)))]

    def _open(self, now_ms: int) -> None:
        self.is_open = True
        self._opened_ms = self._flow_sent_ms = now_ms

    def take_detach(self, message: Detach, now_ms: int) -> list[Effect]:
        """Open another session: at once if this one had worked, else after the usual wait."""
        has_lived = _has_passed(self._opened_ms, self._settings.attach_ms, now_ms)
        if self.is_open and (self._received or has_lived):
            self._retry.reset()
        doubts = self._doubts()
        self._new_session()
        return [*doubts, Deliver(Interrupted(self.number, message.reason)), *self.tick(now_ms)]

    def _doubts(self) -> list[Effect]:
        """The session ends: nothing more is confirmed."""
        return [Deliver(Settled(number, deliveries)) for number, (_, deliveries) in self._unconfirmed.items()]

    def take_confirmation(self, message: Confirmation) -> list[Effect]:
        _, deliveries = self._unconfirmed.pop(message.number, (None, []))
        if not deliveries:
            return []
        self._confirmation_retry.reset()
        messages, items = set(message.gone_messages), set(message.gone_items)
        doubtful = [one for one in deliveries if one.message in messages or (one.message, one.place) in items]
        return [Deliver(Settled(message.number, doubtful))]

    def take_deliveries(self, message: Deliveries, store: str, now_ms: int) -> list[Effect]:
        if any(item.payload >= len(message.payloads) for item in message.items):
            return self._renew("an item has no payload", now_ms)
        if self._is_other(message.epoch):
            return self._renew("the broker has opened it twice", now_ms)
        if not self.is_open:  # it overtook the answer to our Attach
            self._open(now_ms)
        if message.number > self._received + 1:
            return self._keep_early(message, now_ms)
        if message.number <= self._received or self._held > 2 * self._credit + len(message.items):
            self._must_tell = True
            return []
        self._has_news = True
        deliveries: list[Delivery] = []
        empty: list[int] = []  # everything in them was settled before
        accepted: Deliveries | None = message
        while accepted is not None:
            some = self._accept(accepted, store)
            if not some:
                empty.append(accepted.number)
            deliveries += some
            accepted = self._early.pop(self._received + 1, None)
        self._has_asked = self._has_asked and bool(self._early)
        effects: list[Effect] = [Deliver(Delivered(self.number, deliveries))] if deliveries else []
        return [*effects, Send(self._broker, Acknowledge(self.session, empty, epoch=self._epoch))] if empty else effects

    def _is_other(self, epoch: int) -> bool:
        """A message is of another session of the same name."""
        self._epoch = self._epoch or epoch
        return epoch not in (0, self._epoch)

    def _renew(self, reason: str, now_ms: int) -> list[Effect]:
        """End this session, and open another one."""
        name = self.session
        effects = self.take_detach(Detach(name, reason), now_ms)
        return [Send(self._broker, Detach(name, reason, self._roster.serial)), *effects]

    def _keep_early(self, message: Deliveries, now_ms: int) -> list[Effect]:
        if len(self._early) < self._settings.early_max:
            self._early[message.number] = message
        if self._has_asked:
            return []
        self._has_asked = True
        return self._flow(now_ms)

    def _accept(self, message: Deliveries, store: str) -> list[Delivery]:
        self._received = message.number
        places = {place for place, item in enumerate(message.items) if item.payload >= 0}
        if places:
            self._open_places[message.number] = places
        self._held += len(places)
        return [
            Delivery(
                item.subscription,
                item.document,
                item.published_ms,
                item.attempt,
                message.payloads[item.payload],
                store,
                self.session,
                message.number,
                place,
                item.origin,
                item.origin_number,
            )
            for place, item in enumerate(message.items)
            if item.payload >= 0
        ]

    # --- what the application says ------------------------------------------------------------------------------------

    def settle(
        self, deliveries: Iterable[Delivery], is_failed: bool, now_ms: int, singly: bool = False, confirmation: int = 0
    ) -> list[Effect]:
        """The application has dealt with these, or has failed to.

        A message is acknowledged once all its items are, or, where some of them take long, in parts. `singly` says
        more, at once: which of its items. With a confirmation, so too, and `Settled` tells when that is stored.
        """
        singly = singly or confirmation != 0
        doubtful: list[Delivery] = []
        told: list[Delivery] = []
        messages: list[int] = []
        failed: list[tuple[int, int]] = []
        postponed: list[Postponed] = []
        parts: list[tuple[int, int]] = []
        for delivery in deliveries:
            places = self._open_places.get(delivery.message)
            if delivery.session != self.session or places is None or delivery.place not in places:
                doubtful.append(delivery)  # of an earlier session, or settled before
                continue
            told.append(delivery)
            places.remove(delivery.place)
            self._held -= 1
            if singly and places:
                parts.append((delivery.message, delivery.place))
            if is_failed:
                self._failed.setdefault(delivery.message, []).append((delivery.message, delivery.place))
            if places and not singly:
                if not self._parts:
                    self._parts_since_ms = now_ms
                self._parts.setdefault(delivery.message, []).append((delivery.place, is_failed))
            if not places:
                del self._open_places[delivery.message]
                self._parts.pop(delivery.message, None)
                messages.append(delivery.message)
                failed += self._failed.pop(delivery.message, [])
                postponed += self._postponed.pop(delivery.message, [])
        if not messages and not parts:
            return [Deliver(Settled(confirmation, doubtful))] if confirmation else []
        if messages and not confirmation:
            self._remember(messages, failed, postponed, now_ms)
        if not self._open_places and not self._early:
            # PERF: bench/broker_stalled.py. It says all that a `Flow` would: so that is not due for a while.
            self._flow_sent_ms = now_ms
        parts = [(message, place) for message, place in parts if message in self._open_places]
        done = [] if is_failed else parts
        failed = [*failed, *parts] if is_failed else failed
        acknowledge = Acknowledge(self.session, messages, failed, self._epoch, done, postponed, confirmation)
        if confirmation:
            if not self._unconfirmed:
                self._confirmation_retry.reset()
                self._confirmation_retry.start(now_ms)
            self._unconfirmed[confirmation] = (acknowledge, told)
        return [Send(self._broker, acknowledge)]

    def postpone(self, delivery: Delivery, wait_ms: int, reason: str) -> list[Effect]:
        """The application has failed to deal with this one, and wants it again after so long; 0: never.

        If that gets lost, the broker waits for the acknowledgement in vain, and decides itself.
        """
        places = self._open_places.get(delivery.message)
        if delivery.session != self.session or places is None or delivery.place not in places:
            return []
        places.remove(delivery.place)
        self._held -= 1
        verdict = Postponed(delivery.message, delivery.place, wait_ms, reason)
        if places:
            self._postponed.setdefault(delivery.message, []).append(verdict)
        else:
            del self._open_places[delivery.message]
            self._must_tell = True  # that it was received: no acknowledgement of the whole message does
        return [Send(self._broker, Acknowledge(self.session, [], epoch=self._epoch, postponed=[verdict]))]

    def join(self) -> list[Effect]:
        """Attach, or again: then also to those subscriptions that have come, or come again, since."""
        return [self._send_attach()]

    def _remember(
        self, messages: list[int], failed: list[tuple[int, int]], postponed: list[Postponed], now_ms: int
    ) -> None:
        if not self._repeats:
            self._repeat_since_ms = now_ms
        remembered = len(self._repeats) + len(self._repeats_failed) + len(self._repeats_postponed)
        if remembered + len(messages) + len(failed) + len(postponed) <= self._settings.repeats_max:
            self._repeats += messages
            self._repeats_failed += failed
            self._repeats_postponed += postponed

    # --- time -------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        if not self.is_open:
            return self._attach(now_ms)
        effects: list[Effect] = [] if self._is_attached else self._attach(now_ms)
        # PERF: bench/broker_stalled.py. Whoever has acknowledged everything has said what it received.
        is_news = self._must_tell or (self._has_news and bool(self._open_places or self._early))
        self._has_news = False
        if is_news or _has_passed(self._flow_sent_ms, self._settings.flow_ms, now_ms):
            effects += self._flow(now_ms)
        if self._parts and _has_passed(self._parts_since_ms, self._settings.part_ms, now_ms):
            effects += self._acknowledge_parts()
        if self._repeats and _has_passed(self._repeat_since_ms, self._settings.repeat_ms, now_ms):
            effects += self._repeat()
        if self._unconfirmed and self._confirmation_retry.is_due(now_ms):
            effects += self._repeat_unconfirmed(now_ms)
        return effects

    def connected(self, now_ms: int) -> list[Effect]:
        """A connection is new: what was sent through the old one may be lost."""
        if not self.is_open:
            self._retry.reset()
            return self._attach(now_ms)
        effects = self._flow(now_ms)
        if self._repeats:
            effects += self._repeat()
        if self._unconfirmed:
            effects += self._repeat_unconfirmed(now_ms)
        return effects

    def ask(self, credit: int, now_ms: int) -> list[Effect]:
        """Hold so many deliveries from now on."""
        self._credit = credit
        return self._flow(now_ms) if self.is_open else []

    def detach(self) -> list[Effect]:
        self._roster.end(self.session)
        end = Send(self._broker, Detach(self.session, "done", self._roster.serial))
        return [*self._doubts(), end]

    def _attach(self, now_ms: int) -> list[Effect]:
        if not self._retry.is_due(now_ms):
            return []
        self._retry.start(now_ms)
        return [self._send_attach()]

    def _send_attach(self) -> Send:
        serial, others = self._roster.serial, self._roster.others(self.session)
        attach = Attach(self.session, self._subscriptions, self._credit, self._life, serial, others, self._is_patient)
        return Send(self._broker, attach)

    def _flow(self, now_ms: int) -> list[Effect]:
        self._flow_sent_ms = now_ms
        self._has_news = self._must_tell = False
        still_open = list(self._open_places)[:ITEMS_MAX] if self._is_patient else None
        return [Send(self._broker, Flow(self.session, self._received, self._credit, self._epoch, still_open))]

    def _acknowledge_parts(self) -> list[Effect]:
        """Of messages that are not dealt with yet. Should this get lost, the end of the message says it again."""
        parts = [(message, place, failed) for message, places in self._parts.items() for place, failed in places]
        self._parts.clear()
        done = [(message, place) for message, place, is_failed in parts if not is_failed]
        failed = [(message, place) for message, place, is_failed in parts if is_failed]
        return [Send(self._broker, Acknowledge(self.session, [], failed, self._epoch, done))]

    def _repeat_unconfirmed(self, now_ms: int) -> list[Effect]:
        self._confirmation_retry.start(now_ms)
        return [Send(self._broker, acknowledge) for acknowledge, _ in self._unconfirmed.values()]

    def _repeat(self) -> list[Effect]:
        postponed = self._repeats_postponed
        again = Acknowledge(self.session, self._repeats, self._repeats_failed, self._epoch, postponed=postponed)
        self._repeats, self._repeats_failed, self._repeats_postponed = [], [], []
        return [Send(self._broker, again)]


def _has_passed(since_ms: int, wait_ms: int, now_ms: int) -> bool:
    """A clock that was set back makes everything due."""
    return not since_ms <= now_ms < since_ms + wait_ms
