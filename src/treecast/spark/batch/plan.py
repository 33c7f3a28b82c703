"""The plan of `match` and `render`: a column of documents through a function of treecast.spark.batch.worker.

    rows = answer_rows(documents, subscriptions, MATCHES, placement, settings, "raise")      # what `match` does
    rows = answer_rows(documents, subscriptions, DELIVERIES, placement, settings, "raise")   # what `render` does

The subscriptions become an index on the driver, which goes to the executors as a file (`treecast.spark.batch.ship`). A
scalar Arrow function turns the document column into one value per document, in an `AnswerForm`, which Spark explodes;
where the index is divided by a placement, one value per document and shard (`treecast.spark.batch.place`). So only the
documents enter Python, and only answers come back; all other columns stay with Spark.
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
from treecast.spark.batch.answer_form import ANSWER, ERROR_TYPE, AnswerForm
from treecast.spark.batch.place import ShardTickets, SparkPlacement
from treecast.spark.batch.row_limit import check_room
from treecast.spark.batch.sampling import first_documents
from treecast.spark.batch.ship import ship
from treecast.spark.batch.worker_function import worker_function

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    Subscriptions: TypeAlias = DataFrame | Index | str | Path | Any
    """Whatever `treecast.inputs.subscriptions.read_subscriptions` takes."""

USUAL_NAMES = ("xml", "content", "body", "value", "payload", "text", "message")
"""What people call a column of documents, Spark's own sources among them."""
FILE_NAMES = ("file", "path", "filename", "file_name")

PLACE = "__treecast_place"
_DELIVERY = "__treecast_delivery"
_ROUTE, _SHARD = "__treecast_route", "__treecast_shard"


def answer_rows(
    documents: DataFrame,
    subscriptions: Subscriptions,
    form: AnswerForm,
    placement: SparkPlacement,
    settings: IndexSettings,
    on_refused: str,
) -> DataFrame:
    """The rows of `match` or of `render`, as the form has it. Subscriptions in a DataFrame are read now."""
    document_column = document_columns(documents, form)[0]
    index = index_of(subscriptions, settings, on_refused)
    shards = None

    def sample() -> Sequence[bytes]:
        return () if documents.isStreaming else first_documents(documents, document_column)

    if not placement.everywhere:
        index = index if isinstance(index, Index) else Index.load(index)
        shards = placement.ship(documents.sparkSession, index, sample)
    return index_rows(documents, index, shards, form, placement.cache_bytes_max)


def index_rows(
    documents: DataFrame,
    index: Index | str | Path,
    shards: ShardTickets | None,
    form: AnswerForm,
    cache_bytes_max: int,
) -> DataFrame:
    """The same for an index that every worker holds, or for shards of it that are on the executors already."""
    columns = document_columns(documents, form)
    if form.has_payloads:
        check_room(index)
    return answers_as_rows(with_answers(documents, columns, index, shards, form, cache_bytes_max), form)


def account_rows(
    documents: DataFrame,
    index: Index | Path,
    shards: ShardTickets | None,
    form: AnswerForm,
    cache_bytes_max: int,
) -> DataFrame:
    """For jobs that keep accounts: without `document` and `error`, with `answer` and `first`.

    `answer` is a struct as the form has it; bad documents never raise. Where subscriptions are divided, a document has
    a row for each shard that must see it, at least one, and `first` is true in one of them: only that one reports an
    error.
    """
    from pyspark.sql import functions

    assert form.has_accounts
    answers = with_answers(documents, ["document", "error"], index, shards, form, cache_bytes_max)
    first = functions.lit(True) if shards is None else functions.col(PLACE) == 0
    return answers.withColumnRenamed(ANSWER, "answer").withColumn("first", first).drop(PLACE)


def with_answers(
    documents: DataFrame,
    columns: list[str],
    index: Index | str | Path,
    shards: ShardTickets | None,
    form: AnswerForm,
    cache_bytes_max: int,
) -> DataFrame:
    """The documents with ANSWER in place of these columns; of shards also PLACE, which is 0 in one row of each.

    The index is one that every worker holds; where there are shards, it is theirs.
    """
    if shards is None:
        function = index_function(documents.sparkSession, index, form, cache_bytes_max)
        input_columns = [*columns, *_name_columns(documents, form)]
        answers = documents.withColumn(ANSWER, function(*[documents[column] for column in input_columns]))
    else:
        answers = _answers_of_shards(documents, columns, shards, form)
    return answers.drop(*columns)


def _answers_of_shards(documents: DataFrame, columns: list[str], shards: ShardTickets, form: AnswerForm) -> DataFrame:
    """The documents where their shards are, with the answers: one row per document and shard."""
    from pyspark.sql import functions

    travelling = (shards.router, shards.router_ticket, shards.count, form.fields)
    route = arrow_function("route", travelling, "array<int>")
    documents_with_routes = documents.withColumn(_ROUTE, route(*[documents[column] for column in columns]))
    # As in part_of_answer(): with a plain column, filters above would call the function again.
    array = functions.when(functions.col(_ROUTE).isNotNull(), functions.col(_ROUTE))
    rows = documents_with_routes.select("*", functions.posexplode(array).alias(PLACE, _SHARD)).drop(_ROUTE)
    rows = rows.repartitionById(shards.count, functions.col(_SHARD))
    function = arrow_function("run_shards", (shards.tickets, form.fields), form.spark_type)
    input_columns = [*columns, *_name_columns(documents, form)]
    return rows.withColumn(ANSWER, function(_SHARD, PLACE, *[rows[column] for column in input_columns])).drop(_SHARD)


# -- answers into rows


def answers_as_rows(answers: DataFrame, form: AnswerForm) -> DataFrame:
    """A row for each match or delivery, and for each error of a document."""
    return _explode_deliveries(answers, form) if form.has_payloads else _explode_matches(answers, form)


def _explode_matches(answers: DataFrame, form: AnswerForm) -> DataFrame:
    from pyspark.sql import functions

    array = part_of_answer(lambda column: column)
    if not form.has_errors:
        return answers.withColumn("subscription", functions.explode(array)).drop(ANSWER, PLACE)
    rows = answers.withColumn(ANSWER, functions.explode(array))
    for name in ("subscription", "error"):
        rows = rows.withColumn(name, functions.col(f"{ANSWER}.{name}"))
    return rows.drop(ANSWER, PLACE)


def _explode_deliveries(answers: DataFrame, form: AnswerForm) -> DataFrame:
    from pyspark.sql import functions

    deliveries = part_of_answer(lambda column: column["deliveries"])
    rows = answers.withColumn(_DELIVERY, functions.explode(deliveries))
    delivery = functions.col(_DELIVERY)
    rows = rows.withColumn("subscription", delivery["subscription"])
    # Null where the number is: what was refused has no payload.
    payloads = part_of_answer(lambda column: column["payloads"])
    rows = rows.withColumn("payload", functions.get(payloads, delivery["number"]))
    if form.has_errors:
        rows = rows.withColumn("error", delivery["error"])
    return rows.drop(ANSWER, PLACE, _DELIVERY)


def part_of_answer(part: Callable[[Column], Column]) -> Column:
    """A part of the answers, for what is done with them.

    Spark would put a filter on the size of an array, or on whether there is one, below its explosion, and for that call
    the function a second time, were the array a plain column. A filter on what comes out of the explosion stays above.
    """
    from pyspark.sql import functions

    column = functions.col(ANSWER)
    return functions.when(column.isNotNull(), part(column))


# -- documents


def document_columns(documents: DataFrame, form: AnswerForm, answers: Sequence[str] | None = None) -> list[str]:
    """The columns that the function takes: that of the documents, and that of errors if there is one.

    Raises where there are no documents, or columns that are called as the answers will be: those of the form, unless
    others are named.
    """
    fields = _fields(documents)
    name = _document_field(fields, form.columns if answers is None else answers)
    return [name, *_source_errors(fields, form)]


def _fields(documents: DataFrame) -> dict[str, str]:
    if not hasattr(documents, "schema"):
        raise TypeError(f"documents are a DataFrame, not {type(documents).__name__}")
    return {field.name: field.dataType.simpleString() for field in documents.schema.fields}


def _document_field(fields: dict[str, str], answers: Sequence[str]) -> str:
    """The name of the document column, as the DataFrame spells it."""
    name = next((name for name in fields if name.lower() == "document"), None)
    if name is None:
        raise PipelineError(
            f"the documents have no column document, only {_join_names(fields)}",
            code="TC703",
            hint=f'rename one: documents.withColumnRenamed("{_likely_document(fields)}", "document")',
        )
    # A string may have a collation, and a table may bound its length.
    if re.fullmatch(r"binary|string( collate .*)?|(var)?char\(\d+\)", fields[name]) is None:
        raise PipelineError(
            f"the column {name} holds {fields[name]}, not documents",
            code="TC703",
            hint="it has to be binary or string",
        )
    clash = next((other for other in fields if other.lower() in answers), None)
    if clash is not None:
        raise PipelineError(
            f"the documents have a column {clash} already, which is what the answer is called",
            code="TC703",
            hint=f'rename it: documents.withColumnRenamed("{clash}", "…")',
        )
    return name


def _likely_document(fields: dict[str, str]) -> str:
    """The column that most likely holds documents: one that is nearly called so, or is binary, or has a usual name."""
    texts = [name for name, kind in fields.items() if kind == "binary" or kind.startswith("string")]
    near = difflib.get_close_matches("document", texts, n=1)
    binary = [name for name in texts if fields[name] == "binary"]
    usual = [name for name in texts if name.lower() in USUAL_NAMES]
    return [*near, *binary, *usual, *texts, *fields, "…"][0]


def _name_columns(documents: DataFrame, form: AnswerForm) -> list[str]:
    """The column that names the file of each document, for errors that raise; rows with errors have it anyway."""
    if form.has_errors:
        return []
    fields = _fields(documents)
    return [name for name in fields if name.lower() in FILE_NAMES and fields[name] == "string"][:1]


def _source_errors(fields: dict[str, str], form: AnswerForm) -> list[str]:
    """The column in which the source says what it could not read, if there is one."""
    name = next((name for name in fields if name.lower() == "error"), None)
    if name is None:
        return []
    if fields[name] == ERROR_TYPE:
        return [name]
    if not form.has_errors:
        return []
    raise PipelineError(
        f"the documents have a column {name} already, of {fields[name]}",
        code="TC703",
        hint=f'rename it: documents.withColumnRenamed("{name}", "…")',
    )


# -- subscriptions


def index_of(
    subscriptions: Subscriptions, settings: IndexSettings = DEFAULTS, on_refused: str = "raise"
) -> Index | str | Path:
    """An index of the subscriptions, or the path of a saved one; other forms are read."""
    if on_refused not in ("raise", "report"):
        raise ValueError(f'on_refused must be "raise" or "report", not {on_refused!r}')
    if isinstance(subscriptions, Index) or is_saved(subscriptions):
        if settings != DEFAULTS:
            raise ValueError(f"{', '.join(vars(settings))} are settings of the Index: give them to it")
        if not isinstance(subscriptions, Index) and not Path(subscriptions).is_file():
            load_saved(subscriptions)  # says why it cannot be read
        source: Index | str | Path = subscriptions
        return source
    table = read_subscriptions(subscriptions)
    index = settings.index()
    if on_refused == "raise":
        index.add_many(table)
        return index
    refusals = index.add_many(table, on_refused="report")
    if refusals.num_rows:
        lines = [
            f"{row['id']!r}: {row['message'].splitlines()[0]}" for row in refusals.slice(0, LISTED_MAX).to_pylist()
        ]
        warnings.warn(
            f"{refusals.num_rows} of {table.num_rows} subscriptions were refused and left out:\n" + "\n".join(lines),
            stacklevel=4,  # who called match() or render()
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
    session: SparkSession, index: Index | str | Path, form: AnswerForm, cache_bytes_max: int
) -> Callable[..., Column]:
    """The answers of the index in this form, as a function of the document column (and one of errors)."""
    ticket = tuple(ship(session, index, cache_bytes_max=cache_bytes_max))
    return arrow_function("run", (ticket, form.fields), form.spark_type)


def arrow_function(
    name: str, arguments: tuple[Any, ...], kind: str, module: str = "treecast.spark.batch.worker"
) -> Callable[..., Column]:
    """A function of a module for workers as one of Arrow columns; the arguments travel with it."""
    from pyspark.sql.functions import ArrowUDFType, arrow_udf  # type: ignore[attr-defined]

    treecast_match = worker_function(module, name, arguments)
    treecast_match.__name__ = "treecast_match" if name != "route" else "treecast_route"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Spark prefers hints, and warns each time
        function: Callable[..., Column] = arrow_udf(treecast_match, kind, ArrowUDFType.SCALAR_ITER)
    return function


def _join_names(names: Mapping[str, object]) -> str:
    text = ", ".join(list(names)[:LISTED_MAX])
    return text + (", …" if len(names) > LISTED_MAX else "") if names else "none at all"
