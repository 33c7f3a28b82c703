"""Whether documents are valid by a DTD: content models, attributes, identifiers.

Use it at an edge, where documents come in that others rely on. The document has to be well-formed already, as
`treecast.read` or an index find out; so this is one pass of a regular expression over its text, and an automaton for
the children of each element. The time is linear in the document.

    >>> from treecast.workload.validator import Validator
    >>> validator = Validator.from_text("<!ELEMENT order (item+)> <!ELEMENT item EMPTY> <!ATTLIST item n ID #REQUIRED>")
    >>> validator.check(b'<order><item n="a"/></order>')
    >>> validator.check(b"<order><item/></order>")
    Traceback (most recent call last):
    treecast.errors.DocumentError: TC221 <item> lacks the attribute 'n' (line 1, byte 7)

It says what libxml2's validation says (`lxml.etree.DTD`), where that follows XML 1.0; tests/test_validator.py lists the
differences. Any declared element may be the root: a document here has no DOCTYPE that names one. Nothing is added to
the document: a default value of the DTD is not written into it.

Codes: TC220 an element or text that may not be there, or is missing; TC221 an attribute, likewise; TC222 an identifier
that is there twice, or a reference to none. TC285 a DTD that documents cannot be checked by: a part of it is elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from treecast.errors import DocumentError
from treecast.workload.attribute_rules import ElementAttributes, Identifiers
from treecast.workload.content_automaton import ANY_TEXT, NO_CONTENT, SPACE_ONLY, Automata, State
from treecast.workload.content_model import Element, particle_names
from treecast.workload.dtd import read_dtd
from treecast.workload.dtd_scanner import CHARS_MAX
from treecast.workload.schema import Schema

TRANSITIONS_MAX = 200_000
AT_ONCE_CHARS = 1 << 18
"""The tokens of a longer document are not all in memory at the same time."""
TAGS_MAX = 4_096
"""Tags with attributes that are remembered, as they were written,"""
TAG_CHARS_MAX = 100
"""if they are short."""
SHOWN_MAX = 8
"""Names in a hint,"""
NAME_CHARS_MAX = 100
"""and characters of each."""

# The text before a tag, unless it is white space; what stands in a start tag; or what stands in a comment, an
# instruction or a CDATA section. Of an end tag nothing is told: it fits its start tag.
_TOKEN = re.compile(
    r"""[ \t\r\n]*+([^<]*+)<(?:/[^>]*+|((?![!?])(?:[^>"']++|"[^"]*+"|'[^']*+')++)"""
    r"""|(!--(?s:.*?)--|!\[CDATA\[(?s:.*?)\]\]|\?(?s:.*?)\?))>"""
)
_TAG_NAME = re.compile(r"[^ \t\r\n/]++")
_ENCODING = re.compile(rb"""<\?xml[^>]*?[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*["']([A-Za-z][\w.-]*)["'][^>]*>""")
_LINE_END = re.compile(r"\r\n|\r|\n")

Token = tuple[str, str, str]


class _Rule(NamedTuple):
    """`start` is the state before the first child."""

    start: State
    attributes: ElementAttributes


class _Tag(NamedTuple):
    """A start tag whose attributes are valid. Of an empty element, `start` accepts."""

    name: str
    start: State
    is_empty: bool


class _InvalidError(Exception):
    """Without a message, what is wrong is found out later, from the token and the state."""

    def __init__(self, number: int, message: str = "", code: str = "TC220", hint: str = "") -> None:
        super().__init__(message)
        self.number = number
        self.message = message
        self.code = code
        self.hint = hint


class _Pass:
    """What is known of one document while it is checked."""

    __slots__ = ("hollow", "identifiers", "state")

    def __init__(self, state: State) -> None:
        self.identifiers = Identifiers()
        self.hollow: list[int] = []
        """The start tags of elements that must be empty: the end tag follows at once."""
        self.state = state


class Validator:
    """A compiled DTD. Of the documents that it checks it keeps only some tags."""

    def __init__(self, schema: Schema, notations: Sequence[str] = (), transitions_max: int = TRANSITIONS_MAX) -> None:
        self.schema = schema
        declared_names = {name for name, element in schema.elements.items() if element.declared}
        automata = Automata(transitions_max)
        anything = State(accepts=True, text=ANY_TEXT)
        anything.update(dict.fromkeys(declared_names, anything))
        self._outside = State(accepts=True, text=ANY_TEXT)
        self._outside.update(dict.fromkeys(declared_names, self._outside))
        self._rules: dict[str, _Rule] = {}
        for name in sorted(declared_names):
            element = schema.elements[name]
            attributes = ElementAttributes(element.attributes, schema.unparsed_entities, notations)
            automata.count(1 + len(element.attributes))
            self._rules[name] = _Rule(_start(element, anything, automata, declared_names), attributes)
        self.transitions = automata.transitions
        """How large it is."""
        self._tags: dict[str, _Tag] = {}
        self._tags_max = TAGS_MAX + 2 * len(declared_names)

    @classmethod
    def from_text(
        cls, text: str, name: str = "DTD", transitions_max: int = TRANSITIONS_MAX, chars_max: int = CHARS_MAX
    ) -> Validator:
        """Raises DocumentError: the DTD is wrong, or a part of it is elsewhere; or DocumentLimitError.

        `chars_max` is how much its parameter entities may expand to.
        """
        declarations = read_dtd(text, name, chars_max)
        if declarations.missing:
            message = f"{name}: a part of the DTD is in another file, {declarations.missing[0][:NAME_CHARS_MAX]!r}"
            raise DocumentError(message, code="TC285", hint="put the text of its parts into it")
        schema = Schema.from_declarations(declarations, name=name)
        return cls(schema, declarations.notations, transitions_max)

    def check(self, data: bytes) -> None:
        """Whether this document, which is known to be well-formed, is valid. Raises DocumentError."""
        text = decode(data)
        tokens = _TOKEN.findall(text) if len(text) <= AT_ONCE_CHARS else _each(text)
        document = _Pass(self._outside)
        try:
            self._walk(tokens, document)
            _check_hollow(text, document.hollow)
            dangling = document.identifiers.dangling()
            if dangling is not None:
                raise _InvalidError(dangling[1], f"no element has the identifier {dangling[0][:100]!r}", "TC222")
        except _InvalidError as error:
            raise self._locate(text, data, document.state, error) from None

    def _walk(self, tokens: Iterable[Token], document: _Pass) -> None:
        """PERF: bench/validation.py. All is in one loop; tags that were seen before are looked up, as written."""
        tags = self._tags
        state = self._outside
        stack: list[State] = []
        for number, (text, tag, other) in enumerate(tokens):
            if text and state.text != ANY_TEXT:
                document.state = state
                raise _InvalidError(number)
            if tag:
                tag_facts = tags.get(tag)
                if tag_facts is None:
                    tag_facts = self._read_tag(tag, document, number)
                name, start, is_empty = tag_facts
                following = state.get(name)
                if following is None:
                    document.state = state
                    raise _InvalidError(number)
                if is_empty:
                    state = following
                else:
                    stack.append(following)
                    state = start
            elif not other:
                if not state.accepts:
                    document.state = state
                    raise _InvalidError(number)
                state = stack.pop()
            elif state.text == NO_CONTENT or (state.text == SPACE_ONLY and other.startswith("![")):
                document.state = state
                raise _InvalidError(number)

    def _read_tag(self, tag: str, document: _Pass, number: int) -> _Tag:
        """A tag that was not seen before. It is remembered, unless it says something about the document."""
        match = _TAG_NAME.match(tag)
        assert match is not None
        name = match[0]
        rule = self._rules.get(name)
        if rule is None:
            raise _InvalidError(number, f"the DTD declares no element <{_shorten(name)}>")
        mentions = document.identifiers.mentions
        problem = rule.attributes.check(tag[match.end() :], document.identifiers, number)
        if problem is not None:
            code, words, hint = problem
            raise _InvalidError(number, f"<{_shorten(name)}> {words}", code, hint)
        is_empty = tag[-1] == "/"
        if is_empty and not rule.start.accepts:
            raise _InvalidError(number, f"<{_shorten(name)}> may not be empty", hint=_expected(rule.start))
        read = _Tag(name, rule.start, is_empty)
        if rule.start.text == NO_CONTENT and not is_empty:
            document.hollow.append(number)
        elif mentions == document.identifiers.mentions and self._has_room(tag):
            self._tags[tag] = read
        return read

    def _has_room(self, tag: str) -> bool:
        return len(tag) <= TAG_CHARS_MAX and len(self._tags) < self._tags_max

    def _locate(self, text: str, data: bytes, state: State, error: _InvalidError) -> DocumentError:
        """With the place, which is where its tag begins; and what is wrong, if that is not known yet."""
        open_names: list[str] = []
        match = None
        for number, match in enumerate(_TOKEN.finditer(text)):
            tag, other = match.group(2, 3)
            if number == error.number:
                break
            if tag and tag[-1] != "/":
                open_names.append(cast(Any, _TAG_NAME.match(tag))[0])
            elif not tag and not other:
                open_names.pop()
        assert match is not None
        inside = _shorten(open_names[-1]) if open_names else ""
        message, hint = error.message, error.hint
        if not message:
            hint = _expected(state)
            if match[1] or match[3]:
                is_empty = state.text == NO_CONTENT
                message = f"<{inside}> has to be empty" if is_empty else f"text may not stand in <{inside}>"
            elif match[2]:
                message = f"<{_shorten(cast(Any, _TAG_NAME.match(match[2]))[0])}> may not stand here in <{inside}>"
            else:
                message = f"<{inside}> ends too early"
        at = match.end(1)
        line = sum(1 for _ in _LINE_END.finditer(text, 0, at)) + 1
        before = text[:at].encode(encoding_of(data), "replace")
        offset = len(before) + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        return DocumentError(message, code=error.code, hint=hint, offset=offset, line=line)


def _each(text: str) -> Iterable[Token]:
    for match in _TOKEN.finditer(text):
        yield match.groups("")  # type: ignore[misc]


def _start(element: Element, anything: State, automata: Automata, declared_names: set[str]) -> State:
    if element.content == "any":
        return anything
    if element.content == "children":
        assert element.model is not None
        return automata.compile(element.model, declared_names)
    start = State(accepts=True, text=ANY_TEXT if element.content == "mixed" else NO_CONTENT)
    names = [name for name in particle_names(element.model) if name in declared_names]
    automata.count(len(names))
    start.update(dict.fromkeys(names, start))
    return start


def _check_hollow(text: str, numbers: Sequence[int]) -> None:
    """Whether nothing, not even a space, stands between these start tags and the next ones, their end tags."""
    hollow_numbers = set(numbers)
    if hollow_numbers:
        for number, match in enumerate(_TOKEN.finditer(text)):
            if number - 1 in hollow_numbers and match.end(1) > match.start():
                raise _InvalidError(number - 1, "an element that has to be empty contains white space")


def _shorten(name: str) -> str:
    return name[:NAME_CHARS_MAX]


def _expected(state: State) -> str:
    names = [f"<{_shorten(name)}>" for name in islice(sorted(state), SHOWN_MAX)]
    if state.accepts:
        names.append("its end tag")
    more = ", …" if len(state) > SHOWN_MAX else ""
    return f"expected {', '.join(names)}{more}"


# --- bytes ------------------------------------------------------------------------------------------------------------


def encoding_of(data: bytes) -> str:
    """Of a document that was read: what its first bytes and its declaration say."""
    if data.startswith((b"\xff\xfe", b"<\0")):
        return "utf-16-le"
    if data.startswith((b"\xfe\xff", b"\0<")):
        return "utf-16-be"
    declaration = _ENCODING.match(data)
    return declaration[1].decode("ascii") if declaration is not None else "utf-8"


def decode(data: bytes) -> str:
    """The text, without a byte order mark."""
    text = data.decode(encoding_of(data))
    return text[1:] if text.startswith("\ufeff") else text
