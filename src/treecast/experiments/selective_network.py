"""A network of selective publishing in one process, for measuring: peers of `treecast.overlay.selective` in levels.

Messages take times that are drawn, so that the first to answer is not always the same one. Groups of subscribers are
played by this module: each is attached to a broker of the last level, and asks for one subtree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any

from treecast.overlay.peer import Effect, Send
from treecast.overlay.selective.selective_broker import SelectiveBroker
from treecast.overlay.selective.selective_messages import Presence, Receipt, Update, Want, Wants
from treecast.overlay.selective.settings import SelectiveSettings
from treecast.overlay.selective.source import Source
from treecast.selective.forwarding import MergeSettings

SOURCE = "source"
DELAY_MS = (1, 20)
LONG_MS = 10_000_000
"""Nobody fails here: presence is said once."""


def uniform_tree(children: Sequence[int]) -> list[int]:
    """The parents, in document order, of a document whose elements have so many children, level by level."""
    parents = [-1]

    def add(parent: int, level: int) -> None:
        for _ in range(children[level] if level < len(children) else 0):
            parents.append(parent)
            add(len(parents) - 1, level + 1)

    add(0, 0)
    return parents


class SelectiveNetwork:
    """Brokers in levels, and groups below them."""

    def __init__(self, seed: int, parents: list[int], levels: int, propagation: str, merge: MergeSettings) -> None:
        self.random = Random(f"{seed} {levels} {propagation}")
        self.sent: Counter[tuple[str, str]] = Counter()
        """Elements by sender and receiver."""
        self._now_ms = 0
        self._queue: list[tuple[int, int, str, str, Any]] = []
        self._count = 0
        settings = SelectiveSettings(
            presence_ms=LONG_MS,
            failure_ms=LONG_MS,
            lease_ms=LONG_MS,
            refresh_ms=LONG_MS,
            update_ms=LONG_MS,
            update_ms_max=LONG_MS,
            merge_ms=1,
            inquiry_ms=1_000,
            propagation=propagation,
            merge=merge,
        )
        self.levels = [[f"b{rank}-{number}" for number in range(2 * rank)] for rank in range(1, levels + 1)]
        self.source = Source(SOURCE, self.random, parents, neighbours=self.levels[0], settings=settings)
        self.peers: dict[str, Source | SelectiveBroker] = {SOURCE: self.source}
        for rank, names in enumerate(self.levels, 1):
            above = self.levels[rank - 2] if rank > 1 else [SOURCE]
            below = self.levels[rank] if rank < levels else []
            for name in names:
                self.peers[name] = SelectiveBroker(
                    *(name, rank, self.random),
                    neighbours=[*above, *below],
                    settings=settings,
                    faces_subscribers=rank == levels,
                )
        self.groups: dict[str, tuple[str, int]] = {}
        """The broker and the subtree of each group."""
        for _ in range(levels + 1):  # outlines travel from level to level
            self.tick()
            for peer in self.peers.values():
                peer.neighbours._said_ms = None

    # -- what happens

    def tick(self) -> None:
        """Let every peer do what is due, and everything that follows from it."""
        for name, peer in self.peers.items():
            self._perform(name, peer.tick(self._now_ms))
        self._run()

    def _perform(self, sender: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                if isinstance(effect.message, Update):
                    self.sent[sender, effect.to] += len(effect.message.elements)
                self._count += 1
                at_ms = self._now_ms + self.random.randint(*DELAY_MS)
                heappush(self._queue, (at_ms, self._count, sender, effect.to, effect.message))

    def _run(self) -> None:
        while self._queue:
            self._now_ms, _, sender, to, message = heappop(self._queue)
            if to in self.peers:
                self._perform(to, self.peers[to].receive(sender, message, self._now_ms))
            elif isinstance(message, Update):  # a group takes what it gets
                receipt = Receipt(message.root, message.without, message.upto)
                self._perform(to, [Send(sender, receipt)])

    def subscribe(self, group: str, root: int) -> None:
        """A group asks a broker of the last level for a subtree; the round runs to its end."""
        broker = self.random.choice(self.levels[-1])
        self.groups[group] = (broker, root)
        self._perform(group, [Send(broker, Presence(len(self.levels) + 1, 1, False))])
        self._run()
        self._perform(group, [Send(broker, Wants(1, 1, [Want(root, [], 0)]))])
        self._run()

    def publish_all(self) -> None:
        """Every element changes once; what is sent for that is counted alone."""
        self.sent.clear()
        ids = list(self.source.outline)
        self._perform(SOURCE, self.source.publish(dict.fromkeys(ids, b"x"), self._now_ms))
        self._run()

    # -- what is seen

    def brokers(self, level: list[str]) -> list[SelectiveBroker]:
        return [peer for name in level if isinstance(peer := self.peers[name], SelectiveBroker)]

    def group_counts(self) -> list[int]:
        """The distinct subtrees in the routing tables of each level, from the first."""
        return [
            sum(len(peer.upward.forwarding.wanted_roots()) for peer in self.brokers(level) if peer.upward is not None)
            for level in self.levels
        ]

    def bandwidths(self) -> list[int]:
        """The elements that each level sends downwards."""
        return [sum(count for (sender, _), count in self.sent.items() if sender in level) for level in self.levels]

    def path_bandwidths(self) -> list[float]:
        """The elements on the connection to each level, and to the group, averaged over the paths of all groups."""
        totals = [0.0] * (len(self.levels) + 1)
        for group, (broker, root) in self.groups.items():
            totals[-1] += self.sent[broker, group]
            at = broker
            for place in range(len(self.levels) - 1, -1, -1):
                above = self._upstream(at, root)
                totals[place] += self.sent[above, at]
                at = above
        return [total / len(self.groups) for total in totals]

    def _upstream(self, name: str, root: int) -> str:
        peer = self.peers[name]
        assert isinstance(peer, SelectiveBroker) and peer.upward is not None
        links = peer.upward.links
        outline = self.source.outline
        return next(links[id].upstream for id in (root, *outline.ancestors(root)) if id in links)
