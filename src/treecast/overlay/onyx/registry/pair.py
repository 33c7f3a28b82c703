"""Two registries, of which one is in charge: copies of its store, terms, and who takes over.

Theory of operation. One registry is *in charge* in a *term*. Terms only grow, and each belongs to one registry: those
of the first are even, those of the second odd. Epochs of views begin with the term.

- **Copies.** The registry in charge numbers the groups of changes that it stores and ships them to the other one. While
  they are *paired*, nothing that follows a group is sent before the other one has it too: no view, no answer. So
  whatever anybody knows, both know. If the other one lacks groups that are not kept any more, it gets a copy of the
  whole store, in parts. Groups that are written meanwhile follow; rows are values, so writing one twice does no harm.
  While they are paired and too many groups wait, requests are ignored: nobody would hear of an answer anyway.
- **Taking over.** If the one in charge is silent for a while, the other one *stands*: it asks the brokers of its last
  view for their promise to follow no lower term. A broker promises if it has not promised a higher term, and has no
  view that the candidate lacks. With the promises of most of them the candidate is in charge. If the other one is
  silent, the one in charge does the same, to go on *alone*: a new term, in which it waits for nobody.
- **Renewal.** Brokers that have promised a term to a candidate that did not win follow nobody with a lower term. If
  both registries are there, the one in charge goes on in a higher term with the consent of the other, without asking
  brokers.
- **Being established.** After that it makes a view with the same brokers, and does nothing else until most of them have
  adopted it. From then on the other registry, which lacks that view, cannot win: among any majority there is a broker
  that refuses. It has to be copied to, and paired, first. If it is never established, that view may still come late to
  a broker that has promised nothing higher. Nothing follows from that: it is the only view of its term.
  The other registry can also do what brokers cannot if too many of them are gone for good: when it has a copy of
  everything, that view included, the one in charge is established, and they are paired.
- **Who "most" are.** More than half of the brokers of the last view; and, if the other registry may not know that view
  yet, more than half of those of the view before. So two candidates need the promise of at least one common broker.

No clock decides what is safe. Leases only say when to try: a wrong clock costs a change of term, and nothing else.

With an empty store a registry does not know whether it has lost one. It asks the other; if that one's store is
empty too, the first of the two begins. A single registry begins at once. If brokers know more than it does, it learns
from them (`relearning.py`).

If a disk was put back to an older state, the other registry has more. The one in charge then steps down. The other one
gets a copy, once it has said for a while that it has less than before.

Brokers that lose their disks forget their promises. One without a view does not vote; still, if most brokers lose their
disks within one change of term, two registries may be in charge.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from random import Random

import msgspec

from treecast.overlay.broker.rows import decode, encode
from treecast.overlay.onyx.control_messages import ROWS_MAX, Grant, Renew, Ship, ShipPart, Shipped, Stand, Written
from treecast.overlay.onyx.registry.rows import LOCAL, TABLES, PairRow, ViewRow
from treecast.overlay.onyx.registry.settings import RegistrySettings
from treecast.overlay.onyx.view import first_epoch, term_of
from treecast.overlay.peer import Effect, Send
from treecast.overlay.retry import Retry, is_due
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Change, Delete, Put

PART_ROWS = 1_000


class _Copying:
    """A copy of the whole store that is under way."""

    __slots__ = ("after", "copy", "message", "number", "table")

    def __init__(self, number: int, copy: int) -> None:
        self.number = number
        self.copy = copy
        self.table = 0
        self.after: str | int = next(iter(TABLES.values()))
        self.message: ShipPart | None = None


class Pair:
    """The part of a registry that deals with the other one. `sends` leave at once, those of the registry may be
    held."""

    def __init__(
        self, name: str, registries: tuple[str, ...], shadow: Shadow, random: Random, settings: RegistrySettings
    ) -> None:
        assert name in registries and len(registries) <= 2, "a registry is one of at most two"
        self.name = name
        self.partner = next((other for other in registries if other != name), "")
        self._parity = registries.index(name)
        self._shadow = shadow
        self._settings = settings
        self._random = random
        data = shadow.get(LOCAL, "pair")
        self.row = decode(data, PairRow) if data else PairRow()
        self.sends: list[Effect] = []
        self.changes: list[Change] = []
        """What is to be stored here, and not to be copied."""
        self.must_reload = False
        """What is stored has been replaced: whoever holds something of it in memory reads it again."""
        self._groups: deque[tuple[int, list[Written]]] = deque()
        self._acked = self.row.number if not self.partner else -1
        self._can_be_replaced = False  # the other one has reported so
        self._held: deque[tuple[int, Effect]] = deque()
        self._copying: _Copying | None = None
        self._copy = self._part = 0  # the copy that arrives, or arrived last, and its last part
        self._heard_ms: int | None = None  # when the other one was heard last
        self._behind_ms: int | None = None  # since when it says that it has less than it said before
        self._shipped_ms: int | None = None
        self._fenced_ms: int | None = None
        self._term = 0  # of the candidacy that is under way, or 0
        self._known_term = self.row.term
        self._grants: set[str] = set()
        self._retry = Retry(random, settings.stand_ms, settings.stand_ms_max)
        self.takeovers = 0
        self.base_epoch = 0
        """Of the last view that was known when it took charge: views of lower terms above it never counted."""
        if not self.partner and not self.row.term:
            self._begin()

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def is_primary(self) -> bool:
        return self.row.is_primary

    @property
    def is_active(self) -> bool:
        """In charge, and allowed to decide something."""
        return self.row.is_primary and self.row.is_established

    @property
    def epoch_floor(self) -> int:
        """Views of this term are above it."""
        return first_epoch(self.row.term)

    @property
    def is_ready(self) -> bool:
        """If this one, in charge, ended now, the other would take over: they are paired, and it has said that it knows.

        Until it does, it must stay what it is: for all it knows, the one in charge acknowledges things alone.
        """
        return self.row.is_paired and self._can_be_replaced

    def is_settled(self) -> bool:
        """The other registry has everything, or need not."""
        return not self.row.is_paired or self._acked >= self.row.number

    def _set(self, **changes: int | bool) -> None:
        self.row = msgspec.structs.replace(self.row, **changes)
        self.changes.append(Put(LOCAL, "pair", encode(self.row)))

    def _begin(self) -> None:
        """The very first term."""
        term = self._next_term(0)
        self._known_term = term
        self._set(term=term, is_primary=True, is_established=True, log_term=term, is_complete=True)

    def begin_above(self, term: int) -> None:
        """A single registry begins anew: brokers follow views of up to this term."""
        assert not self.partner
        term = self._next_term(term)
        self._known_term = term
        self._set(term=term, is_primary=True, is_established=True, log_term=term, is_complete=True)

    def _next_term(self, above: int) -> int:
        term = max(above, self._known_term) + 1
        return term if term % 2 == self._parity else term + 1

    # --- writing ------------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Another group may be written. If not, `groups_max` of them wait for the other registry.

        Without that limit some would have to be dropped, and be replaced by a copy of the whole store. Clients that get
        no answer say hello again, which is written too: so one copy after the other would begin, and none would end.
        """
        return not self.row.is_paired or len(self._groups) < self._settings.groups_max

    def write(self, changes: Iterable[Change]) -> None:
        """A group is about to be stored."""
        self._set(number=self.row.number + 1, log_term=self.row.term)
        if not self.partner:
            return
        rows = [_written(change) for change in changes]
        self._groups.append((self.row.number, rows))
        if len(self._groups) > self._settings.groups_max:
            self._groups.clear()
        elif len(self._groups) == 1 or self._acked == self.row.number - 1:
            self.sends.append(Send(self.partner, self._ship(self.row.number - 1)))

    def release(self, sends: Iterable[Effect]) -> list[Effect]:
        """Those that may be sent now. The others wait until the other registry has what is written."""
        if self.is_settled():
            return [*self._take_held(), *sends]
        for send in sends:
            if len(self._held) < self._settings.held_max:
                self._held.append((self.row.number, send))
        return self._take_held()

    def _take_held(self) -> list[Effect]:
        ready: list[Effect] = []
        while self._held and (not self.row.is_paired or self._held[0][0] <= self._acked):
            ready.append(self._held.popleft()[1])
        return ready

    def _ship(self, base: int) -> Ship:
        """The groups after `base` that are kept, as many as fit into a message."""
        rows: list[Written] = []
        number, size = base, 0
        for group, written in self._groups:
            if group != number + 1:
                continue
            more = sum(len(row.value or b"") for row in written)
            if rows and (size + more > self._settings.ship_bytes_max or len(rows) + len(written) > ROWS_MAX):
                break
            rows += written
            number, size = group, size + more
        return Ship(self.row.term, base, number, rows, self.row.is_paired)

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, view: ViewRow, now_ms: int) -> None:
        if not self.partner:
            return
        if self._heard_ms is None:
            self._heard_ms = now_ms
        settings = self._settings
        if is_due(self._shipped_ms, settings.ship_ms, now_ms):
            self._shipped_ms = now_ms
            self._show_life()
        if self._wants_to_stand(view, now_ms) and self._retry.is_due(now_ms):
            self._stand(view, now_ms)
        elif self._term and not self._wants_to_stand(view, now_ms):
            self._give_up()
        if self._can_renew(now_ms) and self._retry.is_due(now_ms):
            self._retry.start(now_ms)
            self.sends.append(Send(self.partner, self._renewal()))

    def _show_life(self) -> None:
        row = self.row
        if row.is_primary:
            if self._copying is not None and self._copying.message is not None:
                self.sends.append(Send(self.partner, self._copying.message))
            else:
                self.sends.append(Send(self.partner, self._ship(max(self._acked, 0))))
        elif not row.term and self._parity == 0:
            self.sends.append(Send(self.partner, Ship(0, 0, 0)))

    def _wants_to_stand(self, view: ViewRow, now_ms: int) -> bool:
        row, lease_ms = self.row, self._settings.lease_ms
        is_silent = is_due(self._heard_ms, lease_ms, now_ms)
        if not row.is_primary:
            return row.is_complete and row.may_stand and is_silent and bool(view.view.brokers)
        if row.is_paired:
            return is_silent
        return self._fenced_ms is not None and is_due(self._fenced_ms, lease_ms, now_ms)

    def _can_renew(self, now_ms: int) -> bool:
        """Brokers refuse its views, but the other registry is there, and has everything."""
        is_silent = is_due(self._heard_ms, self._settings.lease_ms, now_ms)
        return self._fenced_ms is not None and self.row.is_paired and self.is_settled() and not is_silent

    def _renewal(self) -> Renew:
        return Renew(self._next_term(self.row.term), self.row.term, self.row.number)

    def _stand(self, view: ViewRow, now_ms: int) -> None:
        if not self._term or self._known_term > self._term:
            self._term = self._next_term(self.row.term)
            self._grants.clear()
        self._retry.start(now_ms)
        stand = Stand(self._term, view.view.epoch)
        for broker in sorted({*view.view.brokers, *(view.previous or ())}):
            self.sends.append(Send(broker, stand))
        self._count(view, now_ms)

    def _give_up(self) -> None:
        """The other one is back: nothing that was promised for this term counts any more."""
        self._known_term = max(self._known_term, self._term)
        self._term = 0
        self._grants.clear()
        self._retry.reset()

    # --- what brokers say ---------------------------------------------------------------------------------------------

    def take_grant(self, broker: str, message: Grant, view: ViewRow, now_ms: int) -> None:
        if not message.is_granted:
            self._known_term = max(self._known_term, message.term)
        elif self._term and message.term == self._term:
            self._grants.add(broker)
            self._count(view, now_ms)

    def _count(self, view: ViewRow, now_ms: int) -> None:
        """With the promises of most brokers, this one is in charge."""
        if not has_most(view, self._grants):
            return
        self.takeovers += 1
        term, self._term = self._term, 0
        self._known_term = max(self._known_term, term)
        self._grants.clear()
        self._retry.reset()
        self._groups.clear()
        self._held.clear()
        self._copying = None
        self._acked = -1
        self._fenced_ms = None
        self._heard_ms = now_ms
        is_established = not view.view.brokers
        self._set(term=term, is_primary=True, is_paired=False, is_established=is_established, may_stand=False)

    def hear_broker(self, epoch: int, promised: int, now_ms: int) -> None:
        """From a heartbeat. A view of a higher term: another one is in charge. A promise of one: maybe."""
        if not self.row.is_primary:
            return
        if term_of(epoch) > self.row.term:
            self._step_down(term_of(epoch))
        elif promised > self.row.term:
            self._known_term = max(self._known_term, promised)
            self._fenced_ms = now_ms if self._fenced_ms is None else self._fenced_ms

    def establish(self, view: ViewRow, epochs: dict[str, int]) -> None:
        """Brokers have views of these epochs."""
        if self.row.is_primary and not self.row.is_established:
            floor = self.epoch_floor
            if has_most(view, {broker for broker, epoch in epochs.items() if epoch > floor}):
                self._set(is_established=True)

    def _step_down(self, term: int) -> None:
        """Another one is in charge: what is here may have things that never counted."""
        self._give_up()
        self._known_term = max(self._known_term, term)
        self._held.clear()
        self._groups.clear()
        self._copying = None
        self._copy = self._part = 0
        self._set(term=term, is_primary=False, is_paired=False, is_complete=False, may_stand=False)

    # --- what the other registry says ---------------------------------------------------------------------------------

    def take_renew(self, message: Renew, now_ms: int) -> None:
        """Not in charge: agree to a higher term of the one that is, if nothing has happened since."""
        row = self.row
        is_same = row.log_term == message.old and row.number == message.number and row.is_complete
        if row.term == message.old and not row.is_primary and is_same:
            self._heard_ms = now_ms
            self._give_up()
            self._known_term = max(self._known_term, message.term)
            self._set(term=message.term, log_term=message.term)
        self._report()

    def take_ship(self, message: Ship | ShipPart, now_ms: int) -> None:
        """Not in charge, or not any more: write what the other one has written."""
        if message.term < self.row.term or not message.term:
            self._report()
            return
        if message.term > self.row.term:
            if self.row.is_primary:
                self._step_down(message.term)
            else:
                self._set(term=message.term, may_stand=False)
                self._copy = self._part = 0
            self._known_term = max(self._known_term, message.term)
        if self.row.is_primary:
            return  # its own, which came back: no other registry has this term
        self._heard_ms = now_ms
        if self._term:
            self._give_up()
        if isinstance(message, ShipPart):
            self._take_part(message)
        else:
            self._take_groups(message)
        self._report()

    def _report(self) -> None:
        row = self.row
        report = Shipped(row.term, row.log_term, row.number, self._part, row.is_complete, self._copy, row.may_stand)
        self.sends.append(Send(self.partner, report))

    def _take_groups(self, message: Ship) -> None:
        row = self.row
        if not row.is_complete or row.log_term != message.term:
            return
        if message.base == row.number < message.number:
            self.changes += [_change(written) for written in message.rows]
            self._set(number=message.number)
            self.must_reload = True
        if message.is_paired and not self.row.may_stand:
            self._set(may_stand=True)

    def _take_part(self, message: ShipPart) -> None:
        if message.copy != self._copy and message.part == 1:
            self._copy, self._part = message.copy, 0
        if message.copy != self._copy or message.part != self._part + 1 or message.table not in TABLES:
            return  # of another copy, or it came before: what it has may be out of date
        self._part = message.part
        kept = {written.key for written in message.rows}
        end = None if message.is_end or not message.rows else message.rows[-1].key
        for key, _ in self._shadow.rows(message.table, message.after):  # type: ignore[type-var]
            if end is not None and key > end:  # type: ignore[operator]
                break
            if key not in kept:
                self.changes.append(Delete(message.table, key))
        self.changes += [_change(written) for written in message.rows]
        self._set(is_complete=message.is_last, may_stand=False, number=message.number, log_term=message.term)
        self.must_reload = True

    def take_shipped(self, message: Shipped, now_ms: int) -> None:
        """In charge: the other one says what it has."""
        row = self.row
        if not row.is_primary:
            is_new = not (message.term or message.log_term or message.is_complete)
            if not row.term and self._parity == 0 and is_new:
                self._begin()
            return
        if message.term > row.term and message.term == message.log_term and message.term % 2 == self._parity:
            # The other one has agreed to a term of this registry: nobody else can be in charge in it.
            self._fenced_ms = None
            self._retry.reset()
            self._known_term = max(self._known_term, message.term)
            self._set(term=message.term, log_term=message.term)
        if message.term != self.row.term:
            return
        row = self.row
        self._heard_ms = now_ms
        self._can_be_replaced = message.may_stand
        if self._term and row.is_paired:
            self._give_up()
        if not message.is_complete or message.log_term != row.term:
            self._go_on_copying(message)
            return
        if message.number > row.number and message.may_stand:
            self._step_down(row.term)  # this store was put back to an older state: the other one has the rest
            return
        if self._copying is not None:
            self._copying = None
        if message.number < self._acked:
            # Late, or that store was put back: then it goes on saying so.
            self._behind_ms = now_ms if self._behind_ms is None else self._behind_ms
            if is_due(self._behind_ms, self._settings.lease_ms, now_ms):
                self._start_copying()
            return
        self._behind_ms = None
        self._acked = max(self._acked, message.number)
        while self._groups and self._groups[0][0] <= self._acked:
            self._groups.popleft()
        if self._acked < row.number:
            if not self._groups or self._groups[0][0] != self._acked + 1:
                self._start_copying()
            else:
                self.sends.append(Send(self.partner, self._ship(self._acked)))
        elif not row.is_paired:
            # It has the first view of this term too, so it cannot win without it: see on being established.
            self._set(is_paired=True, is_established=True)
            self.sends.append(Send(self.partner, self._ship(self._acked)))

    # --- a copy of the whole store ------------------------------------------------------------------------------------

    def _start_copying(self) -> None:
        self._acked = -1
        self._behind_ms = None
        self._groups.clear()
        self._copying = _Copying(self.row.number, self._random.getrandbits(62) + 1)
        self._send_part(self._copying, 1)

    def _go_on_copying(self, message: Shipped) -> None:
        copying = self._copying
        is_kept = copying is not None and (
            copying.number == self.row.number or (bool(self._groups) and self._groups[0][0] == copying.number + 1)
        )
        if copying is None or copying.message is None or not is_kept:
            self._start_copying()
        elif message.copy != copying.copy:
            if copying.message.part > 1:
                self._start_copying()  # it has begun anew; otherwise the first part has not arrived yet
        elif message.part == copying.message.part:
            self._send_part(copying, message.part + 1)
        elif message.part != copying.message.part - 1:
            self._start_copying()

    def _send_part(self, copying: _Copying, part: int) -> None:
        tables = list(TABLES)
        table = tables[copying.table]
        after = copying.after
        rows: list[Written] = []
        size = 0
        found = self._shadow.scan(table, after, PART_ROWS)  # type: ignore[type-var]
        for key, value in found:
            if rows and size + len(value) > self._settings.ship_bytes_max:
                break
            rows.append(Written(table, key, value))
            size += len(value)
        is_end = not found
        is_last = is_end and copying.table == len(tables) - 1
        if is_end and not is_last:
            copying.table += 1
            copying.after = TABLES[tables[copying.table]]
        elif rows:
            copying.after = rows[-1].key
        copying.message = ShipPart(
            self.row.term, copying.number, part, table, after, rows, is_end, is_last, copying.copy
        )
        self.sends.append(Send(self.partner, copying.message))


def has_most(view: ViewRow, brokers: set[str]) -> bool:
    """More than half of the brokers of a view, and of the one before it if that may still count."""
    return all(
        not members or 2 * len(brokers & members) > len(members)
        for members in (set(view.view.brokers), set(view.previous or ()))
    )


def _written(change: Change) -> Written:
    if isinstance(change, Put):
        return Written(change.table, change.key, change.value)
    assert isinstance(change, Delete), "a registry puts and deletes rows, and has no bodies"
    return Written(change.table, change.key, None)


def _change(written: Written) -> Change:
    if written.value is None:
        return Delete(written.table, written.key)
    return Put(written.table, written.key, written.value)
