"""One broker, some clients, faults; then all faults end, and everything that must arrive has to arrive.

>>> outcome = BrokerScenario().run(seed=1)
>>> outcome.failure is None
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from random import Random
from typing import Any

import msgspec

from treecast.index import Index
from treecast.overlay.broker import Broker, BrokerSettings
from treecast.overlay.broker.rows import (
    DOCUMENTS,
    LETTER_KEYS,
    LETTERS,
    RECORDS,
    DocumentRow,
    LetterRow,
    decode,
    letter_key,
)
from treecast.overlay.client import ClientSettings
from treecast.overlay.messages import IndexSaved, SetRecord
from treecast.overlay.peer import Peer
from treecast.overlay.receiver import ReceiverSettings
from treecast.sim.broker.application import BROKER, Application
from treecast.sim.broker.checks import TEXTS_MAX, Checks, Letter
from treecast.sim.broker.course import Course
from treecast.sim.broker.door_checks import early_receipts, wrong_records, wrong_refusals
from treecast.sim.broker.history import History
from treecast.sim.broker.workload import Workload, draw_doors, draw_more, draw_workload
from treecast.sim.faults import Fault, FaultRates, draw_faults
from treecast.sim.frames import PacketCodec
from treecast.sim.host import Host
from treecast.sim.scenario import Outcome, outcome_of
from treecast.sim.storage import SimulatedStorage
from treecast.sim.world import World

LONG_MS = 1_000
"""A receiver that works on what it got, and postpones it, does so within this time."""


def draw_settings(random: Random) -> BrokerSettings:
    """Limits as small as they may be in some runs, so that what they lead to happens."""

    def draw(usual: int, *extreme: int) -> int:
        return random.choice(extreme) if random.random() < 0.4 else usual

    return BrokerSettings(
        session_ms=draw(900, 700, 3_000),
        credit_max=draw(10_000, 1, 3),
        items_per_message_max=draw(1_024, 1, 2),
        message_bytes_max=draw(1 << 20, 1, 200),
        resend_ms=draw(200, 20, 1_000),
        retry_ms=draw(100, 10, 1_000),
        retry_ms_max=draw(2_000, 50),
        queue_memory_max=draw(1_000, 1, 2, 5),
        waiting_memory_max=draw(4_000_000, 0, 1, 10),
        cached_rows_max=draw(4_096, 1, 3),
        refill_rows_max=draw(512, 1, 3),
        refill_queues_max=draw(8, 1),
        keep_ms=draw(86_400_000, 0, 500),
        keep_bytes=draw(10 << 30, 0, 500),
        retention_step_ms=draw(10_000, 50, 500),
        retention_rows_max=draw(2_000, 1, 5),
        save_index_changes=draw(50_000, 1, 3),
    )


def draw_client_settings(random: Random) -> ClientSettings:
    return ClientSettings(
        queue_max=random.choice([5, 1_000]),
        window_max=random.choice([1, 3, 16]),
        request_ms=random.choice([50, 300, 1_000]),
        request_ms_max=random.choice([500, 2_000]),
        receiver=ReceiverSettings(
            attach_ms=random.choice([50, 300]),
            attach_ms_max=1_000,
            flow_ms=random.choice([100, 300]),
            repeat_ms=random.choice([200, 1_000]),
            early_max=random.choice([1, 64]),
            part_ms=random.choice([50, 1_000]),
        ),
    )


class BrokerScenario:
    """A seed draws workload, settings and faults."""

    name = "broker"
    _damages = False

    def __init__(self, make_broker: Callable[..., Peer] = Broker, make_host: Callable[..., Host] | None = None) -> None:
        """Tests that plant a bug make broker or host themselves."""
        self._make_broker = make_broker
        self._make_host = make_host or Host

    def workload(self, seed: int) -> Workload:
        return draw_more(Random(f"{seed}/more"), draw_workload(Random(f"{seed}/workload")))

    def faults(self, seed: int) -> list[Fault]:
        workload = self.workload(seed)
        hosts = [BROKER, *(client.name for client in workload.clients)]
        # The broker crashes more often than a client: it has more to lose.
        rates = FaultRates(
            crashing=(BROKER, *hosts),
            restarting=(BROKER, BROKER, *hosts),
            storing=(BROKER,),
            damages=self._damages,
        )
        return draw_faults(Random(f"{seed}/faults"), hosts, workload.duration_ms, rates)

    def run(self, seed: int, faults: Sequence[Fault] | None = None, *, with_trace: bool = False) -> Outcome:
        faults = self.faults(seed) if faults is None else faults
        run = BrokerRun(seed, self.workload(seed), faults, self._make_broker, self._make_host)
        run.play()
        return outcome_of(self.name, run.world, faults, with_trace, run.counts())


class DamagedBrokerScenario(BrokerScenario):
    """The same with a disk that loses bodies: what is lost becomes dead letters, and nothing else suffers."""

    name = "damaged-broker"
    _damages = True


class FailingSubscribersScenario(BrokerScenario):
    """The same with subscribers that fail most of what they get: dead letters, many of them delivered again."""

    name = "failing-subscribers"

    def workload(self, seed: int) -> Workload:
        random = Random(f"{seed}/failing")
        usual = super().workload(seed)
        rates = {"fail_rate": random.choice([0.3, 0.7, 0.95]), "forget_rate": random.choice([0.0, 0.05])}
        return msgspec.structs.replace(
            usual,
            clients=[msgspec.structs.replace(client, **rates) for client in usual.clients],
            options=msgspec.structs.replace(usual.options, attempts_max=random.choice([1, 2, 3]), acknowledge_ms=300),
            weights={**usual.weights, "redeliver": random.choice([2, 8])},
        )


class DoorsScenario(BrokerScenario):
    """The same with what the broker's doors do: they keep records, postpone deliveries, and want them after all."""

    name = "doors"

    def workload(self, seed: int) -> Workload:
        return draw_doors(Random(f"{seed}/doors"), super().workload(seed))


class BrokerRun(Course):
    """A run with one broker."""

    quiet_ms = 1_500

    def __init__(
        self,
        seed: int,
        workload: Workload,
        faults: Sequence[Fault],
        make_broker: Callable[..., Peer] = Broker,
        make_host: Callable[..., Host] = Host,
    ) -> None:
        self.world = world = self._make_world(seed)
        self.workload = workload
        self.faults = faults
        self.history = History()
        random = world.random_of("settings")
        self.settings = msgspec.structs.replace(draw_settings(random), **workload.limits)
        world.network.delay_us = random.choice([50, 500, 20_000])
        world.network.jitter_us = random.choice([1, 500, 20_000])
        self._make_broker = make_broker
        self._damaged_documents: set[int] = set()
        self._saved_index: tuple[Any, int] | None = None
        self._save_random = world.random_of("saved indexes")
        self._add_brokers(random, make_host)
        numbers = count(1)
        client_settings = draw_client_settings(random)
        self.applications = [
            Application(
                world,
                plan,
                workload,
                self.history,
                client_settings,
                self._waiting_letters,
                lambda: next(numbers),
            )
            for plan in workload.clients
        ]

    def _make_world(self, seed: int) -> World:
        return World(seed, PacketCodec())

    def _add_brokers(self, random: Random, make_host: Callable[..., Host]) -> None:
        self.broker = make_host(
            self.world,
            BROKER,
            self._start_broker,
            sync_us=random.choice([(1, 1), (50, 2_000), (5_000, 30_000)]),
            batches=random.random() < 0.7,
        )
        self.world.hosts[BROKER] = self.broker
        self.broker.save_index = self._save_index
        self.broker.on_damage = self._find_damage
        self.broker.on_start = lambda broker: self._check_records()
        self.broker.start()

    def _start_broker(self, storage: SimulatedStorage, random: Random) -> Peer:
        index, version = Index(seed=random.getrandbits(32)), 0
        if self._saved_index is not None:
            subscriptions, version = self._saved_index
            index.add_many(subscriptions)
        return self._make_broker(BROKER, storage, random, self.settings, index, version)

    def _save_index(self, broker: Broker, version: int) -> None:
        """Saving takes a while, in which the index may change."""
        self.world.after(self._save_random.randrange(100_000), self._finish_saving, broker, version)

    def _finish_saving(self, broker: Broker, version: int) -> None:
        if self.broker.peer is not broker or self.world.chance("an index is not saved"):
            return
        subscriptions = broker.index.subscriptions()

        def count() -> None:
            self._saved_index = (subscriptions, version)
            self.broker.tell(self._save_random.randrange(10_000), IndexSaved(version))

        # It may contain changes that are not durable: a crash would take those back, so it does not count before.
        self.broker.when_durable(count)

    # -- the course of a run

    def _duration_ms(self) -> int:
        return self.workload.duration_ms

    def _mistakes(self) -> list[str]:
        return [*self._checks().all(), *self._lost_letters(), *self._wrong_at_doors()]

    def _leftovers(self) -> list[str]:
        return [f"the broker still has something to deliver: {self._stats()}"]

    def _is_quiet(self) -> bool:
        stats = self._stats()
        return bool(stats) and not (stats["queued"] or stats["waiting"] or stats["parked"])

    # -- looking at the broker

    def _stats(self) -> dict[str, int]:
        peer: Any = self.broker.peer
        return peer.stats() if peer is not None else {}

    def _letter_rows(self) -> Iterator[tuple[int, LetterRow]]:
        for number, data in self._rows(LETTERS, 0):
            yield number, decode(data, LetterRow)

    def _rows(self, table: str, after: Any) -> list[tuple[Any, bytes]]:
        """What is on the broker's disk."""
        return list(self.broker.storage.scan(table, after, 10_000))

    def _lost_letters(self) -> list[str]:
        """Dead letters that are not found by their subscriptions, or only there."""
        expected = {letter_key(row.subscription, number) for number, row in self._letter_rows()}
        keys_on_disk = {key for key, _ in self._rows(LETTER_KEYS, "")}
        return [f"found in one of two ways: dead letter {key!r}" for key in sorted(expected ^ keys_on_disk)]

    def _letters(self) -> list[Letter]:
        return [Letter(row.subscription, row.document, row.payload) for _, row in self._letter_rows()]

    def _waiting_letters(self) -> list[tuple[int, str, int]]:
        return [(number, row.subscription, row.document) for number, row in self._letter_rows()]

    def _checks(self) -> Checks:
        return Checks(
            self.history,
            self._letters(),
            expiring=frozenset(self.workload.expiring),
            damaged=frozenset(self._damaged_documents),
        )

    def _records(self) -> dict[tuple[str, str], bytes]:
        rows = self._rows(RECORDS, "")
        return {(kind, key): value for name, value in rows for kind, _, key in [name.partition("/")]}

    def _check_records(self) -> None:
        """The broker has started: what it acknowledged before is still there."""
        for text in wrong_records(self.history, self._records(), self.settings.records_per_kind_max):
            self.world.fail(f"after a start, {text}")

    def _wrong_at_doors(self) -> list[str]:
        history, settings = self.history, self.settings
        checks = [
            wrong_records(history, self._records(), settings.records_per_kind_max),
            wrong_refusals(history, settings.records_per_kind_max),
        ]
        if not self.faults and self.workload.options.acknowledge_ms >= LONG_MS:
            checks.append(early_receipts(history, settings.postponed_ms_max))
        return [text for check in checks for text in islice(check, TEXTS_MAX)]

    def _check_invariants(self) -> None:
        """Memory stays within what the settings say."""
        stats = self._stats()
        if not stats:
            return
        limits = {
            # Dead letters that are delivered again come on top.
            "queued_most": self.settings.queue_memory_max + len(self.history.redelivered_letters),
            "waiting": self.settings.waiting_memory_max,
            "sessions": self.settings.sessions_max,
        }
        for name, limit in limits.items():
            if stats[name] > limit:
                self.world.fail(f"the broker has {name} = {stats[name]}, more than {limit}")

    def _find_damage(self) -> None:
        """Which documents need a body that is damaged; their rows may be dropped later."""
        damaged_bodies = self.broker.storage.damaged_bodies()
        for number, data in self.broker.storage.scan(DOCUMENTS, 0, 100_000):
            row = decode(data, DocumentRow)
            if not damaged_bodies.isdisjoint((row.body, *row.payloads)):
                self._damaged_documents.add(number)

    def counts(self) -> dict[str, int]:
        """How much happened: a scenario in which nothing happens finds nothing."""
        history = self.history
        return {
            "operations": len(history.operations),
            "in_doubt": sum(operation.is_in_doubt for operation in history.operations),
            "refused": sum(operation.is_refused for operation in history.operations),
            "receipts": len(history.receipts),
            "received": len(history.received),
            "letters": len(self._letters()),
            "postponed": len(history.postponed),
            "records": sum(isinstance(operation.command, SetRecord) for operation in history.operations),
            "starts": sum(host.incarnation > 1 for host in self.world.hosts.values()),
        }
