"""The family of engines that match queries; `Index(engine=…)` takes one of their names.

    >>> from treecast import engines
    >>> engines.names()
    ['auto', 'lazydfa', 'xfilter', 'hybrid', 'yfilter', 'xtrie']

`lazydfa` steps all queries at once on a shared, bit-parallel NFA and keeps what it learns in a lazily built
deterministic machine of bounded size. `auto` takes the engine that suits a query best; today that is always `lazydfa`.

The others are the algorithms of the papers, built as published, to be compared with. `yfilter` is YFilter's shared NFA
with a run-time stack; it evaluates predicates after a path has matched (Selection Postponed), and its variant
`yfilter-inline` as each step is reached. `xfilter` runs a machine per path, found by a query index; `hybrid` does so
over substrings that all paths share. `xtrie` finds substrings of tree patterns, ordered ones too, by a trie, and its
variant `xtrie-single-path` those of expressions without branches; `treecast.engines.xtrie` shows their tables. They
take part of the language and refuse the rest (TC150); changes wait until nobody matches; a saved index holds their
queries only.
"""

from __future__ import annotations

from treecast import _native


def names(*, variants: bool = False) -> list[str]:
    """The engines that are built, in the order in which they are best tried; `variants` adds other forms of them."""
    return [name for name in _native.engine_names() if variants or "-" not in name]


def check(name: str) -> str:
    """The name itself, or a ValueError that lists the names there are."""
    known = names(variants=True)
    if name not in known:
        raise ValueError(f"no engine is called {name!r}; there are: {', '.join(known)}")
    return name
