"""Networks by script: whatever a schedule of faults does to one host, what was acknowledged is delivered."""

from __future__ import annotations

import msgspec
import pytest
from support.scripted_network import QUICK_REGISTRY, ScriptedNetwork

from treecast.overlay.broker import BrokerSettings
from treecast.overlay.onyx.settings import NetworkSettings
from treecast.sim.faults import HostFault, LinkFault

pytestmark = pytest.mark.house


@pytest.mark.parametrize("seed", range(8))
def test_a_backup_that_lacks_something_does_not_take_over(seed: int) -> None:
    """What a broker acknowledged while it served alone has to be at its new backup before that one counts as such."""
    network = ScriptedNetwork(2, seed=seed, replicas=2, registry=msgspec.structs.replace(QUICK_REGISTRY, rejoin_ms=0))
    network.subscribe_and_wait("b1", "all")
    network.crash("b2", 1_000, loses_disk=True)
    network.wait("a broker that serves alone", lambda: network.status()["b1"]["replicas"] == "alone")
    begin_ms = network.now_ms
    to_backup = ("host:b1", "host:b2", begin_ms, begin_ms + 60_000)
    network.world.schedule([LinkFault("delay", *to_backup, 300), LinkFault("loss", *to_backup, 100)])
    count = 0

    def publish_until_backed_up() -> bool:
        nonlocal count
        count += 1
        network.publish(str(count))
        return network.is_backed_up("b1")

    network.wait("a backup", publish_until_backed_up, step_ms=25)
    network.crash("b1", 3_000, loses_disk=True)
    network.expect_all_delivered()
    assert count > 50


def test_a_primary_whose_disk_is_older_does_not_go_on() -> None:
    """It cannot know what it has lost. Its backup can, and serves from then on."""
    network = ScriptedNetwork(2, replicas=2)
    network.subscribe_and_wait("b1", "all")
    network.publish_and_wait("1")
    older = network.copy_disk("b1")
    network.publish_and_wait("2", "3", "4")
    network.put_back("b1", older)
    network.publish_and_wait("5", "6")
    network.wait("a backup", lambda: network.is_backed_up("b1"))
    network.crash("b1", 3_000, loses_disk=True)
    network.expect_all_delivered()


SHORT = BrokerSettings(keep_ms=0, retention_step_ms=20)
"""Nothing is kept that nobody needs."""


def test_what_a_broker_that_is_away_still_needs_is_kept() -> None:
    network = ScriptedNetwork(3, broker=SHORT)
    network.subscribe_and_wait("b3", "all")
    network.publish_and_wait("1", "2")
    network.run(2_000)
    network.crash("b3", 3_000)
    for number in range(3, 20):
        network.publish_and_wait(str(number))
        network.run(100)
    network.expect_all_delivered()


@pytest.mark.parametrize("crash_ms", range(20, 700, 60))
def test_what_a_broker_may_lose_in_a_crash_is_kept(crash_ms: int) -> None:
    """It has said how far it is only when that was on its disk: until then it may have to ask again."""
    settings = NetworkSettings(positions_ms=50)
    network = ScriptedNetwork(2, seed=crash_ms, broker=SHORT, network=settings)
    network.subscribe_and_wait("b2", "all")
    network.publish_and_wait("1", "2")
    network.run(1_000)
    network.world.schedule([HostFault("slow-disk", "b2", network.now_ms, network.now_ms + 60_000, 500)])
    network.run(10)
    network.publish_and_wait("3", "4", "5")
    network.run(crash_ms)
    network.crash("b2", 100)
    network.expect_all_delivered()


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_that_knows_nothing_of_a_new_subscription_is_not_taken_for_all_there_is(seed: int) -> None:
    """Its question was asked before the subscription counted, took long, and was overtaken by what it asked for."""
    settings = NetworkSettings(history_few_max=0, repair_ms=3_000, patience_ms=50, positions_ms=100)
    network = ScriptedNetwork(3, seed=seed, network=settings)
    network.subscribe_and_wait("b3", "q0", topic="t0")
    times = network.now_ms, network.now_ms + 60_000
    network.world.schedule([LinkFault("delay", "b3", "b1", *times, 2_000), LinkFault("delay", "b2", "b3", *times, 600)])
    for burst in range(30):
        topics = range(max(0, burst // 3 - 3), burst // 3 + 1)
        for topic in topics:
            network.publish(str(burst), topic=f"t{topic}")
        network.run(200)
        if burst % 3 == 0:
            network.subscribe("b3", f"q{burst // 3 + 1}", topic=f"t{burst // 3 + 1}")
    network.expect_all_delivered()
