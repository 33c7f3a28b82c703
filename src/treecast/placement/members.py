"""Which subscription is in which group: every placement keeps this record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from treecast.errors import QueryError, UnknownIdError


class Members:
    """Ids, each in one numbered group."""

    def __init__(self) -> None:
        self._group: dict[str, int] = {}
        self.sizes: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._group)

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def check_new(self, ids: Sequence[str]) -> None:
        """Raise a QueryError if one of the ids is there already, or twice among them."""
        twice = next((id for id in ids if id in self._group), None)
        if twice is None and len(set(ids)) < len(ids):
            twice = Counter(ids).most_common(1)[0][0]
        if twice is not None:
            raise QueryError(f"the id {twice[:80]!r} is placed already", code="TC141", hint="remove it first")

    def enter(self, ids: Sequence[str], groups: Sequence[int]) -> None:
        """Add ids that check_new has let pass."""
        self._group.update(zip(ids, groups, strict=True))
        self.sizes.update(groups)

    def group(self, id: str) -> int:
        """The group of an id; an UnknownIdError, which is a KeyError, if there is none."""
        group = self._group.get(id)
        if group is None:
            raise UnknownIdError(f"no subscription has the id {id[:80]!r}", code="TC143")
        return group

    def move(self, id: str, group: int) -> None:
        """Put an id into another group."""
        self.sizes[self.group(id)] -= 1
        self.sizes[group] += 1
        self._group[id] = group

    def remove(self, id: str) -> int:
        """Take an id out; the answer is the group that it was in."""
        group = self.group(id)
        del self._group[id]
        self.sizes[group] -= 1
        return group
