"""A few documents of a DataFrame, on the driver: what placements and aggregates look at before they decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treecast.document import arrow_views
from treecast.placement.aggregate import DOCUMENTS_MAX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DOCUMENT_BYTES_MAX = 1 << 20  # larger ones are left out of samples
SAMPLE_BYTES_MAX = 64 << 20


def first_documents(documents: DataFrame, name: str = "document") -> list[bytes]:
    """Those that come first: Spark reads no more than it has to."""
    return _fetch(_small_documents(documents, name).limit(DOCUMENTS_MAX))


def sample_documents(documents: DataFrame, name: str = "document") -> list[bytes]:
    """A sample of all of them, by a hash of their content: the same however the rows are divided."""
    from pyspark.sql import functions

    fit = _small_documents(documents, name)
    return _fetch(fit.orderBy(functions.xxhash64("document"), "document").limit(DOCUMENTS_MAX))


def _small_documents(documents: DataFrame, name: str) -> DataFrame:
    from pyspark.sql import functions

    column = documents[name]
    return documents.where(functions.octet_length(column) <= DOCUMENT_BYTES_MAX).select(column.alias("document"))


def _fetch(sample: DataFrame) -> list[bytes]:
    documents: list[bytes] = []
    room = SAMPLE_BYTES_MAX
    for chunk in sample.toArrow().column("document").chunks:
        for view in arrow_views(chunk):
            room -= len(view)
            if room < 0:
                return documents
            documents.append(bytes(view))
    return documents
