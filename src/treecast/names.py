"""Make names that strangers chose (ids, files, members of archives) safe to show, to store and to use.

    >>> text_of("caf\\udce9.xml")                    # a file name that is not UTF-8
    'caf\\\\xe9.xml'
    >>> printable("a\\x1b[2Jb")                      # this would move the cursor of a terminal
    'a\\\\x1b[2Jb'
    >>> file_name("a/b"), file_name("sport")
    ('a%2Fb', 'sport')

Names of files and subjects are unique: two ids never get the same name. An id that cannot be used as it is, is escaped
or replaced by its hash. An id that already looks like such a hash is hashed too, so nobody can choose an id that
collides with another one.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable

HASHED = "sha256-"
"""The prefix of all names that are hashes, and of no others."""
FILE_NAME_BYTES_MAX = 200
ALIKE_MIN = 0.7
TOKEN = "[A-Za-z0-9_-]{1,128}"
"""Matches the ids that can be part of a subject unchanged, unless they look like hashes."""

_UNFIT = re.compile(r"""^\.|[. ]\Z|[\x00-\x1f\x7f"%*/:<>?\\|]""")
_SURROGATE = re.compile("[\ud800-\udfff]")


def text_of(name: str) -> str:
    """A file name as text that can be stored: bytes that are not UTF-8 (to Python: surrogates) become \\xNN."""
    return _SURROGATE.sub(lambda half: _escape_surrogate(ord(half[0])), name)


def _escape_surrogate(code: int) -> str:
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def printable(text: str) -> str:
    """`text` in one line, without characters that could move the cursor or change the writing direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """The same for a message of several lines; line feeds stay."""
    return "\n".join(map(printable, text.split("\n")))


def nearest(word: str, known: Iterable[str], *, alike_min: float = ALIKE_MIN) -> str | None:
    """The known word that looks most like this one, if one does.

    >>> nearest("--fromat", ["--format", "--output"])
    '--format'
    """
    return next(iter(difflib.get_close_matches(word, list(known), 1, alike_min)), None)


def hashed(id: str) -> str:
    """A name of 71 characters for any id."""
    return HASHED + hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()


def file_name(id: str) -> str:
    """A name for the file or directory of a subscription: its id, with %XX for unsafe characters."""
    name = _UNFIT.sub(lambda match: f"%{ord(match[0]):02X}", id)
    too_long = len(name.encode("utf-8", "surrogatepass")) > FILE_NAME_BYTES_MAX
    return hashed(id) if too_long or id.startswith(HASHED) else name


def subject_token(id: str) -> str:
    """The part of a subject that stands for a subscription."""
    return hashed(id) if id.startswith(HASHED) or not re.fullmatch(TOKEN, id) else id
