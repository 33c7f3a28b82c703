"""Brokers with replicas in real processes: one is killed and its disk is lost, and nothing is missing."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from support.service_network import WAIT_SECONDS, Network, running, wait_for

from treecast.cli.entry import main

pytestmark = pytest.mark.house


def backed_up(network: Network) -> dict[str, dict[str, str]]:
    """Brokers whose backup has everything, by name."""
    rows = network.ask("GET", "/v1/network")[1]["brokers"]
    return {row["name"]: row for row in rows if row["replicas"] == "paired"}


def test_a_broker_that_is_killed_without_its_disk_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path, 3, "--replicas", "2") as network:
        queries = {f"q{n}": f"/load/item[@n > {n}]" for n in range(6)}
        for id, query in queries.items():
            assert network.ask("PUT", f"/v1/subscriptions/{id}", json.dumps({"query": query}))[0] == 201
        wait_for(lambda: len(backed_up(network)) == 3)
        publish(network, range(10))
        # The root of the source, and the host of some of the subscriptions.
        (root,) = network.ask("GET", "/v1/network")[1]["roots"]
        pid = network.pids()[root]
        os.kill(pid, signal.SIGKILL)
        shutil.rmtree(tmp_path / "data" / root)
        hosts = set()
        for n in range(10, 20):
            publish(network, range(n, n + 1))
            hosts.add(host_of(network, root))
        wait_for(lambda: hosts | {host_of(network, root)} != {root})  # its backup serves it, by now or before
        for n, id in enumerate(queries):
            assert pull(network, id, 19 - n) == sorted(range(n + 1, 20))
        # It comes home, with a disk that is new.
        wait_for(lambda: backed_up(network).get(root, {"host": ""})["host"] == root)
        publish(network, range(20, 22))
        assert pull(network, "q0", 21) == list(range(1, 22))
        # Whoever served it meanwhile does not speak in its name any more: connections of one name close each other.
        replaced = f"a newer connection has the name {root!r}"
        time.sleep(1.0)
        before = (tmp_path / "log").read_text().count(replaced)
        time.sleep(2.0)
        assert (tmp_path / "log").read_text().count(replaced) == before
        assert main(["status", "--network", "--url", f"http://127.0.0.1:{network.port}"]) == 0


def test_event_streams_of_hosts_say_where_they_are(tmp_path: Path) -> None:
    """Their ids name the data that they are about, so that a reader can go on at another host."""

    def events(after: str = "") -> tuple[int, list[str], str]:
        """Status, and from the first event with data on: its id, and its delivery."""
        connection = http.client.HTTPConnection("127.0.0.1", network.port, timeout=WAIT_SECONDS)
        connection.request("GET", "/v1/events?subscription=all", headers={"Last-Event-ID": after} if after else {})
        answer = connection.getresponse()
        place, delivery = "", ""
        while answer.status == 200 and not delivery:
            line = answer.readline().decode().strip()
            place = line.removeprefix("id: ") if line.startswith("id: ") else place
            delivery = json.loads(line[6:])["delivery"] if line.startswith("data: ") else ""
        connection.sock.close()
        return answer.status, place.split("."), delivery

    with running(tmp_path, 2, "--replicas", "2") as network:
        assert network.ask("PUT", "/v1/subscriptions/all", json.dumps({"query": "/load"}))[0] == 201
        publish(network, range(2))
        _, answer = network.ask("POST", "/v1/subscriptions/all:pull", b'{"max": 1, "wait_ms": 5000}')
        status, (store, document, _), delivery = events()
        assert status == 200 and len(store) == 8
        assert delivery == answer["deliveries"][0]["delivery"], "a delivery has one id, however it comes"
        status, place, other = events(f"{store}.{document}.all")
        assert status == 200 and int(place[1]) > int(document) and other != delivery


def test_what_is_settled_does_not_come_again_from_the_backup(tmp_path: Path) -> None:
    """A broker is killed at once after it has answered, and its disk is lost."""
    with running(tmp_path, 2, "--replicas", "2") as network:
        ids = [f"q{n}" for n in range(6)]
        for id in ids:
            assert network.ask("PUT", f"/v1/subscriptions/{id}", json.dumps({"query": "/load"}))[0] == 201
        wait_for(lambda: len(backed_up(network)) == 2)
        publish(network, range(8))
        (root,) = network.ask("GET", "/v1/network")[1]["roots"]
        pid = network.pids()[root]
        held = {id: pulled(network, id, 8) for id in ids}
        for id in ids:
            deliveries = [delivery for delivery, n in held[id].items() if n % 2]
            body = json.dumps({"deliveries": deliveries}).encode()
            assert network.ask("POST", f"/v1/subscriptions/{id}:ack", body) == (200, {"settled": 4, "unknown": []})
        os.kill(pid, signal.SIGKILL)
        shutil.rmtree(tmp_path / "data" / root)
        wait_for(lambda: host_of(network, root) != root)
        publish(network, range(8, 9))
        for id in ids:
            again: list[int] = []
            while 8 not in again:  # those of the other broker are still held
                again += pulled(network, id, 1).values()
            assert not set(again) & {1, 3, 5, 7}, id


def host_of(network: Network, broker: str) -> str:
    """The host that serves a broker at the moment."""
    rows = network.ask("GET", "/v1/network")[1]["brokers"]
    return next(str(row["host"]) for row in rows if row["name"] == broker)


def publish(network: Network, numbers: range) -> None:
    for n in numbers:
        headers = {"Treecast-Document-Id": f"d{n}"}
        assert network.ask("POST", "/v1/documents", f"<load><item n='{n}'/></load>", **headers)[0] in (200, 201)


def pull(network: Network, id: str, count: int) -> list[int]:
    return sorted(pulled(network, id, count).values())


def pulled(network: Network, id: str, count: int) -> dict[str, int]:
    """By the ids of deliveries, at least so many: their numbers."""
    got: dict[str, int] = {}
    end = time.monotonic() + WAIT_SECONDS
    while len(got) < count and time.monotonic() < end:
        _, answer = network.ask("POST", f"/v1/subscriptions/{id}:pull", b'{"wait_ms": 200}')
        for delivery in answer["deliveries"]:
            got[delivery["delivery"]] = int(delivery["payload"].split("'")[1])
    return got
