"""Checks of arguments at the public border: a wrong type is a TypeError in our words.

Native code checks types too, but describes its own functions, which no caller has ever seen. So each public method
checks what native code would refuse otherwise. For callers in this package.

    >>> check_integer("threads", 2.5, 1, 1024)
    Traceback (most recent call last):
    TypeError: threads must be an integer, got float
    >>> check_text("an id", None)
    Traceback (most recent call last):
    TypeError: an id is a str, not None
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any


def kind_of(value: object) -> str:
    """The type of a value, as messages name it."""
    return "None" if value is None else type(value).__name__


def check_text(what: str, value: object) -> None:
    """Raise a TypeError unless the value is a str; `what` has its article: "an id"."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {kind_of(value)}")


def check_integer(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The integer, from `least` to `most`. TypeError for another type, ValueError out of the range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {kind_of(value)}") from None
    if number < least or (most is not None and number > most):
        allowed = f"{least} or more" if most is None else f"{least}-{most}"
        raise ValueError(f"{name} must be {allowed}, got {number}")
    return number


def check_instance(name: str, value: object, kind: type, expected: str) -> None:
    """Raise a TypeError that says what was expected, unless the value is of this type, or None."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be {expected}, got {kind_of(value)}")


def check_texts(name: str, value: object, expected: str) -> dict[str, str]:
    """A mapping of strings to strings, as a dict; None is an empty one."""
    check_instance(name, value, Mapping, expected)
    assert value is None or isinstance(value, Mapping)
    texts = dict(value or {})
    for key, text in texts.items():
        if not isinstance(key, str) or not isinstance(text, str):
            wrong = key if not isinstance(key, str) else text
            raise TypeError(f"{name} must be {expected}, both str; {str(key)[:40]!r} has {kind_of(wrong)}")
    return texts


def check_namespaces(value: object) -> dict[str, str]:
    """Bindings of prefixes, as a dict; None is none. The prefix None of lxml's `nsmap` is "": unprefixed names.

    >>> check_namespaces({None: "urn:x"})
    {'': 'urn:x'}
    """
    if isinstance(value, Mapping) and None in value:
        if "" in value:
            raise ValueError('namespaces bind unprefixed names twice, as None and as ""')
        value = {"" if prefix is None else prefix: uri for prefix, uri in value.items()}
    return check_texts("namespaces", value, "a mapping of prefixes to URIs")


def check_ids(value: object) -> list[str]:
    """Ids, as a list. What is not a str in it is found by native code, which says so."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"ids are a list of str, not {kind_of(value)}")
    return list(value)
