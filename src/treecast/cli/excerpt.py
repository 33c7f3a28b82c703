"""Lines of a document with marks under them: numbers at the left, long lines cut. Steps get ~, what decided them ^.

>>> from treecast.cli.excerpt import Mark, excerpt
>>> print("\\n".join(excerpt('<a>\\n  <b c="2"/>\\n</a>', [Mark(2, 3, 2, 13, "step")], 1, colour=False)))
  1 │ <a>
  2 │   <b c="2"/>
    │   ~~~~~~~~~~
  3 │ </a>
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from treecast.index.explain import Place

WIDTH_CHARS_MAX = 110
BEFORE_CHARS = 24
SIGNS = {"step": "~", "stop": "~", "condition": "^", "miss": "^"}
COLOURS = {"step": "\x1b[32m", "condition": "\x1b[36m", "stop": "\x1b[33m", "miss": "\x1b[31m"}
DIM, RESET = "\x1b[2m", "\x1b[0m"


@dataclass(frozen=True)
class Mark:
    """A range of characters; lines and columns count from 1, the end is after the last."""

    line: int
    column: int
    end_line: int
    end_column: int
    kind: Literal["step", "condition", "stop", "miss"]

    @classmethod
    def of(cls, place: Place, kind: Literal["step", "condition", "stop", "miss"]) -> Mark:
        """The start tag of an element; an attribute or text as a whole."""
        return cls(place.line, place.column, place.tag_line, place.tag_column, kind)


def excerpt(source: str, marks: Sequence[Mark], context: int, *, colour: bool) -> Iterator[str]:
    """The marked lines, `context` lines around each, and a gap where lines are left out."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    numbers: set[int] = set()
    for mark in marks:
        numbers.update(range(max(1, mark.line - context), min(len(lines), mark.line + context) + 1))
    gutter = len(str(max(numbers, default=0))) + 2
    before = 0
    for number in sorted(numbers):
        if before and number != before + 1:
            yield f"{'⋮':>{gutter}}"
        before = number
        ranges = _ranges(lines[number - 1], [mark for mark in marks if mark.line == number])
        yield from _line(lines[number - 1], number, ranges, gutter, colour=colour)


def _ranges(line: str, marks: Sequence[Mark]) -> list[tuple[int, int, str]]:
    """(begin, end, kind) of the marks that begin on this line, from 0; what goes on below ends with the line."""
    kinds: dict[tuple[int, int], str] = {}
    for mark in marks:
        end = mark.end_column - 1 if mark.end_line == mark.line else len(line)
        kinds[(mark.column - 1, max(end, mark.column))] = mark.kind
    # An attribute comes after the tag that it is in, and is drawn over it.
    return sorted((begin, end, kind) for (begin, end), kind in kinds.items())


def _line(
    line: str, number: int, ranges: Sequence[tuple[int, int, str]], gutter: int, *, colour: bool
) -> Iterator[str]:
    """One line of the document and, under it, its marks; a long line once for every part of it that has some."""
    dim, reset = (DIM, RESET) if colour else ("", "")
    for place, (begin, end) in enumerate(_windows(len(line), ranges)):
        shown = [_visible(c) for c in line[begin:end]]
        kinds: list[str] = [""] * len(shown)
        for first, last, kind in ranges:
            for at in range(max(0, first - begin), min(len(shown), last - begin)):
                kinds[at] = kind
        under = [SIGNS.get(kind, " ") * _width(c) for c, kind in zip(shown, kinds, strict=True)]
        left, right = "…" if begin else "", "…" if end < len(line) else ""
        label = f"{number:>{gutter}}" if place == 0 else " " * gutter
        yield f"{dim}{label} │{reset} {left}{_paint(shown, kinds, colour)}{right}".rstrip()
        if any(kinds):
            yield f"{dim}{' ' * gutter} │{reset} {' ' * len(left)}{_paint(under, kinds, colour)}".rstrip()


def _windows(size: int, ranges: Sequence[tuple[int, int, str]]) -> list[tuple[int, int]]:
    """The parts of a line that are shown: all of it, or of a long one a part around the start of each range."""
    if size <= WIDTH_CHARS_MAX:
        return [(0, size)]
    windows: list[tuple[int, int]] = []
    for begin, _, _ in ranges or [(0, 0, "")]:
        if windows and begin < windows[-1][1] - BEFORE_CHARS:
            continue
        first = max(0, begin - BEFORE_CHARS)
        windows.append((first, min(size, first + WIDTH_CHARS_MAX)))
    return windows


def _paint(pieces: Sequence[str], kinds: Sequence[str], colour: bool) -> str:
    text = ""
    for kind, run in groupby(zip(kinds, pieces, strict=True), key=lambda pair: pair[0]):
        painted = "".join(piece for _, piece in run)
        text += f"{COLOURS[kind]}{painted}{RESET}" if colour and kind else painted
    return text


def _visible(character: str) -> str:
    """One character in place of one, so that marks stay under what they mean, and none that moves a cursor."""
    if character == "\t":
        return " "
    return character if character.isprintable() else "\ufffd"


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
