"""Routing queries: what a broker wants of a root's documents, as a disjunction of conjunctions of absolute paths.

ONYX, section 4.2.1. A *conjunction* is a tuple of absolute linear paths that a document has to match, each somewhere;
the empty one is true of every document. A *routing query* is a set of conjunctions, of which a document has to match
one; the empty one wants nothing. A *delta* is what was added to a routing query and what was removed from it.

A path is a tuple of tokens, so that it can be taken apart without a parser: `/name` or `//name` for a step, after it
`[test]` for each test of the step's own values. A name in a namespace has its URI before it, between two characters
that no query holds; so tokens mean the same everywhere, and prefixes are made only where a query text is written.
In exact mode a conjunction has one more path, a single token: `?` and the whole tree pattern.

A *set form* is a conjunction with holes, such as `[#@code]`, and stands for many that have a value there. The values
are beside it, hashed to 5 bytes each (`value_sets.py`). A delta may add values to a set form, or remove some.

    >>> query = RoutingQuery.of([(("/nitf", "/head", '[@lang="en"]'), ("/nitf", "//p"))])
    >>> print(query)
    /nitf/head[@lang="en"] and /nitf//p
    >>> RoutingQuery.decode(query.encode()) == query
    True
    >>> write_query(query.conjunctions[0])
    ('/nitf[head[@lang="en"]][.//p]', {})
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from treecast import _native
from treecast.errors import PeerError

Path: TypeAlias = tuple[str, ...]
Conjunction: TypeAlias = tuple[Path, ...]

TRUE: Conjunction = ()
URI, LOCAL = "\x01", "\x02"  # around the URI of a name
XML = "http://www.w3.org/XML/1998/namespace"
PATTERN = "?"  # before a tree pattern, in exact mode
HOLE = "[#"  # how a test begins whose values are in a set
HASH_BYTES = 5  # of a value

Hole: TypeAlias = tuple[str, str]
"""The name test of elements, and of which value of theirs: `@name`, or `.`."""
ValueRow: TypeAlias = tuple[Conjunction, tuple[bytes, ...]]
"""A set form, and for each of its holes hashes of values, in order."""

_HOLE_TOKEN = re.compile(rf"\[#(\.|@(?:{URI}[^{LOCAL}]*{LOCAL})?[^=!<>()\[\]*, ]+)\]")
_NAMESPACE = re.compile(f"{URI}([^{LOCAL}]*){LOCAL}")
_NAMED = re.compile(f"{URI}[^{URI}{LOCAL}]*{LOCAL}(?=[^{URI}{LOCAL}])")
_LITERAL = re.compile(r"""\"[^"]*"|'[^']*'""")
_NAME = r"""[^][\s/()|=<>!,:@'".][^][\s/()|=<>!,:@'"]*"""
_STEP = re.compile(rf"//?{_NAME}|//@{_NAME}|//text\(\)")
_PLAIN_TEST = re.compile(rf"""\[[^][{URI}{LOCAL}'"]*("[^"{URI}{LOCAL}]*")?\]""")
_ENCODER = msgspec.msgpack.Encoder()


class _Wire(msgspec.Struct, frozen=True, array_like=True):
    """How routing queries travel: each token once, and paths as numbers of tokens."""

    tokens: list[str]
    conjunctions: list[list[list[int]]]
    sets: list[tuple[list[list[int]], list[bytes]]] = []


_DECODER = msgspec.msgpack.Decoder(_Wire)


class RoutingQuery(msgspec.Struct, frozen=True):
    """A disjunction: conjunctions in order, each once. Make it by `of`; equal ones have equal conjunctions."""

    conjunctions: tuple[Conjunction, ...] = ()
    sets: tuple[ValueRow, ...] = ()
    """The values of set forms, in order. In a delta: those that change."""

    @classmethod
    def of(cls, conjunctions: Iterable[Conjunction], sets: Iterable[ValueRow] = ()) -> RoutingQuery:
        """The query that wants what one of these wants."""
        return cls(tuple(sorted(dict.fromkeys(conjunctions))), tuple(sorted(sets)))

    @property
    def is_true(self) -> bool:
        """Whether it wants every document."""
        return TRUE in self.conjunctions

    @property
    def values(self) -> int:
        """How many values its sets have."""
        return sum(len(values) for _, row in self.sets for values in row) // HASH_BYTES

    def __len__(self) -> int:
        return len(self.conjunctions)

    def __bool__(self) -> bool:
        return bool(self.conjunctions or self.sets)

    def __str__(self) -> str:
        return " or ".join(describe(conjunction) for conjunction in self.conjunctions) or "nothing"

    def encode(self) -> bytes:
        """The compact form in which it travels."""
        numbers: dict[str, int] = {}

        def row(conjunction: Conjunction) -> list[list[int]]:
            return [[numbers.setdefault(token, len(numbers)) for token in path] for path in conjunction]

        rows = [row(conjunction) for conjunction in self.conjunctions]
        sets = [(row(form), list(values)) for form, values in self.sets]
        return _ENCODER.encode(_Wire(list(numbers), rows, sets))

    @classmethod
    def decode(cls, data: bytes) -> RoutingQuery:
        """What `encode` wrote; raises a PeerError for anything else."""
        try:
            wire = _DECODER.decode(data)
            conjunctions = [_conjunction(row, wire.tokens) for row in wire.conjunctions]
            sets = [(_conjunction(row, wire.tokens), tuple(values)) for row, values in wire.sets]
        except (msgspec.MsgspecError, ValueError, IndexError):  # ValueError: a token that is no UTF-8
            raise PeerError("a routing query cannot be decoded", code="TC404") from None
        is_right = all(map(is_whole, wire.tokens)) and all(map(is_well_formed, conjunctions))
        if is_right and any(map(_is_leaf, wire.tokens)):
            is_right = not any(map(goes_on, (*conjunctions, *dict(sets))))
        if not is_right:
            raise PeerError("a routing query holds something that is not a path", code="TC404")
        if not all(_is_value_row(form, values) for form, values in sets):
            raise PeerError("a routing query holds something that is not a set of values", code="TC404")
        return cls.of(conjunctions, dict(sets).items())


def _conjunction(row: list[list[int]], tokens: list[str]) -> Conjunction:
    if any(number < 0 for path in row for number in path):
        raise IndexError
    return tuple([tuple([tokens[number] for number in path]) for path in row])


def _is_value_row(form: Conjunction, values: tuple[bytes, ...]) -> bool:
    """Whether these are the values of a set form: for each hole hashes, in order."""
    if not is_well_formed(form) or not has_hole(form) or len(values) != len(holes_of(form)):
        return False
    return all(len(hashes) % HASH_BYTES == 0 and _native.sorted_values(hashes) == hashes for hashes in values)


class Delta(msgspec.Struct, frozen=True):
    """How a routing query changed: apply both parts at once.

    Values of a set form that is removed, are removed with it.
    """

    added: RoutingQuery = RoutingQuery()
    removed: RoutingQuery = RoutingQuery()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    @classmethod
    def between(cls, before: RoutingQuery, after: RoutingQuery) -> Delta:
        """What has to be told to somebody who knows one of them, and is to know the other."""
        old, new = set(before.conjunctions), set(after.conjunctions)
        known = dict(before.sets)
        more: list[ValueRow] = []
        less: list[ValueRow] = []
        for form, values in after.sets:
            if form not in known:
                more.append((form, values))
                continue
            came = tuple(map(_native.value_difference, values, known[form]))
            went = tuple(map(_native.value_difference, known[form], values))
            more += [(form, came)] if any(came) else []
            less += [(form, went)] if any(went) else []
        return cls(RoutingQuery.of(new - old, more), RoutingQuery.of(old - new, less))

    def apply(self, query: RoutingQuery) -> RoutingQuery:
        """The query after the change."""
        gone = set(self.removed.conjunctions)
        kept = [conjunction for conjunction in query.conjunctions if conjunction not in gone]
        sets = {form: values for form, values in query.sets if form not in gone}
        for form, values in self.removed.sets:
            sets[form] = tuple(map(_native.value_difference, sets[form], values))
        for form, values in self.added.sets:
            before = sets.get(form, (b"",) * len(values))
            sets[form] = tuple(_native.sorted_values(old + new) for old, new in zip(before, values, strict=True))
        return RoutingQuery.of([*kept, *self.added.conjunctions], sets.items())


@lru_cache(maxsize=1 << 14)
def holes_of(form: Conjunction) -> tuple[Hole, ...]:
    """The holes of a set form, each once, in order: those of the same value of elements of one name share a set.

    >>> holes_of((("/news", "/item", "[#@code]", '[@lang="en"]'),))
    (('item', '@code'),)
    """
    found: dict[Hole, None] = {}
    for path in form:
        name = ""
        for token in path:
            if token[0] == "/":
                name = token.lstrip("/")
            elif match := _HOLE_TOKEN.fullmatch(token):
                found[name, match[1]] = None
    return tuple(sorted(found))


def without_holes(form: Conjunction) -> Conjunction:
    """What a set form wants, whatever the values."""
    paths = {tuple([token for token in path if not token.startswith(HOLE)]) for path in form}
    return tuple(sorted(path for path in paths if path not in (("/*",), ("//*",))))


def has_hole(conjunction: Conjunction) -> bool:
    """Whether it is a set form."""
    for path in conjunction:
        for token in path:
            if token.startswith(HOLE):
                return True
    return False


def is_well_formed(conjunction: Conjunction) -> bool:
    """Whether its paths are not empty and begin with a step; what the tokens say is for the parser of queries."""
    for path in conjunction:
        if not path or any(not token for token in path):
            return False
        if path[0][0] == PATTERN:
            if len(path) > 1 or len(path[0]) < 2:
                return False
        elif path[0][0] != "/" or any(token[0] not in "/[" for token in path):
            return False
        if any(token.startswith(HOLE) and _HOLE_TOKEN.fullmatch(token) is None for token in path):
            return False
    return True


def goes_on(conjunction: Conjunction) -> bool:
    """Whether something is to be below an attribute or a text."""
    return any(_is_leaf(step) for path in conjunction for step in [token for token in path if token[0] == "/"][:-1])


def _is_leaf(token: str) -> bool:
    return token == "//text()" or token[:3] == "//@"


def is_whole(token: str) -> bool:
    """Whether a token is a step of those that `map` writes, a test, or a tree pattern: others may be a query where they
    stand one after the other, and none once some of them are left out.

    >>> [is_whole(token) for token in ("/a", "//@\x01u\x02b", "/*[local-name()='c']", '[@x="]"]', "/", "[b[c", "/a|")]
    [True, True, True, True, False, False, False]
    """
    if _PLAIN_TEST.fullmatch(token) or token.startswith(PATTERN):
        return True
    bare = _LITERAL.sub("", _NAMED.sub("", token))
    step, _, tests = bare.partition("[")
    depth = 1 if len(step) < len(bare) else 0
    for place, mark in enumerate(tests, 1):
        depth += (mark == "[") - (mark == "]")
        if not depth and place < len(tests) and tests[place] != "[":
            return False
    is_marked = any(mark in bare for mark in (URI, LOCAL, '"', "'"))
    return not depth and not is_marked and bool(bare) and (not step or _STEP.fullmatch(step) is not None)


def describe(conjunction: Conjunction) -> str:
    """A conjunction for people."""
    text = " and ".join("".join(path).removeprefix(PATTERN) for path in conjunction) or "true"
    return _NAMESPACE.sub(r"{\1}", text)


def pattern_of(conjunction: Conjunction) -> str | None:
    """The tree pattern of a conjunction in exact mode."""
    for path in conjunction:
        if path[0][0] == PATTERN:
            return path[0][1:]
    return None


def write_query(conjunction: Conjunction) -> tuple[str, dict[str, str]]:
    """A query that matches the same documents, and the namespaces of its prefixes.

    A document has one root element, so the paths become branches of one tree pattern at it: the shared machines match
    those, while they check absolute paths in predicates one by one. Of a hole it says that there is a value.
    """
    if has_hole(conjunction):
        conjunction = tuple([tuple([_presence(token) for token in path if token != "[#.]"]) for path in conjunction])
    text = pattern_of(conjunction) or _one_pattern(conjunction)
    if URI not in text:
        return text, {}
    prefixes: dict[str, str] = {XML: "xml"}  # which is bound by itself
    text = _NAMESPACE.sub(lambda found: prefixes.setdefault(found[1], f"n{len(prefixes)}") + ":", text)
    return text, {prefix: uri for uri, prefix in prefixes.items() if uri != XML}


def _presence(token: str) -> str:
    return f"[{token[2:]}" if token.startswith(HOLE) else token


def _one_pattern(conjunction: Conjunction) -> str:
    if not conjunction:
        return "/*"
    if len(conjunction) == 1:
        return "".join(conjunction[0])
    root = root_of(conjunction)
    tests: dict[str, None] = {}
    branches: list[str] = []
    for path in conjunction:
        if path[0].startswith("//"):
            branches.append(f"[{_anywhere(path, root)}]")
            continue
        own = _tests_of_first(path)
        tests |= dict.fromkeys(path[1:own])
        if own < len(path):
            branches.append(f"[{_relative(path[own:])}]")
    return root + "".join(tests) + "".join(branches)


def root_of(conjunction: Conjunction) -> str:
    """The step to the root element that all paths together ask for; `/*` where they ask for none."""
    return next((path[0] for path in conjunction if not path[0].startswith("//") and path[0] != "/*"), "/*")


def left_out(conjunction: Conjunction) -> list[Path]:
    """The paths that `write_query` leaves out, all of them or their first step: it is said by a tree pattern, or the
    root element is to have another name as well.

    >>> left_out((("/a", "/b"), ("/b", "/c"), ("//d",)))
    [('/b', '/c')]
    """
    if len(conjunction) < 2:
        return []
    if pattern_of(conjunction) is not None:
        return [path for path in conjunction if path[0][0] != PATTERN]
    root = root_of(conjunction)
    return [path for path in conjunction if path[0] not in (root, "/*") and not path[0].startswith("//")]


def _tests_of_first(path: Path) -> int:
    """Where the second step begins."""
    return next((place for place in range(1, len(path)) if path[place][0] == "/"), len(path))


def _relative(tokens: Path) -> str:
    text = "".join(tokens)
    return f".{text}" if text.startswith("//") else text[1:]


def _anywhere(path: Path, root: str) -> str:
    """A path that starts anywhere, from the root element: which may be where it starts."""
    first = path[0][2:]
    if first[0] == "@" or first == "text()":
        return "." + "".join(path)
    if root != "/*" and is_plain(root[1:]) and is_plain(first) and first != root[1:]:
        return "." + "".join(path)
    return "descendant-or-self::" + "".join(path)[2:]


def is_plain(name: str) -> bool:
    """Whether a name test names one element: neither `*` nor a name of any namespace."""
    return not name.endswith("*") and not name.endswith("]")
