"""Messages in the words of the command line: what the reader can type where they are, and what a misspelt word meant.

Errors name settings as Python does. A verb's `Words` say what its reader types for each of them; what a verb does not
have is not named.

>>> in_words("TC302 …\\n  hint: raise it with treecast.Limits(depth_max=…)", {"depth_max": "--depth-max N"})
'TC302 …\\n  hint: raise it with --depth-max N'
>>> in_words("TC330 …\\n  hint: raise it with DeliveryLimits(bindings_max=…), or deliver less", {})
'TC330 …\\n  hint: deliver less'
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from treecast.errors import TreecastError
from treecast.names import nearest, printable

if TYPE_CHECKING:
    from treecast import Index
    from treecast.document import Bytes

Words = Mapping[str, str]
"""What a reader can type for a setting, by its name in Python: {"depth_max": "--depth-max N"}."""

_HINT = re.compile(r"\n  hint: ([^\n]*)")
_LIMIT = re.compile(r"(\bthe limit )?\b(\w+_max)\b(?(1)| must be)")
_TOO_LONG = re.compile(r"TC301 the document ")
_SETTINGS = re.compile(r"(?:\w+\.)*[A-Z]\w*\(((?:\w+=[…0-9]+(?:, )?)+)\)")
_RAISE = re.compile(r"\braise (\w+_max)\b")
_BINDING = re.compile(r'bind it: namespaces=\{"([^"]*)": "…"\}, or --namespace \S+ on the command line')
_TIMES = re.compile(r"add \?subscription=… (1 to [0-9,]+) times")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_OF_OTHER_VERB = re.compile(r"\btreecast [a-z]+[^,;]*")
_RELATIVE = re.compile(r"hint: write /((\w+) (\S[^\n]*)) from the root element, or //\1 anywhere")
KEYWORDS = ("drop", "keep", "rename", "unwrap", "from", "for")
"""With which subscriptions begin that are no paths."""
EXPLAINED_MAX = 20
EXPLAINED_BYTES_MAX = 1 << 20


def plural(value: int, noun: str) -> str:
    """
    >>> plural(1, "byte"), plural(1_234, "byte")
    ('1 byte', '1,234 bytes')
    """
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def words_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The options of a verb, by the names of the settings that they are."""
    words = {}
    for action in parser._actions:
        if action.option_strings:
            flag = max(action.option_strings, key=len)
            words[action.dest] = f"{flag} {action.metavar}" if action.metavar else flag
    if "document_bytes_max" in words:
        words["record_bytes_max"] = words["document_bytes_max"]  # of a file of records, the records are the documents
    return words


def in_words(message: str, words: Words) -> str:
    """The message with what the reader can type where it names settings of Python, and without what they cannot."""
    message = _RELATIVE.sub(_as_keyword, message)
    message = _LIMIT.sub(lambda found: _limit(found, words), message)
    message = _BINDING.sub(lambda found: _binding(found[1], words), message)
    splits = bool(_TOO_LONG.search(message)) and "record" in words
    return _HINT.sub(lambda found: _hint(found[1], words, splits=splits), message)


def _limit(found: re.Match[str], words: Words) -> str:
    """A limit that the message names: "the limit depth_max", or "depth_max must be"."""
    option = words.get(found[2], "").split()[:1]
    return " ".join(["the limit", *option] if found[1] else [*(option or [found[2]]), "must be"])


def _hint(hint: str, words: Words, *, splits: bool) -> str:
    """The line of a hint; empty where nothing is left of it. Its alternatives stand between `, or`."""
    alternatives = [one for one in (_alternative(text, words) for text in hint.split(", or ")) if one]
    if splits:
        alternatives.append(f"split it with {words['record']}")
    return f"\n  hint: {', or '.join(alternatives)}" if alternatives else ""


def _binding(prefix: str, words: Words) -> str:
    if "namespace" not in words:
        return "bind it in the namespaces of the subscription"
    return "bind it: " + words["namespace"].replace("P=URI", f"{prefix}=…")


def _alternative(text: str, words: Words) -> str:
    """One way out; empty where it names what the reader cannot type."""
    match text:
        case 'give its text with entities={…} or entities="html"':
            return f"add {words['entities']}" if "entities" in words else ""
        case "give its format":
            return f"give {words['subscriptions_format']}" if "subscriptions_format" in words else ""
        case "send the header Authorization: Bearer tc_…":
            return f"set TREECAST_TOKEN, or give {words['token']}" if "token" in words else ""
        case "set allow_empty if it may select nothing":
            if "allow_empty" in words:
                return "add --allow-empty if it may select nothing"
            return "treecast selective grant … --allow-empty if it may select nothing"
        case "send the header Treecast-Source":
            return f"name it with {words['source']}" if "source" in words else ""
        case _:
            pass
    text = _TIMES.sub(r"name \1 subscriptions", text)
    for pattern, before in ((_SETTINGS, ""), (_RAISE, "raise it with ")):
        for found in pattern.finditer(text):
            known = [words[name] for name in re.findall(r"\w+_max", found[1]) if name in words]
            if not known:
                return ""
            text = text.replace(found[0], before + ", ".join(known))
    options = {typed.split()[0] for typed in words.values()}
    return text if set(_OPTION.findall(_OF_OTHER_VERB.sub("", text))) <= options else ""


def _as_keyword(found: re.Match[str]) -> str:
    """What looks like a path from nowhere may begin with a misspelt word.

    >>> in_words("TC104 …\\n  hint: write /dropp //x from the root element, or //dropp //x anywhere", {})
    'TC104 …\\n  hint: did you mean drop //x?'
    """
    meant = nearest(found[2], KEYWORDS)
    return f"hint: did you mean {meant} {found[3]}?" if meant else found[0]


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
