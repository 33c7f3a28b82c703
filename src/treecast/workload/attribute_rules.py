"""What a DTD says about the attributes of an element: which there are, which are needed, what their values may be."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial

from treecast.workload.content_model import Attribute
from treecast.workload.dtd_scanner import NAME, NAME_MORE

INVALID, IDENTIFIER = "TC221", "TC222"
SHOWN_MAX = 8
VALUE_CHARS_MAX = 100
"""Of a value, in a message."""

_ATTRIBUTE = re.compile(r"""([^ \t\r\n=]++)[ \t\r\n]*+=[ \t\r\n]*+(?:"([^"]*+)"|'([^']*+)')""")
_NAME = re.compile(NAME)
_NAME_TOKEN = re.compile(f"[{NAME_MORE}]+")
_REFERENCE = re.compile(r"&(?:#([0-9]+)|#x([0-9A-Fa-f]+)|(\w+));")
_PREDEFINED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class Identifiers:
    """Those of one document, and who refers to them."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._references: dict[str, int] = {}
        self.mentions = 0
        """How often an identifier was given or referred to."""

    def add(self, value: str) -> bool:
        """Whether it is new."""
        self.mentions += 1
        if value in self._ids:
            return False
        self._ids.add(value)
        return True

    def refer(self, value: str, place: int) -> None:
        self.mentions += 1
        self._references.setdefault(value, place)

    def dangling(self) -> tuple[str, int] | None:
        """The first reference to an identifier that no element has, and its place."""
        return next(((value, place) for value, place in self._references.items() if value not in self._ids), None)


Check = Callable[[str, Identifiers, int], str]
"""Takes a value as it is written, and its place; returns what is wrong with it, or nothing."""


class ElementAttributes:
    """Those that an element may have."""

    def __init__(self, attributes: Sequence[Attribute], entities: Collection[str], notations: Collection[str]) -> None:
        self._checks = {attribute.name: _check_of(attribute, entities, notations) for attribute in attributes}
        self._required_names = tuple(attribute.name for attribute in attributes if attribute.required)

    def check(self, text: str, identifiers: Identifiers, place: int) -> tuple[str, str, str] | None:
        """The attributes as they stand in a tag. If they are invalid: a code, what is wrong, and a hint."""
        values = {name: double or single for name, double, single in _ATTRIBUTE.findall(text)} if text else {}
        for name, value in values.items():
            check = self._checks.get(name, _unknown)
            if check is not None and (problem := check(value, identifiers, place)):
                if check is _unknown:
                    names = ", ".join(list(self._checks)[:SHOWN_MAX])
                    hint = f"it may have {names}" if names else "it may have none"
                    return INVALID, f"may not have the attribute {_quote(name)}", hint
                code, words = problem[:5], problem[6:]
                return code, f"has an invalid attribute {_quote(name)}: {words}", ""
        for name in self._required_names:
            if name not in values:
                return INVALID, f"lacks the attribute {_quote(name)}", ""
        return None


def _unknown(value: str, identifiers: Identifiers, place: int) -> str:
    return INVALID


def _check_of(attribute: Attribute, entities: Collection[str], notations: Collection[str]) -> Check | None:
    """None: it may have any value."""
    kind, fixed = attribute.kind, attribute.fixed
    if kind == "CDATA":
        return None if fixed is None else partial(_check_fixed, fixed)
    if kind == "ID":
        return _check_id
    if kind in ("enumeration", "NOTATION"):
        allowed_values = [value for value in attribute.values if kind == "enumeration" or value in notations]
        return partial(
            _check_choice, frozenset(allowed_values), fixed, f"it is one of {', '.join(allowed_values[:SHOWN_MAX])}"
        )
    entity_names = frozenset(entities) if kind in ("ENTITY", "ENTITIES") else None
    pattern = _NAME_TOKEN if kind in ("NMTOKEN", "NMTOKENS") else _NAME
    is_list = kind in ("IDREFS", "ENTITIES", "NMTOKENS")
    return partial(_check_tokens, pattern, is_list, kind in ("IDREF", "IDREFS"), entity_names, fixed)


def _check_fixed(fixed: str, value: str, identifiers: Identifiers, place: int) -> str:
    return "" if _normalise_space(value) == fixed else f"{INVALID} it is always {_quote(fixed)}"


def _check_id(value: str, identifiers: Identifiers, place: int) -> str:
    text = _normalise_space(value).strip(" ")
    if not _NAME.fullmatch(text):
        return f"{INVALID} {_quote(text)} is no name"
    return "" if identifiers.add(text) else f"{IDENTIFIER} another element has the identifier {_quote(text)}"


def _check_choice(
    allowed: frozenset[str], fixed: str | None, hint: str, value: str, identifiers: Identifiers, place: int
) -> str:
    text = value if value in allowed else _normalise_space(value).strip(" ")
    if text not in allowed:
        return f"{INVALID} {hint}, not {_quote(text)}"
    return "" if fixed is None or text == fixed else f"{INVALID} it is always {_quote(fixed)}"


def _check_tokens(
    pattern: re.Pattern[str],
    is_list: bool,
    refers: bool,
    entity_names: frozenset[str] | None,
    fixed: str | None,
    value: str,
    identifiers: Identifiers,
    place: int,
) -> str:
    tokens = [token for token in _normalise_space(value).split(" ") if token]
    if not tokens or (len(tokens) > 1 and not is_list):
        return f"{INVALID} it has {'at least' if is_list else 'exactly'} one word, unlike {_quote(value)}"
    for token in tokens:
        if not pattern.fullmatch(token):
            return f"{INVALID} {_quote(token)} is no name"
        if entity_names is not None and token not in entity_names:
            return f"{INVALID} the DTD declares no unparsed entity {_quote(token)}"
        if refers:
            identifiers.refer(token, place)
    if fixed is not None and " ".join(tokens) != fixed:
        return f"{INVALID} it is always {_quote(fixed)}"
    return ""


def _quote(value: str) -> str:
    return repr(value[:VALUE_CHARS_MAX])


def _normalise_space(value: str) -> str:
    """As a parser reports it: white space as spaces, references replaced."""
    if "\n" in value or "\t" in value or "\r" in value:
        value = value.replace("\r\n", " ").replace("\n", " ").replace("\t", " ").replace("\r", " ")
    return _REFERENCE.sub(_character, value) if "&" in value else value


def _character(match: re.Match[str]) -> str:
    if match[3] is not None:
        return _PREDEFINED.get(match[3], match[0])
    return chr(int(match[1]) if match[1] is not None else int(match[2], 16))
