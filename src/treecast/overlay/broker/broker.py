"""A broker: documents come in, deliveries go out, and nothing that was acknowledged is lost.

ONYX, Figure 10, as far as one broker goes: `receive` is the packet listener, which sorts packets into flows; the
catalog manager and the query plane are `subscriptions.py`; the message pre-processor and the data plane are
`intake.py`, with one index for all; `backlog.py` and `dispatch.py` are the post-processor and the sender.

Every call ends with one group of changes; answers and deliveries follow it, so they leave when it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from treecast.errors import PeerError, TreecastError
from treecast.index import Index
from treecast.index.rendering import FormCodec
from treecast.overlay.broker.archive import Archive
from treecast.overlay.broker.backlog import Backlog
from treecast.overlay.broker.clients import Clients
from treecast.overlay.broker.dispatch import Dispatch
from treecast.overlay.broker.inspection import inspect
from treecast.overlay.broker.intake import Incoming, Intake, NativeParcels, Prepare, Resolve, unresolved
from treecast.overlay.broker.moving import Undelivered, forget_letters, take_in, undelivered
from treecast.overlay.broker.records import Records
from treecast.overlay.broker.refused import RequestError, refusal, unknown_command
from treecast.overlay.broker.retention import Retention
from treecast.overlay.broker.rows import CLIENTS, META, STORE, Counters, SubscriptionRow, decode
from treecast.overlay.broker.schemas import Schemas
from treecast.overlay.broker.sessions import Session
from treecast.overlay.broker.settings import SECOND_MS, BrokerSettings
from treecast.overlay.broker.subscriptions import Subscriptions
from treecast.overlay.broker.tail import Tail
from treecast.overlay.broker.turn import Turn
from treecast.overlay.messages import (
    Acknowledge,
    Advance,
    Answer,
    Attach,
    Attached,
    Command,
    Confirmation,
    Continue,
    Detach,
    Durable,
    Flow,
    Hasten,
    Hello,
    IndexSaved,
    Inspect,
    Inspected,
    Pause,
    PlaceSubscription,
    Publish,
    Redeliver,
    RegisterSource,
    RegisterSubscriber,
    RemovePlace,
    RemoveRecord,
    RemoveSource,
    Replay,
    Request,
    SetRecord,
    Subscribe,
    SubscribeMany,
    Unsubscribe,
)
from treecast.overlay.peer import Deliver, Effect, SaveIndex, Send, Store
from treecast.overlay.shadow import Shadow
from treecast.overlay.storage import Put, Storage
from treecast.workload.validator import Validator

EXPIRY_STEP_MS = 10 * SECOND_MS


Beside = Callable[[Callable[[], None]], Callable[[], None]]
"""How to do something that takes long while something else is done: gets the work, returns how to wait for its end."""


def at_once(work: Callable[[], None]) -> Callable[[], None]:
    """Nothing is done meanwhile."""
    work()
    return lambda: None


class Broker:
    """A `Peer`. It is made from what its storage holds; `index` may be one that was saved, with all changes up to
    `index_version`. `beside` brings it up to date while the rest is read; threads belong to whoever runs a peer."""

    def __init__(
        self,
        name: str,
        storage: Storage,
        random: Random,
        settings: BrokerSettings | None = None,
        index: Index | None = None,
        index_version: int = 0,
        beside: Beside = at_once,
    ) -> None:
        self.name = name
        self.settings = settings = settings or BrokerSettings()
        self.index = Index() if index is None else index
        self.shadow = self._shadow = Shadow(storage)
        self._archive = Archive(self._shadow, self.index, settings.cached_rows_max)
        self._random = random
        self._backlog = Backlog(self._shadow, self._archive, settings, random)
        self._dispatch = Dispatch(self._backlog, self._archive, settings)
        self._subscriptions = Subscriptions(self._shadow, self.index, settings)
        schemas = self._subscriptions.schemas
        self._intake = Intake(self._shadow, self._archive, self._backlog, self.index, schemas, settings)
        self.retention = Retention(self._shadow, self._archive, self._backlog, settings)
        self.tail = Tail(self._shadow, self._archive, self._backlog, self._subscriptions)
        self._clients = Clients(self._shadow, self._shadow.stored_count(CLIENTS), settings)
        self._records = Records(self._shadow, settings)
        self._counters = Counters()
        self._beginning = Turn(0)
        """Changes that loading asked for: they are stored with those of the first call."""
        self._saved_change = index_version
        self._expire_ms = 0
        self._is_continuing = False
        self.objection_to: Callable[[Command], TreecastError | None] = lambda _: None
        """What a network has against a request,"""
        self.objection_to_source: Callable[[str], TreecastError | None] = lambda _: None
        """and against documents of a source."""
        self.requests = self.accepted = 0
        self._load(random, index_version, beside)

    def _load(self, random: Random, index_version: int, beside: Beside) -> None:
        store = self._shadow.get(META, STORE)
        if store is None:
            store = random.randbytes(16).hex().encode()
            self._beginning.changes.append(Put(META, STORE, store))
        self.store_id = store.decode()
        if (data := self._shadow.get(META, "counters")) is not None:
            self._counters = decode(data, Counters)
        counters = self._counters
        self._backlog.last_document, self._backlog.last_letter = counters.document, counters.letter
        self._intake.last_body, self._subscriptions.last_change = counters.body, counters.change
        wait = beside(self._subscriptions.load(index_version))
        try:
            self._intake.load()
            documents = self._backlog.read_ahead(counters.floor)
        finally:
            wait()
        self._backlog.load(documents, self._beginning)

    # --- the peer ----------------------------------------------------------------------------------------------------

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        """Handle a packet of any flow. What makes no sense is ignored: it may be old, or from a stranger."""
        if isinstance(message, Durable):
            if sender == self.name:
                self._shadow.durable(message.group)
            return []
        turn = Turn(now_ms)
        self.handle(sender, message, turn)
        return self.finish(turn)

    def receive_all(self, sender: str, messages: Sequence[Any], now_ms: int) -> list[Effect]:
        """Messages of another peer that came together, in one turn."""
        turn = Turn(now_ms)
        for message in messages:
            self.apply(turn)  # what follows reads what was changed
            self.handle(sender, message, turn)
        return self.finish(turn)

    def handle(self, sender: str, message: Any, turn: Turn) -> None:
        """The same as part of a turn that somebody else finishes, who has more to do in it."""
        match message:
            case Request():
                self._request(sender, message, turn)
            case Acknowledge():
                if session := self._session(message, sender, turn):
                    gone_messages, gone_items = self._dispatch.acknowledge(session, message, turn)
                    if message.confirmation:
                        confirmation = Confirmation(session.name, message.confirmation, gone_messages, gone_items)
                        turn.send(sender, confirmation)
            case Flow():
                if session := self._session(message, sender, turn):
                    self._dispatch.receive_flow(session, message.received, message.credit, turn)
                    self._dispatch.watch_patient(session, message, turn)
            case Hello():
                self._clients.welcome(self.name, self.store_id, sender, message.nonce, turn)
            case Attach():
                self._attach(sender, message, turn)
            case Detach():
                session = self._dispatch.sessions.get(message.session)
                if session and session.client == sender:
                    self._dispatch.is_overtaken(sender, session.life, message.serial)
                    self._end_session(session, "", turn, counts=False)
            case Inspect():
                rows = inspect(message, self._shadow, self._backlog, self._subscriptions, self.stats())
                turn.send(sender, Inspected(message.question, rows))
            case Continue() if sender == self.name:
                self._is_continuing = False
                self._backlog.refill(turn)
            case IndexSaved() if sender == self.name:
                self._subscriptions.saved(message.version, turn)

    def tick(self, now_ms: int) -> list[Effect]:
        turn = Turn(now_ms)
        self.do_due(turn)
        return self.finish(turn)

    def do_due(self, turn: Turn) -> None:
        """What `tick` does, as part of a turn that somebody else finishes."""
        now_ms = turn.now_ms
        for session in self._dispatch.silent_sessions(now_ms):
            self._end_session(session, "nothing was heard from it", turn, counts=True)
        self._dispatch.tick(turn)
        self.retention.tick(turn)
        if now_ms >= self._expire_ms:
            self._expire_ms = now_ms + EXPIRY_STEP_MS
            attached = {id for session in self._dispatch.sessions.values() for id in session.queues}
            self._subscriptions.expire(attached, self._backlog, turn)

    def apply(self, turn: Turn) -> None:
        """Let what follows in this turn read what was changed in it so far."""
        if self._beginning.changes and not turn.applied:
            turn.changes[:0] = self._beginning.changes
            self._beginning = Turn(0)
        if len(turn.changes) > turn.applied:
            turn.group = self._shadow.apply(turn.changes[turn.applied :])
            turn.applied = len(turn.changes)

    def finish(self, turn: Turn) -> list[Effect]:
        """The effects of a turn: its changes as one group, and what follows them."""
        self.apply(turn)
        self._dispatch.flush(turn)  # reads what this turn has changed
        if self._backlog.wants_more and not self._is_continuing:
            self._is_continuing = True
            turn.send(self.name, Continue())
        counters = self._count()
        if counters != self._counters and (turn.changes or counters.floor < self._counters.floor):
            self._counters = counters
            turn.put(META, "counters", counters)
        self.apply(turn)
        effects: list[Effect] = list(turn.urgent)
        if turn.changes:
            effects += (Store(tuple(turn.changes)), Send(self.name, Durable(turn.group)))
        effects += turn.sends
        effects += map(Deliver, turn.events)
        change = self._subscriptions.last_change
        if change - self._saved_change >= self.settings.save_index_changes:
            self._saved_change = change
            effects.append(SaveIndex(change))
        return effects

    def _count(self) -> Counters:
        return Counters(
            self._backlog.last_document,
            self._intake.last_body,
            self._subscriptions.last_change,
            self._backlog.last_letter,
            self._backlog.floor(),
        )

    # --- requests ----------------------------------------------------------------------------------------------------

    def expects(self, sender: str, request: Request, turn: Turn) -> bool:
        """It is the next request of this client."""
        try:
            client = self._clients.row(sender, turn)
        except RequestError:
            return False
        return request.lease == client.lease and request.number == client.answered + 1

    def refuse(self, sender: str, request: Request, objection: TreecastError, turn: Turn) -> None:
        """Answer a request that somebody else objects to."""
        self._request(sender, request, turn, objection)

    def _request(self, sender: str, request: Request, turn: Turn, objection: TreecastError | None = None) -> None:
        """Each once, in order; a repeated one is answered as it was."""
        client = self._clients.take(sender, request, turn)
        if client is None:
            return
        done, published = len(turn.changes), len(turn.published)
        try:
            objection = objection or self.objection_to(request.command)
            if objection is not None:
                raise objection
            answer = self._do(request, turn)
        except TreecastError as error:
            del turn.changes[done:], turn.published[published:]
            answer = Answer(request.number, [], [refusal(error, -1)])
            if isinstance(request.command, Publish):
                self._intake.announce_refused(request.command, answer.refusals, turn)
        self._clients.answer(sender, client, answer, turn)
        self.requests += 1

    def _do(self, request: Request, turn: Turn) -> Answer:
        command: Command = request.command
        match command:
            case Publish():
                return self._publish(request.number, command, turn)
            case Subscribe():
                self._subscriptions.subscribe(command, self._backlog, turn)
            case SubscribeMany():
                self._subscriptions.subscribe_many(command.subscriptions, self._backlog, turn)
            case Unsubscribe():
                self._subscriptions.unsubscribe(command.id, self._backlog, turn)
            case Pause():
                self._subscriptions.pause(command, self._backlog, turn)
            case RegisterSource():
                self._subscriptions.register_source(command, turn)
            case RemoveSource():
                self._subscriptions.remove_source(command, turn)
            case Redeliver():
                self._subscriptions.redeliver(command.letters, self._backlog, turn)
            case Advance():
                self._subscriptions.advance(command.positions, self._backlog, turn)
            case Hasten():
                self._subscriptions.expect(command.id)
                self._backlog.hasten(command.id, turn)
            case SetRecord():
                self._records.set(command, turn)
            case RemoveRecord():
                self._records.remove(command, turn)
            case Replay():
                return Answer(request.number, [self._replay(command, turn)])
            case RegisterSubscriber() | PlaceSubscription() | RemovePlace():
                name = type(command).__name__
                raise RequestError(f"a broker does not do {name}", code="TC480", hint="send it to a registry")
            case _:
                raise unknown_command("a broker", command)
        return Answer(request.number)

    def _publish(self, number: int, command: Publish, turn: Turn) -> Answer:
        """Documents of a source that is refused are refused; a request with no others is refused as a whole."""
        validators: dict[str, Validator | None] = {}
        refused_sources: dict[str, TreecastError] = {}
        for source in dict.fromkeys(command.sources() or [command.source]):
            try:
                validators[source] = self._validator(source)
            except TreecastError as error:
                refused_sources[source] = error
        if len(refused_sources) == 1 and not validators:
            raise next(iter(refused_sources.values()))
        documents, refusals, copies = self._intake.publish(command, validators, refused_sources, turn)
        self.accepted += len(documents) - len(refusals)
        return Answer(number, documents, refusals, copies=copies)

    def _validator(self, source: str) -> Validator | None:
        """What documents of a source are checked by. Raises TreecastError if it may not publish here."""
        objection = self.objection_to_source(source)
        if objection is not None:
            raise objection
        self._subscriptions.check_source(source)
        return self._subscriptions.validator(source)

    def _replay(self, command: Replay, turn: Turn) -> int:
        """From the first document that is kept, and not older than asked for."""
        row = self._subscriptions.expect(command.id)
        first = self._first_since(command.from_document, command.from_ms)
        self._backlog.replay(command.id, row, first, turn)
        return first

    def _first_since(self, document: int, published_ms: int) -> int:
        after = max(document - 1, 0)
        while rows := self._archive.rows_after(after, 1_000):
            for number, row in rows:
                if row.published_ms >= published_ms:
                    return number
            after = rows[-1][0]
        return self._backlog.last_document + 1

    # --- documents of other brokers ----------------------------------------------------------------------------------

    def take(
        self,
        origin: str,
        documents: Sequence[Incoming],
        turn: Turn,
        resolve: Resolve = unresolved,
        index: Index | None = None,
    ) -> None:
        """Documents that another broker of the network has accepted, in order, each once. `origin` is its store;
        `resolve` says what was done to those that have a mark, `index` what is left to do with them."""
        self._intake.take(origin, documents, turn, resolve, index)

    def take_parcels(self, origin: str, codec: FormCodec, parcels: NativeParcels, turn: Turn) -> None:
        """The same for documents in the form of a link, unchanged. Raises PeerError, and nothing was stored, if one of
        them cannot be read."""
        if not self._intake.take_parcels(origin, codec, parcels, turn):
            raise PeerError("a document cannot be read in the form in which it came", code="TC404")

    @property
    def reads_forms(self) -> bool:
        """Whether it does that."""
        return self._intake.reads_forms

    def keep_documents(self, prepare: Prepare) -> None:
        """From now on `Turn.published` has documents that were read, or what `prepare` says: they are wanted elsewhere
        in the same turn."""
        self._intake.keeps_documents = True
        self._intake.prepare = prepare

    def register_source(self, command: RegisterSource, turn: Turn) -> None:
        """The registry of the network has chosen this broker as the root of a source."""
        self._subscriptions.register_source(command, turn)

    def remove_source(self, source: str, turn: Turn) -> None:
        """It has another root now, or was removed."""
        if source in self._subscriptions.sources:
            self._subscriptions.remove_source(RemoveSource(source), turn)

    # --- subscriptions that go to another broker, or come from one ----------------------------------------------------

    def subscription(self, id: str) -> SubscriptionRow | None:
        return self._subscriptions.row(id)

    def add(self, command: Subscribe, turn: Turn) -> None:
        """Raises TreecastError."""
        self._subscriptions.subscribe(command, self._backlog, turn)

    def remove(self, id: str, turn: Turn) -> list[str]:
        """Returns the clients that received from it: their sessions end, so that they look for it again."""
        queue = self._backlog.queues.get(id)
        sessions = list(queue.sessions) if queue is not None else []
        for session in sessions:
            self._end_session(session, "a subscription has moved", turn, counts=False)
        forget_letters(id, self._backlog, turn)
        self._subscriptions.unsubscribe(id, self._backlog, turn)
        return [session.client for session in sessions]

    def pause(self, id: str, turn: Turn) -> None:
        self._subscriptions.pause(Pause(id, True), self._backlog, turn)

    def leave(
        self, id: str, row: SubscriptionRow, is_mine: Callable[[str, int], bool], limits: tuple[int, int], turn: Turn
    ) -> tuple[list[Undelivered], list[str]] | None:
        """Remove a subscription; returns what is not delivered, and the clients that receive from it. None, and nothing
        has changed: that is more than these limits allow, in number and bytes."""
        found = undelivered(id, row, self._backlog, self._archive, is_mine, *limits)
        return None if found is None else (found, self.remove(id, turn))

    def come(self, id: str, items: Sequence[Undelivered], turn: Turn) -> None:
        """A subscription that is here has this to deliver first."""
        take_in(id, self._subscriptions.expect(id), items, self._backlog, turn)

    def is_full(self) -> bool:
        """Nothing is accepted until something has been delivered or dropped."""
        return self._intake.is_full()

    @property
    def last_document(self) -> int:
        return self._backlog.last_document

    # --- sessions ----------------------------------------------------------------------------------------------------

    def _session(self, message: Flow | Acknowledge, sender: str, turn: Turn) -> Session | None:
        """The session that a message of its client is about."""
        session = self._dispatch.sessions.get(message.session)
        if session is None or session.client != sender:
            turn.send(sender, Detach(message.session, "there is no such session"))
            return None
        if message.epoch not in (0, session.epoch):
            # Its client knows an earlier session of this name, and opens another one.
            self._end_session(session, "it was opened twice", turn, counts=False)
            return None
        session.heard_ms = turn.now_ms
        return session

    def _attach(self, sender: str, message: Attach, turn: Turn) -> None:
        sessions, settings = self._dispatch.sessions, self.settings
        known = sessions.get(message.session)
        if known is not None and known.client != sender:
            turn.send(sender, Detach(message.session, "another client has a session of this name"))
            return
        if message.serial:
            if self._dispatch.is_overtaken(sender, message.life, message.serial):
                return  # its client repeats it, if it still wants the session
            self._end_unnamed(sender, message, turn)
        if known is None:
            if len(sessions) >= settings.sessions_max:
                turn.send(sender, Detach(message.session, "TC417 there are too many sessions"))
                return
            if len(message.subscriptions) > settings.subscriptions_per_session_max:
                turn.send(sender, Detach(message.session, "TC417 there are too many subscriptions in one session"))
                return
            credit = min(message.credit, settings.credit_max)
            self._end_other_lives(sender, message.life, turn)
            epoch = self._random.getrandbits(62) + 1
            known = Session(message.session, sender, credit, turn.now_ms, message.life, epoch, message.patient)
            self._dispatch.open(known)
        unknown = self._join(known, message.subscriptions, turn)
        turn.send(sender, Attached(message.session, unknown, known.epoch))
        self._dispatch.fill(known, turn)

    def _end_other_lives(self, client: str, life: int, turn: Turn) -> None:
        """A client that has started again receives no more in the sessions that it had before."""
        for session in self._dispatch.of_client(client):
            if session.life != life:
                self._end_session(session, "its client has started again", turn, counts=True)

    def _end_unnamed(self, client: str, message: Attach, turn: Turn) -> None:
        """A client has ended these sessions. Its `Detach` was overtaken, or is lost."""
        named = {message.session, *message.others}
        for session in self._dispatch.of_client(client):
            if session.life == message.life and session.name not in named:
                self._end_session(session, "", turn, counts=False)

    def _join(self, session: Session, subscriptions: list[str], turn: Turn) -> list[str]:
        """Let a session receive from these; returns those that do not exist. Some may have come since it was opened."""
        rows = self._subscriptions.rows(dict.fromkeys(subscriptions))
        fresh = {id: row for id, row in rows.items() if id not in session.queues}
        for id, queue in self._backlog.queues_of(fresh):
            self._dispatch.attach(session, queue)
            if fresh[id].options.expires_ms:
                self._subscriptions.see(id, turn)
        return [id for id in dict.fromkeys(subscriptions) if id not in rows]

    def _end_session(self, session: Session, reason: str, turn: Turn, *, counts: bool) -> None:
        for id in session.queues:
            if id in self._subscriptions.last_seen:
                self._subscriptions.see(id, turn)
        self._dispatch.detach(session, reason, turn, counts=counts)

    # --- looking at it -----------------------------------------------------------------------------------------------

    def record(self, kind: str, key: str) -> bytes | None:
        """What a door has set."""
        return self._records.get(kind, key)

    def records(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """All of a kind, by their keys."""
        return self._records.all(kind)

    @property
    def schemas(self) -> Schemas:
        """The DTDs of its sources."""
        return self._subscriptions.schemas

    def validator(self, source: str) -> Validator | None:
        """What documents of a source, which is registered, are checked by. Raises DocumentError."""
        return self._subscriptions.validator(source)

    @property
    def index_version(self) -> int:
        """The last change of the subscriptions, which `index` contains."""
        return self._subscriptions.last_change

    def sizes(self) -> dict[str, int]:
        """Counts that cost nothing, for whoever asks every second."""
        return {
            "subscriptions": len(self.index),
            "sources": len(self._subscriptions.sources),
            "sessions": len(self._dispatch.sessions),
            "sent": self._dispatch.sent_items,
            "duplicates": self._intake.duplicates,
            "letters": self._backlog.letters,
            "body_bytes": self._shadow.body_bytes(),
        }

    def stats(self) -> dict[str, int]:
        """Counts for metrics, and for whoever checks that limits hold."""
        return {
            "subscriptions": len(self.index),
            "sources": len(self._subscriptions.sources),
            "documents": self._backlog.last_document,
            "requests": self.requests,
            "accepted": self.accepted,
            "refused": self._intake.refused,
            "duplicates": self._intake.duplicates,
            "sessions": len(self._dispatch.sessions),
            "sent": self._dispatch.sent_items,
            "letters": self._backlog.last_letter,
            "groups_waiting": self._shadow.waiting(),
            **self._backlog.stats(),
        }
