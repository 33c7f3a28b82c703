"""The source of many trees: what publishers have sealed, for a network of `TreeBroker`s.

    >>> from random import Random
    >>> from treecast.overlay.selective.selective_messages import Rights
    >>> from treecast.overlay.selective.tree_source import TreeSource, TreeVersion
    >>> source = TreeSource("source", Random(1))
    >>> source.publish(TreeVersion("tree", [(0, -1), (1, 0)], Rights(), 1, {1: (1, b"box")}), now_ms=0)
    []
    >>> source.trees["tree"].source.version
    1

Publishers keep their documents; a source that is made again is given all of it again (`publish` of everything), with
editions that begin after all earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from treecast.overlay.peer import Effect, Send
from treecast.overlay.selective.neighbours import Neighbours
from treecast.overlay.selective.outline_editions import Editions, Row, change_to, outline_of
from treecast.overlay.selective.selective_messages import OfTree, OutlineAsk, Presence, Rights
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.overlay.selective.source import Source
from treecast.overlay.selective.tree_broker import of_tree


class TreeVersion(NamedTuple):
    """A version of a tree: what it looks like, who may have it, and (version, payload) of what has changed."""

    tree: str
    rows: Sequence[Row]
    rights: Rights
    version: int
    states: Mapping[int, tuple[int, bytes]]


class SourceTree:
    """One tree."""

    def __init__(self, source: Source, editions: Editions) -> None:
        self.source = source
        self.editions = editions


class TreeSource:
    """A peer: see `treecast.overlay.peer`."""

    def __init__(
        self,
        name: str,
        random: Random,
        *,
        neighbours: Iterable[str] = (),
        settings: SelectiveSettings | None = None,
        first_edition: int = 1,
    ) -> None:
        self.name = name
        self._settings = settings or SelectiveSettings()
        self._random = random
        self._first_edition = first_edition
        self.neighbours = Neighbours(0, random.getrandbits(48), neighbours, self._settings)
        self.trees: dict[str, SourceTree] = {}

    def publish(self, new: TreeVersion, now_ms: int) -> list[Effect]:
        """A version of a tree."""
        tree = self.trees.get(new.tree)
        if tree is None:
            outline = outline_of(new.rows)
            assert outline is not None, "publishers make trees"
            source = Source(self.name, self._random, outline, neighbours=self.neighbours, settings=self._settings)
            tree = SourceTree(source, Editions(self._first_edition, new.rights, self._settings.changes_max))
            source.downward.edition = self._first_edition
            self.trees[new.tree] = tree
        else:
            change = change_to(tree.source.outline, new.rows)
            assert change is not None, "publishers give new ids to what they move"
            if change.removed or change.inserted or new.rights != tree.editions.rights:
                tree.editions.add(change, new.rights)
                tree.source.change_outline(change.removed, change.inserted, tree.editions.edition)
        return of_tree(new.tree, tree.source.publish_states(new.version, new.states, now_ms))

    def edition(self, name: str) -> int:
        """Of a tree's outline; 0 if there is no such tree."""
        tree = self.trees.get(name)
        return tree.editions.edition if tree is not None else 0

    def remove(self, name: str) -> None:
        """A tree is published no more."""
        self.trees.pop(name, None)

    def receive(self, sender: str, message: Any, now_ms: int) -> list[Effect]:
        if isinstance(message, TreeVersion):  # from a publisher in this process: none that travels is one
            return self.publish(message, now_ms)
        if isinstance(message, Presence):
            self.neighbours.hear(sender, message, now_ms)
            if not message.asks:
                return []
            neighbours = self.neighbours
            return [Send(sender, Presence(0, neighbours.incarnation, False, False, neighbours.address))]
        if not isinstance(message, OfTree) or not self.neighbours.is_below(sender):
            return []
        tree = self.trees.get(message.tree)
        if tree is None:
            return []
        if isinstance(message.message, OutlineAsk):
            answer = tree.editions.answer(message.message, tree.source.outline)
            return [Send(sender, OfTree(message.tree, answer))] if answer is not None else []
        return of_tree(message.tree, tree.source.receive(sender, message.message, now_ms))

    def tick(self, now_ms: int) -> list[Effect]:
        effects = self.neighbours.tick(now_ms, needs_outline=False)
        self.neighbours.forget(now_ms, 2 * self._settings.lease_ms)
        for name, tree in self.trees.items():
            effects += of_tree(name, tree.source.tick(now_ms))
        return effects

    def stats(self) -> dict[str, int]:
        """Counts, for metrics."""
        return {name: value for name, value in self.status().items() if isinstance(value, int)}

    def status(self) -> dict[str, Any]:
        """For people."""
        sources = [tree.source for tree in self.trees.values()]
        return {
            "name": self.name,
            "rank": 0,
            "neighbours": {name: self.neighbours.rank_of(name) for name in self.neighbours.names()},
            "trees": len(self.trees),
            "elements": sum(len(source.elements) for source in sources),
            "elements_sent": sum(source.downward.elements_sent for source in sources),
        }
