"""Content models as automata: which child may come next, and whether the content may end.

Glushkov's construction: the places of names in a model are its states, and what may follow each is read off the model.
Places with the same continuation are one state here, so `(a | b | c)*` has a single one. XML asks for models that need
no lookahead; others are made deterministic anyway, by sets of places, up to a limit.

    >>> from treecast.workload import Schema
    >>> model = Schema.from_text("<!ELEMENT a (b?, c+)> <!ELEMENT b EMPTY> <!ELEMENT c EMPTY>").elements["a"].model
    >>> start = Automata(100).compile(model, {"b", "c"})
    >>> sorted(start), start["b"].accepts, start["b"]["c"].accepts
    (['b', 'c'], False, True)

Code: TC382 a DTD whose automata would be too large.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NoReturn

from treecast.errors import DocumentLimitError
from treecast.workload.content_model import Name, Particle

PLACES_MAX = 4_096
"""Names in one model, however often each."""
NO_CONTENT, SPACE_ONLY, ANY_TEXT = 0, 1, 2


class State(dict[str, "State"]):
    """The next state by the name of the next child. `accepts`: the content may end here. `text`: what may stand between
    children."""

    __slots__ = ("accepts", "text")

    def __init__(self, accepts: bool, text: int = SPACE_ONLY) -> None:
        super().__init__()
        self.accepts = accepts
        self.text = text


class _Part:
    """What a part of a model begins and ends with, as bits of places; and whether it may be left out."""

    __slots__ = ("first", "is_optional", "last")

    def __init__(self, first: int, last: int, is_optional: bool) -> None:
        self.first = first
        self.last = last
        self.is_optional = is_optional


class Automata:
    """Makes automata, which together have at most so many transitions."""

    def __init__(self, transitions_max: int) -> None:
        self._transitions_max = transitions_max
        self.transitions = 0

    def count(self, transitions: int) -> None:
        """Raises DocumentLimitError TC382."""
        self.transitions += transitions
        if self.transitions > self._transitions_max:
            self._refuse(f"the content models of the DTD need more than {self._transitions_max:,} transitions")

    def _refuse(self, message: str) -> NoReturn:
        hint = "write (a | b | c)* in place of long lists of optional elements"
        raise DocumentLimitError(message, code="TC382", hint=hint)

    def compile(self, model: Particle, declared: Collection[str]) -> State:
        """The state before the first child. Children that are not declared never come."""
        names: list[str] = []
        following: list[int] = []
        whole = self._read(model, names, following)
        states: dict[tuple[int, bool], State] = {}
        waiting: list[tuple[State, int]] = []

        def state_of(next_places: int, accepts: bool) -> State:
            key = (next_places, accepts)
            state = states.get(key)
            if state is None:
                state = states[key] = State(accepts)
                self.count(1)
                waiting.append((state, next_places))
            return state

        start = state_of(whole.first, whole.is_optional)
        while waiting:
            state, next_places = waiting.pop()
            by_name: dict[str, int] = {}
            self.count(next_places.bit_count())
            for place in _places(next_places):
                by_name[names[place]] = by_name.get(names[place], 0) | 1 << place
            for name, places in by_name.items():
                if name in declared:
                    continuation = 0
                    for place in _places(places):
                        continuation |= following[place]
                    state[name] = state_of(continuation, bool(places & whole.last))
        return start

    def _read(self, particle: Particle, names: list[str], following: list[int]) -> _Part:
        """Number the places of a part, and note what follows each within it."""
        if isinstance(particle, Name):
            self.count(1)
            if len(names) == PLACES_MAX:
                self._refuse(f"a content model of the DTD has more than {PLACES_MAX:,} names")
            bit = 1 << len(names)
            names.append(particle.name)
            following.append(0)
            part = _Part(bit, bit, False)
        elif particle.kind == "choice":
            parts = [self._read(item, names, following) for item in particle.items]
            part = _Part(0, 0, False)
            for one in parts:
                part = _Part(part.first | one.first, part.last | one.last, part.is_optional or one.is_optional)
        else:
            part = _Part(0, 0, True)
            for item in particle.items:
                one = self._read(item, names, following)
                _follow(part.last, one.first, following)
                part = _Part(
                    part.first | one.first if part.is_optional else part.first,
                    part.last | one.last if one.is_optional else one.last,
                    part.is_optional and one.is_optional,
                )
        if particle.occurs in ("*", "+"):
            _follow(part.last, part.first, following)
        return _Part(part.first, part.last, part.is_optional or particle.occurs in ("*", "?"))


def _follow(last: int, first: int, following: list[int]) -> None:
    for place in _places(last):
        following[place] |= first


def _places(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set. A word at a time: taking single bits off a long integer is quadratic."""
    base = 0
    for word in memoryview(bits.to_bytes((bits.bit_length() + 63) // 64 * 8, "little")).cast("Q"):
        while word:
            low = word & -word
            yield base + low.bit_length() - 1
            word ^= low
        base += 64
