"""Brokers of a network in the simulated world whose routing queries hold sets of values: a budget of one entry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from treecast.overlay.onyx.path_routing import PathRouting
from treecast.overlay.onyx.routing import RoutingSettings
from treecast.sim.onyx.network_scenario import NetworkRun, NetworkScenario
from treecast.sim.onyx.network_workload import NetworkWorkload
from treecast.sim.scenario import report_of, run_seeds

pytestmark = pytest.mark.house

SEEDS, LONG_SEEDS = 12, 1_000
FIRST_SEED = int(os.environ.get("TREECAST_FIRST_SEED", "100000"))
QUERIES = (*["/a/b[@k='1']", "/a/b[@k='2']"] * 4, "/a/b")


class SetScenario(NetworkScenario):
    """Subscriptions that differ in values, and tables without room for two of them."""

    def __init__(self) -> None:
        settings = RoutingSettings(entries_max=1, set_values_min=2)
        super().__init__(routing=lambda: PathRouting(settings, seed=1))

    def network(self, seed: int) -> NetworkWorkload:
        network = super().network(seed)
        clients = msgspec.structs.replace(network.clients, queries=QUERIES, delivers=("document",))
        return msgspec.structs.replace(network, clients=clients)


class Tables:
    """Looks at all tables in the end, in place of what tables built from nothing would be: rules depend on history."""

    def __init__(self) -> None:
        self.with_sets = 0

    def wrong(self, run: Any) -> Iterator[str]:
        peers = dict(run._peers())
        missing = [name for name in run.network.brokers if name not in peers]
        missing += [name for name, peer in peers.items() if not set(run.network.roots) <= peer.trees.keys()]
        if missing:
            yield f"{', '.join(missing)} do not serve, or lack a tree"
            return
        for root in run.network.roots:
            for name, peer in peers.items():
                table = peer.trees[root].table
                self.with_sets += bool(table.aggregate().sets)
                if table.aggregate() != table.rebuilt():
                    yield f"the table of {name} for {root} is not what it would be if it were built anew"
                for child in peer.trees[root].children:
                    if table.collect(child) != peers[child].trees[root].table.aggregate():
                        yield f"{name} does not know what {child} wants of {root}"


def check(seeds: range, monkeypatch: pytest.MonkeyPatch) -> int:
    tables = Tables()
    monkeypatch.setattr(NetworkRun, "_wrong_tables", lambda run: tables.wrong(run))
    failures = list(run_seeds(SetScenario(), seeds, lambda outcome: None))
    assert not failures, "\n".join(report_of(outcome) for outcome in failures[:3])
    return tables.with_sets


def test_sets_of_values_survive_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(range(FIRST_SEED, FIRST_SEED + SEEDS), monkeypatch) > 0


@pytest.mark.long
def test_sets_of_values_survive_many_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(range(FIRST_SEED + SEEDS, FIRST_SEED + SEEDS + LONG_SEEDS), monkeypatch) > 0
