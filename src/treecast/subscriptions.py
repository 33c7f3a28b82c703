"""Subscriptions in the forms they come in: pairs, mappings, Arrow tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treecast.errors import QueryError
from treecast.model import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = ("id", "query", "namespaces", "ordered", "deliver")
LISTED_MAX = 20
REFUSED_FIELDS = ("row", "id", "query", "code", "message", "position")


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
        return {prefix: uri for prefix, uri in value.items() if uri is not None}
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


@dataclass(frozen=True)
class Columns:
    """Subscriptions as Arrow arrays. Row i has `settings[codes[i]]`; `codes` is None: all have the default ones."""

    ids: pa.Array
    queries: pa.Array
    codes: pa.Array | None
    settings: list[tuple[dict[str, str], bool, str]]

    def numbers(self, of_settings: list[int]) -> pa.Array | None:
        """For every row the number that the index gave its settings, or None."""
        import pyarrow as pa

        return None if self.codes is None else pa.array(of_settings, pa.uint32()).take(self.codes)


def from_arrow(table: pa.Table | pa.RecordBatch) -> Columns:
    """The columns of a table as native code takes them, without a look at single rows.

    A population has few distinct settings, so these are told apart by Arrow and only each distinct one is read.
    """
    ids, queries = _texts(table, "id"), _texts(table, "query")
    extra = [field for field in FIELDS[2:] if field in table.schema.names]
    if not extra or not len(ids):
        return Columns(ids, queries, None, [])
    codes, firsts = _distinct([_key(_flat(table.column(field))) for field in extra])
    chosen = {field: _flat(table.column(field)).take(firsts).to_pylist() for field in extra}
    absent = [None] * len(firsts)
    rows = zip(*(chosen.get(field, absent) for field in FIELDS[2:]), strict=True)
    return Columns(ids, queries, codes, [_settings(*row) for row in rows])


def incomplete_rows(table: pa.Table | pa.RecordBatch) -> list[int]:
    """The numbers of the rows without an id or without a query."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lacking = [pc.is_null(_flat(table.column(name))) for name in ("id", "query") if name in table.schema.names]
    if not lacking:
        return []
    either = lacking[0] if len(lacking) == 1 else pc.or_(*lacking)
    rows: list[int] = pc.indices_nonzero(either.cast(pa.bool_())).to_pylist()
    return rows


def _settings(namespaces: Any, ordered: Any, deliver: Any) -> tuple[dict[str, str], bool, str]:
    return namespaces_of(namespaces), bool(ordered or False), deliver or "document"


def _flat(column: Any) -> pa.Array:
    import pyarrow as pa

    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _key(column: pa.Array) -> pa.Array:
    """Strings that are equal just where the values are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_map(column.type):
        # The bindings of each row as one list of strings, then as one string; a null row becomes a null.
        parts = (column.keys.cast(pa.string()), column.items.cast(pa.string()))
        lists = [pa.ListArray.from_arrays(column.offsets, part) for part in parts]
        joined = [pc.binary_join(part, "\x00") for part in lists]
        return pc.if_else(pc.is_valid(column), pc.binary_join_element_wise(*joined, "\x01"), None)
    if pa.types.is_struct(column.type):
        fields = [part.cast(pa.string()) for part in column.flatten()]
        return pc.binary_join_element_wise(*fields, "\x00", null_handling="replace", null_replacement="\x03")
    try:
        return column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise _bad(
            f"a column of {column.type} holds no settings of subscriptions",
            "namespaces is a map or text, ordered a boolean, deliver text",
        ) from error


def _distinct(keys: list[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """For every row the number of its combination of keys, and for every combination its first row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    joined = pc.binary_join_element_wise(*keys, "\x02", null_handling="replace", null_replacement="\x03")
    encoded = joined.dictionary_encode()
    rows = pa.table({"code": encoded.indices, "row": _numbers(len(joined))})
    firsts = rows.group_by("code").aggregate([("row", "min")]).sort_by("code")
    return encoded.indices, firsts.column("row_min").combine_chunks()


def _numbers(count: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)


def _texts(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    import pyarrow as pa

    if name not in table.schema.names:
        raise _bad(f"the table has no column {name!r}", "it needs the columns id and query, both strings")
    column = table.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise _bad(f"the column {name!r} holds {column.type}, not strings", "cast it to string first")
    if column.null_count:
        rows = incomplete_rows(table)
        listed = ", ".join(str(row) for row in rows[:LISTED_MAX]) + (", …" if len(rows) > LISTED_MAX else "")
        raise _bad(
            f"the column {name!r} has {column.null_count} nulls; rows without an id or a query: {listed}",
            "every subscription needs an id and a query",
        )
    return _flat(column.cast(pa.large_string()))


Add = Callable[[Any, int], "tuple[int, list[tuple[int, str, QueryError]]] | None"]


def add_reporting(given: Any, add: Add) -> pa.Table:
    """Add the good ones by `add`, which takes all or none, and tell of the others in a table."""
    import pyarrow as pa

    refused: list[dict[str, Any]] = []
    count = given.num_rows if hasattr(given, "schema") else len(given)
    for row in incomplete_rows(given) if hasattr(given, "schema") else []:
        id, query = (given.column(name)[row].as_py() for name in ("id", "query"))
        refused.append(_refused_row(row, id, query, _bad("the subscription has no id or no query", "give it both")))
    kept: Sequence[int] = range(count)
    if refused:
        lacking = {row["row"] for row in refused}
        kept = [row for row in kept if row not in lacking]
    while True:
        # The second round adds what the first found good; a third only if somebody else added an id meanwhile.
        part = given if len(kept) == count else _rows(given, kept)
        answer = add(part, len(kept))
        if answer is None:
            break
        for number, id, error in answer[1]:
            query = part.column("query")[number].as_py() if hasattr(part, "schema") else _query_of(part[number])
            refused.append(_refused_row(kept[number], id, query, error))
        gone = {number for number, _, _ in answer[1]}
        kept = [row for number, row in enumerate(kept) if number not in gone]
    refused.sort(key=lambda row: row["row"])
    fields = [(name, pa.int64() if name in ("row", "position") else pa.string()) for name in REFUSED_FIELDS]
    return pa.Table.from_pylist(refused, schema=pa.schema(fields))


def _rows(given: Any, rows: Sequence[int]) -> Any:
    if not hasattr(given, "schema"):
        return [given[row] for row in rows]
    import pyarrow as pa

    return given.take(pa.array(rows, pa.int64()))  # with a type: there may be none


def _query_of(item: tuple[str, str] | Subscription) -> str:
    return item.query if isinstance(item, Subscription) else item[1]


def _refused_row(row: int, id: str | None, query: str | None, error: QueryError) -> dict[str, Any]:
    values = (row, id, query, error.code, str(error), getattr(error, "position", 0))
    return dict(zip(REFUSED_FIELDS, values, strict=True))


def all_refused(count: int, refused: list[tuple[int, str, QueryError]]) -> QueryError:
    """The error that says that nothing was added, and why."""
    listed = tuple((id, str(error)) for _, id, error in refused)
    if count == 1:
        text, hint = f"nothing was added: the subscription {listed[0][0]!r} was refused", ""
    else:
        text, hint = (
            f"nothing was added: {count} subscriptions were refused",
            "leave them out or mend them, and add all again",
        )
    for id, message in listed:
        text += f"\n{id[:80]!r}: {message}"
    first = refused[0][2]
    error = QueryError(text, code="TC140" if count > 1 else first.code, hint=hint or first.hint, refused=listed)
    error.position = getattr(first, "position", 0)
    return error


def addresses(texts: pa.Array) -> tuple[int, int]:
    """Where the offsets and the bytes of a large_string array lie, for native code."""
    _, ends, data = texts.buffers()
    return (ends.address + 8 * texts.offset if ends else 0), (data.address if data else 0)


def _bad(message: str, hint: str) -> QueryError:
    return QueryError(message, code="TC144", hint=hint)
