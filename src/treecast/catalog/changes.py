"""What has changed between two states of a set of subscriptions, and how a live index follows.

Each state is a table of rows with one spelling of the settings: a row has changed exactly if one of its columns has.
`refused` marks the rows that the index did not take. States are compared column by column in Arrow: a million rows that
did not change cost no Python.

    rows, left_out = rows_of(table)            # columns id, query and, if wanted, namespaces, ordered, deliver
    rows, changes = apply(index, before, rows)

What the index holds afterwards depends on the new state alone, not on the way there: a subscription whose new query is
refused is left out, its old query too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treecast.errors import QueryError
from treecast.index import Index
from treecast.index.subscription_forms import FIELDS, LISTED_MAX, from_arrow, unfit_rows

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("treecast.catalog.changes")


@dataclass(frozen=True)
class Changes:
    """How many subscriptions came, changed and went; false where none did."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def __str__(self) -> str:
        return f"{self.added} new, {self.changed} changed, {self.removed} gone"


def nothing(*, rows: bool = False) -> pa.Table:
    """No subscriptions: as a user would give them, or as a state."""
    import pyarrow as pa

    kinds = dict.fromkeys(FIELDS, pa.large_string()) | {"ordered": pa.bool_(), "refused": pa.bool_()}
    names = (*FIELDS, "refused") if rows else FIELDS[:2]
    return pa.table({name: pa.array([], kinds[name]) for name in names})


def rows_of(table: pa.Table) -> tuple[pa.Table, int]:
    """The subscriptions of a table with one spelling of their settings, and how many had to be left out.

    Left out are rows without an id or a query, rows whose settings cannot be read, and all but the first of an id.
    Raises QueryError where the columns themselves are wrong.
    """
    import pyarrow as pa

    whole = table.num_rows
    unfit = unfit_rows(table)
    columns = from_arrow(_without(table, unfit) if unfit else table)
    count = len(columns.ids)
    codes = columns.codes if columns.codes is not None else pa.array([0] * count, pa.int32())
    settings = columns.settings or [({}, False, "document")]
    namespace_texts = [json.dumps(namespaces, sort_keys=True) for namespaces, _, _ in settings]
    rows = pa.table(
        {
            "id": columns.ids,
            "query": columns.queries,
            "namespaces": pa.array(namespace_texts, pa.large_string()).take(codes),
            "ordered": pa.array([ordered for _, ordered, _ in settings], pa.bool_()).take(codes),
            "deliver": pa.array([deliver for _, _, deliver in settings], pa.large_string()).take(codes),
        }
    )
    rows = _first_of_each_id(rows)
    if whole > rows.num_rows:
        log.warning("%d of %d subscriptions have no id, an id twice, or unreadable settings", whole - len(rows), whole)
    return rows, whole - rows.num_rows


def compare(before: pa.Table, wanted: pa.Table) -> tuple[pa.Array, pa.Array, pa.Table]:
    """For each wanted row its place before, null if it is new, and whether it was the same; and the rows that go."""
    import pyarrow.compute as pc

    places = pc.index_in(wanted.column("id"), value_set=before.column("id"))
    old = before.take(places)
    is_same = pc.is_valid(places)
    for field in FIELDS[1:]:
        is_same = pc.and_(is_same, pc.fill_null(pc.equal(wanted.column(field), old.column(field)), False))
    removed_rows = before.filter(pc.invert(pc.is_in(before.column("id"), value_set=wanted.column("id"))))
    return places, is_same, removed_rows


def apply(index: Index, before: pa.Table, wanted: pa.Table) -> tuple[pa.Table, Changes]:
    """Make the index hold what is wanted, and mark in it what the index refused; `before` is what it held."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places, is_same, removed_rows = compare(before, wanted)
    old = before.take(places)
    is_in_index = pc.invert(pc.fill_null(old.column("refused"), True))
    is_changed = pc.invert(is_same)

    for id in removed_rows.filter(pc.invert(removed_rows.column("refused"))).column("id").to_pylist():
        index.remove(id)
    refusals = _replace(index, wanted.filter(pc.and_(is_changed, is_in_index)))
    new = wanted.filter(pc.and_(is_changed, pc.invert(is_in_index)))
    if new.num_rows:
        refusals += [(row["id"], row["message"]) for row in index.add_many(new, on_refused="report").to_pylist()]
    for id, message in refusals[:LISTED_MAX]:
        log.warning("the subscription %r is refused: %s", id, message.splitlines()[0])

    # A row that is the same stays marked as it was.
    is_refused_now = pc.is_in(wanted.column("id"), value_set=pa.array([id for id, _ in refusals], pa.large_string()))
    marks = pc.if_else(is_same, pc.fill_null(old.column("refused"), False), is_refused_now)
    added_count = pc.sum(pc.is_null(places)).as_py() or 0
    changes = Changes(added_count, (pc.sum(is_changed).as_py() or 0) - added_count, removed_rows.num_rows)
    return wanted.append_column("refused", marks), changes


def _replace(index: Index, rows: pa.Table) -> list[tuple[str, str]]:
    """Give ids of the index new queries. An id whose new query is refused is removed; the answer is (id, message)."""
    refusals = []
    for row in rows.to_pylist():
        try:
            index.replace(
                row["id"],
                row["query"],
                namespaces=json.loads(row["namespaces"]),
                ordered=row["ordered"],
                deliver=row["deliver"],
            )
        except QueryError as error:
            index.remove(row["id"])
            refusals.append((row["id"], str(error)))
    return refusals


def _without(table: pa.Table, left_out: Collection[int]) -> pa.Table:
    import pyarrow as pa

    return table.filter(pa.array([row not in left_out for row in range(table.num_rows)], pa.bool_()))


def _first_of_each_id(rows: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.count_distinct(rows.column("id")).as_py() == rows.num_rows:
        return rows
    row_numbers: Any = pa.table({"id": rows.column("id"), "row": pa.array(range(rows.num_rows), pa.int64())})
    firsts = row_numbers.group_by("id").aggregate([("row", "min")]).column("row_min")
    return rows.take(firsts.sort())
