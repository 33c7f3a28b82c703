"""Rings of real processes: matches are those of one index, and peers that die, leave and join lose nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from random import Random

import pytest
from support.served_ring import PeerProcess, Ring, RingTls, running, wait_for

from treecast.index import Index
from treecast.serve.ring.ring_file import ask
from treecast.serve.tls import TlsFiles
from treecast.serve.transport_error import TransportError

pytestmark = pytest.mark.house

CONFIGURATIONS = {
    "l=0, iterative": (["--fragment-length", "0"], ["--method", "iterative", "--shed-rate", "1"], False),
    "l=1, recursive, 3 places": (["--fragment-length", "1", "--places", "3"], ["--shed-rate", "1"], True),
    "l=2, recursive, shedding": (["--fragment-length", "2"], ["--shed-rate", "0.1"], False),
}


def draw_query(random: Random) -> str:
    text = ""
    for _ in range(random.randint(1, 4)):
        text += random.choice(["/", "/", "//"]) + random.choice("abcd*")
        if random.random() < 0.3:
            text += random.choice(["[b]", "[c//d]", "[@x]", "[.//a/b]", "[not(c)]", "[2]"])
    return text


def draw_document(random: Random, depth: int = 0) -> str:
    name, attribute = random.choice("abcd"), random.choice(["", " x='1'"])
    inside = "".join(draw_document(random, depth + 1) for _ in range(random.randint(0, 3 if depth < 4 else 0)))
    return f"<{name}{attribute}>{inside}</{name}>"


def check_matches(ring: Ring, queries: int, documents: int, random: Random) -> None:
    """Every second peer publishes, and the others have the subscriptions: nothing is matched where it is published."""
    publishers, hosts = ring.peers[::2], ring.peers[1::2]
    index = Index()
    host_of: dict[str, PeerProcess] = {}
    for number in range(queries):
        id, query = f"q{number}", draw_query(random)
        index.add(id, query)
        host_of[id] = random.choice(hosts)
    threads = [
        threading.Thread(target=subscribe, args=(host, {id: index[id].query for id in host_of if host_of[id] is host}))
        for host in hosts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected: dict[str, list[str]] = {id: [] for id in host_of}
    for number in range(documents):
        document = f"<a n='{number}'>{draw_document(random)}</a>"
        for id in index.match(document.encode()):
            expected[id].append(document)
        assert random.choice(publishers).publish(document) == "complete"
    for id, matches in expected.items():
        got: list[str] = []
        while len(got) < len(matches):  # complete: all of it is in the queue
            more = [payload for _, payload in host_of[id].pull(id, wait_ms=10_000)]
            assert more, (id, index[id].query)
            got += more
        assert sorted(got) == sorted(matches)
    assert all(not host.pull(id) for id, host in host_of.items())
    picture = ring.settle()
    matched = sum(peer["matches"] for peer in picture["peers"])
    assert matched == sum(map(len, expected.values())) > documents  # by the ring, before any host has looked again
    assert sum(peer["complete"] for peer in picture["peers"]) == documents


def subscribe(host: PeerProcess, queries: dict[str, str]) -> None:
    for id, query in queries.items():
        host.subscribe(id, query)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_matches_are_those_of_an_index(name: str, tmp_path: Path) -> None:
    check_configuration(name, tmp_path, 4, queries=24, documents=8)


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_matches_of_sixteen_processes(name: str, tmp_path: Path) -> None:
    check_configuration(name, tmp_path, 16, queries=200, documents=60)


def check_configuration(name: str, directory: Path, count: int, queries: int, documents: int) -> None:
    founding, options, has_tls = CONFIGURATIONS[name]
    tls = RingTls(directory) if has_tls else None
    joined = [*options, *(tls.options() if tls else [])]
    replicas = 3 if count > 4 else 2
    with running(directory, count, replicas, founding, joined) as ring:
        if tls is not None:
            check_strangers(ring, tls)
        check_matches(ring, queries, documents, Random(f"{name} {count}"))
        if "shedding" in name:
            assert sum(peer["copies"] for peer in ring.settle()["peers"]) > 0 or documents < 20


def check_strangers(ring: Ring, tls: RingTls) -> None:
    """A certificate of another authority opens no ring."""
    contacts, name = (ring.base[0].address,), "127.0.0.1:9"
    ours = TlsFiles(certificate=str(tls.certificate), ca=str(tls.ca))
    assert len(asyncio.run(ask(contacts, name, ours, wait_ms=0)).base) == len(ring.base)
    with pytest.raises(TransportError, match="TC475"):
        asyncio.run(ask(contacts, name, TlsFiles(certificate=str(tls.stranger), ca=str(tls.ca)), wait_ms=0))


def test_nothing_is_lost_when_peers_come_and_go(tmp_path: Path) -> None:
    """With three copies: one peer is killed and started again, one leaves, one joins, while documents flow."""
    with running(tmp_path, 5, replicas=3, joined=["--shed-rate", "1"]) as ring:
        leaver = ring.add("--leave")
        ring.settle()
        publisher, victim, *_ = ring.base
        hosts = [victim, ring.base[2], ring.peers[4]]
        index = Index()
        where: dict[str, PeerProcess] = {}
        for number in range(12):
            id, query = f"q{number}", f"/load/item[@n >= {number * 3}]/name"
            if number % 3 == 0:
                query = f"/load[group{number}]//name"
            hosts[number % len(hosts)].subscribe(id, query)
            index.add(id, query)
            where[id] = hosts[number % len(hosts)]
        documents = [f"<load><group{n % 12}/><item n='{n}'><name>{n}</name></item></load>" for n in range(40)]
        answers: list[str] = []

        def publish() -> None:
            for document in documents:
                answers.append(publisher.publish(document))

        thread = threading.Thread(target=publish)
        thread.start()
        wait_for(lambda: len(answers) > 5)
        victim.kill()
        newcomer = ring.add()
        victim.start()
        victim.wait()
        assert leaver.end() == 0  # it hands over what it has, which needs all of the base
        assert "left the ring" in leaver.log()
        ring.peers.remove(leaver)
        newcomer.subscribe("late", "/load/last")
        thread.join()
        assert len(answers) == len(documents) and set(answers) <= {"complete", "partial"}
        ring.settle()
        check_deliveries(index, where, documents)
        assert newcomer.ask("POST", "documents", b"<load><last/></load>")[1]["filtering"] == "complete"
        assert ring.base[0].ask("GET", "status")[0] == 200


def check_deliveries(index: Index, where: dict[str, PeerProcess], documents: list[str]) -> None:
    """All that was acknowledged comes, each once; documents that did not get everywhere at once come later."""
    for id, host in where.items():
        expected = {document for document in documents if id in index.match(document.encode())}
        assert expected
        got: dict[str, str] = {}

        def complete(id: str = id, host: PeerProcess = host, got: dict[str, str] = got) -> bool:
            got.update(host.pull(id, wait_ms=100))
            return set(got.values()) == expected  # noqa: B023 (used at once)

        wait_for(complete)
        assert len(got) == len(expected)  # each delivery has one id


def test_a_peer_knows_its_ring(tmp_path: Path) -> None:
    with running(tmp_path, 3, replicas=2) as ring:
        first = ring.base[0]
        moved = PeerProcess(tmp_path, first.address, [])
        first.end()
        moved.address = "127.0.0.1:9"
        moved.start()
        assert moved.end(0) == 1 and "TC427" in moved.log()
        first.start()  # without --base or --join
        first.wait()
        assert len(ring.settle()["peers"]) == 3
