"""A second broker has everything before anything is acknowledged: groups of changes are copied to a backup.

`host.py` is the peer to run: it serves brokers as their primary, holds replicas of others, and takes over when it is
told to. `primary.py`, `snapshot.py` and `backup.py` are its parts. With `replicas=1` none of this is needed.
"""

from treecast.overlay.replica.host import ReplicaHost
from treecast.overlay.replica.settings import ReplicaSettings

__all__ = ["ReplicaHost", "ReplicaSettings"]
