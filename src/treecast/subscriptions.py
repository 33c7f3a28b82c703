"""Subscriptions in the forms they come in: pairs, mappings, Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from treecast.errors import QueryError
from treecast.model import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = ("id", "query", "namespaces", "ordered", "deliver")


def from_items(items: Iterable[Any]) -> list[tuple[str, str] | Subscription]:
    """(id, query) tuples and Subscriptions; anything else is turned into one of them."""
    return [item if type(item) is tuple and len(item) == 2 else _item(item) for item in items]


def _item(item: Any) -> tuple[str, str] | Subscription:
    if isinstance(item, Subscription):
        return item
    if isinstance(item, Mapping):
        unknown = set(item) - set(FIELDS)
        if unknown:
            raise _bad(f"a subscription has no field {sorted(unknown)[0]!r}", f"the fields are {', '.join(FIELDS)}")
        if item.get("id") is None or item.get("query") is None:
            raise _bad("a subscription needs an id and a query", 'for example {"id": "q1", "query": "/a/b"}')
        return Subscription(
            item["id"],
            item["query"],
            namespaces_of(item.get("namespaces")),
            bool(item.get("ordered") or False),
            item.get("deliver") or "document",
        )
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return (item[0], item[1])
    raise _bad(f"a subscription is an (id, query) pair, a mapping or a Subscription, not {type(item).__name__}", "")


def namespaces_of(value: Any) -> dict[str, str]:
    """Bindings from a mapping, from Arrow's list of pairs, from JSON, or from `p=uri q=uri`."""
    if value is None or value == "":
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        if value.lstrip().startswith("{"):
            try:
                decoded = json.loads(value)
            except ValueError:
                decoded = None
            if isinstance(decoded, dict) and all(isinstance(v, str) for v in decoded.values()):
                return decoded
            raise _bad(f"these namespaces are no JSON object of strings: {value[:80]!r}", 'write {"p": "uri"} or p=uri')
        pairs = [part.partition("=") for part in value.split()]
        if not all(equals for _, equals, _ in pairs):
            raise _bad(
                f"these namespaces cannot be read: {value[:80]!r}", "write p=uri, separated by spaces, or a JSON object"
            )
        return {prefix: uri for prefix, _, uri in pairs}
    return dict(value)


def from_arrow(table: pa.Table | pa.RecordBatch) -> tuple[pa.Array, pa.Array, list[Subscription] | None]:
    """Ids and queries as large_string arrays; and one Subscription per row where the table has more than those two."""
    ids, queries = _texts(table, "id"), _texts(table, "query")
    extra = [field for field in FIELDS[2:] if field in table.schema.names]
    if not extra:
        return ids, queries, None
    columns = {field: table.column(field).to_pylist() if field in extra else [None] * len(ids) for field in FIELDS[2:]}
    rows = zip(ids.to_pylist(), queries.to_pylist(), *columns.values(), strict=True)
    return ids, queries, [_row(*row) for row in rows]


def _row(id: str, query: str, namespaces: Any, ordered: Any, deliver: Any) -> Subscription:
    return Subscription(id, query, namespaces_of(namespaces), bool(ordered or False), deliver or "document")


def _texts(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    import pyarrow as pa

    if name not in table.schema.names:
        raise _bad(f"the table has no column {name!r}", "it needs the columns id and query, both strings")
    column = table.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise _bad(f"the column {name!r} holds {column.type}, not strings", "cast it to string first")
    if column.null_count:
        raise _bad(f"the column {name!r} has {column.null_count} nulls", "every subscription needs an id and a query")
    column = column.cast(pa.large_string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def addresses(texts: pa.Array) -> tuple[int, int]:
    """Where the offsets and the bytes of a large_string array lie, for native code."""
    _, ends, data = texts.buffers()
    return (ends.address + 8 * texts.offset if ends else 0), (data.address if data else 0)


def _bad(message: str, hint: str) -> QueryError:
    return QueryError(message, code="TC144", hint=hint)
