"""The part of the NFA that one peer holds for one of its states: the state and what is near it, and its expansion.

Theory of operation (DHT-NFA, sections 3 to 5, corrected as docs/papers.md says). A peer that is responsible for a state
also has copies of the states that are up to `l` transitions away. ε-moves do not count: an ε-successor is always stored
along. Expanding a state at an element consumes the events of l+1 levels below it: states reached on the first l of them
are handled here, those on the last are targets, each to be visited at the peer that is responsible for it. Accepting
states count as soon as they are reached, so an element without children needs no event behind it.

Nothing but entries is stored. An entry stands for a query that passes the state or ends in it, and holds its whole
route; so every peer on the way fills its copies without another message, and removing an entry removes what only it
needed. A state exists as long as an entry names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

import msgspec

from treecast.overlay.chord.chord_messages import Entry
from treecast.overlay.chord.events import EventTree
from treecast.overlay.chord.routes import EPSILON, labels_of_name
from treecast.overlay.messages import Name, Number, Text

ROUTE_MAX = 1_000


class Check(msgspec.Struct, frozen=True, array_like=True):
    """A query to look at again when its path has been matched."""

    query: Text
    namespaces: dict[str, str] = {}
    ordered: bool = False


class Passage(msgspec.Struct, frozen=True, array_like=True):
    """The value of an entry: a part of a subscription whose route leads through a state, at this depth of it."""

    host: Name
    subscription: Text
    part: Number
    depth: Number
    route: Annotated[tuple[Text, ...], msgspec.Meta(max_length=ROUTE_MAX)]
    check: Check | None = None
    wants_chains: bool = False
    """It has to be joined with others: the elements that lead to it are told."""


_labels_of_name = lru_cache(maxsize=1 << 14)(labels_of_name)


class FragmentState:
    """A state, or a copy of one."""

    __slots__ = ("accepts", "is_loop", "key", "transitions")

    def __init__(self, key: str, is_loop: bool) -> None:
        self.key = key
        self.is_loop = is_loop
        self.transitions: dict[str, FragmentState] = {}
        self.accepts: dict[str, Passage] = {}
        """By the ids of entries."""

    def step(self, label: str) -> FragmentState:
        state = self.transitions.get(label)
        if state is None:
            state = self.transitions[label] = FragmentState(f"{self.key}/{label}", label == EPSILON)
        return state


class Fragment:
    """What is stored for one state. `length` is the paper's `l`."""

    def __init__(self, key: str, entries: Iterable[Entry], length: int) -> None:
        self.root = FragmentState(key, key.endswith(f"/{EPSILON}"))
        self._length = length
        for entry in entries:
            if not entry.is_removed and entry.value:
                self._add(entry.id, msgspec.msgpack.decode(entry.value, type=Passage))

    def _add(self, id: str, passage: Passage) -> None:
        state, steps = self.root, 0
        for label in passage.route[passage.depth :]:
            if steps > self._length:
                return
            state = state.step(label)
            steps += label != EPSILON
        if steps <= self._length:
            state.accepts[id] = passage

    def sizes(self) -> tuple[int, int]:
        """States and transitions that are stored here, copies among them; the last transitions lead elsewhere."""
        states = transitions = 0
        level = [self.root]
        for steps in range(self._length + 1):
            following = []
            for state in level:
                states += 1
                transitions += len(state.transitions)
                for label, other in state.transitions.items():
                    if label == EPSILON:
                        level.append(other)
                    elif steps < self._length:
                        following.append(other)
            level = following
        return states, transitions

    def expand(self, tree: EventTree, element: int) -> tuple[list[tuple[str, Passage, int]], list[tuple[str, int]]]:
        """Follow the events below an element that the state was reached with.

        Returns what is accepted (id of the entry, passage, element), and the targets (key, element).
        """
        accepted_passages = [(id, passage, element) for id, passage in self.root.accepts.items()]
        targets: dict[tuple[str, int], None] = {}
        self._follow(tree, [self.root], element, self._length, accepted_passages, targets)
        return accepted_passages, list(targets)

    def _follow(
        self, tree: EventTree, states: list[FragmentState], element: int, steps: int,
        accepted_passages: list[tuple[str, Passage, int]], targets: dict[tuple[str, int], None],
    ) -> None:  # fmt: skip
        active = dict.fromkeys(states)
        for state in states:
            if (below := state.transitions.get(EPSILON)) is not None:
                active[below] = None
        for child in tree.children(element):
            labels = _labels_of_name(tree.name(child))
            states_reached: dict[FragmentState, None] = {}
            for state in active:
                for label in labels:
                    if (target := state.transitions.get(label)) is not None:
                        states_reached[target] = None
                if state.is_loop:
                    states_reached[state] = None
            if not states_reached:
                continue
            if steps == 0:
                targets.update(((state.key, child), None) for state in states_reached)
                continue
            for state in states_reached:
                accepted_passages += [(id, passage, child) for id, passage in state.accepts.items()]
            self._follow(tree, list(states_reached), child, steps - 1, accepted_passages, targets)
