"""Every size that routing keeps within bounds, in one place."""

from __future__ import annotations

import msgspec


class RoutingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of routing queries and tables. Meeting one costs precision, never a document."""

    conjunctions_max: int = 64
    """Of one subscription: beyond it, an `or` is relaxed to true."""
    paths_max: int = 16
    """Of one conjunction: beyond it, the paths that say least are left out."""
    exact: bool = False
    """Whether a routing query keeps the whole tree pattern beside its absolute paths: more precise, slower."""
    shapes_max: int = 50_000
    """Shapes of subscriptions whose mapping is remembered: what they have in common but for their literals."""
    entries_max: int = 20_000
    """Conjunctions that one routing query to a parent may hold: beyond it, they are generalised."""
    values_max: int = 1_000_000
    """Values that the sets of one routing query to a parent may hold, 5 bytes each on a link: beyond it, the largest
    sets let any value through. 0: no sets are made."""
    set_values_min: int = 64
    """Different values of conjunctions of one form, from which a set is made of them where there are too many."""
    revived_max: int = 20_000
    """Conjunctions that one removal may bring back at once; where there are more, `refine` does it later."""
    sample_max: int = 256
    """Documents that a table keeps to judge generalisations by."""
    signatures_max: int = 10_000
    """Sets of matched conjunctions whose targets are remembered."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            least = 0 if name == "values_max" else 1
            if name != "exact" and not least <= value <= 1 << 32:
                raise ValueError(f"{name} must be {least}-{1 << 32}, got {value!r}")
