"""Why documents match subscriptions, or how near they come: one row for each document and subscription asked about.

    from treecast.spark import explain

    explain(documents, subscriptions, ids=["sport"]).select("file", "matched", "reason").show(truncate=False)

Each row is what `Index.explain` says in one process. That decides one query on one document at a time, and is slow: ask
about some documents and subscriptions, not about all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from treecast.catalog.index_settings import IndexSettings
from treecast.document import Document, EntityTexts, Limits, arrow_views, read
from treecast.errors import DocumentError, PipelineError
from treecast.index import CACHE_BYTES_MAX, Index
from treecast.spark.batch.answer_form import ANSWER, ERROR, Shape, answer_form, in_arrow, in_ddl
from treecast.spark.batch.answers import error_row, missing_documents, with_advice
from treecast.spark.batch.plan import arrow_function, document_columns, index_of, part_of_answer
from treecast.spark.batch.ship import ship
from treecast.spark.batch.worker import Ticket
from treecast.spark.batch.worker import index_of as shipped_index
from treecast.spark.internals import one_sentence_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from treecast.spark.batch.plan import Subscriptions

IDS_MAX = 10_000
"""Explanations of one document are one value of Spark."""
EXPLAINED_MAX = 10_000  # begin no further document in an array after so many
_EXPLANATION: dict[str, Shape] = {
    "subscription": "string",
    "matched": "boolean",
    "reason": "string",
    "elements": [{"step": "string", "path": "string", "line": "bigint"}],
}
_ANSWER: Shape = [{**_EXPLANATION, "error": ERROR}]


def explain(
    documents: DataFrame,
    subscriptions: Subscriptions,
    *,
    ids: Iterable[str] | None = None,
    on_error: Literal["raise", "report"] = "raise",
    on_refused: Literal["raise", "report"] = "raise",
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    entities: EntityTexts = None,
) -> DataFrame:
    """The columns of `documents` without `document`, `subscription`, `matched`, `reason` and `elements`, lazily.

    There is a row for each document and each of the subscriptions `ids`; without `ids`, for each of all. `matched` is
    null where that is undecided. `reason` has the lines of `str(Index.explain(…))` after the first: which element
    reached each step, and why each predicate is true or false. `elements` has the same elements as structs of `step`,
    `path` and `line`. The other arguments are those of `match`; with `on_error="report"` there is a column `error`,
    and a bad document has one row.
    """
    from pyspark.sql import functions

    form = answer_form(payloads=False, on_error=on_error)
    columns = document_columns(documents, form, tuple(_EXPLANATION))
    index = index_of(subscriptions, IndexSettings(namespaces, limits, entities), on_refused)
    asked = _asked_ids(index if isinstance(index, Index) else Index.load(index), ids)
    ticket = tuple(ship(documents.sparkSession, index, cache_bytes_max=CACHE_BYTES_MAX))
    arguments = (ticket, asked, form.has_errors)
    function = arrow_function("explanations", arguments, in_ddl(_ANSWER), module=__name__)
    answers = documents.withColumn(ANSWER, function(*[documents[column] for column in columns])).drop(*columns)
    rows = answers.withColumn(ANSWER, functions.explode(part_of_answer(lambda column: column)))
    for name in (*_EXPLANATION, "error") if form.has_errors else _EXPLANATION:
        rows = rows.withColumn(name, functions.col(f"{ANSWER}.{name}"))
    return rows.drop(ANSWER)


def _asked_ids(index: Index, ids: Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(ids, str):
        raise TypeError(f"ids is a list of ids, not one: write ids=[{ids!r}]")
    asked = tuple(index) if ids is None else tuple(dict.fromkeys(ids))
    unknown = next((id for id in asked if id not in index), None)
    if unknown is not None:
        raise PipelineError(
            f"no subscription has the id {unknown!r}", code="TC703", hint="ids=[…] takes ids of these subscriptions"
        )
    if len(asked) > IDS_MAX:
        raise PipelineError(
            f"{len(asked):,} subscriptions are to be explained for each document, and {IDS_MAX:,} can be",
            code="TC703",
            hint="name those that you ask about: ids=[…]",
        )
    return asked


# -- in workers


def explanations(
    batches: Iterator[Any], ticket: tuple[Any, ...], ids: tuple[str, ...], has_errors: bool
) -> Iterator[pa.Array]:
    """For each document a list of explanations: arrays that together are as long as what came in.

    A batch is an array of documents, or a tuple of that and of the errors that these documents have already.
    """
    with one_sentence_errors():
        index = shipped_index(Ticket(*ticket))
        for batch in batches:
            documents, errors = batch if isinstance(batch, tuple) else (batch, None)
            yield from _explain_batch(index, documents, errors, ids, has_errors)


def _explain_batch(
    index: Index, documents: pa.Array, errors: pa.Array | None, ids: Sequence[str], has_errors: bool
) -> Iterator[pa.Array]:
    import pyarrow as pa

    missing = missing_documents(documents, errors)
    lists: list[list[dict[str, Any]]] = []
    for row, view in enumerate(arrow_views(documents)):
        try:
            if row in missing:
                raise missing[row]
            document = read(view, limits=index.limits, entities=index.entities)
            lists.append([_explanation(index, document, id) for id in ids])
        except DocumentError as error:
            if not has_errors:
                raise with_advice(error, "explain") from None
            lists.append([{"error": error_row(error)}])
        if len(lists) * len(ids) >= EXPLAINED_MAX:
            yield pa.array(lists, in_arrow(_ANSWER))
            lists = []
    yield pa.array(lists, in_arrow(_ANSWER))


def _explanation(index: Index, document: Document, id: str) -> dict[str, Any]:
    explanation = index.explain(document, id)
    _, *reasons = explanation.lines()
    return {
        "subscription": id,
        "matched": explanation.matched,
        "reason": "\n".join(line.removeprefix("  ") for line in reasons),
        "elements": [
            {"step": step.text, "path": step.place.path, "line": step.place.line} for step in explanation.steps
        ],
    }
