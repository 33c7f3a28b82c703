"""What is published at a root, read once: matched there, written for its links, and routed, by one native call.

Without this a document is read and kept, and three more calls look at it. It is for links that all have one binary
format, without compression, and need nothing done to documents; otherwise `Publication.begin` is None, and
`Tree.pass_on` does it. What the call has found counts in the same turn only, and as long as the links are those that it
was made for.

PERF: bench/network_frame.py, root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treecast import _native
from treecast.document import Document
from treecast.index import Index
from treecast.overlay.broker.turn import Prepared, Turn
from treecast.overlay.onyx.link_formats import TEXT, Arrival
from treecast.overlay.onyx.network_messages import Parcel

if TYPE_CHECKING:
    from treecast.overlay.onyx.tree import Tree


class Publication:
    """Of some documents of one request: their forms, and for whom they are, by place."""

    def __init__(self, format: str, links: list[str], forms: list[bytes], targets: list[tuple[str, ...]]) -> None:
        self.format = format
        self.links = links
        self.forms = forms
        self.targets = targets

    @classmethod
    def begin(cls, tree: Tree, index: Index, texts: list[bytes]) -> tuple[_native.DeliveryBatch, Publication] | None:
        """The deliveries of `index`, and the rest. None: nothing was done."""
        links = open_links(tree)
        format = common_format(tree, links)
        if not format or tree.is_learning():
            return None
        made = tree.table.publish(index, tree.formats.codec(format), texts, links)
        return None if made is None else (made[0], cls(format, links, *made[1:]))


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


def pass_published(tree: Tree, turn: Turn) -> None:
    """What was published in a turn goes down the tree of its root, once it is durable."""
    if _pass_prepared(tree, turn):
        return
    arrivals = [
        Arrival(
            Parcel(number, source, id, turn.now_ms, TEXT, body),
            document if isinstance(document, Document) else None,
            is_read=not isinstance(document, Prepared),
        )
        for number, source, id, body, document in turn.published
    ]
    tree.pass_on(tree.passed, arrivals[-1].number, arrivals)


def _pass_prepared(tree: Tree, turn: Turn) -> bool:
    """False, and nothing was done, if a `Publication` does not say how."""
    links = open_links(tree)
    format = common_format(tree, links)
    parcels: list[Parcel] = []
    targets: list[tuple[str, ...]] = []
    for number, source, id, _, prepared in turn.published:
        if not isinstance(prepared, Prepared):
            return False
        publication, place = prepared
        if publication.format != format or publication.links != links:
            return False
        parcels.append(Parcel(number, source, id, turn.now_ms, format, publication.forms[place]))
        targets.append(publication.targets[place])
    tree.table.learn([body for _, _, _, body, _ in turn.published])
    tree.offer(tree.passed, parcels[-1].number, parcels, targets, links)
    return True
