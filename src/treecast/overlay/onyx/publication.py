"""What is published at a root, read once: matched there, written for its links, and routed, by one native call.

Without this a document is read and kept, and three more calls look at it. It is for links that all have one binary
format, without compression, and need nothing done to documents; otherwise `prepare` answers None, and `Tree.pass_on`
does it. What the call has found counts in the same turn only, and as long as the links are those that it
was made for.

PERF: bench/network_frame.py, root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from treecast import _native
from treecast.document import Document
from treecast.index import Index
from treecast.overlay.broker.turn import PublishedBatch, Turn
from treecast.overlay.onyx.link_formats import TEXT, Arrival
from treecast.overlay.onyx.network_messages import Parcel
from treecast.overlay.onyx.parcels import Parcels
from treecast.overlay.onyx.routes import Routes

if TYPE_CHECKING:
    from treecast.overlay.onyx.tree import Tree


class Publication(NamedTuple):
    """Of the documents of one request: their forms, and for whom they are, by place."""

    format: str
    links: list[str]
    forms: _native.PublishedForms
    routes: Routes


def prepare(tree: Tree, index: Index, texts: list[bytes]) -> tuple[_native.DeliveryBatch, Publication] | None:
    """The deliveries of `index`, and the rest. None: nothing was done."""
    links = open_links(tree)
    format = common_format(tree, links)
    if not format or tree.is_learning():
        return None
    made = tree.table.publish(index, tree.formats.codec(format), texts, links)
    return None if made is None else (made[0], Publication(format, links, *made[1:]))


def open_links(tree: Tree) -> list[str]:
    return [name for name, child in tree.children.items() if child.link.is_open]


def common_format(tree: Tree, links: list[str]) -> str:
    """Of all these links, if it is as described above; or nothing."""
    formats = {tree.children[link].format for link in links}
    if len(formats) != 1 or any(tree.plan.changes(link) for link in links):
        return ""
    format = formats.pop()
    codec = tree.formats.codec(format)
    return "" if codec.is_text or codec.format.compression else format


class _Message(NamedTuple):
    """Documents of one request as they travel, and for whom each of them is."""

    data: msgspec.Raw
    bodies: list[bytes]
    routes: Routes


def pass_published(tree: Tree, turn: Turn) -> None:
    """What was published in a turn goes down the tree of its root, once it is durable: requests that came together as
    one range, in as few messages as the limits of a link allow."""
    run: list[_Message] = []
    for batch in turn.published:
        message = _pack(tree, batch, turn.now_ms)
        if run and (message is None or not message.routes.is_like(run[0].routes)):
            _pass_run(tree, run)
            run = []
        if message is not None:
            run.append(message)
            continue
        arrivals = [
            Arrival(
                Parcel(number, source, id, turn.now_ms, TEXT, body),
                document if isinstance(document, Document) else None,
                is_read=document is not None,
            )
            for number, source, id, body, document in batch.rows()
        ]
        tree.pass_on(tree.passed, arrivals[-1].number, arrivals)
    if run:
        _pass_run(tree, run)


def _pack(tree: Tree, batch: PublishedBatch, now_ms: int) -> _Message | None:
    """None if a `Publication` does not say how."""
    publication, links = batch.prepared, open_links(tree)
    if not isinstance(publication, Publication):
        return None
    if publication.links != links or publication.format != common_format(tree, links):
        return None
    data = publication.forms.pack(*(batch.places, batch.numbers, batch.sources, batch.ids, now_ms, publication.format))
    return _Message(msgspec.Raw(data), batch.bodies, publication.routes.at(batch.places))


def _pass_run(tree: Tree, run: list[_Message]) -> None:
    tree.table.learn([body for message in run for body in message.bodies])
    parcels = Parcels.read(*(message.data for message in run))
    routes = Routes.join([message.routes for message in run])
    tree.offer(tree.passed, parcels.last, parcels, routes, open_links(tree))
