"""`treecast up --brokers 3`: one HTTP door before a network of processes, which are killed while documents come."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import shutil
import signal
import threading
import time
from contextlib import redirect_stdout
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.service_network import WAIT_SECONDS, Network, running, wait_for

from treecast.cli.entry import main
from treecast.index import Index
from treecast.serve.client import Connection

pytestmark = pytest.mark.house


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return (Path("/proc") / str(pid) / "stat").read_text().split()[2] == "Z"


def test_kills_lose_nothing(tmp_path: Path) -> None:
    queries = {f"q{n}": f"/load/item[@n > {n * 10}]" for n in range(7)}
    documents = [f"<load><item n='{n}'/></load>" for n in range(60)]
    with running(tmp_path, 3) as network:
        for id, query in queries.items():
            assert network.ask("PUT", f"/v1/subscriptions/{id}", json.dumps({"query": query}))[0] == 201
        assert network.ask("PUT", "/v1/sources/west", b"{}")[0] == 201
        assert network.ask("PUT", "/v1/subscriptions/wrong", b'{"query": "]"}')[0] == 422
        status, listed = network.ask("GET", "/v1/subscriptions?count=5")
        assert (status, [row["id"] for row in listed["subscriptions"]]) == (200, sorted(queries)[:5])
        rest = network.ask("GET", f"/v1/subscriptions?after={listed['next']}")[1]
        assert [row["id"] for row in rest["subscriptions"]] == sorted(queries)[5:] and "next" not in rest
        assert [row["id"] for row in network.ask("GET", "/v1/sources")[1]["sources"]] == ["default", "west"]
        seen: dict[str, str] = {}
        end_stream = network.stream("q0", seen)

        def publish(source: str, mine: list[str]) -> None:
            for document in mine:
                headers = {"Treecast-Document-Id": document, "Treecast-Source": source}
                assert network.ask("POST", "/v1/documents", document, **headers)[0] in (200, 201)

        threads = [
            threading.Thread(target=publish, args=("default", documents[::2])),
            threading.Thread(target=publish, args=("west", documents[1::2])),
        ]
        for thread in threads:
            thread.start()
        for name in ("broker-1", "broker-2", "registry"):
            network.kill(name)
        for thread in threads:
            thread.join(WAIT_SECONDS)
        # What comes after all of that travels as before.
        publish("default", ["<load><item n='99'/></load>"])
        documents.append("<load><item n='99'/></load>")
        check(network, queries, documents, seen)
        check_picture(network)
        end_stream()
        assert network.ask("DELETE", "/v1/subscriptions/q0")[0] == 204
        assert network.ask("GET", "/v1/subscriptions/q0")[1]["code"] == "TC412"
        assert network.ask("GET", "/v1/letters")[1]["code"] == "TC490"
        assert network.ask("POST", "/v1/tickets")[1]["code"] == "TC490"
        pids = network.pids()
        network.process.send_signal(signal.SIGTERM)
        assert network.process.wait(30) == 0
        assert all(map(is_gone, pids.values()))


def check(network: Network, queries: dict[str, str], documents: list[str], seen: dict[str, str]) -> None:
    """Deliveries are those of one index, by the stream and by pulling."""
    index = Index()
    for id, query in queries.items():
        index.add(id, query)
    expected = {id: {document for document in documents if id in index.match(document.encode())} for id in queries}
    wait_for(lambda: set(seen.values()) == expected["q0"])
    assert len(seen) == len(expected["q0"])  # each delivery has one id
    for id in list(queries)[1:]:
        got: set[str] = set()
        end = time.monotonic() + WAIT_SECONDS
        while got != expected[id] and time.monotonic() < end:
            _, answer = network.ask("POST", f"/v1/subscriptions/{id}:pull", b'{"wait_ms": 200}')
            got |= {delivery["payload"] for delivery in answer["deliveries"]}
        assert got == expected[id]


def check_picture(network: Network) -> None:
    """The trees are there, and what has travelled on their links."""

    def subscriptions() -> int:
        return sum(broker["subscriptions"] for broker in network.ask("GET", "/v1/network")[1]["brokers"])

    wait_for(lambda: subscriptions() == 7)  # a broker that was restarted tells its registry after a while
    _, picture = network.ask("GET", "/v1/network")
    assert [broker["name"] for broker in picture["brokers"]] == ["broker-1", "broker-2", "broker-3"]
    assert [broker["restarts"] for broker in picture["brokers"]] == [1, 1, 0]
    assert len(picture["roots"]) == 2 and len(picture["links"]) == 4
    assert sum(link["documents"] for link in picture["links"]) > 0
    hosted = {broker["name"]: broker["subscriptions"] for broker in picture["brokers"]}
    assert all(0 < link["table"] <= hosted[link["child"]] for link in picture["links"]), "no broker passes anything on"
    connection = http.client.HTTPConnection("127.0.0.1", network.port, timeout=WAIT_SECONDS)
    connection.request("GET", "/v1/network.svg")
    svg = ElementTree.fromstring(connection.getresponse().read())
    connection.request("GET", "/metrics")
    assert b"treecast_ready 1.0\n" in connection.getresponse().read()
    connection.close()
    assert len(svg.findall("{http://www.w3.org/2000/svg}circle")) == 6
    assert main(["status", "--network", "--url", f"http://127.0.0.1:{network.port}"]) == 0
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(["status", "--once", "--url", f"http://127.0.0.1:{network.port}"]) == 0
    assert "one broker of a network of 3: treecast status --network" in output.getvalue()


def test_a_root_whose_disk_was_put_back(tmp_path: Path) -> None:
    """It finds out, begins anew, and its next documents reach a broker that knows their numbers."""
    data, older = tmp_path / "data", tmp_path / "older"

    def publish(network: Network, *texts: str) -> None:
        for text in texts:
            headers = {"Treecast-Document-Id": text}
            assert network.ask("POST", "/v1/documents", f"<n>{text}</n>", **headers)[0] in (200, 201)

    def pull(network: Network, last: str) -> list[str]:
        """What comes to q2, which is with another broker than the root, up to this document."""
        texts: list[str] = []
        end = time.monotonic() + WAIT_SECONDS
        while last not in texts and time.monotonic() < end:
            _, answer = network.ask("POST", "/v1/subscriptions/q2:pull", b'{"wait_ms": 200}')
            ids = [delivery["delivery"] for delivery in answer["deliveries"]]
            texts += [delivery["payload"][3:-4] for delivery in answer["deliveries"]]
            network.ask("POST", "/v1/subscriptions/q2:ack", json.dumps({"deliveries": ids}))
        return texts

    def stop(network: Network) -> None:
        network.process.send_signal(signal.SIGTERM)
        assert network.process.wait(30) == 0

    with running(tmp_path, 2) as network:
        for id in ("q1", "q2"):
            assert network.ask("PUT", f"/v1/subscriptions/{id}", b'{"query": "/n"}')[0] == 201
        (root,) = network.ask("GET", "/v1/network")[1]["roots"]
        publish(network, "1", "2")
        assert pull(network, "2") == ["1", "2"]
        stop(network)
    shutil.copytree(data / root, older)
    with running(tmp_path, 2) as network:
        publish(network, "3", "4", "5")
        assert pull(network, "5") == ["3", "4", "5"]
        stop(network)
    shutil.rmtree(data / root)
    older.rename(data / root)
    with running(tmp_path, 2) as network:
        wait_for(lambda: "TC428" in (tmp_path / "log").read_text())
        publish(network, "new")
        assert pull(network, "new") == ["1", "2", "new"]
        stop(network)


def test_hosts_by_content(tmp_path: Path) -> None:
    """The registry hears of queries that are new, and of those that change."""
    with running(tmp_path, 2, "--policy", "content") as network:
        for number in range(4):
            form = json.dumps({"query": f"/load/item[@n='{number % 2}'][{number + 1}]"})
            assert network.ask("PUT", f"/v1/subscriptions/q{number}", form)[0] == 201
        form = json.dumps({"query": "/load/p:item[@n='1']", "namespaces": {"p": "urn:p"}})
        assert network.ask("PUT", "/v1/subscriptions/q0", form)[0] == 200
        assert network.ask("PUT", "/v1/subscriptions/q1", b'{"query": "/load["}')[0] == 422

        async def queries() -> list[object]:
            async with Connection(network.addresses()["registry"], "looks") as connection:
                return [row["query"] for row in await connection.inspect("subscriptions")]

        found = asyncio.run(queries())
        assert found == ["/load/p:item[@n='1']", *(f"/load/item[@n='{n % 2}'][{n + 1}]" for n in (1, 2, 3))]


def parent_of(pid: int) -> int:
    return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def test_processes_do_not_outlive_their_supervisor(tmp_path: Path) -> None:
    with running(tmp_path, 2) as network:
        pids = network.pids()
        assert len(pids) == 3
        # All of them are forks of one process, which is not needed as long as none of them has to start.
        (forks,) = set(map(parent_of, pids.values()))
        assert forks != network.process.pid
        os.kill(forks, signal.SIGKILL)
        network.kill("broker-1")
        assert {name for name, pid in network.pids().items() if pid != pids[name]} == {"broker-1"}
        pids |= network.pids()
    wait_for(lambda: all(map(is_gone, pids.values())))


def test_one_broker_has_no_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["up", "--data", str(tmp_path), "--policy", "content"])
    assert stop.value.code == 2
    assert "--policy: it needs --brokers" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--demo"], ["--peer-listen", "127.0.0.1:0"], ["--brokers", "1000"]])
def test_options_that_do_not_fit(option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["up", "--data", str(tmp_path), "--brokers", "3", *option])
    assert stop.value.code == 2
    assert option[0] in capsys.readouterr().err


def test_data_that_do_not_fit_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(directory: str, brokers: int | None) -> str:
        count = ["--brokers", str(brokers)] if brokers is not None else []
        assert main(["up", "--data", directory, *count, "--listen", "127.0.0.1:0"]) == 1
        return capsys.readouterr().err

    with running(tmp_path, 3, "--replicas", "2"):
        data = str(tmp_path / "data")
        in_use = refusal(data, 3)
        assert in_use.splitlines()[-2].startswith("treecast: TC423 ") and "Traceback" not in in_use
    assert "treecast: TC427 " in refusal(data, 2), "the subscriptions of broker-3 would be gone"
    assert "treecast: TC426 " in refusal(data, 3), "it had replicas"
    assert "treecast: TC423 the data" in refusal(f"{data}/broker-1", 2)
    one = refusal(data, None)
    assert f"treecast: TC423 the data in {data} are those of a network" in one
    assert "start it with --brokers 3, or" in one


def test_tokens_and_open_ports_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "create", "--data", str(tmp_path), "--scope", "admin"]) == 0
    assert main(["up", "--data", str(tmp_path), "--brokers", "2"]) == 1
    assert "TC608 tokens do not protect a network: its brokers talk to each other" in capsys.readouterr().err
