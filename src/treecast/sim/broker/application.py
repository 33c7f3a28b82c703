"""The applications behind the clients of a run: they publish, subscribe, receive and fail, as their plans say.

An application outlives crashes of its client, as the user of a program does. It remembers what it asked for; after a
crash it publishes documents again that have an id and no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from random import Random
from typing import Any

from treecast.overlay.client import Answered, Client, ClientSettings
from treecast.overlay.messages import (
    Advance,
    Answer,
    Command,
    Document,
    Hasten,
    Pause,
    Publish,
    Redeliver,
    RegisterSource,
    RemoveRecord,
    RemoveSource,
    Replay,
    SetRecord,
    Subscribe,
    SubscriptionOptions,
    Unsubscribe,
)
from treecast.overlay.peer import Effect
from treecast.overlay.receiver import Delivered, Delivery, Opened, Settled
from treecast.sim.broker.history import Confirmed, History, Operation, Postponement, Receipt
from treecast.sim.broker.workload import (
    REFUSED_DOCUMENTS,
    REFUSED_QUERIES,
    ClientPlan,
    Workload,
    draw_document,
    probe_document,
)
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

BROKER = "broker"
OPERATIONS_MAX = 60
"""Of one client in a run, so that no run gets long."""
AGAIN_MAX = 8
"""Publications without an answer that are repeated after a crash."""
CONFIRMING = 0.5
"""Of clients that want to know when what they have acknowledged is stored."""
REATTACH_MS = 200
HASTEN_MS = 1_000
EXPIRES_MS = 1_000

Letters = Callable[[], list[tuple[int, str, int]]]
"""The dead letters that the broker has now: number, subscription, document."""


class Application:
    """The user of one client."""

    def __init__(
        self,
        world: World,
        plan: ClientPlan,
        workload: Workload,
        history: History,
        settings: ClientSettings,
        letters: Letters,
        next_number: Callable[[], int],
        broker: str = BROKER,
        identify: Callable[[Delivery], int] = attrgetter("document"),
        first_number: int = 0,
    ) -> None:
        """`identify` gives a document the same number wherever it is delivered; those that this client publishes have
        numbers after `first_number`."""
        self.plan = plan
        self._broker = broker
        self._identify = identify
        self._first_number = first_number
        self.is_calm = False
        """It does nothing new, and deals with all that it receives."""
        self._world = world
        self._workload = workload
        self._history = history
        self._settings = settings
        self._letters = letters
        self._next_number = next_number
        self._random = world.random_of("application", plan.name)
        self._tickets: dict[int, Operation] = {}
        self._receiver: int | None = None
        self._attached_us = 0
        self._misses: set[str] = set()
        self._publications_to_repeat: list[Publish] = []
        self._forgotten_deliveries: list[Delivery] = []
        self._confirms = world.random_of("confirms", plan.name).random() < CONFIRMING
        self._settling: dict[int, list[Delivery]] = {}
        """By number: what it has acknowledged, and is to be told when that is stored."""
        self._named_documents: list[Document] = []
        self._paused_ids: set[str] = set()
        self._postponed_ids: set[str] = set()
        self._last_number = 0  # the highest number of a document that it has heard of
        self._removes_sources = False
        self._operations = 0
        self.host = world.add_host(plan.name, self._make_client, self._on_event)
        self.host.on_start = self._on_start

    def _make_client(self, storage: SimulatedStorage, random: Random) -> Client:
        return Client(self.plan.name, self._broker, random, self._settings)

    def begin(self) -> None:
        for source in self.plan.sources:
            self.request(RegisterSource(source))
        for id in self.plan.owned:
            if self._random.random() < 0.7:
                self._subscribe(id)
        if self._random.random() < 0.8:
            self._world.after(self._random.randrange(300_000), self._attach_first)
        self._schedule()

    def _attach_first(self) -> None:
        if self._receiver is None:
            self.attach()

    def _on_start(self, client: Client) -> None:
        """The client has started again, and knows nothing."""
        doubtful = [operation.command for operation in self._tickets.values()]
        self._tickets.clear()
        self._forgotten_deliveries.clear()
        self._settling.clear()
        self._receiver = None
        for command in doubtful:
            if isinstance(command, Publish) and any(document.id for document in command.documents):
                command_to_repeat = Publish(command.source, [document for document in command.documents if document.id])
                self._publications_to_repeat = [*self._publications_to_repeat, command_to_repeat][-AGAIN_MAX:]
        self._world.after(self._random.randrange(50_000), self._go_on, self.host.incarnation)

    def _go_on(self, incarnation: int) -> None:
        if incarnation != self.host.incarnation:
            return
        commands, self._publications_to_repeat = self._publications_to_repeat, []
        for command in commands:
            if self._random.random() < 0.8:
                self.request(command)
        self.attach()

    # -- requests

    def request(self, command: Command) -> bool:
        """Ask the broker for something; False if the client is down, or has too much to do."""

        def action(client: Client, now_ms: int) -> list[Effect]:
            if not client.has_room():
                return []
            ticket, effects = client.request(command, now_ms)
            self._tickets[ticket] = self._history.send(self.plan.name, command, self._world.now_us)
            return effects

        self._operations += 1
        return self.host.call(action)

    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._tickets)

    def _schedule(self) -> None:
        delay_us = int(self._random.expovariate(1 / self.plan.action_ms) * 1000) + 1
        self._world.after(delay_us, self._act)

    def _act(self) -> None:
        if self.is_calm or self._operations >= OPERATIONS_MAX:
            return
        weights = self._workload.weights
        action = self._random.choices(list(weights), list(weights.values()))[0]
        getattr(self, f"_do_{action}")()
        self._schedule()

    def _do_publish(self) -> None:
        if not self.plan.sources:
            return
        source = self._random.choice(self.plan.sources)
        documents = [self._draw_document(source) for _ in range(self._random.randint(1, self._workload.batch_max))]
        self.request(Publish(source, documents))

    def _draw_document(self, source: str) -> Document:
        if self._named_documents and self._random.random() < 0.1:
            old = self._random.choice(self._named_documents)
            if old.id.startswith(source):
                return old
        if "refused" in self._workload.weights and self._random.random() < 0.1:
            return Document(self._random.choice(REFUSED_DOCUMENTS))
        number = self._next_number()
        is_named = self._random.random() < self._workload.named_rate
        document = Document(draw_document(self._random, number), f"{source}/{number}" if is_named else "")
        if is_named:
            self._named_documents.append(document)
        return document

    def publish_probe(self) -> None:
        """A document that everyone gets."""
        if self.plan.sources:
            self.request(Publish(self.plan.sources[0], [Document(probe_document(self._next_number()))]))

    def _do_subscribe(self) -> None:
        if self.plan.owned:
            self._subscribe(self._random.choice(self.plan.owned))

    _do_replace = _do_subscribe

    def _subscribe(self, id: str) -> None:
        query = self._random.choice(self._workload.queries)
        deliver = self._random.choice(self._workload.delivers) if query.startswith("/") else "document"
        usual = self._workload.options
        expires_ms = EXPIRES_MS if id in self._workload.expiring else 0
        options = SubscriptionOptions(usual.attempts_max, usual.acknowledge_ms, expires_ms)
        self.request(Subscribe(id, query, {}, False, deliver, options))

    def _do_unsubscribe(self) -> None:
        if self.plan.owned:
            self.request(Unsubscribe(self._random.choice(self.plan.owned)))

    def _do_pause(self) -> None:
        if self.plan.owned:
            id = self._random.choice(self.plan.owned)
            self._paused_ids.add(id)
            self.request(Pause(id, self._random.random() < 0.5))

    def _do_replay(self) -> None:
        if self.plan.owned:
            from_document = self._random.choice([0, 1, self._random.randint(0, 60)])
            self.request(Replay(self._random.choice(self.plan.owned), from_document))

    def _do_advance(self) -> None:
        """Say that somebody got the deliveries of a subscription up to a document, without a session."""
        if self.plan.owned:
            document = self._random.choice([self._last_number, self._random.randint(0, self._last_number)])
            self.request(Advance([(self._random.choice(self.plan.owned), document)]))

    def _do_source(self) -> None:
        """Remove the source that nobody else uses, or register it again."""
        if self.plan.sources:
            self._removes_sources = True
            source = self.plan.sources[0]
            self.request(RemoveSource(source) if self._random.random() < 0.3 else RegisterSource(source))

    def _do_redeliver(self) -> None:
        letters = self._letters()
        if letters:
            some = self._random.sample(letters, self._random.randint(1, len(letters)))
            self._history.redelivered |= {(id, document) for _, id, document in some}
            self._history.redelivered_letters |= {number for number, _, _ in some}
            self.request(Redeliver([number for number, _, _ in some]))

    def _do_record(self) -> None:
        """Set a record of its own, to a value that it never had before, or remove it."""
        if self.plan.records:
            kind, key = self._random.choice(self.plan.records)
            is_set = self._random.random() < 0.7
            value = f"value {self._next_number()}".encode()
            self.request(SetRecord(kind, key, value) if is_set else RemoveRecord(kind, key))

    def _do_hasten(self) -> None:
        if self.plan.received:
            self.request(Hasten(self._random.choice(self.plan.received)))

    def _do_refused(self) -> None:
        id = self._random.choice(self.plan.owned) if self.plan.owned else "nobody"
        commands: list[Command] = [
            Subscribe(id, self._random.choice(REFUSED_QUERIES)),
            Publish("nowhere", [Document(draw_document(self._random, self._next_number()))]),
            Unsubscribe("nobody"),
            Redeliver([1 << 40]),
            Replay("nobody"),
        ]
        self.request(self._random.choice(commands))

    # -- receiving

    def _do_attach(self) -> None:
        if self._random.random() < 0.3:
            self.detach()
        else:
            self.attach()

    def attach(self) -> None:
        """Receive, in a new session."""
        if not self.plan.received:
            return
        self._history.attach(self.plan.name, self.plan.received)
        self._attached_us = self._world.now_us
        self._misses.clear()
        self.detach()

        def action(client: Client, now_ms: int) -> list[Effect]:
            self._receiver, effects = client.attach(self.plan.received, now_ms, credit=self.plan.credit)
            return effects

        self.host.call(action)

    def detach(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            self._history.session_ends.append((self._world.now_us, self.plan.name))
            self.host.call(lambda client, now_ms: client.detach(receiver, now_ms))

    def needs_attach(self) -> bool:
        """Some of its subscriptions may have come, or gone and come again, since it attached."""
        if self._receiver is None or self._misses:
            return True
        return any(
            isinstance(operation.command, Unsubscribe) and operation.command.id in self.plan.received
            for operation in self._history.operations
            if operation.effect_until_us >= self._attached_us  # it may have been sent long before
        )

    def calm_down(self) -> None:
        """From now on do nothing new. Deal with everything, also with what was forgotten."""
        self.is_calm = True
        self._settle(self.host.incarnation, self._forgotten_deliveries, [])

    def resume(self) -> None:
        """Pause nothing any more, and let all sources be there."""
        for id in sorted(self._paused_ids):
            self.request(Pause(id, False))
        if self._removes_sources:
            self.request(RegisterSource(self.plan.sources[0]))
        if self._postponed_ids:
            self._hasten()

    def _hasten(self) -> None:
        """Wait no more for what was postponed. Again and again: what says so may arrive before what postpones."""
        for id in sorted(self._postponed_ids):
            self.request(Hasten(id))
        self._world.after(HASTEN_MS * 1000, self._hasten)

    # -- events

    def _on_event(self, event: Any) -> None:
        if isinstance(event, Answered):
            operation = self._tickets.pop(event.ticket)
            answer = Answer(0, [number and number + self._first_number for number in event.documents], event.refusals)
            self._history.answer(operation, answer, self._world.now_us)
            self._last_number = max(self._last_number, *event.documents, 0)
        elif isinstance(event, Settled):
            for delivery in self._settling.pop(event.number, []):
                if delivery not in event.doubtful:
                    document = self._identify(delivery)
                    one = Confirmed(self._world.now_us, self.plan.name, delivery.subscription, document)
                    self._history.confirmed.append(one)
        elif isinstance(event, Delivered):
            self._receive(event.deliveries)
        elif isinstance(event, Opened) and event.unknown and event.receiver == self._receiver:
            self._misses.update(event.unknown)
            self._world.after(REATTACH_MS * 1000, self._attach_again, event.receiver)

    def _attach_again(self, receiver: int) -> None:
        if receiver == self._receiver and (any(map(self._exists, self._misses)) if self.is_calm else self._misses):
            self.attach()

    def _exists(self, id: str) -> bool:
        """As far as answers tell, there is such a subscription now."""
        changes = [
            operation.command
            for operation in self._history.operations
            if operation.is_done and getattr(operation.command, "id", "") == id
            if isinstance(operation.command, Subscribe | Unsubscribe)
        ]
        return bool(changes) and isinstance(changes[-1], Subscribe)

    def _receive(self, deliveries: list[Delivery]) -> None:
        failures, successes, postponements = [], [], []
        for delivery in deliveries:
            self._last_number = max(self._last_number, delivery.document)
            self._history.receive(
                Receipt(
                    self._world.now_us,
                    self.plan.name,
                    self.host.incarnation,
                    delivery.subscription,
                    self._identify(delivery),
                    delivery.attempt,
                    delivery.payload,
                )
            )
            if self.plan.postpone_rate and not self.is_calm and self._random.random() < self.plan.postpone_rate:
                postponements.append(delivery)
                continue
            chance = self._random.random()
            if not self.is_calm and chance < self.plan.fail_rate:
                failures.append(delivery)
            elif self.is_calm or chance >= self.plan.fail_rate + self.plan.forget_rate:
                successes.append(delivery)
            else:
                self._forgotten_deliveries.append(delivery)
        delay_us = 0 if self.is_calm else self._random.randint(0, self.plan.acknowledge_ms * 1000)
        if delay_us:
            self._world.after(delay_us, self._settle, self.host.incarnation, successes, failures, postponements)
        else:
            self._settle(self.host.incarnation, successes, failures, postponements)

    def _settle(
        self,
        incarnation: int,
        successes: list[Delivery],
        failures: list[Delivery],
        postponements: Sequence[Delivery] = (),
    ) -> None:
        if incarnation != self.host.incarnation:
            return
        if self.is_calm:
            successes = [*successes, *postponements]
        else:
            for delivery in postponements:
                self.host.call(partial(self._postpone, delivery, self._random.choice(self.plan.waits_ms)))
        self._history.acknowledged |= {(delivery.subscription, self._identify(delivery)) for delivery in successes}
        batches = [(failures, Client.fail), (successes, Client.acknowledge)]
        if self.plan.singly:
            batches = [([delivery], settle) for deliveries, settle in batches for delivery in deliveries]
            self._random.shuffle(batches)
        for deliveries, settle in batches:
            if deliveries and self._confirms and settle is Client.acknowledge:
                self.host.call(partial(self._settle_and_confirm, deliveries))
            elif deliveries:
                self.host.call(partial(_settle, settle, deliveries, self.plan.singly))

    def _settle_and_confirm(self, deliveries: list[Delivery], client: Client, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for _, some in groupby(deliveries, attrgetter("session")):
            of_session = list(some)
            number, more = client.settle(of_session, now_ms, is_failed=False)
            self._settling[number] = of_session
            effects += more
        return effects

    def _postpone(self, delivery: Delivery, wait_ms: int, client: Client, now_ms: int) -> list[Effect]:
        effects = client.postpone(delivery, wait_ms, "later")
        if effects and wait_ms:
            id, name = delivery.subscription, self.plan.name
            self._postponed_ids.add(id)
            self._history.postponed.append(
                Postponement(self._world.now_us, name, id, self._identify(delivery), wait_ms)
            )
        return effects


def _settle(
    settle: Callable[..., list[Effect]], deliveries: list[Delivery], singly: bool, client: Client, now_ms: int
) -> list[Effect]:
    return settle(client, deliveries, now_ms, singly=singly)
