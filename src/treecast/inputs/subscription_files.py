"""Files of subscriptions in one format -> an Arrow table: id, query and, where given, namespaces, ordered and deliver.

    csv      a header line, then comma-separated fields; namespaces written `p=uri q=uri` (`=uri` binds unprefixed
             names), ordered written true or false
    json     an array of objects, or one object a line; namespaces is an object {"p": "uri"}
    jsonl    one object a line
    parquet  a file, or a directory of files; namespaces is a map, or a string written as in csv
    lines    one query a line, its id the number of the line; empty lines and lines that begin with # are counted
             and passed over

Other columns are ignored and named in a note. Integer ids in a file become their digits. For everything else that
holds subscriptions, and to find out which format a file has, use `treecast.inputs.subscriptions`.

Codes: TC190 a file that cannot be read, TC191 a file that is not what its format says.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from treecast.errors import QueryError
from treecast.index.subscription_forms import namespaces_of, table_of

FORMATS = ("csv", "json", "jsonl", "parquet", "lines")
FORMAT_OF_SUFFIX = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".txt": "lines",
    ".xpath": "lines",
}
COLUMNS = ("id", "query", "namespaces", "ordered", "deliver")
SETTINGS = frozenset(COLUMNS[2:])
FIELD_CHARS_MAX = 64 << 20
RECORDS_AT_ONCE = 1 << 16
STDIN = "-"

Note = Callable[[str], None]


def read(path: str, form: str, note: Note) -> Any:
    """The table of one file. Raises QueryError, naming the file and the line."""
    try:
        if form == "parquet":
            return _read_parquet(path, note)
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise _broken(path, f"byte {error.start} is not UTF-8", "save the file as UTF-8") from None
    # Divides at line ends alone: splitlines() would also do so at U+2028 and its like, which CSV and JSON may hold.
    lines = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")
    if form == "json" and data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        return _table(_read_json_array(path, lines.read(), note))
    readers = {"csv": _read_csv, "json": _read_json_lines, "jsonl": _read_json_lines, "lines": _read_lines}
    return _table(readers[form](path, lines, note))


def unreadable(path: str, error: OSError) -> QueryError:
    """The error for a file that the system does not let us read."""
    message = f"{path}: cannot be read: {error.strerror or error}"
    return QueryError(message, code="TC190", hint="check the name and the permissions")


def parse_namespaces(text: str) -> dict[str, str]:
    """`p=uri q=uri`, or a JSON object, as a mapping; raises ValueError that says what to write instead."""
    try:
        bindings = namespaces_of(text)
    except QueryError:
        raise ValueError(f"{text[:80]!r} is no binding: write prefix=uri, or =uri for names without a prefix") from None
    for prefix, uri in bindings.items():
        if not uri:
            raise ValueError(f"the prefix {prefix!r} is bound to nothing: write prefix=uri")
    if len(bindings) < len(text.split()) and not text.lstrip().startswith("{"):
        raise ValueError(f"{text[:80]!r} binds a prefix twice")
    return bindings


def _read_csv(path: str, lines: Iterable[str], note: Note) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(FIELD_CHARS_MAX)
    rows = csv.reader(lines, strict=True)
    hint = "quote fields that hold commas, quotes or line ends"
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        _check_columns(path, header, note)
        has_settings = not SETTINGS.isdisjoint(header)  # most sets are ids and queries alone
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                message = f"line {rows.line_num}: {len(row)} fields where the header has {len(header)}"
                raise _broken(path, message, hint)
            fields = dict(zip(header, row, strict=True))
            yield _csv_record(path, rows.line_num, fields) if has_settings else fields
    except csv.Error as error:
        raise _broken(path, f"line {rows.line_num}: {error}", hint) from None


def _csv_record(path: str, line: int, fields: dict[str, str]) -> dict[str, Any]:
    record: dict[str, Any] = {"id": fields["id"], "query": fields["query"]}
    if fields.get("namespaces"):
        record["namespaces"] = _bindings(path, f"line {line}", fields["namespaces"])
    if fields.get("ordered"):
        word = fields["ordered"].strip().lower()
        if word not in ("true", "false"):
            raise _broken(path, f"line {line}: ordered is {fields['ordered']!r}", "write true or false")
        record["ordered"] = word == "true"
    if fields.get("deliver"):
        record["deliver"] = fields["deliver"]
    return record


def _read_json_lines(path: str, lines: Iterable[str], note: Note) -> Iterator[dict[str, Any]]:
    ignored_keys: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _broken(path, f"{place}: {error}", "write one JSON object a line") from None
        yield _json_record(path, place, record, ignored_keys)
    _note_ignored(path, sorted(ignored_keys), note)


def _read_json_array(path: str, text: str, note: Note) -> Iterator[dict[str, Any]]:
    ignored_keys: set[str] = set()
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken(path, str(error), "write an array of JSON objects") from None
    for number, record in enumerate(records):
        yield _json_record(path, f"item {number}", record, ignored_keys)
    _note_ignored(path, sorted(ignored_keys), note)


def _json_record(path: str, place: str, record: Any, ignored_keys: set[str]) -> dict[str, Any]:
    if not isinstance(record, dict) or "id" not in record or "query" not in record:
        raise _broken(path, f"{place}: no object with id and query", 'write {"id": "q1", "query": "/a/b"}')
    ignored_keys.update(record.keys() - set(COLUMNS))
    fields = {key: record[key] for key in COLUMNS if record.get(key) is not None}
    if isinstance(fields.get("id"), int) and not isinstance(fields["id"], bool):
        fields["id"] = str(fields["id"])
    kinds = {"id": str, "query": str, "ordered": bool, "deliver": str}
    for key, kind in kinds.items():
        if (key in fields or key in ("id", "query")) and not isinstance(fields.get(key), kind):
            expectation = "true or false" if kind is bool else "a string"
            raise _broken(path, f"{place}: {key} is not {expectation}", f"write {expectation}")
    namespaces = fields.get("namespaces")
    if isinstance(namespaces, str):
        fields["namespaces"] = _bindings(path, place, namespaces)
    elif namespaces is not None and not _is_bindings(namespaces):
        raise _broken(path, f"{place}: namespaces is no object of strings", 'write {"p": "uri"}')
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _broken(path, f"{place}: half of a surrogate pair", r"write both \u escapes of the character") from None
    return fields


def _is_bindings(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(uri, str) for uri in value.values())


def _read_lines(path: str, lines: Iterable[str], note: Note) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        query = line.strip()
        if query and not query.startswith("#"):
            yield {"id": str(number), "query": query}


def _read_parquet(path: str, note: Note) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        names, read_columns = _open_parquet(path)
        _check_columns(path, [name.lower() for name in names], note)
        table = table_of(_with_text_ids(read_columns([name for name in names if name.lower() in COLUMNS])))
        assert table is not None
        for name in ("id", "query"):
            if pc.any(pc.is_null(table[name])).as_py():
                row = pc.index(pc.is_null(table[name]), True).as_py()
                raise _broken(path, f"row {row}: {name} is null", "every subscription needs an id and a query")
        if "namespaces" in table.column_names and not pa.types.is_map(table.schema.field("namespaces").type):
            texts = table["namespaces"].cast(pa.string()).to_pylist()
            maps = [None if text is None else _bindings(path, f"row {row}", text) for row, text in enumerate(texts)]
            column = pa.array(maps, pa.map_(pa.string(), pa.string()))
            table = table.set_column(table.column_names.index("namespaces"), "namespaces", column)
    except pa.ArrowException as error:
        raise _broken(path, str(error).split("\n", 1)[0], "write it again, or choose another format") from None
    return table


def _with_text_ids(table: Any) -> Any:
    """Integer ids as their digits: files made by other programs have them."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        if field.name.lower() == "id" and pa.types.is_integer(field.type):
            table = table.set_column(number, field.name, table.column(number).cast(pa.string()))
    return table


def _open_parquet(path: str) -> tuple[list[str], Callable[[list[str]], Any]]:
    """The names of the columns, and a function that reads some of them."""
    if path != STDIN and Path(path).is_dir():
        import pyarrow.dataset as ds

        files = ds.dataset(path, format="parquet", partitioning="hive")
        return list(files.schema.names), lambda columns: files.to_table(columns=columns)
    import pyarrow.parquet as pq

    file = pq.ParquetFile(io.BytesIO(sys.stdin.buffer.read()) if path == STDIN else path)
    return list(file.schema_arrow.names), lambda columns: file.read(columns=columns)


def _table(records: Iterable[dict[str, Any]]) -> Any:
    """Only the columns that some record has: most sets have none but id and query. A piece at a time becomes Arrow."""
    import pyarrow as pa

    types = {name: pa.string() for name in COLUMNS}
    types |= {"ordered": pa.bool_(), "namespaces": pa.map_(pa.string(), pa.string())}
    pieces = []
    source = iter(records)
    while piece := list(islice(source, RECORDS_AT_ONCE)):
        columns = {name: [record.get(name) for record in piece] for name in COLUMNS}
        pieces.append(pa.table({name: pa.array(values, types[name]) for name, values in columns.items()}))
    table = pa.concat_tables(pieces) if pieces else pa.table({name: pa.array([], kind) for name, kind in types.items()})
    unused_columns = [name for name in COLUMNS[2:] if table[name].null_count == len(table)]
    return table.drop_columns(unused_columns)


def _check_columns(path: str, names: list[str], note: Note) -> None:
    missing = [name for name in ("id", "query") if name not in names]
    if missing:
        columns = ", ".join(names[:10]) or "nothing"
        message = f"no column {' and no column '.join(missing)}; found {columns}"
        hint = "name the columns id and query (in CSV on the first line, with commas), or give its format"
        raise _broken(path, message, hint)
    if len(set(names)) != len(names):
        raise _broken(path, "a column appears twice", "name each column once")
    _note_ignored(path, [name for name in names if name not in COLUMNS], note)


def _note_ignored(path: str, names: list[str], note: Note) -> None:
    if names:
        note(f"{path}: columns ignored: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}")


def _bindings(path: str, place: str, text: str) -> dict[str, str]:
    try:
        return parse_namespaces(text)
    except ValueError as error:
        raise _broken(path, f"{place}: {error}", "for example x=urn:x y=urn:y") from None


def _broken(path: str, message: str, hint: str) -> QueryError:
    return QueryError(f"{path}: {message}", code="TC191", hint=hint)
