"""Server-sent events that every event stream may contain, whoever reads the deliveries for it.

>>> gap_event(3, 7)
b'event: gone\\ndata: {"first":3,"last":7}\\n\\n'
"""

from __future__ import annotations

import msgspec

HEARTBEAT = b":\n\n"
"""A comment: it shows that the stream is alive."""


def gap_event(first: int, last: int) -> bytes:
    """What has these numbers is not kept any more; 0 and 0: the reader's position is one in other data."""
    return b"event: gone\ndata: %s\n\n" % msgspec.json.encode({"first": first, "last": last})
