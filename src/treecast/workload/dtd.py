"""DTD -> declarations: everything needed to draw documents and queries from a DTD.

It reads element and attribute-list declarations, parameter entities inside and between declarations, conditional
sections, and parts in other files (`treecast.workload.dtd_source` says where it looks for them; missing ones are left
out and listed). It also reads general entities as far as default values use them, and the names of unparsed entities
and notations. The first declaration of a name counts. Comments and processing instructions are skipped.

    >>> from treecast.workload.dtd import read_dtd
    >>> declarations = read_dtd("<!ENTITY % x 'b | c'> <!ELEMENT a (%x;)*> <!ATTLIST a id ID #REQUIRED>")
    >>> element = declarations.elements["a"]
    >>> [item.name for item in element.model.items], element.attributes[0].required
    (['b', 'c'], True)

Codes: TC280 an invalid declaration, TC283 a file that cannot be read, TC380 a DTD over a limit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from treecast.workload.content_model import Attribute, Element, Group, Name, Occurs, Particle, particle_names
from treecast.workload.dtd_scanner import CHARS_MAX, NAME, NAME_MORE, Parameter, Scanner
from treecast.workload.dtd_source import Source, read_source

MODEL_NESTING_MAX = 100
ELEMENTS_MAX = 100_000
ATTRIBUTES_MAX = 1_000_000
VALUE_CHARS_MAX = 1 << 20
ENTITY_NESTING_MAX = 50

ATTRIBUTE_TYPES = ("CDATA", "ID", "IDREF", "IDREFS", "ENTITY", "ENTITIES", "NMTOKEN", "NMTOKENS")
_NAME = re.compile(NAME)
_NAME_TOKEN = re.compile(f"[{NAME_MORE}]+")
_KEYWORD = re.compile("<!([A-Z]+)")
_SECTION_MARK = re.compile(r"<!\[|\]\]>")
_ENTITY_REFERENCE = re.compile(rf"&({NAME});|&\#([0-9]{{1,9}});|&\#x([0-9a-fA-F]{{1,8}});")
_PREDEFINED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


@dataclass
class Declarations:
    """The declarations of a DTD. `missing` lists the parts that are not on disk and were left out."""

    elements: dict[str, Element] = field(default_factory=dict)
    unparsed_entities: tuple[str, ...] = ()
    notations: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def read_dtd(text: str, name: str = "DTD", chars_max: int = CHARS_MAX) -> Declarations:
    """The declarations of a DTD given as text; parts in other files are left out.

    `chars_max` is how much its parameter entities may expand to.
    """
    return _Reader(Source(name, text), chars_max=chars_max).read()


def read_dtd_file(path: Path, directories: Sequence[Path] = ()) -> Declarations:
    """The declarations of a DTD in a file, with its parts in the same directory or in one of `directories`."""
    return _Reader(read_source(path), directories).read()


class _Reader:
    """One pass over the DTD."""

    def __init__(self, source: Source, directories: Sequence[Path] = (), chars_max: int = CHARS_MAX) -> None:
        self.scanner = Scanner(source, directories, chars_max)
        self.fail = self.scanner.fail
        self.token = self.scanner.token
        self.elements: dict[str, Element] = {}
        self.attributes: dict[str, dict[str, Attribute]] = {}
        self.attribute_count = 0
        self.entities: dict[str, str] = {}
        self.unparsed_entities: dict[str, None] = {}
        self.notations: dict[str, None] = {}
        self.sections = 0

    def read(self) -> Declarations:
        scanner = self.scanner
        while (frame := scanner.skip_space()) is not None:
            if scanner.reference():
                continue
            if frame.text.startswith("<!--", frame.at):
                frame.at += 4
                scanner.skip_past("-->")
            elif frame.text.startswith("<?", frame.at):
                scanner.skip_past("?>")
            elif frame.text.startswith("<![", frame.at):
                frame.at += 3
                self.read_section()
            elif self.sections and frame.text.startswith("]]>", frame.at):
                frame.at += 3
                self.sections -= 1
            else:
                self.read_declaration()
        if self.sections:
            self.fail("expected ']]>' before the end of the DTD")
        if not self.elements:
            self.fail("the DTD declares no element")
        for name, attributes in self.attributes.items():
            if name in self.elements:
                self.elements[name] = replace(self.elements[name], attributes=tuple(attributes.values()))
        return Declarations(self.elements, tuple(self.unparsed_entities), tuple(self.notations), tuple(scanner.missing))

    def read_section(self) -> None:
        """`<![INCLUDE[ … ]]>` or `<![IGNORE[ … ]]>`; the keyword is often a parameter entity."""
        keyword = self.token()
        if keyword not in ("INCLUDE", "IGNORE") or self.token() != "[":
            self.fail("a conditional section begins with INCLUDE[ or IGNORE[")
        if keyword == "INCLUDE":
            self.sections += 1
            return
        frame = self.scanner.frames[-1]
        depth = 1
        while depth:
            mark = _SECTION_MARK.search(frame.text, frame.at)
            if mark is None:
                self.fail("expected ']]>' before the end of the DTD")
            frame.at = mark.end()
            depth += 1 if mark[0] == "<![" else -1

    def read_declaration(self) -> None:
        frame = self.scanner.frames[-1]
        keyword = _KEYWORD.match(frame.text, frame.at)
        if keyword is None:
            self.fail(f"expected a declaration, found {self.scanner.excerpt()}")
        frame.at = keyword.end()
        if keyword[1] == "ELEMENT":
            self.read_element()
        elif keyword[1] == "ATTLIST":
            self.read_attributes()
        elif keyword[1] == "ENTITY":
            self.read_entity()
        elif keyword[1] == "NOTATION":
            self.read_notation()
        else:
            self.fail(f"expected ELEMENT, ATTLIST, ENTITY or NOTATION, found '{keyword[1][:20]}'")
        if self.scanner.frames[-1] is not frame:
            self.fail("the declaration begins and ends in different entities")

    def name(self, what: str) -> str:
        token = self.token()
        if not _NAME.fullmatch(token):
            self.fail(f"{token[:40]!r} is no {what} name")
        return token

    def literal(self, what: str) -> str:
        token = self.token()
        if token[0] not in "\"'":
            self.fail(f"expected {what} in quotes, found {token[:40]!r}")
        return token[1:-1]

    def end(self, what: str) -> None:
        token = self.token()
        if token != ">":
            self.fail(f"expected the end of {what}, found {token[:40]!r}")

    # Elements.

    def read_element(self) -> None:
        name = self.name("element")
        token = self.token()
        if token == "EMPTY":
            element = Element(name, "empty")
        elif token == "ANY":
            element = Element(name, "any")
        elif token == "(":
            element = self.element(name, self.read_model(name))
        else:
            self.fail(f"the content model of '{name}' is not one group in parentheses, EMPTY or ANY")
        self.end(f"the declaration of '{name}'")
        if len(self.elements) >= ELEMENTS_MAX:
            self.fail(f"the DTD declares more than {ELEMENTS_MAX:,} elements", limit=True)
        self.elements.setdefault(name, element)

    def element(self, name: str, model: Group) -> Element:
        names = list(particle_names(model))
        if "#PCDATA" not in names:
            return Element(name, "children", model)
        is_plain = all(isinstance(item, Name) and item.occurs == "" for item in model.items)
        children = [item for item in names if item != "#PCDATA"]
        is_repeated = model.occurs == "*" and model.kind == "choice"
        is_text_alone = not children and len(names) == 1 and model.occurs in ("", "*")
        if (
            not is_plain
            or names[0] != "#PCDATA"
            or not (is_text_alone or (is_repeated and len(children) == len(names) - 1))
        ):
            self.fail(
                f"a content model with #PCDATA is written (#PCDATA) or (#PCDATA | a | b)*, unlike that of '{name}'"
            )
        if not children:
            return Element(name, "mixed")
        return Element(name, "mixed", Group("choice", tuple(Name(item) for item in dict.fromkeys(children)), "*"))

    def read_model(self, name: str) -> Group:
        """The rest of `(a, (b | c)*, d?)` after its first parenthesis. The stack of open groups holds the separators
        and the items so far."""
        stack: list[tuple[set[str], list[Particle]]] = [(set(), [])]
        expectation = "item"
        while True:
            token = self.token()
            separators, items = stack[-1]
            if token == "(" and expectation == "item":
                stack.append((set(), []))
                if len(stack) > MODEL_NESTING_MAX:
                    self.fail(f"the content model of '{name}' is nested deeper than {MODEL_NESTING_MAX}", limit=True)
            elif token[0] == ")" and expectation == "separator":
                kind: Literal["sequence", "choice"] = "choice" if "|" in separators else "sequence"
                group = Group(kind, tuple(items), cast(Occurs, token[1:]))
                stack.pop()
                if not stack:
                    return group
                stack[-1][1].append(group)
            elif token in ("|", ",") and expectation == "separator" and separators <= {token}:
                separators.add(token)
                expectation = "item"
            elif expectation == "item" and (token == "#PCDATA" or _NAME.match(token)):
                bare = token.rstrip("?*+")
                items.append(Name(bare, cast(Occurs, token[len(bare) :])))
                expectation = "separator"
            elif token == ">":
                self.fail(f"the content model of '{name}' has a parenthesis that is not closed")
            else:
                self.fail(
                    f"the content model of '{name}' mixes or misplaces ',' and '|', or has no meaning at {token!r}"
                )

    # Attributes.

    def read_attributes(self) -> None:
        element = self.name("element")
        attribute_by_name = self.attributes.setdefault(element, {})
        while (token := self.token()) != ">":
            if not _NAME.fullmatch(token):
                self.fail(f"{token[:40]!r} is no attribute name, in the attributes of '{element}'")
            attribute = self.attribute(element, token)
            self.attribute_count += 1
            if self.attribute_count > ATTRIBUTES_MAX:
                self.fail(f"the DTD declares more than {ATTRIBUTES_MAX:,} attributes", limit=True)
            attribute_by_name.setdefault(token, attribute)

    def attribute(self, element: str, name: str) -> Attribute:
        kind = self.token()
        values: tuple[str, ...] = ()
        if kind == "(":
            kind, values = "enumeration", self.read_enumeration(element, name)
        elif kind == "NOTATION":
            if self.token() != "(":
                self.fail(f"expected a list of notations for '{name}' of '{element}'")
            values = self.read_enumeration(element, name)
        elif kind not in ATTRIBUTE_TYPES:
            self.fail(f"the attributes of '{element}' have no meaning: {kind[:40]!r} is no type, for '{name}'")
        default = self.token()
        if default in ("#REQUIRED", "#IMPLIED"):
            return Attribute(name, kind, values, required=default == "#REQUIRED")
        is_fixed = default == "#FIXED"
        literal = self.token() if is_fixed else default
        if literal[0] not in "\"'":
            expected = "#REQUIRED, #IMPLIED, #FIXED or a value in quotes"
            self.fail(f"the attributes of '{element}' have no meaning: expected {expected} for '{name}'")
        value = self.default_value(literal[1:-1])
        if kind != "CDATA":
            value = " ".join(value.split())
        return Attribute(name, kind, values, fixed=value if is_fixed else None, default=value)

    def read_enumeration(self, element: str, name: str) -> tuple[str, ...]:
        values: dict[str, None] = {}
        while True:
            value = self.token()
            if not _NAME_TOKEN.fullmatch(value):
                self.fail(f"the values of '{name}' of '{element}' have no meaning at {value[:40]!r}")
            values.setdefault(value)
            separator = self.token()
            if separator == ")":
                return tuple(values)
            if separator != "|":
                self.fail(f"the values of '{name}' of '{element}' are not separated by '|'")

    def default_value(self, literal: str, nesting: int = 0) -> str:
        """An attribute value as a parser sees it: references replaced, white space as spaces."""

        def replace_reference(match: re.Match[str]) -> str:
            if match[1] is None:
                return self.scanner.character(int(match[2]) if match[2] is not None else int(match[3], 16))
            if match[1] in _PREDEFINED:
                return _PREDEFINED[match[1]]
            if match[1] not in self.entities:
                self.fail(f"the entity '&{match[1]};' is not declared")
            if nesting > ENTITY_NESTING_MAX:
                self.fail(f"the entity '&{match[1]};' refers to itself", limit=True)
            return self.default_value(self.entities[match[1]], nesting + 1)

        value = re.sub(r"\r\n|[\t\r\n]", " ", literal)
        if "&" in value:
            value = _ENTITY_REFERENCE.sub(replace_reference, value)
        self.scanner.count(len(value))
        if len(value) > VALUE_CHARS_MAX:
            self.fail(f"a default value has more than {VALUE_CHARS_MAX >> 20} million characters", limit=True)
        return value

    # Entities and notations.

    def read_entity(self) -> None:
        """Declare an entity; if there are two declarations, the first counts."""
        scanner = self.scanner
        token = self.token()
        parameter = token == "%"
        name = self.name("entity") if parameter else token
        if not _NAME.fullmatch(name):
            self.fail(f"{name[:40]!r} is no entity name")
        token = self.token()
        declared_in = scanner.source()
        if token in ("SYSTEM", "PUBLIC"):
            if token == "PUBLIC":
                self.literal("a public identifier")
            system = self.literal("a system identifier")
            token = self.token()
            if token == "NDATA" and not parameter:
                self.name("notation")
                self.unparsed_entities.setdefault(name)
                token = self.token()
            elif parameter:
                scanner.declare(Parameter(name, None, system, declared_in))
            if token != ">":
                self.fail(f"expected the end of the entity '{name}', found {token[:40]!r}")
            return
        if token[0] not in "\"'":
            self.fail(f"the entity '{name}' has no value")
        text = scanner.entity_value(token[1:-1])
        if parameter:
            scanner.declare(Parameter(name, text))
        else:
            self.entities.setdefault(name, text)
        self.end(f"the entity '{name}'")

    def read_notation(self) -> None:
        name = self.name("notation")
        kind = self.token()
        if kind not in ("SYSTEM", "PUBLIC"):
            self.fail(f"the notation '{name}' has no identifier")
        self.literal("an identifier")
        token = self.token()
        if token[0] in "\"'":
            token = self.token()
        if token != ">":
            self.fail(f"expected the end of the notation '{name}', found {token[:40]!r}")
        self.notations.setdefault(name)
