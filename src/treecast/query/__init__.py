"""Text to Query. Use it to check a query before it is added, to print it in canonical form, or to look into it.

Matching needs none of this: an index takes query texts and parses them natively, a batch at a time.

    >>> import treecast
    >>> query = treecast.parse("/descendant::a[ position() = 2 ]/child::b")
    >>> str(query)
    '/descendant::a[2]/b'
    >>> query == treecast.parse(str(query))
    True
    >>> query.linear
    False
    >>> treecast.parse("for $n in $msg/a where $n/@b = 1 return <c>{$n/d}</c>").matching
    treecast.parse('/a[@b=1]')
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from treecast import _native
from treecast.arguments import check_namespaces, check_text, kind_of
from treecast.document import AnyDocument, Limits, native_document
from treecast.query.cover import covers
from treecast.query.shapes import Shape, StepList, build_list, build_shape
from treecast.query.tree import Path, build_paths

__all__ = ["AnyNamespaces", "AnyQuery", "Query", "Transformation", "parse"]

AnyNamespaces: TypeAlias = Mapping[str, str] | Mapping[str | None, str]
"""Bindings of prefixes; "", or None as in lxml's `nsmap`, binds the element names without prefix."""


def parse(text: str, *, namespaces: AnyNamespaces | None = None) -> Query | Transformation:
    """Parse a subscription's text, or raise QueryError: a path gives a Query, anything that builds a Transformation.

    `namespaces` binds prefixes, and "" (or None, as in lxml's `nsmap`) the element names without prefix.
    """
    check_text("a query", text)
    return Transformation(text, namespaces) if _native.is_transformation(_encode(text)) else Query(text, namespaces)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _pairs(bindings: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    # Lone surrogates pass here, so that they are refused with their position like any other bad character.
    return [(_encode(prefix), _encode(uri)) for prefix, uri in bindings.items()]


class _Text:
    """What Query and Transformation have in common: a text, the bindings it was parsed with, and its canonical form."""

    __slots__ = ("_index", "_key", "_namespaces", "_text")

    def __init__(self, text: str, bindings: dict[str, str], key: str) -> None:
        self._text = text
        self._namespaces = bindings
        self._key = key
        self._index: _native.Index | None = None

    @property
    def text(self) -> str:
        """The text as it was written."""
        return self._text

    @property
    def namespaces(self) -> Mapping[str, str]:
        """The bindings it was parsed with."""
        return MappingProxyType(self._namespaces)

    def match(self, document: AnyDocument) -> bool:
        """Whether the document satisfies this query alone. For many queries, or many documents, use an Index.

            >>> parse("/a[b = 1]").match(b"<a><b>1</b></a>")
            True

        The default limits apply; `treecast.read` gives a Document with others, or with entities. Raises DocumentError
        for an invalid document, and DocumentLimitError (TC340) if deciding takes more work than is allowed.
        """
        limits = Limits()
        if self._index is None:
            index = _native.Index(limits.native(), None, 0, "auto", None)
            index.add("query", self._text, _native.Settings(self._namespaces, False, False))
            self._index = index
        answer = self._index.match(native_document(document, limits.document_bytes_max))
        if isinstance(answer, tuple):
            _, undecided = answer
            raise undecided[0][2]
        return bool(answer)

    def __repr__(self) -> str:
        bound = f", namespaces={self._namespaces!r}" if self._namespaces else ""
        return f"treecast.parse({str(self)!r}{bound})"

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._text, self._namespaces))


class Query(_Text):
    """A parsed query. Equal queries have the same canonical form and the same expanded names.

    `str(query)` is the canonical text, `query.text` the text as written, `query.tree` its syntax tree.
    """

    __slots__ = ("_native",)

    def __init__(self, text: str, namespaces: AnyNamespaces | None = None) -> None:
        check_text("a query", text)
        bindings = check_namespaces(namespaces)
        self._native = _native.parse(_encode(text), _pairs(bindings))
        super().__init__(text, bindings, self._native.key())

    @property
    def linear(self) -> bool:
        """Whether it is a union of plain paths, without predicates."""
        return self._native.linear

    @property
    def selects_items(self) -> bool:
        """Whether it is a path, or an expression such as `(//a)[1]` that selects items as a path does."""
        return self._native.selects_items

    @property
    def tree(self) -> tuple[Path, ...]:
        """The syntax tree: the paths of the union. See treecast.query.tree."""
        return build_paths(self._native.tree())

    def linear_paths(self) -> tuple[tuple[tuple[bool, str, str | None, str | None], ...], ...]:
        """The normal form of a linear query: for each plain path its steps as (descendant, kind, uri, local).

        None stands for any URI or name. A query with predicates has none, nor has one that can never match.
        """
        return self._native.linear_paths()

    @property
    def matching(self) -> Query:
        """What decides whether a document matches: the query itself. A Transformation has one too."""
        return self

    def covers(self, other: Query | Transformation) -> bool:
        """Whether every document that matches `other` matches this query; False may mean that it is not known.

        Exact for queries of `/`, `//` and `[…]` without `*`, and for `/`, `*` and `[…]` without `//`, where the
        brackets hold paths: docs/guide/covering.md.
        """
        if not isinstance(other, _Text):
            raise TypeError(f"covers() takes what treecast.parse() gives, not {kind_of(other)}")
        return self == other or covers(self.tree, other.matching.tree)

    def __str__(self) -> str:
        return self._native.text()


class Transformation(_Text):
    """A parsed transformation: a FLWR query or a list of steps. Equal ones build the same of every document.

    `str(transformation)` is the canonical text, `transformation.text` the text as written, `transformation.tree` its
    syntax tree: a shape or a StepList of treecast.query.shapes.
    """

    __slots__ = ("_native",)

    def __init__(self, text: str, namespaces: AnyNamespaces | None = None) -> None:
        check_text("a query", text)
        bindings = check_namespaces(namespaces)
        self._native = _native.parse_transformation(_encode(text), _pairs(bindings))
        super().__init__(text, bindings, self._native.key())

    @property
    def tree(self) -> Shape | StepList:
        """The syntax tree."""
        raw = self._native.tree()
        return build_list(raw) if self._native.is_list else build_shape(raw)

    @property
    def matching(self) -> Query:
        """The query that a document satisfies exactly where the transformation binds something in it."""
        return Query(*self._native.matching())

    def covers(self, other: Query | Transformation) -> bool:
        """Whether this one has something to deliver of every document that `other` matches; see Query.covers."""
        return self.matching.covers(other)

    def __str__(self) -> str:
        return self._native.text()


AnyQuery: TypeAlias = str | Query | Transformation
"""What an index takes: the text of a query, or a query that has been parsed."""


def text_and_namespaces(query: AnyQuery, namespaces: AnyNamespaces | None) -> tuple[str, AnyNamespaces | None]:
    """The text to add to an index, and its bindings.

    A parsed query keeps those that it was parsed with, so it means the same in every index: where it does not bind
    unprefixed names, they are in no namespace.
    """
    if not isinstance(query, _Text):
        check_text("a query", query)
        return query, namespaces
    if namespaces:
        raise ValueError("a parsed query has its namespaces already: give them to treecast.parse()")
    return query.text, {"": "", **query.namespaces}
