"""A directory that keeps what a peer has to remember: bodies in a log, everything else in SQLite, one group at a time.

Use it wherever a `treecast.overlay.storage.Storage` must survive a crash. Tests of peers do not need it: the simulator
has one in memory, with faults on request.

    >>> import tempfile
    >>> from treecast.overlay.storage import Append, Put
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with Store.open(directory) as store:
    ...         store.write([Append(1, b"<a/>"), Put("queue", 1, b"waiting")])
    ...     with Store.open(directory) as store:
    ...         store.body(1), store.get("queue", 1)
    (b'<a/>', b'waiting')
"""

from treecast.serve.store.settings import StoreSettings
from treecast.serve.store.store import Store
from treecast.serve.store.verify import Damage

__all__ = ["Damage", "Store", "StoreSettings"]
