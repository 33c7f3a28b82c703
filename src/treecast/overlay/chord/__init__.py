"""A ring of peers that finds the peer responsible for a key in a few hops, and keeps what is stored under keys.

`chord_peer.py` is the peer to run. `ring.py` is the protocol of the ring, `lookup.py` finds keys, `shelf.py` holds
entries and `replication.py` keeps copies of them on several peers.

`nfa_peer.py` is such a peer that filters documents: the states of the shared NFA are spread over the ring.
"""

from treecast.overlay.chord.chord_peer import ChordPeer
from treecast.overlay.chord.nfa_peer import NfaPeer
from treecast.overlay.chord.nfa_settings import NfaSettings
from treecast.overlay.chord.settings import ChordSettings

__all__ = ["ChordPeer", "ChordSettings", "NfaPeer", "NfaSettings"]
