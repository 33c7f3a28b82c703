"""How much a batch of a stream takes.

Spark asks a source with these classes for the end of the next batch, and says where it stands and how much it wants.
They begin with Spark 4.2. Spark 4.1 asks without either, so there a source answers with all that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["IS_ADMITTED", "ReadLimit", "ReadMaxFiles", "ReadMaxRows", "SupportsTriggerAvailableNow"]

IS_ADMITTED = True
"""Whether Spark says where a stream stands, and how much a batch may take."""

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, ReadMaxRows, SupportsTriggerAvailableNow
except ModuleNotFoundError:
    if not TYPE_CHECKING:
        IS_ADMITTED = False

        class ReadLimit:
            """Stands in for Spark's, which is never asked for."""

            def __init__(self, *_: Any) -> None: ...

        class ReadMaxFiles(ReadLimit):
            """Likewise."""

        class ReadMaxRows(ReadLimit):
            """Likewise."""

        class SupportsTriggerAvailableNow:
            """Likewise."""
