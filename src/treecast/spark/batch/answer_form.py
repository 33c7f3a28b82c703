"""The forms in which Spark's Python workers answer for a document, each with its type in Spark and in Arrow.

A form is three decisions: whether there are payloads, whether errors are rows or raise, and whether accounts are kept.

    >>> MATCHES.spark_type
    'array<string>'
    >>> MATCHES.with_errors().spark_type
    'array<struct<subscription:string,error:struct<code:string,message:string,offset:bigint>>>'
    >>> MATCHES.arrow_type
    ListType(list<item: string>)

In words:

    MATCHES                  a list of ids; a bad document raises
    MATCHES.with_errors()    a list of structs of subscription and error
    MATCHES.with_accounts()  a struct of matches, error, nanoseconds, bytes, began and ended: when the worker
                             began with the part of its batch, and was done, in nanoseconds since 1970
    DELIVERIES               a struct of deliveries (subscription, number) and payloads, which the numbers count; each
                             different payload of the document is there once; a bad document or a refused delivery
                             raises
    DELIVERIES.with_errors()    the same, with an error next to the number
    DELIVERIES.with_accounts()  the same accounts, and payload_bytes of the document, which count a payload once for
                                each delivery

Use one wherever a plan and a worker have to agree. To a worker it travels as the plain tuple `form.fields`: an executor
without treecast cannot unpickle more, and must still report that (`treecast.spark.batch.worker_function`).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

ANSWER = "__treecast_answer"
"""The column of answers, until they are rows."""

# A type, written down once for both worlds: a name of Spark's, a list of a type, or a struct of named types.
Shape: TypeAlias = "str | list[Shape] | dict[str, Shape]"

ERROR: Shape = {"code": "string", "message": "string", "offset": "bigint"}
_TIMES: dict[str, Shape] = {"began": "bigint", "ended": "bigint"}
_ACCOUNTS: dict[str, Shape] = {"error": ERROR, "nanoseconds": "bigint", "bytes": "bigint", **_TIMES}


@dataclass(frozen=True)
class AnswerForm:
    """What a worker answers for each document."""

    has_payloads: bool = False
    """Deliveries, not only matches."""
    has_errors: bool = False
    """Bad documents are part of the answer; without, they raise."""
    has_accounts: bool = False
    """One error, the time and the size come with the matches of each document; errors never raise."""

    def __post_init__(self) -> None:
        assert self.has_errors or not self.has_accounts, "accounts are kept of bad documents, too"

    def with_errors(self) -> AnswerForm:
        """The same with bad documents as a part of the answer."""
        return replace(self, has_errors=True)

    def with_accounts(self) -> AnswerForm:
        """The same with error, time and size of each document."""
        return replace(self, has_errors=True, has_accounts=True)

    @property
    def fields(self) -> tuple[bool, ...]:
        """What travels: `AnswerForm(*form.fields) == form`."""
        return astuple(self)

    @property
    def verb(self) -> str:
        """The function that users call for it."""
        return "render" if self.has_payloads else "match"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that take the place of `document` in the rows that users see; errors come in one more."""
        return ("subscription", "payload") if self.has_payloads else ("subscription",)

    @property
    def spark_type(self) -> str:
        """The type of an answer, as Spark's DDL writes it."""
        return in_ddl(self._shape)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of an answer in Arrow."""
        return in_arrow(self._shape)

    @property
    def _shape(self) -> Shape:
        if self.has_payloads:
            delivery: dict[str, Shape] = {"subscription": "string", "number": "int"}
            if self.has_errors:
                delivery["error"] = ERROR
            answer: dict[str, Shape] = {"deliveries": [delivery], "payloads": ["binary"]}
            return {**answer, **_ACCOUNTS, "payload_bytes": "bigint"} if self.has_accounts else answer
        if self.has_accounts:
            return {"matches": ["string"], **_ACCOUNTS}
        return [{"subscription": "string", "error": ERROR}] if self.has_errors else ["string"]


MATCHES = AnswerForm()
DELIVERIES = AnswerForm(has_payloads=True)


def answer_form(*, payloads: bool, on_error: str) -> AnswerForm:
    """The form that the arguments of `match` and `render` ask for; a ValueError where `on_error` is neither."""
    if on_error not in ("raise", "report"):
        raise ValueError(f'on_error must be "raise" or "report", not {on_error!r}')
    return AnswerForm(has_payloads=payloads, has_errors=on_error == "report")


def error_arrow_type() -> pa.DataType:
    """The type of an error in Arrow."""
    return in_arrow(ERROR)


def in_ddl(shape: Shape) -> str:
    """The shape as Spark's DDL writes it."""
    if isinstance(shape, str):
        return shape
    if isinstance(shape, list):
        return f"array<{in_ddl(shape[0])}>"
    return f"struct<{','.join(f'{name}:{in_ddl(inner)}' for name, inner in shape.items())}>"


def in_arrow(shape: Shape) -> pa.DataType:
    """The shape as a type of Arrow."""
    import pyarrow as pa

    if isinstance(shape, str):
        atoms = {
            "string": pa.string(),
            "binary": pa.binary(),
            "boolean": pa.bool_(),
            "int": pa.int32(),
            "bigint": pa.int64(),
        }
        return atoms[shape]
    if isinstance(shape, list):
        return pa.list_(in_arrow(shape[0]))
    return pa.struct([(name, in_arrow(inner)) for name, inner in shape.items()])


ERROR_TYPE = in_ddl(ERROR)
"""The type of an error, as Spark's DDL writes it."""
