"""Match a DataFrame of documents: one row per document and subscription that it satisfies.

    from treecast.spark import match, split
    matches = match(documents, subscriptions)                        # lazily; batch or streaming, classic or Connect
    good, bad = split(match(documents, subscriptions, on_error="report"))

How it works: the subscriptions become an index on the driver, which goes to the executors as a file
(`treecast.spark.ship`). A scalar Arrow function turns the document column into an array of ids, which Spark explodes.
So only the documents enter Python, and only ids come back; all other columns stay with Spark, and nothing is joined or
shuffled.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from treecast.document import EntityTexts, Limits
from treecast.errors import PipelineError
from treecast.index import CACHE_BYTES_MAX, Index
from treecast.placement import Placement
from treecast.spark import place
from treecast.spark.carry import carried
from treecast.spark.sampling import first_documents
from treecast.spark.ship import ship
from treecast.subscriptions import FIELDS, LISTED_MAX

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    Subscriptions: TypeAlias = DataFrame | Index | str | Path

ERROR_TYPE = "struct<code:string,message:string,offset:bigint>"
REFUSED_TYPE = "row long, id string, query string, code string, message string, position long"
_TYPES = {
    "lists": "array<string>",
    "report": f"array<struct<subscription:string,error:{ERROR_TYPE}>>",
    "profile": f"struct<matches:array<string>,error:{ERROR_TYPE},nanoseconds:bigint,bytes:bigint>",
}
_FOUND, _ROUTE = "__treecast_found", "__treecast_route"
_SHARD, _PLACE = "__treecast_shard", "__treecast_place"


def match(
    documents: DataFrame,
    subscriptions: Subscriptions,
    *,
    placement: str | Placement = "data-sharing",
    shards: int | None = None,
    on_error: Literal["raise", "report"] = "raise",
    on_refused: Literal["raise", "report"] = "raise",
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
    cache_bytes_max: int = CACHE_BYTES_MAX,
) -> DataFrame:
    """The columns of `documents` without `document`, and `subscription`: one row per match, lazily.

    `documents` has a column `document` (binary or string) and may be a stream. `subscriptions` is a DataFrame with the
    columns `id` and `query` and, if wanted, `namespaces`, `ordered` and `deliver`; or an `Index`; or the path of a
    saved one. A DataFrame of them is read now; null and duplicate ids and refused queries raise a QueryError, or, with
    `on_refused="report"`, are left out with a warning (`refused` lists them all). `namespaces`, `limits` and `entities`
    are those of the index that is made of it.

    A bad or null document fails the job, or, with `on_error="report"`, gives one row whose `error` says why; the other
    rows have none (`split` parts them). `cache_bytes_max` bounds what each Python worker learns from documents.

    `placement` says where subscriptions are held: "data-sharing" is all of them in every worker, and shuffles nothing;
    the others divide them over `shards` (as many as shuffle partitions, unless given), for an index that is too large
    for that; "auto" chooses, and says why in the log: see docs/guide/placements.md. Where the index is too large for a
    worker, it looks at the first documents for that, unless they are a stream. A `Placement` made with a sample of the
    documents knows them better than one by name. The answer is the same.
    """
    placed = place.Placed(placement, shards, cache_bytes_max)
    name, _ = document_columns(documents, on_error)
    index = _index(subscriptions, on_refused, namespaces, limits, entities)
    shipped: place.Shipped | None = None
    if not placed.everywhere:
        index = index if isinstance(index, Index) else Index.load(index)
        session = documents.sparkSession
        shipped = placed.ship(session, index, lambda: () if documents.isStreaming else first_documents(documents, name))
    return matched(documents, index, shipped, on_error, cache_bytes_max)


def matched(
    documents: DataFrame,
    index: Index | str | Path,
    shipped: place.Shipped | None,
    on_error: str,
    cache_bytes_max: int,
) -> DataFrame:
    """The rows of `match`, of an index that every worker holds or of the shards that were shipped."""
    form = _form(on_error)
    name, given_errors = document_columns(documents, on_error)
    columns = [name, *given_errors]
    if shipped is None:
        function = _function(documents.sparkSession, index, form, cache_bytes_max)
        found = documents.withColumn(_FOUND, function(*[documents[column] for column in columns]))
    else:
        found = _placed(documents, columns, shipped, form).drop(_PLACE)
    return _exploded(found.drop(*columns), form)


def profiled(
    documents: DataFrame, index: Index | Path, shipped: place.Shipped | None, cache_bytes_max: int
) -> DataFrame:
    """For jobs that keep accounts: without `document` and `error`, with `found` and `first`.

    `found` is a struct of `matches`, `error`, `nanoseconds` (reading and matching) and `bytes`; bad documents never
    raise. Where subscriptions are divided, a document has a row for each shard that must see it, at least one, and
    `first` is true in one of them, which alone tells an error.
    """
    from pyspark.sql import functions

    columns = ["document", "error"]
    if shipped is not None:
        rows = _placed(documents, columns, shipped, "profile").drop(*columns)
        return rows.withColumnRenamed(_FOUND, "found").withColumn("first", functions.col(_PLACE) == 0).drop(_PLACE)
    function = _function(documents.sparkSession, index, "profile", cache_bytes_max)
    found = function(*[documents[column] for column in columns])
    return documents.withColumns({"found": found, "first": functions.lit(True)}).drop(*columns)


def matches(
    document: Column | str,
    subscriptions: Subscriptions,
    *,
    on_error: Literal["raise", "report"] = "raise",
    session: SparkSession | None = None,
    cache_bytes_max: int = CACHE_BYTES_MAX,
) -> Column:
    """The ids as an array, for plans of your own: `documents.select("file", explode(matches("document", index)))`.

    With `on_error="report"` the array holds structs of `subscription` and `error`; a bad document has one, whose
    `subscription` is null. The session is the active one, unless another is given.
    """
    index = _index(subscriptions, "raise", None, None, None)
    return _function(_session(session), index, _form(on_error), cache_bytes_max)(document)


def split(reported: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Matches and rejected documents, apart: what `match(…, on_error="report")` gave, by its column `error`."""
    if "error" not in reported.columns:
        raise PipelineError(
            "split() needs the column error, which this DataFrame does not have",
            code="TC703",
            hint='call match(…, on_error="report") first',
        )
    good = reported.filter(reported["error"].isNull()).drop("error")
    bad = reported.filter(reported["error"].isNotNull()).drop("subscription")
    return good, bad


def refused(subscriptions: DataFrame, *, namespaces: Mapping[str, str] | None = None) -> DataFrame:
    """Those of the subscriptions that treecast does not accept: row, id, query, code, message, position."""
    session = subscriptions.sparkSession
    table = Index(namespaces=namespaces).add_many(subscription_table(subscriptions), on_refused="report")
    return session.createDataFrame(table.to_pylist(), REFUSED_TYPE)


# -- documents


def document_columns(documents: DataFrame, on_error: str) -> tuple[str, list[str]]:
    """The name of the document column, and of the column of errors that the source has, if any."""
    fields = _fields(documents)
    return _document_field(fields), _given_errors(fields, on_error)


def _fields(documents: DataFrame) -> dict[str, str]:
    if not hasattr(documents, "schema"):
        raise TypeError(f"documents are a DataFrame, not {type(documents).__name__}")
    return {field.name: field.dataType.simpleString() for field in documents.schema.fields}


def _document_field(fields: dict[str, str]) -> str:
    """The name of the document column, as the DataFrame spells it."""
    name = next((name for name in fields if name.lower() == "document"), None)
    if name is None:
        near = difflib.get_close_matches("document", fields, n=1)
        raise PipelineError(
            f"the documents have no column document, only {_listed(fields)}",
            code="TC703",
            hint=f'rename one: documents.withColumnRenamed("{(near or list(fields) or ["…"])[0]}", "document")',
        )
    if fields[name] not in ("binary", "string"):
        raise PipelineError(
            f"the column {name} holds {fields[name]}, not documents",
            code="TC703",
            hint="it has to be binary or string",
        )
    taken = next((other for other in fields if other.lower() == "subscription"), None)
    if taken is not None:
        raise PipelineError(
            f"the documents have a column {taken} already, which is what the answer is called",
            code="TC703",
            hint=f'rename it: documents.withColumnRenamed("{taken}", "…")',
        )
    return name


def _given_errors(fields: dict[str, str], on_error: str) -> list[str]:
    """The column in which the source says what it could not read, if there is one."""
    name = next((name for name in fields if name.lower() == "error"), None)
    if name is None:
        return []
    if fields[name] == ERROR_TYPE:
        return [name]
    if on_error == "raise":
        return []
    raise PipelineError(
        f"the documents have a column {name} already, of {fields[name]}",
        code="TC703",
        hint=f'rename it: documents.withColumnRenamed("{name}", "…")',
    )


def _placed(documents: DataFrame, columns: list[str], shipped: place.Shipped, form: str) -> DataFrame:
    """The documents where their shards are, with what was found: one row per document and shard."""
    from pyspark.sql import functions

    travelling = (shipped.router, shipped.router_ticket, shipped.shards, form)
    route = _arrow_function("route", travelling, "array<int>")
    routed = documents.withColumn(_ROUTE, route(*[documents[column] for column in columns]))
    # As in _exploded: what comes out of a plain column would be asked for again by filters above.
    array = functions.when(functions.col(_ROUTE).isNotNull(), functions.col(_ROUTE))
    rows = routed.select("*", functions.posexplode(array).alias(_PLACE, _SHARD)).drop(_ROUTE)
    rows = rows.repartitionById(shipped.shards, functions.col(_SHARD))
    find = _arrow_function("run_placed", (shipped.tickets, form), _TYPES[form])
    return rows.withColumn(_FOUND, find(_SHARD, _PLACE, *[rows[column] for column in columns])).drop(_SHARD)


def _exploded(found: DataFrame, form: str) -> DataFrame:
    from pyspark.sql import functions

    # Spark would put a filter on the size of the array below the explosion, and for that call the function a second
    # time, were the array a plain column. A filter on what comes out of the explosion stays above it.
    array = functions.when(functions.col(_FOUND).isNotNull(), functions.col(_FOUND))
    if form == "lists":
        return found.withColumn("subscription", functions.explode(array)).drop(_FOUND)
    rows = found.withColumn(_FOUND, functions.explode(array))
    for name in ("subscription", "error"):
        rows = rows.withColumn(name, functions.col(f"{_FOUND}.{name}"))
    return rows.drop(_FOUND)


# -- subscriptions


def _index(
    subscriptions: Subscriptions,
    on_refused: str,
    namespaces: Mapping[str, str] | None,
    limits: Limits | None,
    entities: EntityTexts,
) -> Index | str | Path:
    if on_refused not in ("raise", "report"):
        raise ValueError(f'on_refused must be "raise" or "report", not {on_refused!r}')
    if isinstance(subscriptions, (Index, str, Path)):
        if namespaces is not None or limits is not None or entities is not None:
            raise ValueError("namespaces, limits and entities are settings of the Index: give them to it")
        if not isinstance(subscriptions, Index) and not Path(subscriptions).is_file():
            raise PipelineError(
                f"there is no saved index {subscriptions}", code="TC706", hint="Index.save(path) writes one"
            )
        return subscriptions
    table = subscription_table(subscriptions)
    index = Index(namespaces=namespaces, limits=limits, entities=entities)
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
        raise TypeError(
            f"subscriptions are a DataFrame, an Index or the path of a saved one, not {type(subscriptions).__name__}"
        )
    if subscriptions.isStreaming:
        raise PipelineError(
            "the subscriptions are a stream",
            code="TC703",
            hint="read them as a batch, or match in foreachBatch to pick up changes",
        )
    names = {name.lower(): name for name in subscriptions.columns}
    for wanted in ("id", "query"):
        if wanted not in names:
            raise PipelineError(
                f"the subscriptions have no column {wanted}, only {_listed(names)}",
                code="TC703",
                hint=f"they need {', '.join(FIELDS[:2])}; {', '.join(FIELDS[2:])} if wanted",
            )
    wanted_names = [names[field] for field in FIELDS if field in names]
    return subscriptions.select(*[subscriptions[name].alias(name.lower()) for name in wanted_names])


# -- the function


def _function(
    session: SparkSession, index: Index | str | Path, form: str, cache_bytes_max: int
) -> Callable[..., Column]:
    ticket = tuple(ship(session, index, cache_bytes_max=cache_bytes_max))
    return _arrow_function("run", (ticket, form), _TYPES[form])


def _arrow_function(name: str, arguments: tuple[Any, ...], kind: str) -> Callable[..., Column]:
    """A function of treecast.spark.worker as one of Arrow columns; the arguments travel with it."""
    from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

    treecast_match = carried("worker", name, arguments)
    treecast_match.__name__ = "treecast_match" if name != "route" else "treecast_route"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Spark prefers hints, and says so each time
        function: Callable[..., Column] = arrow_udf(treecast_match, kind, ArrowUDFType.SCALAR_ITER)
    return function


def _session(session: SparkSession | None) -> SparkSession:
    from pyspark.sql import SparkSession

    found = session or SparkSession.getActiveSession()
    if found is None:
        raise PipelineError("there is no active Spark session", code="TC702", hint="make one, or give session=")
    return found


def _form(on_error: str) -> str:
    if on_error not in ("raise", "report"):
        raise ValueError(f'on_error must be "raise" or "report", not {on_error!r}')
    return "lists" if on_error == "raise" else "report"


def _listed(names: Mapping[str, object]) -> str:
    shown = ", ".join(list(names)[:LISTED_MAX])
    return shown + (", …" if len(names) > LISTED_MAX else "") if names else "none at all"
