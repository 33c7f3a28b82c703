"""What the paths of policies and choices select in one version of a document.

A path has to begin subtrees, so it selects elements. A path that selects nothing is refused unless it is allowed: an
exclusion that hides nothing is most often a slip, of a name or of a namespace, and what it should hide would be seen.

    >>> from treecast.selective.folded import fold
    >>> from treecast.selective.selector import Selector
    >>> selector = Selector(fold(b'<firm xmlns="urn:f"><pay/></firm>'))
    >>> selector.places("//f:pay", {"f": "urn:f"})
    [1]
    >>> selector.check(["//pay"], "exclusion")
    Traceback (most recent call last):
    treecast.errors.QueryError: TC163 the exclusion selects no element of this document, so it would hide nothing
      //pay
      ^
      hint: pay is in the namespace urn:f here: bind a prefix to it, or set allow_empty if it may select nothing
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Literal

from treecast import _native
from treecast.errors import QueryError
from treecast.query import Query
from treecast.selective.folded import FoldedDocument

Role = Literal["inclusion", "exclusion"]
Namespaces = Mapping[str, str]

_LITERAL = re.compile(r"\"[^\"]*\"|'[^']*'")
_NAME = re.compile(r"(?<![\w.@:-])(?:([\w.-]+):)?([^\W\d][\w.-]*)(?!\s*\(|:|[\w.-])")
ALIKE_MIN = 0.6
_OPERATORS = {"and", "or", "div", "mod"}


def check_path(path: str, namespaces: Namespaces | None = None) -> None:
    """Refuse a path that selects no elements, whatever the document. Raises QueryError.

    >>> check_path("//staff or //pay")
    Traceback (most recent call last):
    treecast.errors.QueryError: TC163 subtrees begin with elements, and this is a condition
      //staff or //pay
      ^
      hint: write a path; '|' joins paths
    """
    query = Query(path, namespaces)
    if not query.selects_items:
        raise QueryError(
            "subtrees begin with elements, and this is a condition", code="TC163", query=path,
            hint="write a path; '|' joins paths",
        )  # fmt: skip
    if any(branch.steps and branch.steps[-1].kind != "element" for branch in query.tree):
        raise _no_elements(path)


class Selector:
    """The elements that paths select, by their places in document order."""

    def __init__(self, folded: FoldedDocument) -> None:
        self.data = folded.to_bytes()
        """The document in canonical form."""
        self._folded = folded
        self._ends: list[int] = []  # by place: the place behind the subtree; made when it is asked for
        self._places: dict[tuple[str, tuple[tuple[str, str], ...]], list[int]] = {}

    def places(self, path: str, namespaces: Namespaces | None = None, *, group: str = "") -> list[int]:
        """Where the elements are that a path selects; it may be that of a group. Raises QueryError."""
        bindings = tuple(sorted((namespaces or {}).items()))
        if (path, bindings) not in self._places:  # policies of many groups have the same paths
            check_path(path, namespaces)
            items = _native.select(self.data, path.encode(), list(bindings))
            if any(kind != 0 for kind, _ in items):
                raise _no_elements(path, group)
            self._places[path, bindings] = [place for _, place in items]
        return self._places[path, bindings]

    def spans(self, paths: Iterable[str], namespaces: Namespaces | None = None) -> list[tuple[int, int]]:
        """The subtrees that paths select, as ranges of places in order, none inside another.

        >>> from treecast.selective.folded import fold
        >>> Selector(fold(b"<a><b><b/></b><c/><b/></a>")).spans(["//b"])
        [(1, 3), (4, 5)]
        """
        if not self._ends:
            self._ends = list(range(1, len(self._folded.parents) + 1))
            for place in range(len(self._ends) - 1, 0, -1):
                parent = self._folded.parents[place]
                self._ends[parent] = max(self._ends[parent], self._ends[place])
        spans: list[tuple[int, int]] = []
        for place in sorted({place for path in paths for place in self.places(path, namespaces)}):
            if not spans or place >= spans[-1][1]:
                spans.append((place, self._ends[place]))
        return spans

    def check(
        self,
        paths: Iterable[str],
        role: Role,
        namespaces: Namespaces | None = None,
        *,
        group: str = "",
        allow_empty: bool = False,
    ) -> None:
        """Refuse paths that select attributes or text, or nothing unless `allow_empty`. Raises QueryError."""
        for path in paths:
            if self.places(path, namespaces, group=group) or allow_empty:
                continue
            effect = ", so it would hide nothing" if role == "exclusion" else ""
            hint = f"{self._near(path, namespaces or {})}, or set allow_empty if it may select nothing"
            message = f"the {role}{_of(group)} selects no element of this document{effect}"
            raise QueryError(message, code="TC163", query=path, hint=hint)

    def _near(self, path: str, namespaces: Namespaces) -> str:
        """What the path may have meant: the first of its names that no element has."""
        uris: dict[str, set[str]] = {}
        for element in self._folded.elements:
            prefix, _, local = element.name.rpartition(":")
            uris.setdefault(local, set()).add(dict(element.bindings).get(prefix, ""))
        for prefix, local in _NAME.findall(_LITERAL.sub("''", path)):
            uri = namespaces.get(prefix, "")
            if local in _OPERATORS or uri in uris.get(local, ()):
                continue
            others = sorted(uris.get(local, ()))
            if others:
                where = f"in the namespace {others[0]}" if others[0] else "in no namespace"
                return f"{local} is {where} here: {'bind a prefix to it' if others[0] else 'write it without a prefix'}"
            if near := difflib.get_close_matches(local, uris, 1, ALIKE_MIN):
                return f"the document has {near[0]}, not {local}"
        return "treecast explain says how near it comes"


def count_elements(spans: Iterable[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in spans)


def common_spans(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is in both.

    >>> common_spans([(1, 4), (6, 9)], [(2, 7)])
    [(2, 4), (6, 7)]
    """
    common, at = [], 0
    for begin, end in one:
        while at < len(other) and other[at][1] <= begin:
            at += 1
        for next_begin, next_end in islice(other, at, None):
            if next_begin >= end:
                break
            common.append((max(begin, next_begin), min(end, next_end)))
    return common


def _no_elements(path: str, group: str = "") -> QueryError:
    message = f"subtrees begin with elements, and this path{_of(group)} selects attributes or text"
    return QueryError(message, code="TC163", query=path, hint="select the element that has them")


def _of(group: str) -> str:
    return f" of the group {group}" if group else ""
