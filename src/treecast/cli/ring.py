"""A ring of peers on the command line: what `treecast peer status` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from treecast.names import printable

BAR_MAX = 20
STATE_CHARS_MAX = 60


def ring_lines(picture: Mapping[str, Any]) -> Iterator[str]:
    """Peers in the order of the ring, and the hottest states, for people.

    >>> place = {"index": 0, "turn": 0.25, "owned": 7}
    >>> peer = {"name": "127.0.0.1:7501", "is_up": True, "is_base": True, "is_settled": True, "places": [place]}
    >>> peer |= {"load": 0.5, "visits_per_second": 2.0, "visits": 9, "keys": 12, "subscriptions": 3, "underway": 0}
    >>> state = {"state": "/{}a", "peer": "127.0.0.1:7501", "documents": 40}
    >>> ring = {"replicas": 3, "places_per_peer": 1, "fragment_length": 0, "peers": [peer], "states": [state]}
    >>> print("\\n".join(ring_lines(ring)))
    1 of 1 peers up, 7 states on 3 disks each, 3 subscriptions, 2 visits/s
    127.0.0.1:7501         up    base   ##########            50.0 %, owns 7, holds 12, 3 subscriptions
    hottest states
        40 documents  /{}a  at 127.0.0.1:7501
    """
    peers = sorted(picture["peers"], key=lambda peer: min((place["turn"] for place in peer["places"]), default=2.0))
    up = sum(peer["is_up"] for peer in peers)
    owned = sum(place["owned"] for peer in peers for place in peer["places"])
    total = sum(peer["subscriptions"] for peer in peers)
    rate = sum(peer["visits_per_second"] for peer in peers)
    states = f"{owned:,} states on {picture['replicas']} disks each"
    yield f"{up} of {len(peers)} peers up, {states}, {total:,} subscriptions, {rate:,g} visits/s"
    for peer in peers:
        state = ("up" if peer["is_settled"] else "joins") if peer["is_up"] else "down"
        bar = "#" * round(peer["load"] * BAR_MAX)
        own = sum(place["owned"] for place in peer["places"])
        text = f"{printable(peer['name']):<22} {state:<5} {'base' if peer['is_base'] else '':<6} {bar:<{BAR_MAX}}"
        waiting = f", {peer['underway']:,} documents underway" if peer["underway"] else ""
        counts = f"owns {own:,}, holds {peer['keys']:,}, {peer['subscriptions']:,} subscriptions{waiting}"
        yield f"{text} {peer['load'] * 100:5.1f} %, {counts}"
    if picture["states"]:
        yield "hottest states"
    for row in picture["states"]:
        name = printable(row["state"])[:STATE_CHARS_MAX]
        yield f"{row['documents']:>6,} documents  {name}  at {printable(row['peer'])}"
