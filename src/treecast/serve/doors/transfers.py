"""Many subscriptions at once: import and export, in the formats of `treecast.inputs`.

An import is written to a file as it arrives, read and checked as a whole in a thread, and only then handed to the
broker, a thousand rows at a time. So nothing is imported if a row is refused; each thousand is durable by itself, and
an import that was interrupted is repeated with `mode=replace`. An export reads page by page, and waits for whoever
takes it: memory does not grow with the number of subscriptions. A saved index (`tcx`) is that of the broker itself.

All formats carry the five fields of a subscription: id, query, namespaces, ordered, deliver. What is special to the
service (`attempts_max` and the like) is not in them: it stays as it is where a subscription is replaced.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from treecast.errors import QueryError, TreecastError
from treecast.index import Index
from treecast.inputs.subscriptions import read_subscriptions
from treecast.overlay.broker.rows import SubscriptionRow
from treecast.overlay.messages import Subscribe, SubscribeMany, SubscriptionOptions
from treecast.serve.access.access import Access
from treecast.serve.access.refusals import AccessRefusedError, not_allowed
from treecast.serve.access.settings import AccessSettings
from treecast.serve.client import RefusedError
from treecast.serve.doors.calls import Call, Reply, json_reply
from treecast.serve.doors.forms import ImportAnswer, ImportRefusal
from treecast.serve.doors.local import LocalClient
from treecast.serve.doors.problems import CONTENT_TYPE, DoorError, problem_of_error
from treecast.serve.doors.settings import DoorSettings
from treecast.serve.doors.visible import adding_subscriptions, visible_subscriptions

FORMAT_OF_TYPE = {
    "text/csv": "csv",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/json": "json",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.treecast.index": "tcx",
}
TYPES = {"csv": "text/csv; charset=utf-8"}
TYPES |= {format: type for type, format in reversed(FORMAT_OF_TYPE.items()) if format not in ("csv", "json")}
MODES = ("add", "replace")
FIELDS = ("id", "query", "namespaces", "ordered", "deliver")
ROWS_AT_ONCE = 1_000
ROWS_PER_GROUP = 50_000
"""Of a Parquet file."""
EXISTS = "TC141"
"""The code of the index for an id that is there already."""


class TransferPages:
    """Imports and exports."""

    def __init__(self, client: LocalClient, settings: DoorSettings, access: AccessSettings) -> None:
        self._client = client
        self._access = access
        self._settings = settings
        self._under_way = 0

    def _begin(self) -> None:
        if self._under_way >= self._settings.transfers_max:
            raise DoorError("other imports and exports are under way", code="TC436", hint="try again soon")
        self._under_way += 1

    # --- import -------------------------------------------------------------------------------------------------------

    async def import_subscriptions(self, call: Call) -> Reply:
        type = call.header(b"content-type").partition(";")[0].strip().lower()
        format = FORMAT_OF_TYPE.get(type)
        if format is None:
            hint = f"send {', '.join(FORMAT_OF_TYPE)}"
            raise DoorError(f"subscriptions of the type {type[:100]!r}", code="TC435", hint=hint)
        mode = call.choice("mode", MODES)
        is_trial = call.choice("dry_run", ("false", "true")) == "true"
        self._client.expect_broker()
        self._begin()
        try:
            with tempfile.TemporaryDirectory(prefix="treecast-import-") as directory:
                path = Path(directory, "subscriptions")
                await call.save_body(path, self._settings.import_bytes_max, self._settings.import_ms)
                table, refusals = await asyncio.to_thread(check_import, path, format)
            return await self._import(call.access, table, refusals, mode, is_trial)
        finally:
            self._under_way -= 1

    async def _import(
        self, access: Access, table: Any, refusals: list[ImportRefusal], mode: str, is_trial: bool
    ) -> Reply:
        refusal_by_row = {refusal.row: refusal for refusal in refusals}
        existing_ids = set[str]()
        for first in range(0, len(table), ROWS_AT_ONCE):
            for row, id in enumerate(table["id"].slice(first, ROWS_AT_ONCE).to_pylist(), first):
                if row not in refusal_by_row and (reason := self._refusal(access, id, mode, existing_ids)):
                    refusal_by_row[row] = ImportRefusal(row, id, reason.code, str(reason))
            await asyncio.sleep(0)  # others have their turn
        refusals = [refusal_by_row[row] for row in sorted(refusal_by_row)]
        if refusals and not is_trial:
            return _refuse(refusals, len(table), self._settings.refused_rows_max)
        if not is_trial:
            await self._add_all(access, table, existing_ids)
        added_count = len(table) - len(refusals) - len(existing_ids)
        listed_refusals = refusals[: self._settings.refused_rows_max]
        return json_reply(200, ImportAnswer(len(table), added_count, len(existing_ids), len(refusals), listed_refusals))

    def _refusal(self, access: Access, id: str, mode: str, existing_ids: set[str]) -> TreecastError | None:
        """Why a good row is refused, if it is; those that exist, and are to be changed, become known."""
        if not access.allows_subscription(id):
            return not_allowed()  # whether it exists makes no difference
        if id not in self._client.expect_broker().index:
            return None
        if mode == "add":
            return QueryError(f"the id {id!r} exists already", code=EXISTS, hint="mode=replace changes it")
        existing_ids.add(id)
        return None

    async def _add_all(self, access: Access, table: Any, existing_ids: set[str]) -> None:
        """Raises DoorError if somebody else has changed something meanwhile: what was done until then stays."""
        rows_done = 0
        for first in range(0, len(table), ROWS_AT_ONCE):
            rows = table.slice(first, ROWS_AT_ONCE).to_pylist()
            tail = self._client.expect_broker().tail
            commands: list[Subscribe | SubscribeMany] = []
            new = [_command(row, SubscriptionOptions()) for row in rows if row["id"] not in existing_ids]
            if new:
                commands.append(SubscribeMany(new))
            for row in rows:
                if row["id"] in existing_ids:
                    before = tail.subscription(row["id"])
                    commands.append(_command(row, before.options if before else SubscriptionOptions()))
            try:
                with adding_subscriptions(access, tail, len(new), self._access.count_ms):
                    await asyncio.gather(*(self._client.request(command) for command in commands))
            except (AccessRefusedError, RefusedError, DoorError) as error:
                detail = problem_of_error(error).detail
                hint = "repeat it with mode=replace"
                raise DoorError(f"the import ended after {rows_done} rows: {detail}", code="TC463", hint=hint) from None
            rows_done += len(rows)

    # --- export -------------------------------------------------------------------------------------------------------

    async def export_subscriptions(self, call: Call) -> Reply | None:
        """Answers by itself, piece by piece."""
        format = call.choice("format", tuple(TYPES))
        self._client.expect_broker()
        if call.scope["method"] == "HEAD":
            return Reply(200, b"", TYPES[format])
        self._begin()
        try:
            if format == "tcx":
                index = await self._index(call.access)
                with tempfile.TemporaryDirectory(prefix="treecast-export-") as directory:
                    path = Path(directory, "subscriptions.tcx")
                    await asyncio.to_thread(index.save, path)
                    await call.stream(_pieces_of(path), TYPES[format])
            else:
                write = {"csv": _write_csv, "jsonl": _write_json_lines, "parquet": _write_parquet}[format]
                await call.stream(write(self._pages(call.access)), TYPES[format])
        finally:
            self._under_way -= 1
        return None

    async def _index(self, access: Access) -> Index:
        """The broker's own, for those who may see all of it."""
        if access.sees_everything:
            return self._client.expect_broker().index
        index = Index()
        async for rows in self._pages(access):
            index.add_many([dict(zip(FIELDS, fields_of(id, row), strict=True)) for id, row in rows])
        return index

    async def _pages(self, access: Access) -> AsyncIterator[list[tuple[str, SubscriptionRow]]]:
        """All subscriptions that may be seen, by their ids; those that change meanwhile as they are before or after."""
        after = ""
        while rows := visible_subscriptions(self._client.expect_broker().tail, access, after, ROWS_AT_ONCE):
            yield rows
            after = rows[-1][0]
            await asyncio.sleep(0)


# --- reading ----------------------------------------------------------------------------------------------------------


def check_import(path: Path, format: str) -> tuple[Any, list[ImportRefusal]]:
    """The rows of a file, and those that are refused. Raises DoorError if it is not what it should be."""
    try:
        table = read_subscriptions(path, format=format)
        refusals = Index().add_many(table, on_refused="report").to_pylist()
    except TreecastError as error:
        text = problem_of_error(error).detail.replace(f"{path}: ", "").replace(str(path), "the file")
        hint = error.hint.partition(", or give its format")[0]  # the type of the body has said it
        raise DoorError(text, code="TC462", hint=hint) from None
    return table, [ImportRefusal(row["row"], row["id"] or "", row["code"], row["message"]) for row in refusals]


def _refuse(refusals: list[ImportRefusal], rows: int, listed_max: int) -> Reply:
    error = DoorError(
        f"{len(refusals)} of {rows} rows are refused, and nothing was imported",
        code="TC462",
        hint="`refused` lists them; dry_run=true checks without importing",
    )
    problem = problem_of_error(error)
    extra_fields = {"refused": refusals[:listed_max], "refused_count": len(refusals)}
    return Reply(problem.status, msgspec.json.encode({**msgspec.to_builtins(problem), **extra_fields}), CONTENT_TYPE)


def _command(row: dict[str, Any], options: SubscriptionOptions) -> Subscribe:
    namespaces = dict(row.get("namespaces") or ())
    return Subscribe(
        row["id"], row["query"], namespaces, bool(row.get("ordered")), row.get("deliver") or "document", options
    )


# --- writing ----------------------------------------------------------------------------------------------------------

Pages = AsyncIterator[list[tuple[str, SubscriptionRow]]]


def fields_of(id: str, row: SubscriptionRow) -> tuple[str, str, dict[str, str], bool, str]:
    """In the order of `FIELDS`; namespaces in their own order, so that equal subscriptions are equal bytes."""
    return id, row.query, dict(sorted(row.namespaces.items())), row.ordered, row.deliver


async def _write_csv(pages: Pages) -> AsyncIterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    async for rows in pages:
        for id, row in rows:
            _, query, namespaces, ordered, deliver = fields_of(id, row)
            bindings = json.dumps(namespaces, ensure_ascii=False) if namespaces else ""
            writer.writerow((id, query, bindings, str(ordered).lower(), deliver))
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    if text.tell():
        yield text.getvalue().encode()


async def _write_json_lines(pages: Pages) -> AsyncIterator[bytes]:
    encode = msgspec.json.Encoder().encode
    async for rows in pages:
        yield b"".join(encode(dict(zip(FIELDS, fields_of(id, row), strict=True))) + b"\n" for id, row in rows)


async def _write_parquet(pages: Pages) -> AsyncIterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = (pa.string(), pa.string(), pa.map_(pa.string(), pa.string()), pa.bool_(), pa.string())
    schema = pa.schema(list(zip(FIELDS, kinds, strict=True)))
    sink = _Pipe()
    writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, compression="zstd")
    waiting: list[tuple[str, SubscriptionRow]] = []

    def write() -> None:
        columns = zip(*(fields_of(id, row) for id, row in waiting), strict=True)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        writer.write_table(pa.table(arrays, schema=schema))
        waiting.clear()

    async for rows in pages:
        waiting += rows
        if len(waiting) >= ROWS_PER_GROUP:
            await asyncio.to_thread(write)
            yield sink.take()
    if waiting:
        await asyncio.to_thread(write)
    writer.close()
    yield sink.take()


class _Pipe(io.RawIOBase):
    """What a writer has written since the last look."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


async def _pieces_of(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 1 << 20):
            yield piece
