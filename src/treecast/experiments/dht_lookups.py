"""How many hops a lookup takes, and how much a peer has to know, as a ring grows from 100 to 10,000 peers (D1).

Chord promises both in the logarithm of the peers; DHT-NFA builds on it. The members, lists and fingers are those of a
quiet ring, and every step of a lookup is what a peer answers (`treecast.overlay.chord.lookup.step_from`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from treecast.experiments.experiment import Experiment, Finding, Point, Row, Sizes
from treecast.experiments.panels import lines
from treecast.experiments.ring_model import RingModel
from treecast.experiments.rules import at_least, between, line, pairs, pick
from treecast.experiments.session import Session
from treecast.measure import clock
from treecast.overlay.chord.identifiers import RING
from treecast.report import Panel

LOOKUPS = 2_000
PEERS_MIN = 5_000
"""For a verdict: the largest ring."""


def points(sizes: Sizes) -> list[Point]:
    return [{"peers": int(peers), "members": members} for members in (1, 3) for peers in sizes.values]


def measure(session: Session, point: Point) -> list[Row]:
    peers, members = point["peers"], point["members"]
    session.say(f"{peers:,} peers, {members} places for each")
    session.note(f"keys: {LOOKUPS:,} for each ring, drawn evenly, asked for by peers drawn evenly")
    random = Random(f"{session.seed} {peers} {members}")
    walks = RingModel(peers, members).walks()
    hops: list[int] = []
    seconds = clock(
        lambda: hops.extend(walks.hops(random.randrange(peers), random.randrange(RING)) for _ in range(LOOKUPS))
    )
    hops.sort()
    members_known = [walks.count_known(peer) for peer in range(peers)]
    return [
        {
            **point,
            "log2": math.log2(peers),
            "hops": sum(hops) / LOOKUPS,
            "hops_99": hops[LOOKUPS * 99 // 100],
            "hops_max": hops[-1],
            "known": sum(members_known) / peers,
            "known_max": max(members_known),
            "lookups": LOOKUPS,
            "us": seconds.cpu / LOOKUPS * 1e6,
        }
    ]


def verdict(rows: Sequence[Row]) -> list[Finding]:
    most = max(row["peers"] for row in rows)
    short = "" if most >= PEERS_MIN else f"a verdict takes {PEERS_MIN:,} peers; this run had {most:,}"
    one = pick(rows, members=1)
    fit = line(pairs(one, "log2", "hops"))
    known_fit = line(pairs(one, "log2", "known"))
    return [
        Finding(
            "a lookup takes O(log n) hops",
            "too few points"
            if fit is None
            else f"a line over log2 n explains {fit.explained:.1%} of the variance, from "
            f"{one[0]['hops']:.1f} hops at {one[0]['peers']:,} peers to {one[-1]['hops']:.1f} at {one[-1]['peers']:,}",
            "agree if a line explains 98 %, differs below 90 %",
            at_least(None if short or fit is None else fit.explained, agree=0.98, differs=0.9),
            short,
            None if fit is None else fit.explained,
        ),
        Finding(
            "about half a hop for each doubling of the ring (Chord: ½ log2 n)",
            "too few points" if fit is None else f"{fit.rise:.2f} hops for each doubling",
            "agree from 0.4 to 0.6, differs below 0.3 or above 0.8",
            between(None if short or fit is None else fit.rise, 0.4, 0.6, slack=4 / 3),
            short,
            None if fit is None else fit.rise,
        ),
        Finding(
            "a peer knows O(log n) others",
            "too few points"
            if known_fit is None
            else f"{one[0]['known']:.1f} at {one[0]['peers']:,} peers, {one[-1]['known']:.1f} at {one[-1]['peers']:,}",
            "agree if a line over log2 n explains 98 %, differs below 90 %",
            at_least(None if short or known_fit is None else known_fit.explained, agree=0.98, differs=0.9),
            short,
            None if known_fit is None else known_fit.explained,
        ),
    ]


def panels(rows: Sequence[Row]) -> list[Panel]:
    named_rows = [{**row, "places": f"{row['members']} places for each"} for row in rows]
    x = ("peers", "peers")
    return [
        lines(named_rows, "Lookups", x, ("hops", "hops, on average"), key="places", log_x=True, log_y=False),
        lines(
            named_rows,
            "Routing tables",
            x,
            ("known", "members that a peer knows"),
            key="places",
            log_x=True,
            log_y=False,
        ),
    ]


EXPERIMENT = Experiment(
    name="dht-lookups",
    paper="DHT-NFA",
    section="2.3",
    title="Hops of lookups and sizes of routing tables as a ring grows",
    found="Chord finds the owner of a key in O(log n) hops, with tables of O(log n) entries.",
    parameters=f"a quiet ring; {LOOKUPS:,} lookups of random places from random peers; 1 or 3 places for each peer. "
    "known: successors and fingers of a peer. µs/doc: CPU time of one lookup on paper",
    columns=("peers", "members", "log2", "hops", "hops_99", "hops_max", "known", "known_max", "lookups", "us"),
    full=Sizes((1,), 1, values=(100, 200, 500, 1_000, 2_000, 5_000, 10_000)),
    quick=Sizes((1,), 1, values=(100, 200, 400)),
    points=points,
    measure=measure,
    verdict=verdict,
    panels=panels,
)
