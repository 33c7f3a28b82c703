"""Match a DataFrame of documents: one row per document and subscription that it satisfies.

    from treecast.spark import match, register, split
    register(spark, "wanted_by", subscriptions)                      # for SQL: SELECT wanted_by(document) FROM …
    matches = match(documents, subscriptions)                        # lazily; batch or streaming, classic or Connect
    good, bad = split(match(documents, subscriptions, on_error="report"))

`treecast.spark.batch.plan` says how it works. Unless a placement divides the subscriptions, nothing is joined or
shuffled. Where each subscriber is to get something of the documents, call `render`, which has the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Self

from treecast.catalog.index_settings import IndexSettings
from treecast.document import EntityTexts, Limits
from treecast.durable import unused_name
from treecast.errors import PipelineError
from treecast.index import CACHE_BYTES_MAX, Index
from treecast.placement import Placement
from treecast.spark.batch.answer_form import answer_form
from treecast.spark.batch.place import SparkPlacement
from treecast.spark.batch.plan import answer_rows, index_function, index_of, subscription_table
from treecast.spark.internals import is_connect, jvm_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from treecast.spark.batch.plan import Subscriptions

MARK = "__treecast_split"
KEPT_MAX = 8
"""Reports whose rows Spark keeps for `split`: a function for each batch of a stream may never release any."""
_kept_splits: dict[int, Split] = {}

REFUSED_TYPE = "row long, id string, query string, code string, message string, position long"


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
    rows have none (`split` separates them). `cache_bytes_max` bounds what each Python worker learns from documents.

    `placement` says where subscriptions are held: "data-sharing" is all of them in every worker, and shuffles nothing;
    the others divide them over `shards` (as many as shuffle partitions, unless given), for an index that is too large
    for that; "auto" chooses, and says why in the log: see docs/guide/placements.md. Where the index is too large for a
    worker, it looks at the first documents for that, unless they are a stream. A `Placement` made with a sample of the
    documents knows them better than one by name. The answer is the same.
    """
    form = answer_form(payloads=False, on_error=on_error)
    settings = IndexSettings(namespaces, limits, entities)
    where = SparkPlacement(placement, shards, cache_bytes_max)
    return answer_rows(documents, subscriptions, form, where, settings, on_refused)


def matches(
    document: Column | str,
    subscriptions: Subscriptions,
    *,
    on_error: Literal["raise", "report"] = "raise",
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
    session: SparkSession | None = None,
    cache_bytes_max: int = CACHE_BYTES_MAX,
) -> Column:
    """The ids as an array, for plans of your own: `documents.select("file", explode(matches("document", index)))`.

    With `on_error="report"` the array holds structs of `subscription` and `error`; a bad document has one, whose
    `subscription` is null. `namespaces`, `limits` and `entities` are those of `match`. The session is the active one,
    unless another is given.
    """
    form = answer_form(payloads=False, on_error=on_error)
    index = index_of(subscriptions, IndexSettings(namespaces, limits, entities))
    return index_function(active_session(session), index, form, cache_bytes_max)(document)


def register(
    session: SparkSession,
    name: str,
    subscriptions: Subscriptions,
    *,
    on_error: Literal["raise", "report"] = "raise",
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
    cache_bytes_max: int = CACHE_BYTES_MAX,
) -> None:
    """`matches` as a function of SQL, for this session: `SELECT key, explode(wanted_by(document)) FROM inbox`.

    The subscriptions are those of now. To change them, register again under the same name. `namespaces`, `limits` and
    `entities` are those of `match`.
    """
    if not name.isidentifier():
        raise PipelineError(
            f"{name!r} is no name of a function", code="TC703", hint="use letters, digits and underscores"
        )
    form = answer_form(payloads=False, on_error=on_error)
    index = index_of(subscriptions, IndexSettings(namespaces, limits, entities))
    session.udf.register(name, index_function(session, index, form, cache_bytes_max))


class Split(tuple["DataFrame", "DataFrame"]):
    """Good rows and bad ones, as `split` gives them; a context that releases what it keeps of them.

    Unpack it, or use it in a `with`. Once released, its DataFrames are good as before, but match again.
    """

    _kept: DataFrame | None = None

    @classmethod
    def of(cls, reported: DataFrame, kept: DataFrame | None = None) -> Split:
        """The parts of a report. `kept` is the same, with MARK, if Spark keeps it for them."""
        rows = reported if kept is None else kept
        bad = rows.filter(rows["error"].isNotNull())
        # A refused delivery has a subscription, a bad document has none.
        bad = bad.drop(MARK, "payload" if has_payloads(reported) else "subscription")
        parts = cls((without_errors(rows).drop(MARK), bad))
        parts._kept = kept
        return parts

    def release(self) -> None:
        """Let Spark drop the rows that it keeps for these parts."""
        from pyspark.errors import PySparkException

        _kept_splits.pop(id(self), None)
        kept, self._kept = self._kept, None
        if kept is not None:
            jvm_failures = () if is_connect(kept.sparkSession) else jvm_errors()
            with suppress(PySparkException, OSError, *jvm_failures):  # a session that has ended has dropped them
                kept.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.release()


def split(reported: DataFrame, *, persist: bool = True) -> Split:
    """Matches and rejected documents, apart: what `match(…, on_error="report")` gave, by its column `error`.

    Of what `render` gave: deliveries, and rejected documents and deliveries.

    Each part is a query of its own, and would match all documents again. So Spark keeps the rows that one of them
    computes, on the disks of the executors, for the other: of a batch, unless `persist=False`. `release()` of the
    result, or its use in a `with`, drops them; so does the eighth `split` after it in this process. A stream cannot be
    kept, nor can a DataFrame on services without `persist`: there, write the report once and split what was written.
    """
    if "error" not in reported.columns:
        raise PipelineError(
            "split() needs the column error, which this DataFrame does not have",
            code="TC703",
            hint='call match(…, on_error="report") first',
        )
    if not persist or reported.isStreaming or _is_kept(reported):
        return Split.of(reported)
    from pyspark import StorageLevel
    from pyspark.sql import functions

    # Spark gives kept rows to every query with the same plan, later ones among them, which are to read their files
    # again: a mark makes this plan differ from all others.
    marked = reported.withColumn(MARK, functions.lit(unused_name()))
    parts = Split.of(reported, marked.persist(StorageLevel.DISK_ONLY))
    _kept_splits[id(parts)] = parts
    if len(_kept_splits) > KEPT_MAX:
        next(iter(_kept_splits.values())).release()
    return parts


def _is_kept(reported: DataFrame) -> bool:
    level = reported.storageLevel
    return level.useDisk or level.useMemory


def without_errors(reported: DataFrame) -> DataFrame:
    """The first part of `split`, for those that want no other."""
    return reported.filter(reported["error"].isNull()).drop("error")


def has_payloads(rows: DataFrame) -> bool:
    """Whether these are rows of `render`: columns that come along from the documents stand before the subscription."""
    columns = rows.columns
    return "subscription" in columns and "payload" in columns[columns.index("subscription") :]


def refused(subscriptions: DataFrame, *, namespaces: Mapping[str, str] | None = None) -> DataFrame:
    """Those of the subscriptions that treecast does not accept: row, id, query, code, message, position.

    A message is one line, so that `show()` is a table: the query and the place in it are columns of their own.
    """
    session = subscriptions.sparkSession
    table = Index(namespaces=namespaces).add_many(subscription_table(subscriptions), on_refused="report")
    rows = [{**row, "message": one_line(row["message"])} for row in table.to_pylist()]
    return session.createDataFrame(rows, REFUSED_TYPE)


def one_line(message: str) -> str:
    """The message and its hint, without the excerpt between them."""
    first, *rest = message.splitlines()
    return "; ".join([first, *[line.strip() for line in rest if line.startswith("  hint: ")]])


def active_session(session: SparkSession | None = None) -> SparkSession:
    """This session, or the active one."""
    from pyspark.sql import SparkSession

    active = session or SparkSession.getActiveSession()
    if active is None:
        raise PipelineError("there is no active Spark session", code="TC702", hint="make one, or give session=")
    return active
