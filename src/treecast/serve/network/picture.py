"""What a network looks like: its brokers, its trees, and what travels on their links; for programs and as a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from typing import Any

import msgspec

from treecast.errors import TreecastError
from treecast.serve.client import Connection
from treecast.serve.connection import steady_ms
from treecast.serve.doors.calls import Call, Reply, json_reply
from treecast.serve.doors.routes import READ, Route
from treecast.serve.network.places import Places
from treecast.serve.network.supervisor import Supervised

LOOK_SECONDS = 2.0
"""A broker that does not answer within this time is shown without its links."""
LOOK_MS = 500
"""The same answer for everybody who asks within this time. Rates are those between two looks."""
SVG = "image/svg+xml"
WIDTH, STEP, RADIUS = 150, 90, 26

LinkKey = tuple[str, str, str]
"""Root, parent and child."""


class BrokerPicture(msgspec.Struct, frozen=True):
    """A broker, as the supervisor and the registry know it."""

    name: str
    is_up: bool
    restarts: int
    address: str
    subscriptions: int = 0
    epoch: int = 0
    host: str = ""
    """With replicas: the broker whose process serves it,"""
    backup: str = ""
    """the one whose process has a copy of its data,"""
    replicas: str = ""
    """and how they stand: paired, joining, alone, waiting."""


class LinkPicture(msgspec.Struct, frozen=True):
    """A link of the tree of a root. `table` counts the queries of its routing table."""

    root: str
    parent: str
    child: str
    depth: int
    documents: int = 0
    bytes: int = 0
    documents_per_second: float = 0.0
    bytes_per_second: float = 0.0
    table: int = 0
    bytes_saved: int = 0
    """What did not have to travel, because nobody behind the link needs it."""
    values: int = 0
    """How many values the queries of the table have in sets."""


class NetworkPicture(msgspec.Struct, frozen=True):
    """All of it. A root without children has no links."""

    brokers: list[BrokerPicture]
    roots: list[str]
    links: list[LinkPicture]


ROUTES = (
    Route("GET", "/v1/network", "network", "Brokers, trees and links", {200: NetworkPicture}, scopes=READ),
    Route("GET", "/v1/network.svg", "network_svg", "A picture of the trees", {200: None}, content=SVG, scopes=READ),
)


class Rates:
    """What grew since the last look, for each second.

    >>> rates = Rates()
    >>> rates.of({("a", "a", "b"): (10, 500)}, 1_000), rates.of({("a", "a", "b"): (20, 900)}, 3_000)
    ({}, {('a', 'a', 'b'): (5.0, 200.0)})
    """

    def __init__(self) -> None:
        self._before: dict[LinkKey, tuple[int, int]] = {}
        self._before_ms = 0

    def of(self, counts: dict[LinkKey, tuple[int, int]], now_ms: int) -> dict[LinkKey, tuple[float, float]]:
        passed_ms = max(now_ms - self._before_ms, 1)
        rates = {}
        for key, count in counts.items():
            if (before := self._before.get(key)) is not None:
                # A link that was made anew counts from 0 again.
                grown = (max(now - then, 0) * 1000 / passed_ms for now, then in zip(count, before, strict=True))
                documents, size = grown
                rates[key] = (round(documents, 1), round(size, 1))
        self._before, self._before_ms = counts, now_ms
        return rates


class NetworkPages:
    """Looks at the registry and at all brokers when somebody asks."""

    def __init__(self, brokers: dict[str, Supervised], places: Places) -> None:
        self._brokers = brokers
        self._places = places
        self._connections: dict[str, tuple[str, Connection]] = {}
        self._rates = Rates()
        self._last: NetworkPicture | None = None
        self._last_ms = 0
        self._looking = asyncio.Lock()

    async def network(self, call: Call) -> Reply:
        return json_reply(200, await self._look())

    async def network_svg(self, call: Call) -> Reply:
        return Reply(200, draw(await self._look()).encode(), SVG)

    async def close(self) -> None:
        for _, connection in self._connections.values():
            await connection.close()

    async def _look(self) -> NetworkPicture:
        async with self._looking:
            if self._last is None or steady_ms() - self._last_ms >= LOOK_MS:
                self._last = await self._look_again()
                self._last_ms = steady_ms()
            return self._last

    async def _look_again(self) -> NetworkPicture:
        known, trees = await self._places.brokers(), await self._places.trees()
        hosts = {name: str(row.get("host") or name) for name, row in known.items()}
        answers = await asyncio.gather(*(self._links_of(name, hosts.get(name, name)) for name in self._brokers))
        rows = {(str(row["root"]), str(row["broker"]), str(row["child"])): row for some in answers for row in some}
        counted = {key: (int(row["documents"]), int(row["bytes"])) for key, row in rows.items()}
        rates = self._rates.of(counted, steady_ms())
        brokers = [_broker_picture(name, one, known.get(name, {})) for name, one in self._brokers.items()]
        links = []
        for tree in trees:
            key = str(tree["root"]), str(tree["parent"]), str(tree["broker"])
            if tree["parent"]:
                row: dict[str, Any] = rows.get(key, {})
                counts = row.get("documents", 0), row.get("bytes", 0)
                of_link = rates.get(key, (0.0, 0.0))
                sizes = row.get("table", 0), row.get("bytes_saved", 0), row.get("values", 0)
                links.append(LinkPicture(*key, int(tree["depth"]), *counts, *of_link, *sizes))
        return NetworkPicture(brokers, sorted({str(tree["root"]) for tree in trees}), links)

    async def _links_of(self, name: str, host: str) -> list[dict[str, str | int]]:
        address = self._brokers.get(host, self._brokers[name]).addresses.peer
        with suppress(TimeoutError, TreecastError):
            async with asyncio.timeout(LOOK_SECONDS):
                known = self._connections.get(name)
                if known is not None and known[0] != address:
                    await self._connections.pop(name)[1].close()
                    known = None
                if known is None:
                    connection = Connection(address, "front door picture", connect_s=LOOK_SECONDS, broker=name)
                    await connection.__aenter__()
                    self._connections[name] = known = (address, connection)
                return await known[1].inspect("trees", count_max=1_000)
        return []


def _broker_picture(name: str, one: Supervised, row: Mapping[str, str | int]) -> BrokerPicture:
    """What the supervisor knows of a broker, and what the registry says of it."""
    return BrokerPicture(
        *(name, one.is_up.is_set(), one.restarts, one.addresses.peer),
        subscriptions=int(row.get("load", 0)),
        epoch=int(row.get("epoch", 0)),
        host=str(row.get("host", "")),
        backup=str(row.get("backup", "")),
        replicas=str(row.get("replicas", "")),
    )


def draw(picture: NetworkPicture) -> str:
    """The trees side by side, each root on top.

    >>> text = draw(NetworkPicture([], ["a"], [LinkPicture("a", "a", "b", 1, documents=7)]))
    >>> text.count("<circle"), "7 documents" in text
    (2, True)
    """
    parts: list[str] = []
    left = height = 0
    for root in picture.roots:
        layers: dict[int, list[str]] = {0: [root]}
        for link in picture.links:
            if link.root == root:
                layers.setdefault(link.depth, []).append(link.child)
        width = max(map(len, layers.values())) * WIDTH
        at = {
            name: (left + (place + 0.5) * width / len(names), (depth + 0.6) * STEP)
            for depth, names in layers.items()
            for place, name in enumerate(names)
        }
        for link in picture.links:
            if link.root == root and link.parent in at:
                parts.append(_line(*at[link.parent], *at[link.child], link))
        parts += [_circle(*place, name, _state(picture, name)) for name, place in at.items()]
        left += width
        height = max(height, int((max(layers) + 1.2) * STEP))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left} {height}" font-family="sans-serif"'
    return f'{head} font-size="11" text-anchor="middle">{"".join(parts)}</svg>'


def _state(picture: NetworkPicture, name: str) -> BrokerPicture | None:
    return next((broker for broker in picture.brokers if broker.name == name), None)


def _line(x1: float, y1: float, x2: float, y2: float, link: LinkPicture) -> str:
    text = f"{link.documents} documents, {link.documents_per_second:g}/s, table of {link.table}"
    return (
        f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#789"/>'
        f'<text x="{(x1 + x2) / 2:.0f}" y="{(y1 + y2) / 2:.0f}" fill="#345">{text}</text>'
    )


def _circle(x: float, y: float, name: str, broker: BrokerPicture | None) -> str:
    fill = "#dfd" if broker is None or broker.is_up else "#fcc"
    count = f"{broker.subscriptions} subscriptions" if broker else ""
    return (
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{RADIUS}" fill="{fill}" stroke="#345"/>'
        f'<text x="{x:.0f}" y="{y + 4:.0f}">{escape(name)}</text>'
        f'<text x="{x:.0f}" y="{y + RADIUS + 12:.0f}" fill="#345">{count}</text>'
    )
