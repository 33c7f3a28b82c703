"""What one row of Spark can hold, and the check that the payloads of a document fit into it.

    check_room(index)        # before anything starts: raises where the limits of the index allow for more

Codes: TC718 a limit that allows payloads which no row of Spark can hold.
"""

from __future__ import annotations

from pathlib import Path

from treecast.errors import PipelineError
from treecast.index import Index

ROW_BYTES_MAX = 1 << 30


def check_room(index: Index | str | Path) -> None:
    """Raise where the payloads of one document may be more than fits into a row."""
    loaded_index = index if isinstance(index, Index) else Index.load(index, verify=False)
    limit = loaded_index.delivery_limits.document_payload_bytes_max
    if limit > ROW_BYTES_MAX:
        raise PipelineError(
            f"document_payload_bytes_max is {limit:,}, and a row of Spark holds {ROW_BYTES_MAX:,} bytes",
            code="TC718",
            hint=f"make the index with DeliveryLimits(document_payload_bytes_max={ROW_BYTES_MAX}) or less",
        )
