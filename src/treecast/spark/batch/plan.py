"""The plan behind `match` and `render`: a column of documents through a function of treecast.spark.batch.worker.

The subscriptions become an index on the driver, which goes to the executors as a file (`treecast.spark.batch.ship`). A
scalar Arrow function turns the document column into one value per document, which the caller explodes; where the index
is divided by a placement, one value per document and shard (`treecast.spark.batch.place`). So only the documents enter
Python, and only answers come back; all other columns stay with Spark.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from treecast.catalog.index_settings import DEFAULTS, IndexSettings
from treecast.errors import PipelineError
from treecast.index import Index
from treecast.index.subscription_forms import LISTED_MAX, spark_columns
from treecast.inputs.subscriptions import is_saved, load_saved, read_subscriptions
from treecast.spark.batch.carry import carried
from treecast.spark.batch.place import Placed, Shipped
from treecast.spark.batch.sampling import first_documents
from treecast.spark.batch.ship import ship

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    Subscriptions: TypeAlias = DataFrame | Index | str | Path | Any
    """Whatever `treecast.inputs.subscriptions.read_subscriptions` takes."""

ERROR_TYPE = "struct<code:string,message:string,offset:bigint>"
_DELIVERY = "subscription:string,number:int"
TYPES = {
    "lists": "array<string>",
    "report": f"array<struct<subscription:string,error:{ERROR_TYPE}>>",
    "profile": f"struct<matches:array<string>,error:{ERROR_TYPE},nanoseconds:bigint,bytes:bigint>",
    "payloads": f"struct<deliveries:array<struct<{_DELIVERY}>>,payloads:array<binary>>",
    "payload report": f"struct<deliveries:array<struct<{_DELIVERY},error:{ERROR_TYPE}>>,payloads:array<binary>>",
    "payload profile": f"struct<deliveries:array<struct<{_DELIVERY},error:{ERROR_TYPE}>>,payloads:array<binary>,"
    f"error:{ERROR_TYPE},nanoseconds:bigint,bytes:bigint,payload_bytes:bigint>",
}
"""Of the answers, by their form: see `treecast.spark.batch.answers`."""

FOUND = "__treecast_found"
PLACE = "__treecast_place"
_ROUTE, _SHARD = "__treecast_route", "__treecast_shard"


def reports(on_error: str) -> bool:
    """Whether bad documents are to be reported; raises where it is neither that nor to be raised."""
    if on_error not in ("raise", "report"):
        raise ValueError(f'on_error must be "raise" or "report", not {on_error!r}')
    return on_error == "report"


def document_columns(documents: DataFrame, form: str, answers: Sequence[str]) -> list[str]:
    """The columns that the function takes: that of the documents, and that of errors if there is one.

    Raises where there are no documents, or columns that are called as the `answers` will be.
    """
    fields = _fields(documents)
    return [_document_field(fields, answers), *_given_errors(fields, reports="report" in form)]


def shipped_for(
    documents: DataFrame, name: str, index: Index | str | Path, placed: Placed
) -> tuple[Index | str | Path, Shipped | None]:
    """The index, and its shards on the executors if it is to be divided; `name` is that of the document column."""
    if placed.everywhere:
        return index, None
    index = index if isinstance(index, Index) else Index.load(index)
    session = documents.sparkSession
    return index, placed.ship(session, index, lambda: () if documents.isStreaming else first_documents(documents, name))


def with_found(
    documents: DataFrame,
    columns: list[str],
    index: Index | str | Path,
    shipped: Shipped | None,
    form: str,
    cache_bytes_max: int,
) -> DataFrame:
    """The documents with a column FOUND in place of these columns; of shards also PLACE, which is 0 in one row of each.

    The index is one that every worker holds; where there are shards, it is theirs.
    """
    if shipped is None:
        function = index_function(documents.sparkSession, index, form, cache_bytes_max)
        answered = documents.withColumn(FOUND, function(*[documents[column] for column in columns]))
    else:
        answered = _placed(documents, columns, shipped, form)
    return answered.drop(*columns)


def found(part: Callable[[Column], Column]) -> Column:
    """A part of the answers, for what is done with them.

    Spark would put a filter on the size of an array, or on whether there is one, below its explosion, and for that call
    the function a second time, were the array a plain column. A filter on what comes out of the explosion stays above.
    """
    from pyspark.sql import functions

    column = functions.col(FOUND)
    return functions.when(column.isNotNull(), part(column))


# -- documents


def _fields(documents: DataFrame) -> dict[str, str]:
    if not hasattr(documents, "schema"):
        raise TypeError(f"documents are a DataFrame, not {type(documents).__name__}")
    return {field.name: field.dataType.simpleString() for field in documents.schema.fields}


def _document_field(fields: dict[str, str], answers: Sequence[str]) -> str:
    """The name of the document column, as the DataFrame spells it."""
    name = next((name for name in fields if name.lower() == "document"), None)
    if name is None:
        near = difflib.get_close_matches("document", fields, n=1)
        raise PipelineError(
            f"the documents have no column document, only {_listed(fields)}",
            code="TC703",
            hint=f'rename one: documents.withColumnRenamed("{(near or list(fields) or ["…"])[0]}", "document")',
        )
    # A string may have a collation, and a table may bound its length.
    if re.fullmatch(r"binary|string( collate .*)?|(var)?char\(\d+\)", fields[name]) is None:
        raise PipelineError(
            f"the column {name} holds {fields[name]}, not documents",
            code="TC703",
            hint="it has to be binary or string",
        )
    taken = next((other for other in fields if other.lower() in answers), None)
    if taken is not None:
        raise PipelineError(
            f"the documents have a column {taken} already, which is what the answer is called",
            code="TC703",
            hint=f'rename it: documents.withColumnRenamed("{taken}", "…")',
        )
    return name


def _given_errors(fields: dict[str, str], *, reports: bool) -> list[str]:
    """The column in which the source says what it could not read, if there is one."""
    name = next((name for name in fields if name.lower() == "error"), None)
    if name is None:
        return []
    if fields[name] == ERROR_TYPE:
        return [name]
    if not reports:
        return []
    raise PipelineError(
        f"the documents have a column {name} already, of {fields[name]}",
        code="TC703",
        hint=f'rename it: documents.withColumnRenamed("{name}", "…")',
    )


def _placed(documents: DataFrame, columns: list[str], shipped: Shipped, form: str) -> DataFrame:
    """The documents where their shards are, with what was found: one row per document and shard."""
    from pyspark.sql import functions

    travelling = (shipped.router, shipped.router_ticket, shipped.shards, form)
    route = _arrow_function("route", travelling, "array<int>")
    routed = documents.withColumn(_ROUTE, route(*[documents[column] for column in columns]))
    # As in found(): what comes out of a plain column would be asked for again by filters above.
    array = functions.when(functions.col(_ROUTE).isNotNull(), functions.col(_ROUTE))
    rows = routed.select("*", functions.posexplode(array).alias(PLACE, _SHARD)).drop(_ROUTE)
    rows = rows.repartitionById(shipped.shards, functions.col(_SHARD))
    find = _arrow_function("run_placed", (shipped.tickets, form), TYPES[form])
    return rows.withColumn(FOUND, find(_SHARD, PLACE, *[rows[column] for column in columns])).drop(_SHARD)


# -- subscriptions


def index_of(
    subscriptions: Subscriptions, settings: IndexSettings = DEFAULTS, on_refused: str = "raise"
) -> Index | str | Path:
    """The index that the subscriptions make, or are, or the path of a saved one; in any other form they are read."""
    if on_refused not in ("raise", "report"):
        raise ValueError(f'on_refused must be "raise" or "report", not {on_refused!r}')
    if isinstance(subscriptions, Index) or is_saved(subscriptions):
        if settings != DEFAULTS:
            raise ValueError(f"{', '.join(vars(settings))} are settings of the Index: give them to it")
        if not isinstance(subscriptions, Index) and not Path(subscriptions).is_file():
            load_saved(subscriptions)  # says why it cannot be read
        given: Index | str | Path = subscriptions
        return given
    table = read_subscriptions(subscriptions)
    index = settings.index()
    if on_refused == "raise":
        index.add_many(table)
        return index
    left_out = index.add_many(table, on_refused="report")
    if left_out.num_rows:
        listed = [
            f"{row['id']!r}: {row['message'].splitlines()[0]}" for row in left_out.slice(0, LISTED_MAX).to_pylist()
        ]
        warnings.warn(
            f"{left_out.num_rows} of {table.num_rows} subscriptions were refused and left out:\n" + "\n".join(listed),
            stacklevel=3,
        )
    return index


def subscription_table(subscriptions: DataFrame) -> pa.Table:
    """The columns of a DataFrame that make subscriptions, as Arrow from Spark: no row passes through Python."""
    return subscription_columns(subscriptions).toArrow()


def subscription_columns(subscriptions: DataFrame) -> DataFrame:
    """The columns that make subscriptions, under their own names; raises where one is missing."""
    if not hasattr(subscriptions, "toArrow"):
        raise TypeError(f"subscriptions must be a DataFrame, got {type(subscriptions).__name__}")
    frame: DataFrame = spark_columns(subscriptions)
    return frame


# -- the function


def index_function(
    session: SparkSession, index: Index | str | Path, form: str, cache_bytes_max: int
) -> Callable[..., Column]:
    """The answers of the index in this form, as a function of the document column (and one of errors)."""
    ticket = tuple(ship(session, index, cache_bytes_max=cache_bytes_max))
    return _arrow_function("run", (ticket, form), TYPES[form])


def _arrow_function(name: str, arguments: tuple[Any, ...], kind: str) -> Callable[..., Column]:
    """A function of treecast.spark.batch.worker as one of Arrow columns; the arguments travel with it."""
    from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

    treecast_match = carried("worker", name, arguments)
    treecast_match.__name__ = "treecast_match" if name != "route" else "treecast_route"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Spark prefers hints, and says so each time
        function: Callable[..., Column] = arrow_udf(treecast_match, kind, ArrowUDFType.SCALAR_ITER)
    return function


def _listed(names: Mapping[str, object]) -> str:
    shown = ", ".join(list(names)[:LISTED_MAX])
    return shown + (", …" if len(names) > LISTED_MAX else "") if names else "none at all"
