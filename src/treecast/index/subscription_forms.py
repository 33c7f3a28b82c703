"""Subscriptions in the forms they come in as Python objects: pairs, mappings, tables, DataFrames.

    table = table_of(frame)                          # Arrow, pandas, polars, Spark; None where it is no table
    items = from_items([("q1", "/a"), {"id": "q2", "query": "/b"}])
    items = from_items({"q1": "/a", "q2": treecast.parse("/b")})

`Index.add_many` takes them all. Files of subscriptions are read by `treecast.inputs.subscriptions`, which takes these
forms as well. pandas, polars and Spark are recognised without being imported.

Codes: TC144 a row, a column or a setting that cannot be read, TC194 something that holds no subscriptions, TC703 a
DataFrame of Spark that does not hold them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from treecast.arguments import check_namespaces
from treecast.errors import PipelineError, QueryError
from treecast.model import Deliver, Subscription
from treecast.query import Query, Transformation, text_and_namespaces

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS = ("id", "query", "namespaces", "ordered", "deliver")
DELIVER = ("document", "elements")
LISTED_MAX = 20
Add = Callable[[Any, int], "tuple[int, list[tuple[int, str, QueryError]]] | None"]
Check = Callable[[Mapping[str, str], bool, Deliver], object]
"""Raises a QueryError where an index cannot have these settings."""
REFUSED_FIELDS = ("row", "id", "query", "code", "message", "position")


FORMS = (
    "a mapping of ids to queries, pairs, mappings, Subscriptions, an Arrow table, "
    "or a DataFrame of pandas, polars or Spark"
)


def table_of(source: Any) -> pa.Table | None:
    """The columns of a table that make subscriptions, under their own names; None where the source is no table.

    Names of columns may be in any case, and other columns are left out.
    Raises QueryError (TC144) where a column is missing or there twice, PipelineError (TC703) for a DataFrame of Spark.
    """
    import pyarrow as pa

    table: Any = None
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        table = source
    elif hasattr(source, "toArrow"):  # Spark, classic or Connect
        table = spark_columns(source).toArrow()
    elif type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        table = pa.Table.from_pandas(source, preserve_index=False)
    elif hasattr(source, "__arrow_c_stream__"):  # polars, DuckDB and others
        table = pa.table(source)
    elif hasattr(source, "to_arrow"):
        table = source.to_arrow()
    elif hasattr(source, "to_table"):  # a dataset of Arrow
        table = source.to_table()
    return None if table is None else _subscription_columns(table)


def spark_columns(frame: Any) -> Any:
    """The columns of a Spark DataFrame that make subscriptions, as a DataFrame; raises where one is missing."""
    if frame.isStreaming:
        raise PipelineError(
            "the subscriptions are a stream",
            code="TC703",
            hint="read them as a batch, or match in foreachBatch to pick up changes",
        )
    names = {name.lower(): name for name in frame.columns}
    for field_name in FIELDS[:2]:
        if field_name not in names:
            raise PipelineError(
                f"the subscriptions have no column {field_name}, only {_enumerate_names(list(names))}",
                code="TC703",
                hint=f"they need {', '.join(FIELDS[:2])}; {', '.join(FIELDS[2:])} if wanted",
            )
    wanted_names = [names[field] for field in FIELDS if field in names]
    return frame.select(*[frame[name].alias(name.lower()) for name in wanted_names])


def _enumerate_names(names: Sequence[str]) -> str:
    text = ", ".join(names[:LISTED_MAX])
    return text + (", …" if len(names) > LISTED_MAX else "") if names else "none at all"


def _subscription_columns(table: pa.Table | pa.RecordBatch) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for number, column_name in enumerate(table.schema.names):
        name = column_name.lower()
        if name in columns:
            raise _bad(f"the column {name!r} appears twice", "name each column once")
        if name in FIELDS:
            columns[name] = _with_plain_values(table.column(number))
    for name in FIELDS[:2]:
        if name not in columns:
            hint = f"it needs the columns id and query, both strings; it has {_enumerate_names(table.schema.names)}"
            raise _bad(f"the table has no column {name!r}", hint)
    if "namespaces" in columns:
        columns["namespaces"] = _with_maps(columns["namespaces"])
    return pa.table({name: columns[name] for name in FIELDS if name in columns})


def _with_plain_values(column: Any) -> Any:
    """A dictionary of strings where it is one of views of strings: Arrow cannot decode those (polars' Categorical)."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type) or not pa.types.is_string_view(column.type.value_type):
        return column
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    arrays = [pa.DictionaryArray.from_arrays(one.indices, one.dictionary.cast(pa.large_string())) for one in chunks]
    return pa.chunked_array(arrays, pa.dictionary(column.type.index_type, pa.large_string()))


def _with_maps(column: Any) -> Any:
    """A column of lists of (key, value) as one of maps: so polars, which has no maps, gives them."""
    import pyarrow as pa

    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        return column
    names = [kind.value_type.field(number).name for number in range(2)]
    rows = [row and [(pair[names[0]], pair[names[1]]) for pair in row] for row in column.to_pylist()]
    return pa.array(rows, pa.map_(pa.string(), pa.string()))


def items_table(items: Sequence[tuple[str, str] | Subscription]) -> pa.Table:
    """What `from_items` gives, as a table."""
    import pyarrow as pa

    rows = [item if isinstance(item, Subscription) else Subscription(*item) for item in items]
    bindings = [list(row.namespaces.items()) for row in rows]
    try:
        return pa.table(
            {
                "id": pa.array([row.id for row in rows], pa.string()),
                "query": pa.array([row.query for row in rows], pa.string()),
                "namespaces": pa.array(bindings, pa.map_(pa.string(), pa.string())),
                "ordered": pa.array([row.ordered for row in rows], pa.bool_()),
                "deliver": pa.array([row.deliver for row in rows], pa.string()),
            }
        )
    except (pa.ArrowException, TypeError) as error:
        raise _bad(f"a field of a subscription holds something else: {error}", "ids and queries are strings") from None


def from_items(items: Iterable[Any]) -> list[tuple[str, str] | Subscription]:
    """(id, query) tuples and Subscriptions; anything else is turned into one of them."""
    if isinstance(items, (str, bytes, os.PathLike)):
        hint = "read the file first: treecast.read_subscriptions(path)"
        raise QueryError(f"a path is given instead of subscriptions: {str(items)[:80]!r}", code="TC194", hint=hint)
    if not isinstance(items, Iterable):
        message = f"cannot infer the format of an object of the type {type(items).__name__}"
        hint = "call its collect() first" if hasattr(items, "collect") else f"subscriptions are {FORMS}"
        raise QueryError(message, code="TC194", hint=hint)
    if isinstance(items, Mapping):
        items = items.items()
    # Pairs of texts are what a million subscriptions come as: they need nothing.
    return [item if type(item) is tuple and len(item) == 2 and type(item[1]) is str else _item(item) for item in items]


def _item(item: Any) -> tuple[str, str] | Subscription:
    if isinstance(item, Subscription):
        return item
    if isinstance(item, Mapping):
        unknown = set(item) - set(FIELDS)
        if unknown:
            raise _bad(f"a subscription has no field {sorted(unknown)[0]!r}", f"the fields are {', '.join(FIELDS)}")
        if item.get("id") is None or item.get("query") is None:
            raise _bad("a subscription needs an id and a query", 'for example {"id": "q1", "query": "/a/b"}')
        namespaces, ordered, deliver = _settings(*map(item.get, FIELDS[2:]))
        if isinstance(item["query"], (Query, Transformation)):
            return _parsed_item(item["id"], item["query"], namespaces, ordered, deliver)
        return Subscription(item["id"], item["query"], namespaces, ordered, deliver)
    if isinstance(item, (tuple, list)) and len(item) == 2:
        id, query = item
        if isinstance(query, (Query, Transformation)):
            return _parsed_item(id, query)
        return replace(query, id=id) if isinstance(query, Subscription) else (id, query)
    hint = 'write ("q1", "/a/b"); of an index, give its items()'
    raise _bad(f"a subscription is an (id, query) pair, a mapping or a Subscription, not {type(item).__name__}", hint)


def _parsed_item(
    id: str,
    query: Query | Transformation,
    namespaces: Mapping[str, str] | None = None,
    ordered: bool = False,
    deliver: Deliver = "document",
) -> Subscription:
    try:
        text, bindings = text_and_namespaces(query, namespaces)
    except ValueError as error:
        raise _bad(str(error), "leave out its namespaces here") from None
    return Subscription(id, text, check_namespaces(bindings), ordered, deliver)


def namespaces_of(value: Any) -> dict[str, str]:
    """Bindings from a mapping, from Arrow's list of pairs, from JSON, or from `p=uri q=uri`."""
    if value is None or value == "":
        return {}
    if isinstance(value, Mapping):
        bound = {prefix: uri for prefix, uri in value.items() if uri is not None}
        return check_namespaces(bound) if None in bound else bound
    if isinstance(value, str):
        if value.lstrip().startswith("{"):
            try:
                bindings = json.loads(value)
            except ValueError:
                bindings = None
            if isinstance(bindings, dict) and all(isinstance(v, str) for v in bindings.values()):
                return bindings
            raise _bad(f"these namespaces are no JSON object of strings: {value[:80]!r}", 'write {"p": "uri"} or p=uri')
        pairs = [part.partition("=") for part in value.split()]
        if not all(equals for _, equals, _ in pairs):
            raise _bad(
                f"these namespaces cannot be read: {value[:80]!r}", "write p=uri, separated by spaces, or a JSON object"
            )
        return {prefix: uri for prefix, _, uri in pairs}
    try:
        return dict(value)
    except (TypeError, ValueError):
        raise _bad(f"{str(value)[:80]!r} is no mapping of prefixes to namespaces", "write p=uri, or a map") from None


def _ordered_of(value: Any) -> bool:
    word = value.strip().lower() if isinstance(value, str) else value
    if word in (None, "", "false", False):
        return False
    if word in ("true", True):
        return True
    raise _bad(f"ordered is true or false, not {str(value)[:80]!r}", "leave it out for false")


def _deliver_of(value: Any) -> Deliver:
    if value in (None, ""):
        return "document"
    if value not in DELIVER:
        raise _bad(f"deliver is document or elements, not {str(value)[:80]!r}", "leave it out for whole documents")
    return value  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Columns:
    """Subscriptions as Arrow arrays. Row i has `settings[codes[i]]`; `codes` is None: all have the default ones."""

    ids: pa.Array
    queries: pa.Array
    codes: pa.Array | None
    settings: list[tuple[dict[str, str], bool, Deliver]]

    def numbers(self) -> pa.Array | None:
        """The codes as native code takes them."""
        import pyarrow as pa

        return None if self.codes is None else self.codes.cast(pa.uint32())


def from_arrow(table: pa.Table | pa.RecordBatch) -> Columns:
    """The columns of a table as native code takes them, without a look at single rows.

    A population has few distinct settings, so Arrow finds the distinct ones, and only those are read.
    Raises a QueryError where a row cannot be read (`unfit_rows` lists them), or a column holds something else.
    """
    ids, queries = _texts(table, "id"), _texts(table, "query")
    codes, distinct = _distinct_settings(table)
    return Columns(ids, queries, codes, [_settings(*values) for values in distinct])


def unfit_rows(table: pa.Table | pa.RecordBatch, check: Check = lambda *settings: None) -> dict[int, QueryError]:
    """The rows without an id or a query, and those whose settings cannot be read, each with what is wrong.

    `check` raises a QueryError for settings that can be read and are still invalid. Raises one where a column as a
    whole is missing or holds something else.
    """
    import pyarrow.compute as pc

    lacking = [pc.is_null(_flat(_text_column(table, name))) for name in ("id", "query")]
    unfit = dict.fromkeys(
        pc.indices_nonzero(pc.or_(*lacking)).to_pylist(),
        _bad("the subscription has no id or no query", "give it both"),
    )
    codes, distinct = _distinct_settings(table)
    wrong: dict[int, QueryError] = {}
    for code, values in enumerate(distinct):
        try:
            check(*_settings(*values))
        except QueryError as error:
            wrong[code] = error
    if wrong and codes is not None:
        unfit = {row: wrong[code] for row, code in enumerate(codes.to_pylist()) if code in wrong} | unfit
    return unfit


def _unfit_items(items: Sequence[tuple[str, str] | Subscription], check: Check) -> dict[int, QueryError]:
    unfit = {}
    for row, item in enumerate(items):
        if isinstance(item, Subscription):
            try:
                check(item.namespaces, item.ordered, item.deliver)
            except QueryError as error:
                unfit[row] = error
    return unfit


def _distinct_settings(table: pa.Table | pa.RecordBatch) -> tuple[pa.Array | None, list[tuple[Any, Any, Any]]]:
    """For every row the number of its settings, and the different settings; None where the table has no settings."""
    extra = [field for field in FIELDS[2:] if field in table.schema.names]
    if not extra or not table.num_rows:
        return None, []
    codes, firsts = _distinct([_key(_flat(table.column(field))) for field in extra])
    values = {field: _flat(table.column(field)).take(firsts).to_pylist() for field in extra}
    absent = [None] * len(firsts)
    return codes, list(zip(*(values.get(field, absent) for field in FIELDS[2:]), strict=True))


def _settings(namespaces: Any, ordered: Any, deliver: Any) -> tuple[dict[str, str], bool, Deliver]:
    bindings = namespaces_of(namespaces)
    wrong = [text for binding in bindings.items() for text in binding if not isinstance(text, str)]
    if wrong:
        culprit = "null" if wrong[0] is None else repr(wrong[0])
        raise _bad(f"prefixes and namespaces are strings, not {culprit}", "write p=uri, or a map of strings")
    return bindings, _ordered_of(ordered), _deliver_of(deliver)


def _flat(column: Any) -> pa.Array:
    import pyarrow as pa

    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _key(column: pa.Array) -> pa.Array:
    """Strings that are equal just where the values are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_map(column.type):
        # The bindings of each row as one list of strings, then as one string; a null row becomes a null, and a null in
        # a row something that no namespace is, or joining would make the whole row one.
        parts = (pc.fill_null(part.cast(pa.string()), "\x03") for part in (column.keys, column.items))
        lists = [pa.ListArray.from_arrays(column.offsets, part) for part in parts]
        texts = [pc.binary_join(part, "\x00") for part in lists]
        return pc.if_else(pc.is_valid(column), pc.binary_join_element_wise(*texts, "\x01"), None)
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

    texts = pc.binary_join_element_wise(*keys, "\x02", null_handling="replace", null_replacement="\x03")
    dictionary = texts.dictionary_encode()
    rows = pa.table({"code": dictionary.indices, "row": _numbers(len(texts))})
    firsts = rows.group_by("code").aggregate([("row", "min")]).sort_by("code")
    return dictionary.indices, firsts.column("row_min").combine_chunks()


def _numbers(count: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)


def _text_column(table: pa.Table | pa.RecordBatch, name: str) -> Any:
    import pyarrow as pa

    if name not in table.schema.names:
        raise _bad(f"the table has no column {name!r}", "it needs the columns id and query, both strings")
    column = table.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    # A column without a value, of an empty table say, has no type.
    fitting = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(fits(kind) for fits in fitting):
        raise _bad(f"the column {name!r} holds {column.type}, not strings", "cast it to string first")
    return column


def _texts(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    import pyarrow as pa

    column = _text_column(table, name)
    if column.null_count:
        raise _bad(f"the column {name!r} has {column.null_count} nulls", "every subscription needs an id and a query")
    return _flat(column.cast(pa.large_string()))


def add_reporting(source: Any, add: Add, check: Check) -> pa.Table:
    """Add the good ones by `add`, which takes all or none, and list the others in a table."""
    import pyarrow as pa

    refusals: list[dict[str, Any]] = []
    is_table = hasattr(source, "schema")
    count = source.num_rows if is_table else len(source)
    for row, unfit in (unfit_rows if is_table else _unfit_items)(source, check).items():
        id, query = (source.column(name)[row].as_py() for name in ("id", "query")) if is_table else pair_of(source[row])
        refusals.append(_refusal_row(row, id, query, unfit))
    rows: Sequence[int] = range(count)
    if refusals:
        lacking = {row["row"] for row in refusals}
        rows = [row for row in rows if row not in lacking]
    while True:
        # The second round adds what the first found good; a third only if another thread added an id meanwhile.
        part = source if len(rows) == count else _rows(source, rows)
        answer = add(part, len(rows))
        if answer is None:
            break
        for number, id, error in answer[1]:
            query = part.column("query")[number].as_py() if is_table else pair_of(part[number])[1]
            refusals.append(_refusal_row(rows[number], id, query, error))
        bad = {number for number, _, _ in answer[1]}
        rows = [row for number, row in enumerate(rows) if number not in bad]
    refusals.sort(key=lambda row: row["row"])
    fields = [(name, pa.int64() if name in ("row", "position") else pa.string()) for name in REFUSED_FIELDS]
    return pa.Table.from_pylist(refusals, schema=pa.schema(fields))


def _rows(source: Any, rows: Sequence[int]) -> Any:
    if not hasattr(source, "schema"):
        return [source[row] for row in rows]
    import pyarrow as pa

    return source.take(pa.array(rows, pa.int64()))  # with a type: there may be none


def pair_of(item: tuple[str, str] | Subscription) -> tuple[str, str]:
    """Its id and its query."""
    return (item.id, item.query) if isinstance(item, Subscription) else item


def _refusal_row(row: int, id: str | None, query: str | None, error: QueryError) -> dict[str, Any]:
    values = (row, id, query, error.code, str(error), getattr(error, "position", 0))
    return dict(zip(REFUSED_FIELDS, values, strict=True))


def all_refused(count: int, refusals: Sequence[tuple[int, str | None, QueryError]]) -> QueryError:
    """The error that says that nothing was added, and why. A subscription without an id goes by its row."""
    messages = tuple((f"row {row}" if id is None else id, str(error)) for row, id, error in refusals)
    names = [f"row {row}" if id is None else repr(id[:80]) for row, id, _ in refusals]
    if count == 1:
        text, hint = f"nothing was added: the subscription {names[0]} was refused", ""
    else:
        text, hint = (
            f"nothing was added: {count} subscriptions were refused",
            "leave them out or fix them, and add all again",
        )
    for name, (_, message) in zip(names, messages, strict=True):
        text += f"\n{name}: {message}"
    first = refusals[0][2]
    error = QueryError(text, code="TC140" if count > 1 else first.code, hint=hint, refused=messages)
    error.hint = hint or first.hint  # that of a single one is in the text already
    error.position = getattr(first, "position", 0)
    return error


def refused_in(table: pa.Table) -> QueryError:
    """The same, of a table that `add_reporting` gave: not empty."""
    rows = []
    for row in table.slice(0, LISTED_MAX).to_pylist():
        error = QueryError("", code=row["code"], position=row["position"])
        error.args = (row["message"],)
        rows.append((row["row"], row["id"], error))
    return all_refused(table.num_rows, rows)


def addresses(texts: pa.Array) -> tuple[int, int]:
    """Where the offsets and the bytes of a large_string array lie, for native code."""
    _, ends, data = texts.buffers()
    return (ends.address + 8 * texts.offset if ends else 0), (data.address if data else 0)


def _bad(message: str, hint: str) -> QueryError:
    return QueryError(message, code="TC144", hint=hint)
