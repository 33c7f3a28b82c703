"""YFilter's shared NFA over linear paths, and its run-time stack (YFilter, section 3.2), in Python.

Use it where the elements that a path accepts are asked for one by one, as the operators of ONYX do; `engine="yfilter"`
is the same machine natively, which tells only which queries match. Paths are tuples of steps: whether `//` stands
before the name, and the name, None for `*`.

    >>> from treecast.document import read
    >>> nfa = PathNfa()
    >>> state = nfa.add(((False, ("", "a")), (True, ("", "b"))))
    >>> nfa.run(read(b"<a><b/><c><b/></c></a>")).accepted
    {4: [1, 3]}
    >>> len(nfa), state
    (4, 4)

Theory of operation. Paths share their prefixes. A step after `//` hangs on a state of its own, which an ε transition
reaches and which keeps itself active. The stack has a set of active states for each open element; a start tag follows
the transitions of all states on its top, an end tag pops. States are numbered from 1 in the order they are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from treecast.document import Document, Name

NameTest: TypeAlias = Name | None
LinearPath: TypeAlias = tuple[tuple[bool, NameTest], ...]
Trail: TypeAlias = tuple[tuple[bool, int], ...]
"""The steps of a path: whether `//` stands before it, and the state that it leads to."""

START = 1


class PathNfa:
    """States with their transitions; paths can be added at any time, but not during a run."""

    def __init__(self) -> None:
        self._next: list[dict[NameTest, int]] = [{}, {}]  # state -> name -> state; state 0 is not used
        self._below: list[int] = [0, 0]  # state -> the state of `//` after it, 0 for none
        self._stays: list[bool] = [False, False]
        self._trails: dict[int, Trail] = {}  # of the accepting states

    def __len__(self) -> int:
        """The number of states."""
        return len(self._next) - 1

    def add(self, path: LinearPath) -> int:
        """The accepting state of a path, which is new or shared."""
        assert path
        state, trail = START, list[tuple[bool, int]]()
        for gap, name in path:
            if gap:
                if not self._below[state]:
                    self._below[state] = self._add_state(stays=True)
                state = self._below[state]
            if name not in self._next[state]:
                self._next[state][name] = self._add_state(stays=False)
            state = self._next[state][name]
            trail.append((gap, state))
        self._trails.setdefault(state, tuple(trail))
        return state

    def _add_state(self, *, stays: bool) -> int:
        self._next.append({})
        self._below.append(0)
        self._stays.append(stays)
        return len(self)

    def trail(self, state: int) -> Trail:
        """The steps of the path that an accepting state stands for."""
        return self._trails[state]

    def run(self, document: Document) -> NfaRun:
        """Every element that drives a transition to an accepting state."""
        accepted: dict[int, list[int]] = {}
        stack = [self._closure([START])]
        entered: list[frozenset[int]] = []
        for element, (name, depth) in enumerate(zip(document.names, document.depths, strict=True)):
            del stack[depth + 1 :]
            active: dict[int, None] = {}
            reached: dict[int, None] = {}
            for state in stack[-1]:
                if self._stays[state]:
                    active[state] = None
                following = self._next[state]
                if following:
                    for test in (name, None):
                        if (target := following.get(test)) is not None:
                            reached[target] = None
            for state in reached:
                if state in self._trails:
                    accepted.setdefault(state, []).append(element)
            active |= dict.fromkeys(self._closure(list(reached)))
            stack.append(list(active))
            entered.append(frozenset(reached))
        return NfaRun(accepted, entered)

    def _closure(self, states: list[int]) -> list[int]:
        return states + [self._below[state] for state in states if self._below[state]]


@dataclass(frozen=True)
class NfaRun:
    """What a document did to the machine."""

    accepted: dict[int, list[int]]
    """Accepting state -> elements in document order; the states are in the order in which they were reached first."""
    entered: list[frozenset[int]]
    """For each element, the states that it drove a transition to. The stack held them while the element was open."""
