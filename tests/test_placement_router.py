"""Routers written down: they come back equal, and what is damaged is refused, byte for byte."""

from __future__ import annotations

import json
import zlib
from random import Random
from typing import Any

import pytest
from support.placements import MAKERS, draw_population

from treecast.errors import SnapshotError
from treecast.placement import Branch, ByFilters, ByRoot, Everywhere, Router, Spread

pytestmark = pytest.mark.house


def written(kind: Any, **fields: Any) -> bytes:
    """As to_bytes has it, with fields that it would not write."""
    body = json.dumps({"kind": kind, **fields}).encode()
    return b"treecast router 1 %d %08x\n" % (len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_router_comes_back(name: str) -> None:
    random = Random(name)
    for shards in (1, 6):
        subscriptions, documents = draw_population(random, queries=60, documents=40)
        placement = MAKERS[name](shards, documents[:10])
        for count in (0, 60):
            placement.add_many(subscriptions[:count])
            router = placement.router()
            data = router.to_bytes()
            again = Router.from_bytes(data)
            assert again == router
            assert again.to_bytes() == data
            assert again.route([*documents, b"<a"]) == router.route([*documents, b"<a"])


@pytest.mark.parametrize(
    "router",
    [
        Spread(4),
        Everywhere(2),
        ByRoot({"news": (0, 1), "näws": (2,)}, (3,)),
        ByFilters({0: "/a", 7: "//b[c = 'ü']"}, (Branch(-1, frozenset({0, 7})), Branch(0, frozenset({7}), 1))),
    ],
    ids=lambda router: router.kind,
)
def test_damage_is_refused(router: Router) -> None:
    """Each byte changed in several ways, each length: an error, or the same router; nothing else."""
    data = router.to_bytes()
    damaged = [data[:length] for length in range(len(data))]
    damaged += [
        data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :] for at in range(len(data)) for flip in (1, 32, 128)
    ]
    damaged += [data + b"\0", data + data, data[1:]]
    for each in damaged:
        with pytest.raises(SnapshotError) as caught:
            Router.from_bytes(each)
        assert caught.value.code in ("TC504", "TC505")


def test_another_version_is_refused() -> None:
    data = Spread(4).to_bytes().replace(b"router 1 ", b"router 2 ", 1)
    with pytest.raises(SnapshotError, match="form of version 2, this treecast reads version 1") as caught:
        Router.from_bytes(data)
    assert caught.value.code == "TC504"


@pytest.mark.parametrize(
    "data",
    [
        written("spread", shards=0),
        written("spread", shards=65_537),
        written("spread", shards=True),
        written("spread"),
        written("unknown", shards=1),
        written(["spread"], shards=1),
        written("everywhere", shards="4"),
        written("by-root", clusters=[["a", [0]]], rest=[]),
        written("by-root", clusters={"a": [-1]}, rest=[]),
        written("by-root", clusters={"a": 3}, rest=[]),
        written("by-root", clusters={}, rest=[1.5]),
        written("by-filters", filters=[[0, 1]], branches=[]),
        written("by-filters", filters=[["0", "/a"]], branches=[]),
        written("by-filters", filters=[[0]], branches=[]),
        written("by-filters", filters=[], branches=[[0, [], None]]),
        written("by-filters", filters=[], branches=[[-1, [5], None]]),
        written("by-filters", filters=[], branches=[[-1, [[]], None]]),
        written("by-filters", filters=[], branches=[[-1, [], "1"]]),
    ],
)
def test_fields_that_no_router_has_are_refused(data: bytes) -> None:
    """The checksum holds: whoever wrote this was no router."""
    with pytest.raises(SnapshotError) as caught:
        Router.from_bytes(data)
    assert caught.value.code == "TC505"
