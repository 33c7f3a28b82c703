"""A network of eight processes at full size: three sources, 100,000 subscriptions, 20 kills; nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from bench.network_kill import measure

pytestmark = pytest.mark.long


def test_eight_brokers_and_twenty_kills() -> None:
    """`measure` fails unless every subscription gets what one index matches, and each delivery has one id."""
    found = asyncio.run(measure(brokers=8, subscriptions=100_000, count=10_000, kills=20))
    print(found)
    assert len(found.kills) == 20
    assert found.deliveries > 0
