"""Messages in the words of the command line: flags instead of Python, and what a misspelt word may have meant.

>>> in_flags("hint: raise it with treecast.Limits(depth_max=…)")
'hint: raise it with --depth-max N'
>>> nearest("--fromat", ["--format", "--output"])
'--format'
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING

from treecast.document import Limits
from treecast.errors import TreecastError
from treecast.names import printable

if TYPE_CHECKING:
    from treecast import Index
    from treecast.document import Bytes

_LIMIT = re.compile(r"(?:treecast\.)?(?:Delivery)?Limits\((\w+)=…\)")
_BINDING = re.compile(r'namespaces=\{"([^"]*)": "…"\}, or (--namespace \S+) on the command line')
_RELATIVE = re.compile(r"hint: write /((\w+) (\S[^\n]*)) from the root element, or //\1 anywhere")
KEYWORDS = ("drop", "keep", "rename", "unwrap", "from", "for")
"""With which subscriptions begin that are no paths."""
_FLAGS = {field.name for field in fields(Limits)} | {"payload_bytes_max"}
"""Limits of which `treecast match` has a flag."""
ALIKE_MIN = 0.7
EXPLAINED_MAX = 20
EXPLAINED_BYTES_MAX = 1 << 20


def plural(value: int, noun: str) -> str:
    """
    >>> plural(1, "byte"), plural(1_234, "byte")
    ('1 byte', '1,234 bytes')
    """
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def in_flags(message: str) -> str:
    """The message with flags of `treecast match` where it names arguments of Python."""
    message = _LIMIT.sub(_as_flag, message)
    message = _BINDING.sub(r"\2", message)
    message = _RELATIVE.sub(_as_keyword, message)
    return message.replace('give its text with entities={…} or entities="html"', "add --entities html")


def _as_flag(found: re.Match[str]) -> str:
    name = found[1]
    return f"--{name.replace('_', '-')} N" if name in _FLAGS else found[0]


def _as_keyword(found: re.Match[str]) -> str:
    """What looks like a path from nowhere may begin with a misspelt word.

    >>> in_flags("hint: write /dropp //x from the root element, or //dropp //x anywhere")
    'hint: did you mean drop //x?'
    """
    meant = nearest(found[2], KEYWORDS)
    return f"hint: did you mean {meant} {found[3]}?" if meant else found[0]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that looks most like this one, if one does."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, ALIKE_MIN)), None)


def choice_message(word: str, known: Iterable[str]) -> str:
    """What to say about a command that does not exist.

    >>> choice_message("mtach", ["match", "explain"])
    "there is no command 'mtach'; did you mean 'match'?"
    """
    names = list(known)
    meant = nearest(word, names)
    rest = f"did you mean '{meant}'?" if meant else f"commands are {', '.join(names)}"
    return f"there is no command '{printable(word)}'; {rest}"


def option_message(unknown: list[str], known: Iterable[str]) -> str:
    """What to say about arguments that nothing takes. Only words with dashes can be misspelt options."""
    flags = [word.split("=", 1)[0] for word in unknown if word.startswith("-")] or unknown[:1]
    known = list(known)
    parts = []
    for flag in flags:
        meant = nearest(flag, known)
        parts.append(f"unknown option {printable(flag)}" + (f": did you mean {meant}?" if meant else ""))
    if any(word.startswith("-") for word in unknown):
        return ", ".join(parts)
    # The one word too many is often a query, as other tools take it.
    return f"unexpected: {' '.join(map(printable, unknown))}" + ("; a query follows -q" if "-q" in known else "")


def namespace_hint(index: Index, document: Bytes) -> str | None:
    """For documents that matched nothing: whether only a namespace kept this one from one of the first subscriptions.

    >>> import treecast
    >>> index = treecast.Index()
    >>> index.add("items", "/feed/item")
    >>> namespace_hint(index, b'<feed xmlns="urn:f"><item/></feed>')
    "nothing matched; 'items' would, but for its namespace: add --namespace =urn:f"
    """
    if len(document) > EXPLAINED_BYTES_MAX:
        return None
    for id in islice(index, EXPLAINED_MAX):
        try:
            miss = index.explain(document, id).miss
        except TreecastError:
            continue
        if miss is not None and miss.kind == "namespace" and miss.other is not None and miss.other.namespace:
            uri = printable(miss.other.namespace)
            if miss.namespace:
                return f"nothing matched; '{printable(id)}' asks for namespace {printable(miss.namespace)}, not {uri}"
            return f"nothing matched; '{printable(id)}' would, but for its namespace: add --namespace ={uri}"
    return None
