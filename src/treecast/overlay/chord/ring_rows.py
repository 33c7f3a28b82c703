"""Rows for whoever looks at a peer of a ring: the ring's settings, its own places and load, its hottest states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treecast.overlay.chord.identifiers import RING
from treecast.overlay.chord.ring import RingMember

if TYPE_CHECKING:
    from treecast.overlay.chord.ring_peer import RingPeer

Row = dict[str, str | int]
STATES_MAX = 20
KEY_CHARS_MAX = 500


def ring_rows(peer: RingPeer) -> list[Row]:
    """`settings`: what all peers have in common. `peer`: this one. `place N`: where it is, and what it owns there."""
    nfa, chord = peer.nfa, peer.nfa.settings
    counts = nfa.counts
    shared: Row = {
        "key": "settings",
        "base": " ".join(chord.base),
        "replicas": chord.replicas,
        "members": chord.members,
        "fragment_length": nfa.nfa_settings.fragment_length,
    }
    own: Row = {
        "key": "peer",
        "name": peer.name,
        "is_base": int(peer.name in nfa.base.peers),
        "is_settled": int(peer.is_settled()),
        "keys": len(nfa.entries.shelf),
        "subscriptions": len(peer.broker.index),
        "underway": len(peer.documents),
        "visits": counts["expansions"],
        "messages": counts["visits"] + counts["expands"] + counts["answers"] + counts["notifications"],
        "matches": counts["matches"],
        "copies": counts["states with copies"],
        "complete": peer.documents.complete,
        "partial": peer.documents.partial,
        "given_up": peer.documents.given_up,
    }
    return [shared, own, *(_place(peer, ring) for ring in nfa.members if ring.is_member)]


def _place(peer: RingPeer, ring: RingMember) -> Row:
    begin = ring.predecessor.place if ring.predecessor else ring.me.place
    _, _, keys = peer.nfa.entries.shelf.digest(begin, ring.me.place)
    return {
        "key": f"place {ring.me.index}",
        "index": ring.me.index,
        "turn_ppm": ring.me.place * 1_000_000 // RING,  # how far round the ring it is, in millionths
        "owned": keys,
        "predecessor": ring.predecessor.peer if ring.predecessor else "",
        "successors": " ".join(dict.fromkeys(member.peer for member in ring.successors)),
    }


def state_rows(peer: RingPeer, count_max: int = STATES_MAX) -> list[Row]:
    """The states of this peer that most documents have visited."""
    hottest = peer.nfa.shedding.hottest(min(count_max, STATES_MAX))
    return [
        {"key": f"state {number}", "state": state[:KEY_CHARS_MAX] or "/", "documents": documents}
        for number, (state, documents) in enumerate(hottest)
    ]
