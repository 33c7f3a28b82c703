"""The names of the formats, and how two ends of a link agree on one.

>>> agree(["dictionary-zstd", "binary"], ["text", "binary"])
'binary'
>>> agree(["dictionary-zstd"], ["text-zlib"])
'text'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from treecast.errors import PeerError

Form = Literal["text", "binary", "dictionary"]
Compression = Literal["", "zlib", "zstd"]
FORMS: tuple[Form, ...] = ("text", "binary", "dictionary")
COMPRESSIONS: tuple[Compression, ...] = ("", "zlib", "zstd")


@dataclass(frozen=True, slots=True)
class Format:
    """A form, and how it is compressed."""

    form: Form
    compression: Compression = ""

    def __str__(self) -> str:
        return f"{self.form}-{self.compression}" if self.compression else self.form


_BY_NAME = {str(one): one for one in (Format(form, how) for how in COMPRESSIONS for form in FORMS)}
FORMATS = tuple(_BY_NAME)
"""The names of all formats."""


def parse_format(name: str) -> Format:
    """The format of a name that the other side sent; PeerError (TC486) where there is none."""
    format = _BY_NAME.get(name)
    if format is None:
        raise PeerError(f"TC486 there is no format {name[:40]!r} of documents", code="TC486")
    return format


def agree(wanted: Sequence[str], offered: Sequence[str]) -> str:
    """The first of the wanted formats that the other side offers; "text", which everybody has, if there is none.

    Names that are not known here are passed over: they are those of a later version.
    """
    return next((name for name in wanted if name in offered and name in _BY_NAME), "text")
