"""Placements: which shard holds a subscription, which shards must see a document. Pure, without I/O, for any cluster.

    >>> from treecast.placement import RootTag
    >>> placement = RootTag(4)
    >>> placement.add_many([("sport", "/news/sport"), ("orders", "/order"), ("all", "//id")])
    >>> holders, (route,) = placement.holders("sport"), placement.route([b"<news><sport/></news>"])
    >>> len(set(holders) & set(route))
    1

`docs/guide/placements.md` says which one when; `treecast.spark.match(placement=…)` uses them, and so may anything else
that divides the work: the interface is `Placement`, and `violations` checks what it promises.
"""

from treecast.placement.aggregate import Aggregate, aggregate
from treecast.placement.auto import Choice, choose
from treecast.placement.exclusive import exclusive_sets, name_sets
from treecast.placement.facts import Facts, Pair, Survey, survey
from treecast.placement.hierarchical import Hierarchical
from treecast.placement.pep import Pattern, Pep
from treecast.placement.placement import Placement, moves, violations
from treecast.placement.report import Report, measure
from treecast.placement.root_name import root_name
from treecast.placement.root_tag import RootTag
from treecast.placement.router import Branch, ByFilters, ByRoot, Everywhere, Router, Spread
from treecast.placement.sharing import DataSharing, FilterSharing

__all__ = [
    "Aggregate",
    "Branch",
    "ByFilters",
    "ByRoot",
    "Choice",
    "DataSharing",
    "Everywhere",
    "Facts",
    "FilterSharing",
    "Hierarchical",
    "Pair",
    "Pattern",
    "Pep",
    "Placement",
    "Report",
    "RootTag",
    "Router",
    "Spread",
    "Survey",
    "aggregate",
    "choose",
    "exclusive_sets",
    "measure",
    "moves",
    "name_sets",
    "root_name",
    "survey",
    "violations",
]
