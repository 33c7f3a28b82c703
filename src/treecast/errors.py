"""Every error that treecast raises on purpose.

    TreecastError
    ├── QueryError      TC1xx   your subscription is wrong     position, caret, hint
    │   └── UnknownIdError      also a KeyError
    ├── DocumentError   TC2xx   this document is wrong         byte offset, line
    ├── LimitError      TC3xx   too big                        which limit, its value, how to raise it
    │   ├── QueryLimitError     also a QueryError
    │   └── DocumentLimitError  also a DocumentError
    ├── PeerError       TC4xx   the other side broke protocol
    ├── SnapshotError   TC5xx   not ours, wrong version, corrupt
    ├── AccessError     TC6xx   not allowed
    └── PipelineError   TC7xx   the job cannot run             an unreadable file, a wrong column, no Java

    UndecidedWarning    TC340   a subscription needs too much work on a document; the others are answered

Example:

    >>> import treecast
    >>> try:
    ...     treecast.parse("a/b")
    ... except treecast.QueryError as error:
    ...     print(error.code, error.position)
    TC104 0
"""

from __future__ import annotations

MESSAGE_CHARS_MAX = 2000
EXCERPT_CHARS_MAX = 70


class TreecastError(Exception):
    """The base class of all errors. `code` is stable across versions; `str(error)` is for people."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(_shorten(message))
        self.code = code
        """TC and three digits, the same in every version."""
        self.hint = hint
        """What to do about it; may be empty. `str(error)` has it, too."""

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, tuple[object, ...], dict[str, object]]:
        return (_rebuild, (type(self), str(self.args[0])), dict(self.__dict__))


class QueryError(TreecastError):
    """A subscription that treecast does not accept; `position` counts characters of the query from 0."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str = "",
        query: str = "",
        position: int = 0,
        length: int = 0,
        refused: tuple[tuple[str, str], ...] = (),
    ) -> None:
        text = f"{code} {message}"
        if query:
            text += "\n" + _excerpt(query, position, length)
        if hint:
            text += f"\n  hint: {hint}"
        super().__init__(text, code=code, hint=hint)
        self.position = position
        """Of the mistake, in characters of the query from 0."""
        self.refused = refused
        """Of `Index.add_many`: (id, message) of the subscriptions that are wrong."""


class DocumentError(TreecastError):
    """A document that treecast does not accept; `offset` counts bytes from 0, `line` lines from 1."""

    def __init__(self, message: str, *, code: str, hint: str = "", offset: int = 0, line: int = 0) -> None:
        text = f"{code} {message}"
        if line:
            text += f" (line {line}, byte {offset})"
        if hint:
            text += f"\n  hint: {hint}"
        super().__init__(text, code=code, hint=hint)
        self.offset = offset
        """Of the mistake, in bytes from 0."""
        self.line = line
        """Of the mistake, from 1."""
        self.document: int | None = None
        """Its number in the batch, from 0; None for a document alone."""

    def name_document(self) -> None:
        """Let the message say which document of the batch it is about."""
        self.args = (_shorten(f"{self.code} document {self.document}: {str(self).removeprefix(self.code).lstrip()}"),)


class LimitError(TreecastError):
    """Something exceeds a limit. The hint names the limit and says how to raise it."""


class QueryLimitError(LimitError, QueryError):
    """A query over a limit."""


class DocumentLimitError(LimitError, DocumentError):
    """A document over a limit."""


class UndecidedWarning(UserWarning):
    """Some subscriptions were not decided, because they need more work than `Limits.work_per_item_max` allows (TC340).

    The answer is complete for all others. To get an exception with the same content instead:
    `warnings.simplefilter("error", treecast.UndecidedWarning)`.
    """

    code = "TC340"
    """As of an error."""

    def __init__(self, message: str, undecided: tuple[str, ...] = ()) -> None:
        super().__init__(_shorten(message))
        self.undecided = undecided
        """The ids of the subscriptions, each once."""

    def __reduce__(self) -> tuple[type[UndecidedWarning], tuple[str, tuple[str, ...]]]:
        return (type(self), (str(self.args[0]), self.undecided))


class UnknownIdError(QueryError, KeyError):
    """No subscription has this id."""


class PeerError(TreecastError):
    """The other side of a connection broke the protocol."""


class SnapshotError(TreecastError):
    """A file that is not a saved index, has another version, or is damaged."""


class AccessError(TreecastError):
    """A request that its sender is not allowed to make."""


class PipelineError(TreecastError):
    """A job that cannot run as described. The hint says what to change."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(f"{code} {message}" + (f"\n  hint: {hint}" if hint else ""), code=code, hint=hint)


def _rebuild(kind: type[TreecastError], message: str) -> TreecastError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    return error


def _shorten(message: str) -> str:
    if len(message) <= MESSAGE_CHARS_MAX:
        return message
    return message[: MESSAGE_CHARS_MAX - 1] + "…"


def _excerpt(query: str, position: int, length: int) -> str:
    """The part of the query around `position`, on one line, with carets under the offending range."""
    position = max(0, min(position, len(query)))
    begin = max(0, position - EXCERPT_CHARS_MAX // 2)
    end = min(len(query), begin + EXCERPT_CHARS_MAX)
    before = "…" if begin > 0 else ""
    after = "…" if end < len(query) else ""
    line = "".join(c if c.isprintable() else " " for c in query[begin:end])
    carets = "^" * max(1, min(length, end - position))
    return f"  {before}{line}{after}\n  {' ' * (len(before) + position - begin)}{carets}"


def _decode(data: bytes) -> str:
    """Decode UTF-8. Invalid bytes are replaced, so that positions can be counted in any query."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _raise_native(
    family: str, limit: bool, code: str, message: str, hint: str, query: bytes, position: int, length: int, line: int
) -> TreecastError:
    """Build the exception for a native Failure; positions arrive as byte offsets."""
    if family == "query":
        # A hostile query may be large, so decode only what the excerpt can show.
        text = _decode(query[: position + length + 4 * EXCERPT_CHARS_MAX])
        start = len(_decode(query[:position]))
        width = len(_decode(query[position : position + length]))
        kind = QueryLimitError if limit else UnknownIdError if code == "TC143" else QueryError
        return kind(message, code=code, hint=hint, query=text, position=start, length=width)
    if family == "document":
        document_kind = DocumentLimitError if limit else DocumentError
        return document_kind(message, code=code, hint=hint, offset=position, line=line)
    return SnapshotError(f"{code} {message}", code=code, hint=hint)
