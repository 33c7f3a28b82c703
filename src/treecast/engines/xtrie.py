"""XTrie's tables for a set of queries: the substring table and the trie with its max-suffix pointers.

Use it to see how XTrie takes a query apart, or why one costs what it does. Matching needs none of this:
`Index(engine="xtrie")` and `Index(engine="xtrie-single-path")` build and keep these tables natively.

    >>> from treecast.engines import xtrie
    >>> for row in xtrie.tables(["//a/b[c/d]/*//e"]).rows:
    ...     print(row)
    0: //a/b, 2 children
    0: a/b/c/d, 2 below row 0, child 1
    0: e, at least 2 below row 0, child 2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from treecast import _native


@dataclass(frozen=True, slots=True)
class Row:
    """One substring of one query.

    It ends `distance` levels below the end of its parent row (the document, where there is none), or with `open` any
    number of levels below that. The empty substring stands for a `*` that no other row covers. `order` is the row's
    place among the branches of an ordered pattern; 0 if it has none.
    """

    query: int
    substring: tuple[str, ...]
    parent: int | None
    distance: int
    open: bool
    rank: int
    children: int
    order: int
    tests: int

    def __str__(self) -> str:
        names = "/".join(self.substring) or "*"
        if self.parent is None:
            above = self.distance - max(len(self.substring), 1)
            text = f"{self.query}: {'//' if self.open else '/'}{'*/' * above}{names}"
        else:
            least = "at least " if self.open else ""
            text = f"{self.query}: {names}, {least}{self.distance} below row {self.parent}, child {self.rank}"
        if self.order:
            text += " in order"
        if self.tests:
            text += f", {self.tests} test{'s' * (self.tests > 1)}"
        return text + (f", {self.children} child{'ren' * (self.children > 1)}" if self.children else "")


@dataclass(frozen=True, slots=True)
class Work:
    """The work to match one document, without redundant work."""

    matches: tuple[int, ...]
    """The queries that it matches, by number."""
    remembered: int
    """Occurrences of substrings that were kept while waiting for those below."""
    reported: int
    """Rows that matched with everything below them, in the variant for trees."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows, query by query, parents before children; and for each string in the trie its longest other suffix."""

    rows: tuple[Row, ...]
    suffixes: Mapping[tuple[str, ...], tuple[str, ...]]


def tables(
    queries: Iterable[str],
    *,
    namespaces: Mapping[str, str] | None = None,
    ordered: bool = False,
    single_path: bool = False,
    removed: Iterable[int] = (),
) -> Tables:
    """The tables of an XTrie after the queries were added and those in `removed`, by number, removed again.

    Raises QueryError for an invalid query or one that the variant cannot match, as an index does.
    """
    bindings = [(prefix.encode(), uri.encode()) for prefix, uri in (namespaces or {}).items()]
    texts = [query.encode("utf-8", "surrogatepass") for query in queries]
    rows, states = _native.xtrie_tables(texts, bindings, ordered, single_path, list(removed))
    return Tables(tuple(Row(*row) for row in rows), dict(states))


def work(
    queries: Iterable[str],
    document: bytes,
    *,
    namespaces: Mapping[str, str] | None = None,
    ordered: bool = False,
    single_path: bool = False,
) -> Work:
    """The work of an XTrie of these queries on a document.

    >>> work(["//a//b"], b"<a><a><b/><b/></a></a>")
    Work(matches=(0,), remembered=2, reported=2)
    """
    bindings = [(prefix.encode(), uri.encode()) for prefix, uri in (namespaces or {}).items()]
    texts = [query.encode("utf-8", "surrogatepass") for query in queries]
    matches, *counts = _native.xtrie_work(texts, document, bindings, ordered, single_path)
    return Work(tuple(matches), *counts)
