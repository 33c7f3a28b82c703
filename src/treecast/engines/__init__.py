"""The family of engines that match queries; `Index(engine=…)` takes one of their names.

    >>> from treecast import engines
    >>> engines.names()
    ['auto', 'lazydfa', 'xfilter', 'hybrid', 'yfilter', 'xtrie']

`lazydfa` steps all queries at once on a shared, bit-parallel NFA and keeps what it learns in a lazily built
deterministic machine of bounded size. `auto` takes the engine that suits a query best; today that is always `lazydfa`.

The others are the algorithms of the papers, implemented as published, for comparison:

- `yfilter`: YFilter's shared NFA with a run-time stack. It evaluates predicates after a path has matched (Selection
  Postponed); its variant `yfilter-inline` as each step is reached.
- `xfilter`: a machine per path, found by a query index. `hybrid` does the same over substrings that all paths share.
- `xtrie`: a trie of substrings of tree patterns, ordered or not. Its variant `xtrie-single-path` is for expressions
  without branches. `treecast.engines.xtrie` shows their tables.

They support part of the language and refuse the rest (TC150). Changes wait until nobody matches, and a saved index
holds only their queries.
"""

from __future__ import annotations

from treecast import _native


def names(*, variants: bool = False) -> list[str]:
    """The names of the engines, in the order to try them; `variants` adds other forms of them."""
    return [name for name in _native.engine_names() if variants or "-" not in name]


def check(name: str) -> str:
    """Return the name itself. Raises a ValueError that lists all names if it is unknown."""
    known = names(variants=True)
    if name not in known:
        raise ValueError(f"no engine is called {name!r}; there are: {', '.join(known)}")
    return name
