"""Dictionaries: names and attribute values that both ends of a link know by number.

A dictionary never changes. One that has learnt more is another one, with a higher version and a fingerprint of its
own, which every encoded document carries: a receiver that lacks it says so (TC487) and asks for it, and one that still
gets documents of the version before keeps both for a while (`Dictionaries`).

    >>> from treecast import read
    >>> dictionary = Dictionary.learn([read(b'<a><b x="1"/><b x="1"/></a>')], count_min=1)
    >>> dictionary.names, dictionary.values
    (('b', 'x', 'a'), ('1',))
    >>> Dictionary.from_bytes(dictionary.to_bytes()) == dictionary
    True

With a DTD (`treecast.workload.Schema`) every name that it declares has a number, and so have the values that it lists;
what was learnt comes first, because the first numbers take the fewest bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from treecast import _native
from treecast.document import Document
from treecast.errors import PeerError
from treecast.workload import Schema

NAMES_MAX = 4096
VALUES_MAX = 4096
BYTES_MAX = 256 << 10
VALUE_BYTES_MAX = 64
VERSIONS_MAX = 4
_MARKUP = frozenset('<&"\t\n\r')


@dataclass(frozen=True)
class Dictionary:
    """Names as documents spell them, prefixes included, and plain values of attributes."""

    names: tuple[str, ...]
    values: tuple[str, ...] = ()
    version: int = 1

    @classmethod
    def learn(
        cls,
        documents: Iterable[Document],
        *,
        schema: Schema | None = None,
        version: int = 1,
        names_max: int = NAMES_MAX,
        values_max: int = VALUES_MAX,
        bytes_max: int = BYTES_MAX,
        count_min: int = 2,
    ) -> Dictionary:
        """What occurs at least `count_min` times in a sample, the most frequent first, then what a DTD declares.

        Past a limit the rest is left out: what has no number is written out. Values are worth their place from two
        bytes on.
        """
        names, values = Counter[str](), Counter[str]()
        for document in documents:
            name_counts, value_counts = _native.spelled_counts(document.native)
            names.update(name_counts)
            values.update(value_counts)
        declared_names = list(_declared_names(schema)) if schema else []
        declared_values = list(_declared_values(schema)) if schema else []
        room = bytes_max
        chosen_names, room = _choose(names, declared_names, count_min, names_max, room)
        worthwhile = Counter({value: count for value, count in values.items() if value})
        chosen_values, _ = _choose(worthwhile, declared_values, count_min, values_max, room)
        return cls(chosen_names, chosen_values, version)

    @classmethod
    def of_schema(cls, schema: Schema, *, version: int = 1) -> Dictionary:
        """The names and the listed values of a DTD."""
        return cls.learn((), schema=schema, version=version)

    @cached_property
    def fingerprint(self) -> int:
        """Four bytes that tell it from others; every document that was encoded with it carries them."""
        return int.from_bytes(hashlib.blake2s(self.to_bytes(), digest_size=4).digest(), "little")

    @cached_property
    def native(self) -> _native.WireDictionary:
        """The form that native code takes. ValueError where something is no name or no plain value."""
        return _native.WireDictionary(list(self.names), list(self.values), self.fingerprint)

    def to_bytes(self) -> bytes:
        """The form in which it travels."""
        text = json.dumps([self.version, self.names, self.values], ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")

    @classmethod
    def from_bytes(cls, data: bytes, *, bytes_max: int = 4 * BYTES_MAX) -> Dictionary:
        """A dictionary that the other side sent; PeerError (TC487) where it is none, or too large."""
        if len(data) > bytes_max:
            raise unusable(f"it has {len(data):,} bytes, more than the limit, {bytes_max:,}")
        try:
            version, names, values = json.loads(data)
            dictionary = cls(_texts(names), _texts(values), version)
            if type(version) is not int or not 0 < version < 1 << 32:
                raise ValueError("its version is no number")
            dictionary.native  # noqa: B018  (it checks names and values)
        except (ValueError, TypeError, RecursionError) as error:
            raise unusable(str(error)[:200]) from None
        return dictionary


class Dictionaries:
    """The versions that one end of a link knows: the newest to encode with, some older ones to decode with."""

    def __init__(self, *, versions_max: int = VERSIONS_MAX) -> None:
        if versions_max < 1:
            raise ValueError(f"versions_max must be 1 or more, got {versions_max}")
        self.versions_max = versions_max
        self._by_fingerprint: dict[int, Dictionary] = {}

    def __len__(self) -> int:
        return len(self._by_fingerprint)

    def __iter__(self) -> Iterator[Dictionary]:
        return iter(self._by_fingerprint.values())

    @property
    def newest(self) -> Dictionary | None:
        """The one with the highest version; of equal ones the last that came."""
        return max(reversed(self._by_fingerprint.values()), key=lambda one: one.version, default=None)

    def add(self, dictionary: Dictionary) -> None:
        """Keep one more; past the limit the one with the lowest version goes."""
        self._by_fingerprint[dictionary.fingerprint] = dictionary
        while len(self._by_fingerprint) > self.versions_max:
            oldest = min(self._by_fingerprint.values(), key=lambda one: one.version)
            del self._by_fingerprint[oldest.fingerprint]

    def find(self, fingerprint: int) -> Dictionary:
        """The one that a document was encoded with; PeerError (TC487) where it is not known here."""
        dictionary = self._by_fingerprint.get(fingerprint)
        if dictionary is None:
            raise unusable(f"no dictionary with the fingerprint {fingerprint:08x} is known here")
        return dictionary


def unusable(why: str) -> PeerError:
    """The error for a dictionary that is not known, or is none."""
    return PeerError(
        f"TC487 the dictionary of a link cannot be used: {why}",
        code="TC487",
        hint="ask the other side for its dictionary, or agree on another format",
    )


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("names and values are lists of texts")
    return tuple(value)


def _choose(
    counts: Counter[str], declared: list[str], count_min: int, count_max: int, bytes_max: int
) -> tuple[tuple[str, ...], int]:
    """The most frequent, then the declared ones, as far as both limits allow; and the bytes that are left."""
    texts_by_count = sorted(
        (text for text in counts if counts[text] >= count_min), key=lambda text: (-counts[text], text)
    )
    choice: dict[str, None] = {}
    for text in (*texts_by_count, *declared):
        size = len(text.encode())
        if text in choice or size > bytes_max:
            continue
        if len(choice) == count_max:
            break
        choice[text] = None
        bytes_max -= size
    return tuple(choice), bytes_max


def _declared_names(schema: Schema) -> Iterator[str]:
    yield from schema.elements
    for element in schema.elements.values():
        yield from (attribute.name for attribute in element.attributes)


def _declared_values(schema: Schema) -> Iterator[str]:
    for element in schema.elements.values():
        for attribute in element.attributes:
            for value in (*attribute.values, attribute.fixed, attribute.default):
                if value and len(value.encode()) <= VALUE_BYTES_MAX and not _MARKUP & set(value):
                    yield value
