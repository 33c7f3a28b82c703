"""The pieces of a drawn transformation: a tree, written once for treecast and once for the oracle.

What can be left out is a `Cut`, so that a failure is shrunk by cutting. The XQuery that says whether anything is bound
is made of the same pieces, and so is cut with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Pair:
    """What the two sides spell differently."""

    ours: str
    oracle: str


@dataclass(frozen=True)
class Cut:
    """Pieces that may be left out: `instead` stands for them then."""

    number: int
    pieces: Pieces
    instead: str = ""


Piece = str | Pair | Cut
Pieces = Sequence[Piece]


def write(pieces: Pieces, side: str, cut: frozenset[int] = frozenset()) -> str:
    """The text for one side, "ours" or "oracle", without what is cut."""
    out = []
    for piece in pieces:
        if isinstance(piece, str):
            out.append(piece)
        elif isinstance(piece, Pair):
            out.append(piece.ours if side == "ours" else piece.oracle)
        else:
            out.append(piece.instead if piece.number in cut else write(piece.pieces, side, cut))
    return "".join(out)


def cuts_of(pieces: Pieces, cut: frozenset[int] = frozenset()) -> Iterable[int]:
    """The numbers of all cuts that are not made, nor inside of one that is; outer ones first."""
    for piece in pieces:
        if isinstance(piece, Cut) and piece.number not in cut:
            yield piece.number
            yield from cuts_of(piece.pieces, cut)


def union(first: Pieces, second: Pieces, sign: str = " | ") -> Pieces:
    """Of two paths. Saxon loses items of some unions of paths that begin alike, not of a sequence put in order."""
    return [Pair("", "("), *first, Pair(sign, ", "), *second, Pair("", ")/.")]


@dataclass(frozen=True)
class Binding:
    """A condition under which something is bound, as long as its mark is among the pieces of the query."""

    mark: Cut
    pieces: Pieces


@dataclass(frozen=True)
class Drawn:
    """A transformation: `text` is treecast's, `oracle` gives its result and `bound` whether there is one at all."""

    pieces: Pieces
    bindings: Sequence[Binding]
    namespaces: Mapping[str, str]
    cut: frozenset[int] = frozenset()

    @property
    def text(self) -> str:
        return write(self.pieces, "ours", self.cut)

    @property
    def oracle(self) -> str:
        return write(self.pieces, "oracle", self.cut)

    @property
    def bound(self) -> str:
        open_cuts = set(cuts_of(self.pieces, self.cut))
        bound = [
            write(binding.pieces, "oracle", self.cut) for binding in self.bindings if binding.mark.number in open_cuts
        ]
        return " or ".join(bound) or "false()"

    def smaller(self) -> Iterable[Drawn]:
        """With one cut more; marks leave nothing out."""
        marks = {binding.mark.number for binding in self.bindings}
        for number in cuts_of(self.pieces, self.cut):
            if number not in marks:
                yield replace(self, cut=self.cut | {number})


def drawn(query: Piece | Pieces, bound: Pieces, namespaces: Mapping[str, str] | None = None) -> Drawn:
    """One written by hand."""
    mark = Cut(0, ())
    return Drawn(
        [mark, *([query] if isinstance(query, (str, Pair, Cut)) else query)], [Binding(mark, bound)], namespaces or {}
    )
