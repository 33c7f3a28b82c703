"""Path tuples: the ways in which the steps of a path lead to the elements that it accepts (YFilter, section 3.3).

A tuple has the elements of those steps that an operator asks for, in the order in which they were asked for. It is
found by going back from the last step: the element of the step before is an ancestor that entered that step's state,
the parent or, after `//`, any. What stands before the first step asked for need not be looked at: the state was
entered, so there is a way.

    >>> from treecast.document import read
    >>> from treecast.engines.operators.path_nfa import PathNfa
    >>> nfa, document = PathNfa(), read(b"<a><a><b/></a></a>")
    >>> state = nfa.add(((True, ("", "a")), (True, ("", "b"))))
    >>> PathTuples(document.parents, nfa.run(document), nfa.trail(state), {2: 0, 1: 1}, 10).all()
    [(2, 1), (2, 0)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from treecast.engines.operators.path_nfa import NfaRun, Trail
from treecast.errors import DocumentLimitError

Tuple: TypeAlias = tuple[int, ...]


class PathTuples:
    """Of one path and one document. `steps` has the steps that are asked for, from 1, with their places in a tuple."""

    def __init__(
        self, parents: memoryview, matched: NfaRun, trail: Trail, steps: Mapping[int, int], tuples_max: int
    ) -> None:
        self._parents, self._matched, self._trail, self._steps = parents, matched, trail, steps
        self._tuples_max = tuples_max
        self._count = 0
        self._known: dict[tuple[int, int], list[Tuple]] = {}
        by_step = sorted(steps)
        self._first = by_step[0]
        self._order = [by_step.index(step) for step in steps]

    def all(self) -> list[Tuple]:
        """All tuples. Raises DocumentLimitError TC341 where there are too many, those of parts of the path included."""
        accepted = self._matched.accepted[self._trail[-1][1]]
        rows = [row for element in accepted for row in self._back(len(self._trail), element)]
        return [tuple([row[place] for place in self._order]) for row in dict.fromkeys(rows)]

    def _back(self, step: int, element: int) -> list[Tuple]:
        """The tuples of the steps up to this one, in the order of the steps."""
        own: Tuple = (element,) if step in self._steps else ()
        key = (step, element)
        if key not in self._known:
            rows: dict[Tuple, None] = {}
            if step <= self._first:
                rows[own] = None
            else:
                for before in self._before(step, element):
                    rows |= dict.fromkeys(row + own for row in self._back(step - 1, before))
            self._count += len(rows)
            if self._count > self._tuples_max:
                raise DocumentLimitError(
                    f"a path is matched in more than {self._tuples_max} ways, the limit tuples_max",
                    code="TC341",
                    hint="raise it with treecast.engines.operators.RunSettings(tuples_max=…)",
                )
            self._known[key] = list(rows)
        return self._known[key]

    def _before(self, step: int, element: int) -> Iterator[int]:
        """The elements that the step before may have selected, the nearest first."""
        gap = self._trail[step - 1][0]
        state = self._trail[step - 2][1]
        ancestor = self._parents[element]
        while ancestor >= 0:
            if state in self._matched.entered[ancestor]:
                yield ancestor
            if not gap:
                return
            ancestor = self._parents[ancestor]
