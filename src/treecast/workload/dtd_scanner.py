"""The text of a DTD as tokens, with parameter entities replaced.

It keeps a stack of frames: the DTD at the bottom, and above it the replacement texts of the parameter entities that are
being read, innermost last. A reference pushes a frame; the end of its text pops it. Tokens never cross the end of a
frame, which is why XML pads a replacement text with spaces. Literals, comments and processing instructions are single
tokens, so nothing is replaced in them.

Limits: CHARS_MAX characters of replacement texts in all, and NESTING_MAX frames. An entity that refers to itself is
detected at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from treecast.errors import DocumentError, DocumentLimitError
from treecast.workload.dtd_source import Source, find_part, read_source

# The largest real DTDs need 2 million characters.
CHARS_MAX = 16 << 20
NESTING_MAX = 100
# The cost of a reference besides its text: many references to empty texts take time too.
REFERENCE_CHARS = 16
FOUND_CHARS_MAX = 20
MISSING_SHOWN_MAX = 3

NAME_START = (
    ":A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
NAME_MORE = NAME_START + "\\-.0-9\u00b7\u0300-\u036f\u203f\u2040"
NAME = f"[{NAME_START}][{NAME_MORE}]*"

_SPACE = re.compile(r"[ \t\r\n]*")
_REFERENCE = re.compile(f"%({NAME});")
# A name token includes its occurrence sign, and so does a closing parenthesis: no space may come between.
_TOKEN = re.compile(
    rf"""\"[^\"]*\"|'[^']*'|\#[A-Z]+|[{NAME_MORE}]+[?*+]?|\)[?*+]?|[(|,>%\[]""",
)
_IN_VALUE = re.compile(rf"%({NAME});|&\#([0-9]{{1,9}});|&\#x([0-9a-fA-F]{{1,8}});")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter entity: its replacement text, or where to find it."""

    name: str
    text: str | None
    system: str = ""
    declared_in: Source | None = None


@dataclass(slots=True)
class Frame:
    """A text that is being read; `source` is set for a file, `entity` for a parameter entity."""

    text: str
    source: Source | None
    entity: str = ""
    at: int = 0
    token_at: int = 0


class Scanner:
    """Produces tokens and keeps the parameter entities."""

    def __init__(self, source: Source, directories: Sequence[Path] = (), chars_max: int = CHARS_MAX) -> None:
        self.chars_max = chars_max
        own = [source.path.parent] if source.path is not None else []
        self.directories = [*own, *directories]
        self.frames = [Frame(source.text, source)]
        self.parameters: dict[str, Parameter] = {}
        self.sources: dict[Path, Source] = {}
        self.chars = 0
        self.missing: dict[str, None] = {}

    # Where we are, and what is wrong there.

    def source(self) -> Source:
        """The file that is being read."""
        return next(frame.source for frame in reversed(self.frames) if frame.source is not None)

    def fail(self, message: str, *, hint: str = "", limit: bool = False) -> NoReturn:
        file = next(frame for frame in reversed(self.frames) if frame.source is not None)
        assert file.source is not None
        if self.frames[-1].source is None:
            message += f", in the text of '%{self.frames[-1].entity};'"
        if self.missing and not hint:
            hint = self.missing_hint()
        kind = DocumentLimitError if limit else DocumentError
        at = file.token_at
        raise kind(
            f"{file.source.name}: {message}",
            code="TC380" if limit else "TC280",
            hint=hint,
            offset=file.source.offset(at),
            line=file.source.line(at),
        )

    def missing_hint(self) -> str:
        names = list(self.missing)
        names_text = ", ".join(names[:MISSING_SHOWN_MAX]) + (", …" if len(names) > MISSING_SHOWN_MAX else "")
        return f"parts of the DTD are not on disk: {names_text}; put them beside it"

    def excerpt(self) -> str:
        frame = self.frames[-1]
        return repr(frame.text[frame.at : frame.at + FOUND_CHARS_MAX]) if frame.at < len(frame.text) else "the end"

    # Tokens.

    def skip_space(self, *, floor: int = 1) -> Frame | None:
        """Go to the next character that is not a space, leaving frames that have ended; None at the very end."""
        while True:
            frame = self.frames[-1]
            space = _SPACE.match(frame.text, frame.at)
            assert space is not None
            frame.at = frame.token_at = space.end()
            if frame.at < len(frame.text):
                return frame
            if len(self.frames) <= floor:
                return None
            self.frames.pop()

    def token(self) -> str:
        """The next token of a declaration, with references replaced."""
        while True:
            frame = self.skip_space()
            if frame is None:
                self.fail("the declaration does not end")
            reference = _REFERENCE.match(frame.text, frame.at)
            if reference is not None:
                frame.at = reference.end()
                self.push(reference[1])
                continue
            token = _TOKEN.match(frame.text, frame.at)
            if token is None:
                self.fail(f"the declaration has no meaning at {self.excerpt()}")
            frame.at = token.end()
            return token[0]

    def reference(self) -> bool:
        """Enter the parameter entity that is referred to here, if one is."""
        frame = self.frames[-1]
        match = _REFERENCE.match(frame.text, frame.at)
        if match is None:
            return False
        frame.at = match.end()
        self.push(match[1])
        return True

    def skip_past(self, end: str) -> None:
        """Skip past the next `end` in the same frame."""
        frame = self.frames[-1]
        end_at = frame.text.find(end, frame.at)
        if end_at < 0:
            self.fail(f"expected '{end}' before the end of the DTD")
        frame.at = end_at + len(end)

    # Parameter entities.

    def declare(self, parameter: Parameter) -> None:
        self.parameters.setdefault(parameter.name, parameter)

    def lookup(self, name: str) -> Parameter:
        parameter = self.parameters.get(name)
        if parameter is None:
            self.fail(f"the parameter entity '%{name};' is not declared")
        if any(frame.entity == name for frame in self.frames):
            self.fail(f"the parameter entity '%{name};' refers to itself", limit=True)
        return parameter

    def push(self, name: str) -> None:
        parameter = self.lookup(name)
        if len(self.frames) > NESTING_MAX:
            self.fail(f"parameter entities are nested deeper than {NESTING_MAX}", limit=True)
        if parameter.text is not None:
            self.count(len(parameter.text))
            self.frames.append(Frame(parameter.text, None, name))
            return
        part = self.part(parameter)
        if part is not None:
            self.frames.append(Frame(part.text, part, name))

    def count(self, chars: int) -> None:
        self.chars += chars + REFERENCE_CHARS
        if self.chars > self.chars_max:
            much = f"{self.chars_max >> 20} million" if self.chars_max >= 1 << 20 else f"{self.chars_max:,}"
            self.fail(f"the parameter entities expand to more than {much} characters", limit=True)

    def part(self, parameter: Parameter) -> Source | None:
        """The file of an external entity; one that is not on disk is remembered as missing."""
        assert parameter.declared_in is not None
        path = find_part(parameter.system, parameter.declared_in, self.directories)
        if path is None:
            self.missing.setdefault(parameter.system)
            return None
        source = self.sources.get(path)
        if source is None:
            source = self.sources[path] = read_source(path)
        self.count(len(source.text))
        return source

    def entity_value(self, literal: str, nesting: int = 0) -> str:
        """The replacement text of an entity: parameter entities and character references replaced, the rest kept."""
        if "%" not in literal and "&#" not in literal:
            return literal

        def replace_reference(match: re.Match[str]) -> str:
            if match[1] is None:
                return self.character(int(match[2]) if match[2] is not None else int(match[3], 16))
            parameter = self.lookup(match[1])
            if parameter.text is not None:
                self.count(len(parameter.text))
                return parameter.text
            part = self.part(parameter)
            if nesting > NESTING_MAX:
                self.fail(f"the parameter entity '%{match[1]};' refers to itself", limit=True)
            return "" if part is None else self.entity_value(part.text, nesting + 1)

        return _IN_VALUE.sub(replace_reference, literal)

    def character(self, number: int) -> str:
        is_allowed = number in (9, 10, 13) or 0x20 <= number <= 0xD7FF or 0xE000 <= number <= 0x10FFFF
        if not is_allowed or number in (0xFFFE, 0xFFFF):
            self.fail(f"no character has the number {number}")
        return chr(number)
