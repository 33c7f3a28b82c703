"""DTD text -> element declarations.

Reads what it takes to draw documents from a DTD: element and attribute-list declarations with parameter entities,
inside declarations and between them. General entities, notations, comments and processing instructions are passed
over. Nothing outside the text is ever fetched: a reference to an external parameter entity is refused, and so are
conditional sections.

    >>> from treecast.workload.dtd import read_dtd
    >>> elements = read_dtd("<!ENTITY % x 'b | c'> <!ELEMENT a (%x;)*> <!ATTLIST a id ID #REQUIRED>")
    >>> [item.name for item in elements["a"].model.items], elements["a"].attributes[0].required
    (['b', 'c'], True)
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn, cast

from treecast.errors import DocumentError, DocumentLimitError
from treecast.workload.schema import Attribute, Element, Group, Name, Occurs, Particle

# Declarations in all, after parameter entities were replaced: a bomb is refused, the largest real DTDs need 2 MB.
EXPANDED_CHARS_MAX = 16 << 20
NESTING_MAX = 200

_NAME = r"[^\s<>&%;'\"()|,?*+#\[\]]+"
_SPACE = re.compile(r"\s*")
_REFERENCE = re.compile(rf"%({_NAME});")
_LITERAL_OR_REFERENCE = re.compile(rf"\"[^\"]*\"|'[^']*'|%({_NAME});")
_DECLARATION_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|>")
_ENTITY = re.compile(rf"%\s+({_NAME})\s+(?:(\"[^\"]*\"|'[^']*')|(SYSTEM|PUBLIC)\b)")
_MODEL_TOKEN = re.compile(rf"\s*(?:(#PCDATA|{_NAME})([?*+]?)|(\()|(\)[?*+]?)|([|,]))")
_ATTRIBUTE = re.compile(
    rf"\s*({_NAME})\s+(?:NOTATION\s*)?(?:\(([^)]*)\)|({_NAME}))\s*"
    r"(?:(#REQUIRED|#IMPLIED)|(#FIXED\s+)?(\"[^\"]*\"|'[^']*'))"
)


def read_dtd(text: str) -> dict[str, Element]:
    """The element declarations of a DTD, by name, in their order. The first declaration of a name counts."""
    return _Reader(text).read()


class _Reader:
    """One pass over the text; `place` is where the declaration at hand begins in the text as given."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.expanded_chars = 0
        self.parameters: dict[str, str | None] = {}
        self.elements: dict[str, Element] = {}
        self.attributes: dict[str, dict[str, Attribute]] = {}

    def read(self) -> dict[str, Element]:
        self.read_declarations(self.text, 0)
        if not self.elements:
            self.fail("the DTD declares no element")
        for name, attributes in self.attributes.items():
            if name in self.elements:
                self.elements[name] = replace(self.elements[name], attributes=tuple(attributes.values()))
        return self.elements

    def fail(self, message: str) -> NoReturn:
        offset = len(self.text[: self.place].encode())
        line = len(re.findall(r"\r\n|\r|\n", self.text[: self.place])) + 1
        raise DocumentError(message, code="TC290", offset=offset, line=line)

    def read_declarations(self, text: str, nesting: int) -> None:
        at = 0
        while True:
            at = cast(re.Match[str], _SPACE.match(text, at)).end()
            if nesting == 0:
                self.place = at
            if at >= len(text):
                return
            if reference := _REFERENCE.match(text, at):
                at = reference.end()
                self.read_declarations(self.parameter(reference[1], nesting), nesting + 1)
            elif text.startswith("<!--", at):
                at = self.skip(text, at + 4, "-->")
            elif text.startswith("<?", at):
                at = self.skip(text, at + 2, "?>")
            elif text.startswith("<![", at):
                self.fail("conditional sections are not read")
            elif text.startswith("<!", at):
                at = self.read_declaration(text, at + 2)
            else:
                self.fail(f"expected a declaration, found {text[at : at + 20]!r}")

    def skip(self, text: str, at: int, end: str) -> int:
        found = text.find(end, at)
        if found < 0:
            self.fail(f"expected {end!r} before the end of the DTD")
        return found + len(end)

    def read_declaration(self, text: str, at: int) -> int:
        end = at
        while token := _DECLARATION_TOKEN.search(text, end):
            end = token.end()
            if token[0] == ">":
                break
        else:
            self.fail("the declaration does not end")
        keyword, body = _first_word(text[at : end - 1])
        if keyword == "ENTITY":
            self.read_entity(body)
        elif keyword == "ELEMENT":
            self.read_element(self.expand(body, outside_literals=True))
        elif keyword == "ATTLIST":
            self.read_attributes(self.expand(body, outside_literals=True))
        elif keyword != "NOTATION":
            self.fail(f"expected ELEMENT, ATTLIST, ENTITY or NOTATION, found {keyword[:20]!r}")
        return end

    def parameter(self, name: str, nesting: int) -> str:
        if name not in self.parameters:
            self.fail(f"the parameter entity '%{name};' is not declared")
        value = self.parameters[name]
        if value is None:
            self.fail(f"the parameter entity '%{name};' is external, and nothing is fetched")
        self.expanded_chars += len(value) + 2
        if self.expanded_chars > EXPANDED_CHARS_MAX or nesting > NESTING_MAX:
            raise DocumentLimitError("the parameter entities of the DTD expand without end", code="TC390")
        return value

    def expand(self, text: str, *, outside_literals: bool) -> str:
        """Replace parameter entities; their values were expanded when they were declared, so once is enough."""

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            if name is None:
                return match[0]
            # Inside a declaration the value is padded, so that names on both sides stay apart.
            return f" {self.parameter(name, 0)} " if outside_literals else self.parameter(name, 0)

        return (_LITERAL_OR_REFERENCE if outside_literals else _REFERENCE).sub(value_of, text)

    def read_entity(self, body: str) -> None:
        if not body.startswith("%"):
            return
        match = _ENTITY.match(body)
        if match is None:
            self.fail("this parameter entity has no name or no value")
        value = match[2]
        expanded = None if value is None else self.expand(value[1:-1], outside_literals=False)
        self.parameters.setdefault(match[1], expanded)

    def read_element(self, body: str) -> None:
        name, model = _first_word(body)
        if not re.fullmatch(_NAME, name):
            self.fail(f"{name[:40]!r} is no element name")
        self.elements.setdefault(name, self.element(name, model))

    def element(self, name: str, model: str) -> Element:
        if model == "EMPTY":
            return Element(name, "empty")
        if model == "ANY":
            return Element(name, "any")
        particle = self.read_model(name, model)
        names = [item.name for item in _flat(particle) if item.name != "#PCDATA"]
        if len(names) == len(_flat(particle)):
            return Element(name, "children", particle)
        if not names:
            return Element(name, "mixed")
        return Element(name, "mixed", Group("choice", tuple(Name(item) for item in dict.fromkeys(names)), "*"))

    def read_model(self, name: str, model: str) -> Particle:
        """Parse `(a, (b | c)*, d?)` with a stack of open groups: (separator so far, items)."""
        stack: list[tuple[list[str], list[Particle]]] = [([], [])]
        at = 0
        while at < len(model):
            token = _MODEL_TOKEN.match(model, at)
            if token is None:
                self.fail(f"the content model of '{name}' has no meaning at {model[at : at + 20]!r}")
            at = token.end()
            separators, items = stack[-1]
            if token[1]:
                items.append(Name(token[1], cast(Occurs, token[2])))
            elif token[3]:
                stack.append(([], []))
                if len(stack) > NESTING_MAX:
                    raise DocumentLimitError(f"the content model of '{name}' is nested too deeply", code="TC390")
            elif token[4]:
                stack.pop()
                if not stack or not items or len(set(separators)) > 1 or len(separators) != len(items) - 1:
                    self.fail(f"the content model of '{name}' mixes or misplaces ',' and '|'")
                occurs = cast(Occurs, token[4][1:])
                stack[-1][1].append(Group("choice" if "|" in separators else "sequence", tuple(items), occurs))
            else:
                separators.append(token[5])
        if len(stack) != 1 or len(stack[0][1]) != 1 or stack[0][0] or not isinstance(stack[0][1][0], Group):
            self.fail(f"the content model of '{name}' is not one group in parentheses, EMPTY or ANY")
        return stack[0][1][0]

    def read_attributes(self, body: str) -> None:
        name, rest = _first_word(body)
        known = self.attributes.setdefault(name, {})
        at = 0
        while at < len(rest):
            match = _ATTRIBUTE.match(rest, at)
            if match is None:
                self.fail(f"the attributes of '{name}' have no meaning at {rest[at : at + 30].strip()!r}")
            at = match.end()
            values = tuple(value.strip() for value in match[2].split("|")) if match[2] is not None else ()
            fixed = match[6][1:-1] if match[5] else None
            kind = match[3] or "enumeration"
            known.setdefault(match[1], Attribute(match[1], kind, values, match[4] == "#REQUIRED", fixed))


def _first_word(text: str) -> tuple[str, str]:
    parts = re.split(r"\s+", text.strip(), maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else ""


def _flat(particle: Particle) -> list[Name]:
    if isinstance(particle, Name):
        return [particle]
    return [name for item in particle.items for name in _flat(item)]
