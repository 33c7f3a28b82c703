"""The files of a DTD: bytes -> text, and the place of a character in its file.

A DTD may refer to other files, its *parts*, as external parameter entities. They are searched for only on disk: in the
directory of the file that refers to them, in that of the DTD, and in directories that the caller adds. For a URL the
last part of its path counts, so a copy next to the DTD is found. Nothing is fetched, and nothing outside those
directories is read.

    >>> from treecast.workload.dtd_source import decode
    >>> decode(b'<?xml encoding="ISO-8859-1"?> <!-- f\\xfcr -->', "old.dtd")
    ('<?xml encoding="ISO-8859-1"?> <!-- für -->', 'iso8859-1')
"""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from treecast.errors import DocumentError, DocumentLimitError

FILE_BYTES_MAX = 16 << 20

# The encodings that XML files use. Other codecs of Python (base64, zip, punycode, …) do not encode text.
_ENCODINGS = re.compile(r"utf-?8|utf-?16([bl]e)?|(us-)?ascii|iso-?8859-\d+|latin-?1|windows-125\d|cp125\d|koi8-[ru]")
_TEXT_DECLARATION = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.-]*)["']""")
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Source:
    """One file of a DTD, or a text in place of it; `path` is then None."""

    name: str
    text: str
    path: Path | None = None
    encoding: str = "utf-8"

    def line(self, at: int) -> int:
        """The line number, from 1, of character `at`; CR, LF and CR LF end lines."""
        return sum(1 for _ in _LINE_END.finditer(self.text, 0, at)) + 1

    def offset(self, at: int) -> int:
        """The number of bytes before character `at` in the file."""
        return len(self.text[:at].encode(self.encoding, "replace"))


def decode(data: bytes, name: str) -> tuple[str, str]:
    """The text of a file and the name of its encoding: by its byte-order mark, by its text declaration, else UTF-8.

    A file without either that is not UTF-8 is read as ISO 8859-1, because older DTDs are.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode(data, encoding, name)
    declaration = _TEXT_DECLARATION.match(data)
    if declaration is not None:
        declared_encoding = declaration[1].decode("ascii").lower()
        if not _ENCODINGS.fullmatch(declared_encoding):
            hint = "convert the file to UTF-8"
            raise DocumentError(
                f"{name}: the encoding '{declared_encoding[:40]}' is not known", code="TC283", hint=hint
            )
        # A declaration that is readable byte by byte cannot be in a UTF-16 file.
        return _decode(
            data, "utf-8" if declared_encoding.startswith("utf") else codecs.lookup(declared_encoding).name, name
        )
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def _decode(data: bytes, encoding: str, name: str) -> tuple[str, str]:
    try:
        return data.decode(encoding), encoding
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace")
        message, hint = f"{name}: these bytes are not {encoding}", "correct the encoding that the file declares"
        line = len(_LINE_END.findall(before)) + 1
        raise DocumentError(message, code="TC283", hint=hint, offset=error.start, line=line) from None


def read_source(path: Path, name: str | None = None) -> Source:
    """Read the file at `path`, which must be a plain file of at most FILE_BYTES_MAX bytes."""
    name = path.name if name is None else name
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(path.stat().st_mode):
                raise DocumentError(f"{name}: is no plain file", code="TC283", hint="name a file")
            data = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no file can have this name"
        raise DocumentError(f"{name}: cannot be read: {reason}", code="TC283", hint="check the name") from None
    if len(data) > FILE_BYTES_MAX:
        message = f"{name}: the file has more than {FILE_BYTES_MAX >> 20} MiB"
        raise DocumentLimitError(message, code="TC380", hint="no real DTD is that large: is it one?")
    text, encoding = decode(data, name)
    return Source(name, text, path, encoding)


def find_part(system: str, named_in: Source, directories: Sequence[Path]) -> Path | None:
    """The file that the system identifier of a part refers to; None if it is not in the directories searched."""
    parts = urlsplit(system)
    relative = unquote(parts.path).rpartition("/")[2] if parts.scheme and len(parts.scheme) > 1 else unquote(system)
    if not relative or "\0" in relative:
        return None
    roots = [directory.resolve() for directory in directories]
    bases = [named_in.path.resolve().parent] if named_in.path is not None else []
    for base in [*bases, *roots]:
        path = (base / relative).resolve()
        if any(path.is_relative_to(root) for root in roots) and path.is_file():
            return path
    return None
