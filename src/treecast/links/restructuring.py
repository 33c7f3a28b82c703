"""Apply what is done before a link: an early form on documents that have been read, giving documents.

    >>> from treecast import read
    >>> from treecast.links import Early, Restructuring
    >>> early = Restructuring(Early('keep /news/item[@area="SF"]'))
    >>> early.apply(read(b'<news><item area="NY">Snow</item><item area="SF">Fog</item></news>')).data
    b'<news><item area="SF">Fog</item></news>'
    >>> early.apply(read(b"<news/>")) is None
    True

The document is not read again; what is left of it is, because it is another document. Use `Index.render` for what
subscribers get.
"""

from __future__ import annotations

from collections.abc import Iterable

from treecast import _native
from treecast.document import Document, Limits
from treecast.errors import TreecastError
from treecast.links.demand import Early

# What was read once keeps its limits; a step may add declarations to a tag. Names keep theirs, so that documents that
# were read with the usual limits and what is left of them share a table of names.
_WIDE = Limits(
    document_bytes_max=(1 << 32) - (1 << 20),
    depth_max=65535,
    attributes_max=(1 << 32) - 1,
    attribute_bytes_max=(1 << 32) - 1,
    names_max=(1 << 32) - 1,
)


class Restructuring:
    """An early form, read once, for any number of documents and threads. QueryError where it is no list of steps."""

    def __init__(self, early: Early, *, limits: Limits = _WIDE) -> None:
        self.early = early
        self._limits = limits.native()
        self._bytes_max = limits.document_bytes_max
        self._native = _native.Restructuring(early.text, list(early.namespaces.items()))

    def apply(self, document: Document) -> Document | None:
        """What is left of a document, or None. Raises what refuses it: TC119 of a rename, TC340 for too much work."""
        answer = self.apply_many([document])[0]
        if isinstance(answer, TreecastError):
            raise answer
        return answer

    def apply_many(self, documents: Iterable[Document]) -> list[Document | TreecastError | None]:
        """For each document what is left, None where nothing is, or the error that refuses it."""
        native = [document.native for document in documents]
        return [_answer(one) for one in self._native.apply(native, self._limits, self._bytes_max)]


def _answer(one: _native.Document | Exception | None) -> Document | TreecastError | None:
    if isinstance(one, _native.Document):
        return Document(one)
    assert one is None or isinstance(one, TreecastError)
    return one
