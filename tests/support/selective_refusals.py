"""What selective publishing refuses, for the golden errors: the first line says who refuses the rest."""

from __future__ import annotations

from collections.abc import Callable

from treecast.selective.encoding import decode
from treecast.selective.folded import fold


def refuse_selective(data: bytes) -> None:
    first, _, rest = data.partition(b"\n")
    REFUSALS[first.decode()](rest)


def _fold(data: bytes) -> None:
    fold(data)


def _decode(data: bytes) -> None:
    decode(data)


REFUSALS: dict[str, Callable[[bytes], None]] = {"fold": _fold, "decode": _decode}
