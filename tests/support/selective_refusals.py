"""What selective publishing refuses, for the golden errors: the first line says who refuses the rest."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

from treecast.selective import subtrees
from treecast.selective.encoding import decode
from treecast.selective.folded import fold
from treecast.selective.labelled import LabelledDocument


def refuse_selective(data: bytes) -> None:
    first, _, rest = data.partition(b"\n")
    REFUSALS[first.decode()](rest)


def refuse_subtrees(data: bytes) -> None:
    """Read SSL, or a path, over a document of seven elements: 7{3{1,2},6{4,5}}."""
    text = data.decode().removesuffix("\n")
    document = LabelledDocument.read(b"<a><b x='1'><c/><d/></b><b><c/><d/></b></a>", spacing=1)
    with patch.object(subtrees, "SUBTREES_MAX", 5):
        if text.startswith("/"):
            document.choose(text.split(" without ")[:1], exclude=text.split(" without ")[1:])
        else:
            subtrees.Subtrees.parse(text, document.outline)


def _fold(data: bytes) -> None:
    fold(data)


def _decode(data: bytes) -> None:
    decode(data)


REFUSALS: dict[str, Callable[[bytes], None]] = {"fold": _fold, "decode": _decode}
