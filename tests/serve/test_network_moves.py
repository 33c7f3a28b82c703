"""`treecast up --brokers 2`: subscriptions move when one broker has most of them, and their readers do not notice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.service_network import Network, running, wait_for

pytestmark = pytest.mark.house


def hosts(network: Network) -> dict[str, int]:
    return {row["name"]: row["subscriptions"] for row in network.ask("GET", "/v1/network")[1]["brokers"]}


def test_a_subscription_moves_and_its_stream_goes_on(tmp_path: Path) -> None:
    with running(tmp_path, 2) as network:
        ids = [f"q{n}" for n in range(10)]
        for id in ids:
            assert network.ask("PUT", f"/v1/subscriptions/{id}", json.dumps({"query": "/load/item"}))[0] == 201
        wait_for(lambda: hosts(network) == {"broker-1": 5, "broker-2": 5})
        at = {id: network.ask("GET", f"/v1/subscriptions/{id}")[0] for id in ids}
        assert set(at.values()) == {200}
        seen: dict[str, dict[str, str]] = {id: {} for id in ids[1::2]}
        streams = [network.stream(id, events) for id, events in seen.items()]
        publish(network, 0)
        for id in ids[::2]:  # all those of one broker
            assert network.ask("DELETE", f"/v1/subscriptions/{id}")[0] == 204
        for n in range(1, 6):
            publish(network, n)
        wait_for(lambda: min(hosts(network).values()) == 0)  # what is said of brokers may be a second old
        wait_for(lambda: min(hosts(network).values()) >= 2)
        for n in range(6, 10):
            publish(network, n)
        wait_for(lambda: all(len(set(events.values())) == 10 for events in seen.values()))
        assert all(len(events) == 10 for events in seen.values())  # each delivery has one id
        for id in seen:
            assert network.ask("GET", f"/v1/subscriptions/{id}")[0] == 200
        for end in streams:
            end()


def publish(network: Network, n: int) -> None:
    headers = {"Treecast-Document-Id": f"d{n}"}
    assert network.ask("POST", "/v1/documents", f"<load><item n='{n}'/></load>", **headers)[0] in (200, 201)
