"""Routing: for which targets documents are, as bits. The native side of `Index.route` and what is beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from treecast import _native
from treecast.document import Document
from treecast.index.rendering import FormCodec


class Question(NamedTuple):
    """`targets` says for which targets each subscription is, whose id is a number. `found` are those that want every
    document. Once all of `enough` are found, nothing more is looked for; 0: everything is. What is for one of
    `needed`, or may be, is needed again."""

    targets: _native.Targets
    enough: int
    found: int
    needed: int = 0


OwnIndex = tuple[_native.Index, int, _native.RenderLimits]
"""An index whose deliveries are wanted as well, of about so many bytes at most, and how they are rendered."""

Unread = list[tuple[int, Exception]]
"""What cannot be read, by place."""


def route_forms(
    index: _native.Index, limits: _native.Limits, codec: FormCodec, bodies: Sequence[bytes], question: Question
) -> tuple[list[int], list[Document | None], Unread]:
    """Of bodies that came on a link: each is read to be routed, and what is needed again is answered as a Document.
    Raises DocumentError for broken compression."""
    forms, dictionary = codec.plain(bodies)
    masks, documents, unread = _native.route_forms(index, forms, codec.is_text, dictionary, limits, *question)
    return masks, [None if one is None else Document(one) for one in documents], unread


def route_parcels(
    index: _native.Index,
    limits: _native.Limits,
    codec: FormCodec,
    parcels: _native.Parcels,
    question: Question,
    own: OwnIndex | None,
) -> tuple[list[int], Unread]:
    """Of a message between brokers, whose documents are all in the form of one codec. What is for all of `enough` is
    for everybody. With `own`, what is needed again is rendered while it is there: `render_parcels` has it then."""
    plain, dictionary = codec.plain_parcels(parcels)
    return _native.route_parcels(index, parcels, plain, codec.is_text, dictionary, limits, *question, own)
