"""The benchmarks of networks at tiny size: brokers in processes of their own, which deliver what they must."""

from __future__ import annotations

import asyncio

import pytest

from bench.network_cpu import FRAME, chain, passing_on, valued_documents
from bench.network_million import Load, run_network
from treecast.overlay.onyx.settings import NetworkSettings

pytestmark = pytest.mark.house


def test_few_of_a_million_subscriptions() -> None:
    """It fails unless deliveries are those of one index."""
    found = run_network(["b1", "b2", "b3"], Load(subscriptions=3_000, changes=3, documents=64, roots=(0, 2)))
    assert found.matches > 0 and len(found.added_ms) == len(found.removed_ms) == 3
    assert len(found.tables) == 4 and all(found.tables.values()), "each link of both trees"


def test_documents_that_pass_through() -> None:
    with chain(NetworkSettings()) as network:
        found, _ = asyncio.run(passing_on(network, valued_documents(4 * FRAME, 10), 2))
    assert len(found) == 2
