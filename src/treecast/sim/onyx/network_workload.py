"""What the brokers and clients of a run are like: how many, who is where, and how small the limits are. By seed."""

from __future__ import annotations

from random import Random

import msgspec

from treecast.overlay.broker import BrokerSettings
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.sim.broker.workload import QUERIES, Workload, draw_workload
from treecast.wire import FORMATS

LEFT_OUT = ("replay", "redeliver", "advance", "source")
"""Actions that name documents by the numbers of one broker, or sources that many share."""
PART_QUERIES = (
    "/a/b[@k='1']",
    "/a/b[@k='2']",
    "/a/b",
    "/a/d[b]",
    "/a/d/b",
    "//c",
    "/a/d[not(b)]",
    "for $b in //b where $b/@k = '1' return <r>{$b}</r>",
    "for $d in $msg/a/d return <r>{$d/@n}{$d/b}</r>",
    "from /a/d drop //@k",
)
LISTS = (
    "drop /a/*[1]; rename //b to e",
    "drop /a/*[1]; unwrap //d",
    "drop /a/*[1]",  # twice is not the same as once
    "from /a/b drop //@k; rename //@n to m",
    "from /a/b drop //@k",
    "from /a/d drop //b",
)
"""Of these, a network has something to do early."""


class NetworkWorkload(msgspec.Struct, frozen=True):
    """Clients, and the broker of each. A client publishes, subscribes and receives there."""

    clients: Workload
    brokers: list[str]
    homes: dict[str, str]

    @property
    def roots(self) -> list[str]:
        """Brokers that somebody publishes at."""
        publishing_brokers = {self.homes[client.name] for client in self.clients.clients if client.sources}
        return [name for name in self.brokers if name in publishing_brokers]

    @property
    def subscriptions_max(self) -> int:
        return len(self.clients.subscriptions)


def draw_network(seed: int, brokers_max: int = 30) -> NetworkWorkload:
    random = Random(f"{seed}/network")
    usual = draw_workload(Random(f"{seed}/workload"))
    count = random.choice([3, 3, 3, 4, 4, 5, 6, 8, random.choice([8, 12, 30])])
    brokers = [f"b{number}" for number in range(1, min(count, brokers_max) + 1)]
    homes = {client.name: random.choice(brokers) for client in usual.clients}
    clients = [
        msgspec.structs.replace(client, sources=[source for source in client.sources if source != "shared"])
        for client in usual.clients
    ]
    # A subscription is received where its host is.
    owner = {id: client.name for client in clients for id in client.owned}
    clients = [
        msgspec.structs.replace(client, received=[id for id in usual.subscriptions if owner[id] == client.name])
        for client in clients
    ]
    weights = {action: weight for action, weight in usual.weights.items() if action not in LEFT_OUT}
    duration_ms = random.choice([800, 1_500, 3_000])
    workload = msgspec.structs.replace(usual, clients=clients, weights=weights, expiring=[], duration_ms=duration_ms)
    return NetworkWorkload(draw_parts(Random(f"{seed}/parts"), workload), brokers, homes)


def draw_parts(random: Random, usual: Workload) -> Workload:
    """In some runs most subscribers want parts of documents, so that something can be done before links. Drawn by
    itself, so that all other runs stay as they are."""
    if random.random() < 0.4:
        return usual
    queries = random.choice([PART_QUERIES, LISTS, PART_QUERIES + LISTS, PART_QUERIES + QUERIES])
    delivers = random.choice([("elements",), ("document", *["elements"] * 9)])
    return msgspec.structs.replace(usual, queries=queries, delivers=delivers)


def draw_network_settings(random: Random) -> NetworkSettings:
    """Limits as small as they may be in some runs, so that what they lead to happens."""

    def draw(usual: int, *extreme: int) -> int:
        return random.choice(extreme) if random.random() < 0.3 else usual

    return NetworkSettings(
        link_window_bytes=draw(4 << 20, 1, 300),
        link_buffer_bytes_max=draw(32 << 20, 1, 1_000),
        link_stall_ms=draw(2_000, 200),
        forward_documents_max=draw(256, 1, 2),
        forward_bytes_max=draw(1 << 20, 1),
        idle_ms=draw(1_000, 100),
        taken_bytes=draw(1 << 20, 1),
        early_bytes_max=draw(8 << 20, 0, 500),
        repair_ms=draw(300, 100),
        repair_ms_max=draw(2_000, 300),
        patience_ms=draw(300, 50),
        history_rows_max=draw(1_000, 1, 5),
        history_bytes_max=draw(1 << 20, 1),
        history_query_bytes_max=draw(1 << 20, 0),
        history_filters_max=draw(16, 1),
        positions_ms=draw(500, 200),
        announce_ms=draw(300, 100),
        announce_ms_max=draw(2_000, 300),
        cover_ms_max=draw(20_000, 500),
        held_requests_max=draw(10_000, 1),
        plan_bytes_max=draw(4_096, 0, 30),
        plan_queries_max=draw(4_096, 1, 2),
        plan_steps_max=draw(64, 1),
    )


def draw_formats(random: Random, settings: NetworkSettings) -> NetworkSettings:
    """How one broker writes and reads on its links: neighbours differ, and have to agree."""
    wishes = [("binary",), ("dictionary", "binary"), ("dictionary-zlib",), ("binary-zstd", "text-zlib"), ()]
    reads = [FORMATS, FORMATS, ("binary", "dictionary", "dictionary-zlib"), ("binary-zstd",), ()]
    return msgspec.structs.replace(
        settings,
        link_formats=random.choice(wishes),
        link_reads=random.choice(reads),
        dictionary_documents=random.choice([2, 3, 64]),
        dictionaries_max=random.choice([1, 4]),
        routes_first=random.random() < 0.8,
        local_bytes_max=random.choice([1, 300, 8 << 20]),
        own_at_once_max=random.choice([0, 2, 20_000]),
        load_rows_max=random.choice([1, 1, 1_000]),
    )


def draw_broker_settings(random: Random) -> BrokerSettings:
    def draw(usual: int, *extreme: int) -> int:
        return random.choice(extreme) if random.random() < 0.2 else usual

    return BrokerSettings(
        session_ms=draw(900, 3_000),
        resend_ms=draw(200, 20),
        retry_ms=100,
        retry_ms_max=2_000,
        queue_memory_max=draw(1_000, 1, 5),
        waiting_memory_max=draw(4_000_000, 0, 10),
        cached_rows_max=draw(4_096, 1),
        retention_step_ms=draw(10_000, 50),
        retention_rows_max=draw(2_000, 1),
    )
