"""A request with several documents: JSON lines, or multipart. What cannot be used in it is refused by itself."""

from __future__ import annotations

from treecast.overlay.messages import Document
from treecast.serve.doors.batches import Unusable, split_lines
from treecast.serve.doors.calls import Call
from treecast.serve.doors.multipart import boundary_of, is_multipart, split_parts
from treecast.serve.doors.settings import DoorSettings


async def read_batch(call: Call, settings: DoorSettings) -> list[Document | Unusable]:
    """Its documents, in order; they are charged to the token. Raises DoorError, or AccessRefusedError TC604."""
    content_type = call.header(b"content-type")
    if is_multipart(content_type):
        boundary_of(content_type)  # before all of it arrives
    call.access.check_rate()
    body = await call.body(settings.batch_bytes_max)
    documents_max = settings.documents_per_batch_max
    bytes_max = call.access.document_bytes_max(settings.document_bytes_max)
    if is_multipart(content_type):
        items = split_parts(body, content_type, documents_max, bytes_max)
    else:
        items = split_lines(body, documents_max, bytes_max)
    documents = [document for document in items if isinstance(document, Document)]
    call.access.charge(len(documents), sum(len(document.body) for document in documents))
    return items
