"""Brokers of a network in the simulated world: fresh seeds, and bugs planted to be found."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from support.hash_seeds import digests
from support.planted_network_bugs import PLANTED
from support.seeds import find_planted, first_seed, fresh_seed, means_of, run_fresh
from support.simple_routing import SimpleRouting

from treecast.overlay.onyx.settings import NetworkSettings
from treecast.sim.__main__ import main
from treecast.sim.onyx import network_scenario
from treecast.sim.onyx.network_scenario import NetworkScenario
from treecast.sim.onyx.network_workload import draw_network_settings

pytestmark = pytest.mark.house

SEEDS = 100
SIMPLE_SEEDS = 8
FIRST_SEED = first_seed(100_000)
PLANTED_SEEDS_MAX = 60
LONG_SEEDS = 5_000


def test_fresh_seeds() -> None:
    first = fresh_seed(FIRST_SEED)
    means = means_of(run_fresh(NetworkScenario(), range(first, first + SEEDS)))
    assert means["brokers"] > 4 and means["roots"] > 1 and means["views"] > 1.5 and means["starts"] > 0.5
    assert means["remote"] > 10 and means["forwarded"] > 10 and means["repaired"] > 5
    assert means["saved"] > 20 and means["parts"] > 1, "documents are changed before links"
    assert means["formats"] > 1.5 and means["dictionaries"] > 0.2, "neighbours agree on different ones"


def test_with_tables_that_are_right_by_their_simplicity(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails as well, routing is not to blame. Here all announcements are large ones, and no gap is small."""

    def draw(random: Random) -> NetworkSettings:
        settings = draw_network_settings(random)
        return msgspec.structs.replace(settings, announce_bytes_at_once=0, history_few_max=0)

    monkeypatch.setattr(network_scenario, "draw_network_settings", draw)
    scenario = NetworkScenario(routing=SimpleRouting)
    run_fresh(scenario, range(FIRST_SEED, FIRST_SEED + SIMPLE_SEEDS))


@pytest.mark.long
def test_many_seeds() -> None:
    first = FIRST_SEED + SEEDS
    run_fresh(NetworkScenario(), range(first, first + LONG_SEEDS))


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_found(name: str) -> None:
    scenario, first = PLANTED[name]
    find_planted(scenario, range(first, first + PLANTED_SEEDS_MAX), NetworkScenario)


def test_runs_repeat_whatever_the_hash_seed() -> None:
    assert len(set(digests("network", 3))) == 3, "different seeds are different runs"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "network", "--seeds", "1", "--first", "5"]) == 0
    assert "1/1 seeds, 0 failed" in capsys.readouterr().out
