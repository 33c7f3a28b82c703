"""What the clients of a run are like: how many, what they publish and subscribe to, how they receive. Drawn by seed.

Documents are tiny. Each has a number of its own in every element, so that no two have the same payload.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from treecast.overlay.messages import SubscriptionOptions

QUERIES = (
    "/a",
    "/*",
    "//b",
    "//c",
    "/a/b[@k='1']",
    "/a/b[@k='2']",
    "/a[c]/b",
    "//d[b]",
    "//d",
    "/a//c",
    "for $b in //b return <r>{$b}</r>",
)
REFUSED_QUERIES = ["a/b", "//b[", "/a/namespace::b"]
REFUSED_DOCUMENTS = [b"<a>", b"", b"<a></b>"]


class ClientPlan(msgspec.Struct, frozen=True):
    """One client."""

    name: str
    owned: list[str]
    """The subscriptions that it adds, changes and removes. No other client does."""
    received: list[str]
    """Those that it receives from."""
    sources: list[str]
    """Where it publishes; empty: it does not."""
    credit: int
    action_ms: int
    """About so much time passes between two of its actions."""
    acknowledge_ms: int
    """How long it works on what it receives."""
    fail_rate: float
    forget_rate: float
    """Deliveries that it fails, and that it never acknowledges."""
    singly: bool = False
    """It acknowledges each delivery by itself, in any order."""
    postpone_rate: float = 0.0
    """Deliveries that it fails, and wants again after a time that it chooses itself."""
    waits_ms: list[int] = []
    """One of these; 0 is never."""
    records: list[tuple[str, str]] = []
    """Kinds and keys of the records that it sets and removes. No other client does."""


class Workload(msgspec.Struct, frozen=True):
    """A run."""

    duration_ms: int
    clients: list[ClientPlan]
    subscriptions: list[str]
    options: SubscriptionOptions
    expiring: list[str]
    """Subscriptions that are removed when nobody receives from them."""
    weights: dict[str, int]
    """Of actions."""
    batch_max: int
    named_rate: float
    """Documents that have an id of their publisher's."""
    limits: dict[str, int] = {}
    """Of the broker's settings: what this run needs to differ."""
    queries: Sequence[str] = QUERIES
    delivers: Sequence[str] = ("document", "elements")
    """What subscriptions by a path are delivered: one of these."""


def draw_workload(random: Random) -> Workload:
    """The workload of a seed. Swarm: each run leaves some kinds of actions out."""
    names = [f"c{number}" for number in range(1, random.choice([2, 2, 3, 3, 4]) + 1)]
    subscriptions = [f"q{number}" for number in range(1, random.choice([1, 2, 3, 4, 6]) + 1)]
    publishers = random.sample(names, random.randint(1, len(names)))
    owner = {id: random.choice(names) for id in subscriptions}
    is_shared = random.random() < 0.3
    receivers = {id: random.sample(names, random.randint(1, 2 if is_shared else 1)) for id in subscriptions}
    fails = random.random() < 0.35
    forgets = random.random() < 0.2
    clients = [
        ClientPlan(
            name=name,
            owned=[id for id in subscriptions if owner[id] == name],
            received=[id for id in subscriptions if name in receivers[id]],
            sources=[f"s-{name}", "shared"] if name in publishers else [],
            credit=random.choice([1, 2, 5, 100]),
            action_ms=random.choice([20, 60, 150]),
            acknowledge_ms=random.choice([0, 0, 5, 100]),
            fail_rate=random.choice([0.05, 0.3]) if fails else 0.0,
            forget_rate=0.1 if forgets else 0.0,
        )
        for name in names
    ]
    optional = {"replace": 3, "unsubscribe": 2, "pause": 2, "replay": 2, "redeliver": 2, "refused": 2, "attach": 2}
    weights = {action: weight for action, weight in optional.items() if random.random() < 0.5}
    return Workload(
        duration_ms=random.choice([500, 1_500, 4_000]),
        clients=clients,
        subscriptions=subscriptions,
        options=SubscriptionOptions(
            attempts_max=random.choice([2, 5, 1_000]), acknowledge_ms=random.choice([300, 1_000, 5_000])
        ),
        expiring=random.sample(subscriptions, 1) if random.random() < 0.1 else [],
        weights={"publish": 10, "subscribe": 4, **weights},
        batch_max=random.choice([1, 3, 8]),
        named_rate=random.choice([0.0, 0.5, 1.0]),
    )


def draw_more(random: Random, workload: Workload) -> Workload:
    """What some runs do besides. Drawn by itself, so that all other runs stay as they are."""
    more = {action: weight for action, weight in {"advance": 2, "source": 1}.items() if random.random() < 0.25}
    clients = [
        msgspec.structs.replace(client, singly=random.random() < 0.5) if is_singly else client
        for is_singly in [random.random() < 0.25]
        for client in workload.clients
    ]
    return msgspec.structs.replace(workload, clients=clients, weights={**workload.weights, **more})


HOUR_MS = 3_600_000


def draw_doors(random: Random, workload: Workload) -> Workload:
    """What the doors of a broker ask for besides: records, and another attempt when they want it."""
    weights = {action: weight for action, weight in {"record": 4, "hasten": 2}.items() if random.random() < 0.7}
    postpones = random.random() < 0.8
    kinds = ["hooks", "topics"][: random.randint(1, 2)]
    clients = [
        msgspec.structs.replace(
            client,
            postpone_rate=random.choice([0.1, 0.5]) if postpones else 0.0,
            waits_ms=random.choice([[20, 200], [500, HOUR_MS], [0, 100], [0, 50, 1_000, HOUR_MS]]),
            records=[(random.choice(kinds), f"{client.name}/{number}") for number in range(random.randint(1, 4))],
        )
        for client in workload.clients
    ]
    limits = {
        "records_per_kind_max": random.choice([1, 3, 1_000]),
        "postponed_ms_max": random.choice([300, 24 * HOUR_MS]),
    }
    return msgspec.structs.replace(workload, clients=clients, weights={**workload.weights, **weights}, limits=limits)


def draw_document(random: Random, number: int) -> bytes:
    """A tiny document that no other is equal to, not even in one of its elements."""
    n = str(number)

    def element(name: str, inner: str = "") -> str:
        return f'<{name} n="{n}" k="{random.randint(1, 2)}">{inner}</{name}>'

    inner = "".join(element(random.choice("bcb")) for _ in range(random.randint(0, 2)))
    if random.random() < 0.3:
        inner += element("d", element("b") if random.random() < 0.5 else "")
    return element("a", inner).encode()


def probe_document(number: int) -> bytes:
    """A document that every query of `QUERIES` matches."""
    b = f'<b n="{number}" k="1"/><b n="{number}" k="2"/>'
    return f'<a n="{number}">{b}<c n="{number}"/><d n="{number}">{b}</d></a>'.encode()
