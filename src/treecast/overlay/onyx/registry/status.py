"""Rows for whoever looks at a registry: brokers, trees, sources, subscriptions, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treecast.overlay.messages import Inspect
from treecast.overlay.onyx.view import HOST

if TYPE_CHECKING:
    from treecast.overlay.onyx.registry.registry import Registry

Row = dict[str, str | int]
ROWS_MAX = 1_000


def inspect(message: Inspect, registry: Registry) -> list[Row]:
    """The rows that were asked for, at most `ROWS_MAX`. A registry that is not in charge shows what it knows."""
    count = min(message.count_max, ROWS_MAX)
    match message.kind:
        case "brokers":
            rows = _brokers(registry)
        case "trees":
            rows = _trees(registry)
        case "sources":
            sources = registry.catalog.live()
            rows = [
                {"key": name, "root": row.entry.root, "number": row.entry.number, "description": row.entry.description}
                for name, row in sources.items()
            ]
        case "subscriptions":
            return registry.hosts.listed(message.after, count)
        case "stats":
            rows = [{"key": name, "value": value} for name, value in registry.stats().items()]
        case _:
            return []
    return sorted((row for row in rows if str(row["key"]) > message.after), key=lambda row: str(row["key"]))[:count]


def _brokers(registry: Registry) -> list[Row]:
    view, heard = registry.view, registry.roster.heard
    loads = registry.hosts.loads({name: known.beat.info for name, known in heard.items()})
    return [
        {
            "key": name,
            "number": info.number,
            "address": info.address,
            "load": loads.get(name, 0),
            "state": heard[name].beat.state if name in heard else "not heard",
            "epoch": heard[name].beat.epoch if name in heard else 0,
            "catalog": heard[name].beat.catalog if name in heard else 0,
            "host": registry.roles.primary_of(name).removeprefix(HOST),
            "backup": registry.roles.backup_of(name).removeprefix(HOST),
            "replicas": registry.roles.replicas_of(name),
        }
        for name, info in view.brokers.items()
    ]


def _trees(registry: Registry) -> list[Row]:
    """A row for each broker of each tree; the key is root/broker."""
    view = registry.view
    return [
        {
            "key": f"{root}/{broker}",
            "root": root,
            "broker": broker,
            "parent": view.parent(root, broker) or "",
            "depth": len(view.path(root, broker)) - 1,
        }
        for root in view.roots()
        for broker in view.brokers
    ]
