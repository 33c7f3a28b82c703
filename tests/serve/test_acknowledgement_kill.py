"""What was acknowledged, and answered, is stored: a process that is killed at once delivers none of it again."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from support.served_broker import BrokerProcess
from support.served_http import Service

from treecast.serve.client import Connection

pytestmark = pytest.mark.house

DOCUMENTS = 40
KILLS = 3


def pulled(service: Service, count: int) -> list[str]:
    answer = service.ask("POST", "/v1/subscriptions/all:pull", {"max": count, "wait_ms": 5_000})
    assert answer.status == 200, answer
    return [envelope["delivery"] for envelope in answer.json["deliveries"]]


def test_what_is_settled_does_not_come_again(tmp_path: Path) -> None:
    """Over HTTP: some of what was pulled, the last ones first, so that a position alone does not say it."""
    with Service(tmp_path / "data") as service:
        service.subscribe("all", "/a")
        for _ in range(DOCUMENTS):
            service.publish("<a/>")
        left = DOCUMENTS
        for _ in range(KILLS):
            held = pulled(service, DOCUMENTS)
            assert len(held) == left, "those that were settled came again"
            answer = service.ask("POST", "/v1/subscriptions/all:ack", {"deliveries": held[-10:]})
            service.end(signal.SIGKILL)
            assert answer.json == {"settled": 10, "unknown": []}
            left -= 10
            service.start()
        assert len(pulled(service, DOCUMENTS)) == left


def test_what_a_client_has_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    """The client of Python, and a broker without doors. It acknowledges every second delivery."""

    async def publish(address: str) -> None:
        async with Connection(address, "writer") as connection:
            await connection.register_source("s")
            await connection.subscribe("all", "/a")
            await connection.publish("s", [b"<a/>"] * DOCUMENTS)

    async def read(address: str, acknowledged: set[int], last: int) -> list[int]:
        """The documents that come, up to the last one."""
        numbers: list[int] = []
        async with Connection(address, "reader") as connection:
            async for delivery in connection.deliveries(["all"]):
                numbers.append(delivery.document)
                if delivery.document in acknowledged:
                    assert await delivery.acknowledge()
                if delivery.document == last:
                    broker.end(signal.SIGKILL)
                    break
        return numbers

    even = set(range(2, DOCUMENTS + 1, 2))
    with BrokerProcess(tmp_path / "data") as broker:
        asyncio.run(publish(broker.address))
        assert asyncio.run(read(broker.address, even, DOCUMENTS)) == list(range(1, DOCUMENTS + 1))
        broker.start()
        left = sorted(set(range(1, DOCUMENTS + 1)) - even)
        assert asyncio.run(read(broker.address, set(), left[-1])) == left


def test_an_acknowledgement_that_comes_too_late_says_so(tmp_path: Path) -> None:
    """It is tried again already."""
    with Service(tmp_path / "data") as service:
        service.subscribe("all", "/a", acknowledge_ms=200)
        service.publish("<a/>")
        held = pulled(service, 1)
        again = pulled(service, 1)
        assert again == held
        answer = service.ask("POST", "/v1/subscriptions/all:ack", {"deliveries": again}).json
        assert answer == {"settled": 1, "unknown": []}
        assert service.ask("POST", "/v1/subscriptions/all:ack", {"deliveries": again + again}).json["unknown"] == again
