"""A ring of simulated peers that filter, compared with one index: on given documents, or on the whole corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import treecast
from treecast.document import read
from treecast.overlay.chord import ChordSettings, NfaSettings
from treecast.overlay.chord.nfa_peer import Method
from treecast.sim.chord.ring_network import RingNetwork


def network(peers: int = 5, members: int = 1, replicas: int = 1, seed: int = 3, **settings: Any) -> RingNetwork:
    base = tuple(f"p{number}" for number in range(replicas + 1))
    chord = ChordSettings(base=base, replicas=replicas, members=members)
    nfa = NfaSettings(**{"shed_rate": 1.0, "shed_documents_min": 5, "shed_copies": 3, **settings})
    return RingNetwork(seed, peers, chord, nfa)


def check(net: RingNetwork, index: treecast.Index, documents: list[bytes], method: Method) -> None:
    for number, document in enumerate(documents):
        result, matches = net.publish(net.names[number % len(net.names)], document, method)
        assert result.is_complete
        assert sorted(id for _, id in matches) == sorted(index.match(document)), document


def check_corpus(
    cases: Sequence[Any], method: Method, settings: Mapping[str, Any], seed: int = 1,
    takes: Callable[[int], bool] = lambda place: True,
) -> None:  # fmt: skip
    """All subscriptions of all cases at once, on the documents of those that are taken."""
    net, index, hosts = network(**settings), treecast.Index(), Random(seed)
    documents = []
    for place, case in enumerate(cases):
        for s in case.subscriptions:
            id = f"{place} {s.id}"
            net.subscribe(hosts.choice(net.names), id, s.query, s.namespaces, case.ordered)
            index.add(id, s.query, namespaces=s.namespaces, ordered=case.ordered)
        try:
            read(case.document)
        except treecast.DocumentError:
            continue
        if takes(place):
            documents.append(case.document)
    net.settle()
    check(net, index, documents, method)
    assert documents and (net.counts()["states with copies"] > 0) is (settings.get("shed_rate", 1.0) < 1)
