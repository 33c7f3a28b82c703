"""A ring of peers that finds the peer responsible for a key in a few hops, and keeps what is stored under keys.

`chord_peer.py` is the peer to run. `ring.py` is the protocol of the ring, `lookup.py` finds keys, `shelf.py` holds
entries and `replication.py` keeps copies of them on several peers.
"""

from treecast.overlay.chord.chord_peer import ChordPeer
from treecast.overlay.chord.settings import ChordSettings

__all__ = ["ChordPeer", "ChordSettings"]
