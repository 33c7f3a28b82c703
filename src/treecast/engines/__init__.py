"""The family of engines that match queries; `Index(engine=…)` takes one of their names.

    >>> from treecast import engines
    >>> engines.names()
    ['auto', 'lazydfa']

`lazydfa` steps all queries at once on a shared, bit-parallel NFA and keeps what it learns in a lazily built
deterministic machine of bounded size. `auto` takes the engine that suits a query best; today that is always `lazydfa`.
"""

from __future__ import annotations

_NAMES = ("auto", "lazydfa")


def names() -> list[str]:
    """The engines that are built, in the order in which they are best tried."""
    return list(_NAMES)


def check(name: str) -> str:
    """The name itself, or a ValueError that lists the names there are."""
    if name not in _NAMES:
        raise ValueError(f"no engine is called {name!r}; there are: {', '.join(_NAMES)}")
    return name
