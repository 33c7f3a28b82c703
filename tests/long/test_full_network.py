"""A network of eight processes at full size: three sources, 100,000 subscriptions, 20 kills; nothing is lost."""

from __future__ import annotations

import asyncio
import os

import pytest

from bench.network_kill import measure
from bench.network_million import Load, run_network

pytestmark = pytest.mark.long


def test_eight_brokers_and_twenty_kills() -> None:
    """`measure` fails unless every subscription gets what one index matches, and each delivery has one id."""
    found = asyncio.run(measure(brokers=8, subscriptions=100_000, count=10_000, kills=20))
    print(found)
    assert len(found.kills) == 20
    assert found.deliveries > 0
    calm = [kill.seconds for kill in found.kills if kill.load < 2 * (os.cpu_count() or 1)]
    assert max(calm, default=0) < 5, "until deliveries flow again, where others leave the machine alone"


def test_a_million_subscriptions_at_eight_brokers() -> None:
    """Here, too, deliveries are those of one index, or `run_network` fails."""
    found = run_network([f"b{number}" for number in range(1, 9)], Load())
    print(found)
    assert found.matches > 0 and len(found.tables) == 3 * 7
    assert max(found.added_ms) < 1_000, "one more is in every routing table"
