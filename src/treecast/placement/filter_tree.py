"""A live tree of coarse filters, for placements that route documents by their content.

Each subscription relies on a *chain*: for every branch on the way down to its shard one filter (or several, of which a
matching document matches one) that covers it. Subscriptions with the same chain are counted together; a filter stays as
long as a chain uses it. One index holds the filters of the whole tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from treecast.document import EntityTexts, Limits
from treecast.index import Index
from treecast.placement.members import Members
from treecast.placement.router import Branch, ByFilters


class Chain(NamedTuple):
    """Where subscriptions are, and what brings documents there."""

    shard: int
    uses: tuple[tuple[int, str], ...]
    """(branch, filter), from the top down."""


@dataclass
class _Branch:
    parent: int
    shard: int | None
    uses: Counter[str]


class FilterTree:
    """Branches, the filters that lead into them, and the subscriptions that rely on those."""

    def __init__(self, members: Members, *, limits: Limits | None = None, entities: EntityTexts = None) -> None:
        self.members = members  # the groups are numbers of chains
        self._branches: list[_Branch] = []
        self._chains: dict[Chain, int] = {}
        self._chain_list: list[Chain] = []
        self._free: list[int] = []  # numbers of unused chains
        self._shard_sizes: Counter[int] = Counter()
        self._index = Index(limits=limits, entities=entities)
        self._numbers: dict[str, int] = {}  # of the filters in use
        self._use_counts: Counter[str] = Counter()  # by how many branches
        self._next = 0
        self._router: ByFilters | None = None

    def branch(self, parent: int, *, shard: int | None = None) -> int:
        """A new branch below another (-1: at the top)."""
        self._branches.append(_Branch(parent, shard, Counter()))
        self._router = None
        return len(self._branches) - 1

    def filters_of(self, branch: int) -> Counter[str]:
        """The filters of a branch, with the number of chains that use each."""
        return self._branches[branch].uses

    def filters(self) -> int:
        """How many distinct filters there are."""
        return len(self._numbers)

    def enter(self, ids: Sequence[str], chains: Sequence[Chain]) -> None:
        """Add subscriptions that `members.check_new` has let pass."""
        groups = []
        for chain in chains:
            number = self._chains.get(chain)
            if number is None:
                number = self._chains[chain] = self._number(chain)
            groups.append(number)
        self._shard_sizes.update(chain.shard for chain in chains)
        fresh = [number for number in dict.fromkeys(groups) if not self.members.sizes[number]]
        self.members.enter(ids, groups)
        new: list[str] = []
        for number in fresh:
            for branch, text in self._chain_list[number].uses:
                uses = self._branches[branch].uses
                if not uses[text]:
                    self._use_counts[text] += 1
                    if text not in self._numbers:
                        self._numbers[text] = self._next
                        self._next += 1
                        new.append(text)
                uses[text] += 1
        self._index.add_many([(str(self._numbers[text]), text) for text in new])
        if fresh:
            self._router = None

    def remove(self, id: str) -> int:
        """Take a subscription out, and the filters that it alone needed; the answer is the number of its chain."""
        number = self.members.remove(id)
        chain = self._chain_list[number]
        self._shard_sizes[chain.shard] -= 1
        if not self.members.sizes[number]:
            self._router = None
            del self._chains[chain]
            self._free.append(number)
            for branch, text in chain.uses:
                uses = self._branches[branch].uses
                uses[text] -= 1
                if not uses[text]:
                    del uses[text]
                    self._use_counts[text] -= 1
                    if not self._use_counts[text]:
                        del self._use_counts[text]
                        self._index.remove(str(self._numbers.pop(text)))
        return number

    def _number(self, chain: Chain) -> int:
        """A number for a new chain: that of an unused one, if there is one."""
        if self._free:
            number = self._free.pop()
            self._chain_list[number] = chain
        else:
            number = len(self._chain_list)
            self._chain_list.append(chain)
        return number

    def chain(self, number: int) -> Chain:
        """A chain by its number, which is the group of its members. One that all have left stays until others enter."""
        return self._chain_list[number]

    def shard_sizes(self) -> Counter[int]:
        """How many subscriptions each shard holds."""
        return self._shard_sizes

    def router(self) -> ByFilters:
        """The tree as it is now. It routes with the live index: ask again after changes."""
        if self._router is None:
            filters = {number: text for text, number in self._numbers.items()}
            branches = tuple(
                Branch(b.parent, frozenset(self._numbers[text] for text in b.uses), b.shard) for b in self._branches
            )
            self._router = ByFilters(filters, branches, self._index)
        return self._router
