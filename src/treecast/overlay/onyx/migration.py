"""Subscriptions that move to another host, or come from one: nothing is lost, and nothing gets another id.

Theory of operation (ONYX, section 3.1, has hosts change, and does not say how). The registry asks the old host. That
one **offers** the subscription to the new one, which announces it as it would one of a client. When it is covered, and
has what was published before, it adds the subscription and **accepts**: it names its position in each root's
documents, the *cut*. What comes after the cut, it delivers; what comes before, the old host does. The old host waits
until it has got as far as the cuts say, then **hands** over: in one group of changes it removes the subscription and
stores what it has not delivered up to the cuts, and it sends that until the new host has it. The new host delivers
these first, so the order of a root's documents is kept; their ids are made of the root's store and number as ever.

- Until it hands over, the old host serves as before, and may change its mind: the client has changed the subscription,
  or too much is undelivered to travel at once. The new host repeats its `Accept`, and is told to `Cancel`.
- After that there is no way back: a subscription whose new host is away waits for it.
- Clients that receive from it are cut off at the old host, and told where it is (`Moved`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from treecast.overlay.broker.moving import REASON
from treecast.overlay.broker.refused import RequestError
from treecast.overlay.broker.rows import META, Row, SubscriptionRow, decode, encode
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import Subscribe
from treecast.overlay.onyx.control_messages import Moved
from treecast.overlay.onyx.move_messages import Accept, Cancel, Close, Hand, Handed, HandItem, MoveMessage, Offer
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.overlay.storage import Put

if TYPE_CHECKING:
    from treecast.overlay.onyx.network_broker import NetworkBroker

__all__ = ["ARRIVALS", "MOVED", "MOVES", "REASON", "Left", "Migration"]

MOVES, MOVED, ARRIVALS = "moves", "moved", "arrivals"
"""`moves[id]` at the old host, and `moved[id]` when it has gone; `arrivals[id]` at the new host."""

MOVE = "move"
"""`meta["move"]`: the highest number that a move from here has had."""


class Left(msgspec.Struct, frozen=True):
    """An event: a subscription is not here any more."""

    id: str


class MoveRow(Row, frozen=True):
    """A subscription that is to go. Without `hand` it is still here."""

    to: str
    move: int
    change: int
    """Of the subscription, as it was offered."""
    begun_ms: int
    hand: bytes = b""


class ArrivalRow(Row, frozen=True):
    """A subscription that came, or is coming: then what the old host has not delivered is still to come."""

    source: str
    move: int
    cuts: dict[str, int]
    is_done: bool = False
    """All of it is here;"""
    is_closed: bool = False
    """and the old host knows."""


class MovedRow(Row, frozen=True):
    """A subscription that has gone: where to, and how it had come, so that what is late is known to be old."""

    to: str
    source: str = ""
    move: int = 0


class Migration:
    """The part of a network broker that deals with moves."""

    def __init__(self, owner: NetworkBroker, settings: NetworkSettings) -> None:
        self._owner = owner
        self._settings = settings
        shadow = owner.broker.shadow
        self._shadow = shadow
        self.moves = {id: decode(data, MoveRow) for id, data in shadow.rows(MOVES, "")}
        self.arrivals = {id: decode(data, ArrivalRow) for id, data in shadow.rows(ARRIVALS, "")}
        self._last_move = int.from_bytes(shadow.get(META, MOVE) or b"", "big")
        self._moved_count = shadow.stored_count(MOVED)
        self._offers: dict[str, tuple[str, Offer]] = {}  # that wait for coverage here
        self._accepted: dict[str, Accept] = {}
        self._told_ms: dict[str, int] = {}
        self.moved = 0

    # --- the old host -------------------------------------------------------------------------------------------------

    def ask(self, moves: list[tuple[str, str]], turn: Turn) -> None:
        """The registry wants these subscriptions to go."""
        membership, done = self._owner.membership, []
        for id, to in moves:
            row = self._row(id)
            if row is None and self.place_of(id) == to and id not in self.moves:
                done.append((id, to))
            elif row is None or to == self._owner.name or membership.broker(to) is None:
                continue
            elif id not in self.moves and len(self.moves) < self._settings.moves_max and self._is_settled(id):
                move = MoveRow(to, self._next_move(turn), row.change, turn.now_ms)
                self.moves[id] = move
                turn.put(MOVES, id, move)
                self._tell(id, turn)
        if done:
            membership.migrated(done, turn)

    def _next_move(self, turn: Turn) -> int:
        """A number that no move from here has had. A clock alone will not do, since clocks are set back: a subscription
        that comes back and goes again would be taken for one that the new host has had, and be lost."""
        self._last_move = max(self._last_move + 1, self._owner.life, turn.now_ms)
        turn.changes.append(Put(META, MOVE, self._last_move.to_bytes(8, "big")))
        return self._last_move

    def _is_settled(self, id: str) -> bool:
        arrival = self.arrivals.get(id)
        return arrival is None or arrival.is_closed

    def _row(self, id: str) -> SubscriptionRow | None:
        return self._owner.broker.subscription(id)

    def place_of(self, id: str) -> str:
        """Where a subscription that is not here any more has gone; empty: not known."""
        if (move := self.moves.get(id)) is not None:
            return move.to if move.hand else ""
        gone = self._gone(id)
        return gone.to if gone is not None else ""

    def _gone(self, id: str) -> MovedRow | None:
        data = self._shadow.get(MOVED, id)
        return decode(data, MovedRow) if data is not None else None

    def _tell(self, id: str, turn: Turn) -> None:
        move = self.moves[id]
        self._told_ms[id] = turn.now_ms
        row = self._row(id)
        if move.hand:
            turn.send(move.to, msgspec.msgpack.decode(move.hand, type=Hand))
        elif row is not None:
            turn.send(move.to, Offer(id, move.move, encode(row)))

    def _consider(self, id: str, turn: Turn) -> None:
        """Hand over, if everything is there that this host has to deliver; or give up."""
        move, accepted, row = self.moves[id], self._accepted.get(id), self._row(id)
        is_old = not 0 <= turn.now_ms - move.begun_ms < self._settings.move_ms_max
        if row is None or row.change != move.change or (is_old and accepted is None):
            self._abandon(id, turn)
        elif accepted is not None and self._has_reached(accepted.cuts):
            self._hand(id, row, accepted, turn)
        elif is_old:
            self._abandon(id, turn)

    def _abandon(self, id: str, turn: Turn) -> None:
        """It stays. The new host hears of it when it says again that it has accepted."""
        self._accepted.pop(id, None)
        del self.moves[id]
        turn.delete(MOVES, id)

    def _has_reached(self, cuts: dict[str, int]) -> bool:
        numbers = {self._owner.broker.store_id: self._owner.broker.last_document, **self._owner.positions.by_store()}
        return all(numbers.get(store, 0) >= number for store, number in cuts.items())

    def _hand(self, id: str, row: SubscriptionRow, accepted: Accept, turn: Turn) -> None:
        owner, own = self._owner, self._owner.broker.store_id

        def is_mine(origin: str, number: int) -> bool:
            return number <= accepted.cuts.get(origin or own, 1 << 62)

        owner.broker.apply(turn)
        done = len(turn.changed_subscriptions)
        limits = (self._settings.move_documents_max, self._settings.move_bytes_max)
        found = owner.broker.leave(id, row, is_mine, limits, turn)
        if found is None:
            self._abandon(id, turn)
            return
        owner.wants.settle(turn, done)
        items = [HandItem(origin or own, number, when_ms, payload) for origin, number, when_ms, payload in found[0]]
        hand = Hand(id, accepted.move, encode(row), items)
        move = msgspec.structs.replace(self.moves[id], hand=msgspec.msgpack.encode(hand))
        self.moves[id] = move
        turn.put(MOVES, id, move)
        del self._accepted[id]
        for client in found[1]:
            turn.send(client, self.moved_message(id))
        turn.events.append(Left(id))
        self._tell(id, turn)

    def moved_message(self, id: str) -> Moved:
        to = self.place_of(id)
        info = self._owner.membership.broker(to)
        return Moved("subscription", id, to, info.address if info is not None else "", self._owner.epoch)

    def objection(self, id: str) -> RequestError | None:
        """Why a request about a subscription is not for this broker."""
        if self._row(id) is not None or not (to := self.place_of(id)):
            return None
        hint = "ask the registry where a subscription is"
        return RequestError(f"subscription {id!r} has moved to broker {to!r}", code="TC472", hint=hint)

    def point_out(self, client: str, ids: Iterable[str], turn: Turn) -> None:
        """Tell a client that wants to receive where those are that have gone."""
        if not self.moves and not self._moved_count:
            return  # PERF: bench/network_kill.py; after a restart all subscribers come at once
        for id in ids:
            if self.place_of(id) and self._row(id) is None:
                turn.send(client, self.moved_message(id))

    # --- the new host -------------------------------------------------------------------------------------------------

    def _take_offer(self, sender: str, offer: Offer, turn: Turn) -> None:
        arrival, wants = self.arrivals.get(offer.id), self._owner.wants
        if arrival is not None and (arrival.source, arrival.move) == (sender, offer.move):
            self._accept(offer.id, turn)
        elif self._row(offer.id) is not None or len(self.arrivals) + len(self._offers) >= self._settings.arrivals_max:
            if arrival is None or arrival.is_done:
                turn.send(sender, Cancel(offer.id, offer.move))  # it is here already, by another way
        elif self._offers.get(offer.id) != (sender, offer):
            wants.drop_move(offer.id)
            self._offers[offer.id] = (sender, offer)
            wants.expect_move(offer.id, _command(offer.id, decode(offer.row, SubscriptionRow)), turn)

    def _add(self, id: str, turn: Turn) -> None:
        """It is covered: it counts from here on."""
        sender, offer = self._offers.pop(id)
        if not self._owner.wants.add_move(id, turn):
            turn.send(sender, Cancel(id, offer.move))
            return
        self._restore_pause(id, decode(offer.row, SubscriptionRow), turn)
        owner = self._owner
        cuts = owner.positions.by_store()
        if owner.name in owner.trees:  # else what is published here reaches nobody else
            cuts[owner.broker.store_id] = owner.broker.last_document
        self._put_arrival(id, ArrivalRow(sender, offer.move, cuts), turn)
        self._accept(id, turn)

    def _restore_pause(self, id: str, row: SubscriptionRow, turn: Turn) -> None:
        if row.paused:
            self._owner.broker.apply(turn)
            self._owner.broker.pause(id, turn)

    def _put_arrival(self, id: str, row: ArrivalRow, turn: Turn) -> None:
        self.arrivals[id] = row
        turn.put(ARRIVALS, id, row)

    def _accept(self, id: str, turn: Turn) -> None:
        arrival = self.arrivals[id]
        self._told_ms[id] = turn.now_ms
        if arrival.is_done:
            turn.send(arrival.source, Handed(id, arrival.move))
        else:
            turn.send(arrival.source, Accept(id, arrival.move, arrival.cuts))

    def _take_hand(self, sender: str, hand: Hand, turn: Turn) -> None:
        arrival, gone = self.arrivals.get(hand.id), self._gone(hand.id)
        has_gone = gone is not None and (gone.source, gone.move) == (sender, hand.move)
        if not has_gone and (arrival is None or not arrival.is_done):
            broker, row = self._owner.broker, decode(hand.row, SubscriptionRow)
            broker.apply(turn)
            if self._row(hand.id) is None:
                # This host has lost what it had accepted.
                self._owner.wants.expect_move(hand.id, _command(hand.id, row), turn)
                self._owner.wants.add_move(hand.id, turn)
                broker.apply(turn)
            items = [(item.origin, item.origin_number, item.published_ms, item.payload) for item in hand.items]
            broker.come(hand.id, items, turn)
            self._put_arrival(hand.id, ArrivalRow(sender, hand.move, {}, is_done=True), turn)
            self.moved += 1
        turn.send(sender, Handed(hand.id, hand.move))

    def _take_close(self, sender: str, message: Close, turn: Turn) -> None:
        arrival = self.arrivals.get(message.id)
        if arrival is None or (arrival.source, arrival.move) != (sender, message.move):
            return
        if arrival.is_done and not arrival.is_closed:
            self._put_arrival(message.id, msgspec.structs.replace(arrival, is_closed=True), turn)

    def _take_cancel(self, sender: str, message: Cancel, turn: Turn) -> None:
        id, move, arrival = message.id, self.moves.get(message.id), self.arrivals.get(message.id)
        if move is not None and not move.hand and (move.to, move.move) == (sender, message.move):
            self._abandon(id, turn)
        if id in self._offers and self._offers[id][0] == sender and self._offers[id][1].move == message.move:
            del self._offers[id]
            self._owner.wants.drop_move(id)
        if arrival is not None and not arrival.is_done and (arrival.source, arrival.move) == (sender, message.move):
            del self.arrivals[id]
            turn.delete(ARRIVALS, id)
            self._owner.wants.remove_move(id, turn)

    # --- messages and time --------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: MoveMessage, turn: Turn) -> None:
        match message:
            case Offer():
                self._take_offer(sender, message, turn)
            case Accept():
                move = self.moves.get(message.id)
                if move is None or (move.to, move.move) != (sender, message.move):
                    turn.send(sender, Cancel(message.id, message.move))
                elif not move.hand:
                    self._accepted[message.id] = message
                    self._consider(message.id, turn)
            case Hand():
                self._take_hand(sender, message, turn)
            case Handed():
                self._take_handed(sender, message, turn)
            case Close():
                self._take_close(sender, message, turn)
            case Cancel():
                self._take_cancel(sender, message, turn)
            case _:
                assert_never(message)

    def _take_handed(self, sender: str, message: Handed, turn: Turn) -> None:
        move = self.moves.get(message.id)
        turn.send(sender, Close(message.id, message.move))
        if move is None or not move.hand or (move.to, move.move) != (sender, message.move):
            return
        del self.moves[message.id]
        turn.delete(MOVES, message.id)
        gone = MovedRow(move.to)
        if (arrival := self.arrivals.pop(message.id, None)) is not None:
            gone = MovedRow(move.to, arrival.source, arrival.move)
            turn.delete(ARRIVALS, message.id)
        is_new = self._gone(message.id) is None
        if is_new and self._moved_count >= self._settings.moved_max:
            for id, _ in self._shadow.scan(MOVED, "", 1):
                turn.delete(MOVED, id)
        else:
            self._moved_count += is_new
        turn.put(MOVED, message.id, gone)
        self._owner.membership.migrated([(message.id, move.to)], turn)

    def tick(self, turn: Turn) -> None:
        # A broker that is not in its view does not know whether it is a root, and what of its own documents counts.
        if self._owner.membership.is_member():
            for id in [id for id in self._offers if self._owner.wants.is_move_ready(id)]:
                self._add(id, turn)
        for id in list(self.moves):
            if not self.moves[id].hand:
                self._consider(id, turn)
        repeat: list[tuple[str, Callable[[str, Turn], Any]]] = [(id, self._tell) for id in self.moves]
        repeat += [(id, self._accept) for id, arrival in self.arrivals.items() if not arrival.is_closed]
        for id, tell in repeat:
            if not 0 <= turn.now_ms - self._told_ms.get(id, 0) < self._settings.move_repeat_ms:
                tell(id, turn)

    def stats(self) -> dict[str, int]:
        coming = sum(not arrival.is_closed for arrival in self.arrivals.values()) + len(self._offers)
        return {"moving": len(self.moves) + coming, "moved": self.moved}


def _command(id: str, row: SubscriptionRow) -> Subscribe:
    deliver: Any = row.deliver
    return Subscribe(id, row.query, row.namespaces, row.ordered, deliver, row.options)
