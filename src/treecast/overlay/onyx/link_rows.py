"""Rows for whoever looks at a broker of a network: its links, in each tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treecast.overlay.messages import Inspect
from treecast.overlay.onyx.routing import RoutingTable

if TYPE_CHECKING:
    from treecast.overlay.onyx.network_broker import NetworkBroker

ROWS_MAX = 1_000


def link_rows(message: Inspect, broker: NetworkBroker) -> list[dict[str, str | int]]:
    """One for each link to a child, after the key that is known; the key is root/child. `table` is how many queries
    the routing table of the link has, `values` how many values are in their sets."""
    rows: list[dict[str, str | int]] = []
    for root in sorted(broker.trees):
        tree = broker.trees[root]
        for child in sorted(tree.children):
            link = tree.children[child].link
            queries, values = tree.table.size(child) if isinstance(tree.table, RoutingTable) else (0, 0)
            rows.append(
                {
                    "key": f"{root}/{child}",
                    "root": root,
                    "broker": broker.name,
                    "child": child,
                    "documents": link.documents_sent,
                    "bytes": link.bytes_sent,
                    "bytes_saved": tree.children[child].bytes_saved,
                    "waiting_bytes": link.buffered_bytes(),
                    "cuts": link.cuts,
                    "table": queries,
                    "values": values,
                }
            )
    return [row for row in rows if str(row["key"]) > message.after][: min(message.count_max, ROWS_MAX)]


def link_stats(broker: NetworkBroker) -> dict[str, int]:
    """All links together."""
    children = [child for tree in broker.trees.values() for child in tree.children.values()]
    return {
        "links": len(children),
        "link_bytes": sum(child.link.buffered_bytes() for child in children),
        "link_cuts": sum(child.link.cuts for child in children),
        "link_bytes_saved": sum(child.bytes_saved for child in children),
    }


def network_stats(broker: NetworkBroker) -> dict[str, int]:
    """Counts of a broker, and of its part in the network."""
    trees, repairs = broker.trees.values(), broker.repairs.values()
    return {
        **broker.broker.stats(),
        "epoch": broker.epoch,
        "trees": len(trees),
        "covered": sum(tree.is_covered(tree.version) for tree in trees),
        "held": len(broker.wants),
        **link_stats(broker),
        "early_bytes": sum(repair.early_bytes for repair in repairs),
        "questions": sum(repair.questions for repair in repairs),
        "forwarded": broker.forwarded,
        "repaired": broker.repaired,
        "parts": broker.taken_parts,
        "unfit": broker.unfit,
        "misread": broker.misread,
        "gone": broker.gone,
        **broker.migration.stats(),
    }
