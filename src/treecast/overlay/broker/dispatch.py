"""From queues to clients: what was sent to whom, what has to be sent again, and what is done.

A session gets numbered messages with deliveries, as many as its client has room for, from its subscriptions in turn.
The client says which messages it has (`Flow`), and which it has dealt with (`Acknowledge`). A message that it does not
get is sent again; a delivery that it does not acknowledge in time is another attempt; what a session holds when it ends
goes back to the queues.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec

from treecast.overlay.broker.archive import Archive, Payload
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.lanes import LaneMessage
from treecast.overlay.broker.queue import Queue
from treecast.overlay.broker.rows import CURSORS
from treecast.overlay.broker.sessions import Items, Sent, Session
from treecast.overlay.broker.settings import BrokerSettings
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import NOTHING, Acknowledge, Deliveries, Detach, Flow, Item, Payloads
from treecast.overlay.storage import PutMany, StorageError

TAKEN_IN_TURN = 16
"""Deliveries of one subscription before it is another one's turn."""


class Dispatch:
    """All sessions of a broker."""

    def __init__(self, backlog: Backlog, archive: Archive, settings: BrokerSettings) -> None:
        self._backlog = backlog
        self._lanes = backlog.lanes
        self._archive = archive
        self._settings = settings
        self.sessions: dict[str, Session] = {}
        self._holding: dict[str, Session] = {}
        """Those that have messages which were not received, or not acknowledged."""
        self._silence_ms = 0
        self._of_client: dict[str, dict[str, Session]] = {}
        self._serials: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """By client: its life, and the highest serial of that which was seen. Of those who were heard last."""
        self.sent_items = 0

    # --- sessions ----------------------------------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        self.sessions[session.name] = session
        self._lanes.open(session)
        self._of_client.setdefault(session.client, {})[session.name] = session

    def of_client(self, client: str) -> list[Session]:
        return list(self._of_client.get(client, {}).values())

    def is_overtaken(self, client: str, life: int, serial: int) -> bool:
        """Something that this client has sent later has arrived before. Remembers what has arrived."""
        known_life, known = self._serials.pop(client, (life, 0))
        self._serials[client] = (life, max(serial, known) if life == known_life else serial)
        if len(self._serials) > self._settings.sessions_max:
            self._serials.popitem(last=False)
        return life == known_life and serial < known

    def attach(self, session: Session, queue: Queue) -> None:
        self._lanes.leave(queue)
        session.queues[queue.id] = queue
        queue.sessions.append(session)
        session.activate(queue)
        self._backlog.join_lane(queue)

    def acknowledge(
        self, session: Session, acknowledged: Acknowledge, turn: Turn
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """The client has dealt with some messages and items, or has failed to.

        Returns the messages and items that the session does not hold, so that nothing is done about them.
        """
        changed: dict[str, Queue] = {}
        gone_messages: list[int] = []
        gone_items: list[tuple[int, int]] = []
        for message, place in acknowledged.failed:
            if item := session.finish(message, place):
                self._backlog.fail(*item, "refused by its subscriber", turn)
            else:
                gone_items.append((message, place))
        for postponed in acknowledged.postponed:
            if item := session.finish(postponed.message, postponed.place):
                self._backlog.postpone(*item, postponed.wait_ms, postponed.reason, turn)
        finished = list(acknowledged.done)
        whole: list[int] = []
        for message in acknowledged.messages:
            sent = session.messages.get(message)
            if sent is None:
                gone_messages.append(message)
                continue
            session.received = max(session.received, message)
            if sent.is_whole:
                whole.append(message)
                del session.messages[message]
            else:
                finished += [(message, place) for place in range(len(sent.items))]
        settled = self._acknowledge_whole(session, whole, turn) if whole else []
        failed = set(acknowledged.failed)
        for message, place in finished:
            if item := session.finish(message, place):
                settled.append(item)
            elif (message, place) not in failed:
                gone_items.append((message, place))
        for queue, key in settled:
            self._backlog.settle(queue, key, turn)
            changed[queue.id] = queue
        session.forget_finished()
        for queue in changed.values():
            self._backlog.store_cursor(queue, turn)
            self._backlog.join_lane(queue)
        self.fill(session, turn)
        return gone_messages, gone_items

    def _acknowledge_whole(self, session: Session, messages: list[int], turn: Turn) -> list[tuple[Queue, int]]:
        """Messages that came from a lane; returns what is to be settled one by one."""
        ids, cursors, strays = self._lanes.acknowledge(session, messages)
        if ids:
            turn.changes.append(PutMany(CURSORS, ids, cursors))
        return strays

    def detach(self, session: Session, reason: str, turn: Turn, *, counts: bool) -> None:
        """A session is over. What it holds is delivered again; if `counts`, what it has received was an attempt."""
        self._lanes.close(session)
        self._backlog.on_lanes.pop(session.name, None)
        del self.sessions[session.name]
        self._holding.pop(session.name, None)
        of_client = self._of_client[session.client]
        del of_client[session.name]
        if not of_client:
            del self._of_client[session.client]
        back: dict[str, tuple[Queue, list[int]]] = {}
        for number, sent in session.messages.items():
            for item in sent.items:
                if item is None:
                    continue
                queue, key = item
                if queue.sent.pop(key, None) is None or key not in queue.outstanding:
                    continue
                if not (counts and number <= session.received):
                    queue.outstanding[key] -= 1
                elif queue.outstanding[key] >= queue.row.options.attempts_max:
                    self._backlog.give_up(queue, key, "not acknowledged", turn)
                    continue
                back.setdefault(queue.id, (queue, []))[1].append(key)
        for queue, keys in back.values():
            queue.put_back(keys)
            self._backlog.touched[queue.id] = queue
        for queue in session.queues.values():
            queue.sessions.remove(session)
            self._backlog.demote(queue, turn)
        if reason:
            turn.send(session.client, Detach(session.name, reason))

    def receive_flow(self, session: Session, received: int, credit: int, turn: Turn) -> None:
        session.heard_ms = turn.now_ms
        session.received = max(session.received, min(received, session.number))
        session.credit = min(credit, self._settings.credit_max)
        session.forget_finished()
        self._resend(session, turn)
        self.fill(session, turn)

    def watch_patient(self, session: Session, flow: Flow, turn: Turn) -> None:
        """What the client of a patient session has dealt with, and has not said how: that is lost. An acknowledgement
        may be on its way, so nothing is done about it for a while."""
        if not session.is_patient or flow.open is None:
            return
        still_open = set(flow.open)
        for number, sent in list(session.messages.items()):
            if number > flow.received or number in still_open:
                sent.settled_ms = None
                continue
            if sent.settled_ms is None:
                sent.settled_ms = turn.now_ms
            if turn.now_ms - sent.settled_ms <= sent.acknowledge_ms:
                continue
            for place, item in enumerate(sent.items):
                if item and turn.now_ms - sent.settled_ms > item[0].row.options.acknowledge_ms:
                    session.finish(number, place)
                    self._backlog.fail(*item, "its acknowledgement was lost", turn)
        session.forget_finished()

    def _resend(self, session: Session, turn: Turn) -> None:
        """Messages that the client should have by now, and has not."""
        for number, sent in session.messages.items():
            if number <= session.received:
                continue
            if turn.now_ms - sent.sent_ms < self._settings.resend_ms:
                break
            sent.sent_ms = turn.now_ms
            message = self._lanes.take_again(session, number) if sent.is_whole else None
            if message is not None:
                self._send_packed(session, number, sent, message, turn)
            else:
                self._send(session, number, sent, turn)

    # --- sending -----------------------------------------------------------------------------------------------------

    def flush(self, turn: Turn) -> None:
        """Send what this turn has made ready."""
        while self._backlog.touched or self._backlog.on_lanes:
            touched, self._backlog.touched = self._backlog.touched, {}
            sessions, self._backlog.on_lanes = self._backlog.on_lanes, {}
            for queue in touched.values():
                for session in queue.sessions:
                    session.activate(queue)
                    sessions[session.name] = session
            for session in sessions.values():
                self.fill(session, turn)

    def fill(self, session: Session, turn: Turn) -> None:
        """Send as much as the client has room for, from the lane and from queues in turn."""
        while session.room() > 0 and (session.active or self._lanes.has_ready(session)):
            is_lane_next, session.is_lane_next = session.is_lane_next, not session.is_lane_next
            if is_lane_next:
                self._send_from_lane(session, turn)
            elif session.active and (items := self._take(session)):
                session.number += 1
                sent = session.messages[session.number] = Sent(items, turn.now_ms)
                self._holding[session.name] = session
                self._send(session, session.number, sent, turn)

    def _send_from_lane(self, session: Session, turn: Turn) -> None:
        """A message with what is first on the lane, if there is anything."""
        number = session.number + 1
        message = self._lanes.take(session, number)
        if message is None:
            return
        session.number = number
        session.held += message[3]
        sent = session.messages[number] = self._lanes.sent(session, number, message[4], turn.now_ms)
        self._holding[session.name] = session
        self._send_packed(session, number, sent, message, turn)

    def _send_packed(self, session: Session, number: int, sent: Sent, message: LaneMessage, turn: Turn) -> None:
        items, payload_count, ranges, count, _ = message
        try:
            payloads: Any = Payloads(payload_count, self._archive.packed(ranges))
        except StorageError:
            self._send(session, number, sent, turn)  # one by one: the others are sent
            return
        self.sent_items += count
        packed: Any = msgspec.Raw(items)  # as they travel: see `opened`
        turn.send(session.client, Deliveries(session.name, number, packed, payloads, session.epoch))

    def _take(self, session: Session) -> Items:
        """The deliveries of one message: some of each queue in turn."""
        items: Items = []
        size = taken = 0
        while session.active and session.room() > 0:
            if len(items) >= self._settings.items_per_message_max or size >= self._settings.message_bytes_max:
                break
            queue = session.active[0]
            if queue.behind and not taken:
                self._backlog.want_refill(queue)
            key = None if queue.row.paused else queue.next_ready()
            if key is None:
                session.deactivate(queue)
                taken = 0
                continue
            queue.outstanding[key] += 1
            queue.sent[key] = session
            session.held += 1
            items.append((queue, key))
            row = self._archive.rows.get(key) if key > 0 else None
            size += row.bytes if row else 0
            taken += 1
            if taken == TAKEN_IN_TURN:
                session.active.rotate(-1)
                taken = 0
        if taken:
            session.active.rotate(-1)
        return items

    def _send(self, session: Session, number: int, sent: Sent, turn: Turn) -> None:
        """A message with its payloads, each of them once."""
        items: list[Item] = []
        payloads: list[bytes] = []
        places: dict[tuple[str, int], int] = {}
        for place, item in enumerate(sent.items):
            payload = self._payload(*item, turn) if item else None
            if item is None or payload is None:
                session.finish(number, place)
                items.append(NOTHING)
                continue
            queue, key = item
            if payload.place not in places:
                places[payload.place] = len(payloads)
                payloads.append(payload.body)
            items.append(
                Item(
                    *(queue.id, payload.document, payload.published_ms, queue.outstanding[key]),
                    *(places[payload.place], payload.origin, payload.origin_number),
                )
            )
            self.sent_items += 1
        turn.send(session.client, Deliveries(session.name, number, items, payloads, session.epoch))

    def _payload(self, queue: Queue, key: int, turn: Turn) -> Payload | None:
        """None if there is nothing to send any more; then the delivery is done, or given up."""
        if key not in queue.outstanding:
            return None
        try:
            payload = self._archive.payload(queue, key)
        except StorageError as error:
            self._backlog.give_up(queue, key, error.code, turn)
            return None
        if payload is None:
            self._backlog.settle(queue, key, turn)
            self._backlog.store_cursor(queue, turn)
        return payload

    # --- time --------------------------------------------------------------------------------------------------------

    def silent_sessions(self, now_ms: int) -> list[Session]:
        """Looked for now and then: there may be many thousands."""
        step_ms = self._settings.session_ms // 20
        if 0 <= self._silence_ms - now_ms <= step_ms:
            return []
        self._silence_ms = now_ms + step_ms
        return [s for s in self.sessions.values() if now_ms - s.heard_ms > self._settings.session_ms]

    def tick(self, turn: Turn) -> None:
        for session in list(self._holding.values()):
            self._fail_overdue(session, turn)
            self._resend(session, turn)
            if not session.messages:
                del self._holding[session.name]
        for queue in list(self._backlog.retrying.values()):
            if queue.take_due(turn.now_ms):
                self._backlog.touched[queue.id] = queue
            if not queue.retries:
                del self._backlog.retrying[queue.id]
                self._backlog.demote(queue, turn)
        self.flush(turn)

    def _fail_overdue(self, session: Session, turn: Turn) -> None:
        """Deliveries that were not acknowledged in time."""
        if session.is_patient:
            return
        for number, sent in list(session.messages.items()):
            if number > session.received:
                break
            if turn.now_ms - sent.sent_ms <= sent.acknowledge_ms:
                continue
            for place, item in enumerate(sent.items):
                if item and turn.now_ms - sent.sent_ms > item[0].row.options.acknowledge_ms:
                    session.finish(number, place)
                    self._backlog.fail(*item, "not acknowledged in time", turn)
        session.forget_finished()
