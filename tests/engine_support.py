"""What each engine of the papers supports, said once more and independently of the engines: from the syntax tree.

`supported(engine, query)` decides in tests whether a query is to be accepted and matched, or refused with TC150.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import treecast
from treecast import engines
from treecast.query import Query

ENGINES = engines.names(variants=True)
PUBLISHED = [name for name in ENGINES if name not in ("auto", "lazydfa")]


def elements_only(query: Query) -> bool:
    """Plain paths of element steps."""
    return query.linear and all(path[-1][1] == "element" for path in query.linear_paths())


SUPPORT: dict[str, Callable[[Query], bool]] = {"yfilter": elements_only}


def supported(engine: str, text: str, namespaces: Mapping[str, str] | None = None, *, ordered: bool = False) -> bool:
    """Whether the engine has to take the query, or to refuse it."""
    if engine not in PUBLISHED:
        return True
    return SUPPORT[engine](treecast.parse(text, namespaces=namespaces))


def check_refused(index: treecast.Index, text: str, namespaces: Mapping[str, str] | None, *, ordered: bool) -> None:
    """The query is refused, alone and among others, with its code and a hint, and nothing changes."""
    before = len(index)
    subscription = treecast.Subscription("refused", text, namespaces or {}, ordered)

    def alone() -> None:
        index.add("refused", text, namespaces=namespaces, ordered=ordered)

    def among_others() -> None:
        index.add_many([("welcome", "/a"), subscription])

    for attempt in (alone, among_others):
        try:
            attempt()
        except treecast.QueryError as error:
            assert error.code == "TC150", error
            assert "auto" in error.hint
        else:
            raise AssertionError(f"{text} was not refused by {index.engine}")
    assert len(index) == before
    assert "refused" not in index and "welcome" not in index
