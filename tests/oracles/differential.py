"""treecast against lxml: drawn queries and documents, every way to fill an index, every way to ask it.

A decision is one (query, document) pair; the oracle is lxml's compiled XPath, evaluated as a boolean, or for an ordered
pattern the brute force of `ordered_patterns`. `compare` runs one configuration and, when a decision differs, shrinks
the case before it fails: first the queries, then the documents, then the document and the query themselves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from lxml import etree
from support.sanitized import SANITIZED

from oracles.ordered_patterns import Oracle, Pattern
from treecast import Index, QueryError, _native
from treecast.index import CACHE_BYTES_MAX
from treecast.model import Subscription

# libxml2 stops at depth 256 unless the option for huge documents is set.
PARSER = etree.XMLParser(huge_tree=True, resolve_entities=True, no_network=True)


Item = TypeVar("Item")


@dataclass(frozen=True)
class Query:
    """A query as treecast gets it, and as the oracle does: lxml has no prefix for "unprefixed names mean this URI"."""

    text: str
    oracle: str
    namespaces: tuple[tuple[str, str], ...] = ()
    oracle_namespaces: tuple[tuple[str, str], ...] = ()
    pattern: Pattern | None = None  # an ordered pattern, which lxml cannot oracle

    @property
    def ordered(self) -> bool:
        return self.pattern is not None


def plain(text: str) -> Query:
    """A query that both sides read alike."""
    return Query(text, text)


def ordered(pattern: Pattern) -> Query:
    text = pattern.written(branch=False)
    return Query(text, text, pattern=pattern)


@lru_cache(maxsize=32_768)
def compiled(oracle: str, namespaces: tuple[tuple[str, str], ...]) -> Any:
    return etree.XPath(f"boolean({oracle})", namespaces=dict(namespaces))


def lxml_matches(queries: Sequence[Query], document: bytes) -> set[int]:
    """The numbers of the queries that lxml finds in the document."""
    tree = etree.ElementTree(etree.fromstring(document, PARSER))
    oracle = Oracle(document) if any(query.ordered for query in queries) else None

    def holds(query: Query) -> bool:
        if oracle and query.pattern:
            return bool(oracle.selected(query.pattern))
        return bool(compiled(query.oracle, query.oracle_namespaces)(tree))

    return {place for place, query in enumerate(queries) if holds(query)}


# --- ways to fill an index -------------------------------------------------------------------------------------------

DECOYS = ("/a", "//b", "//*", "/a//c/*", "//a/b/text()", "//@x")


def add(index: Index, name: str, query: Query) -> None:
    index.add(name, query.text, namespaces=dict(query.namespaces) or None, ordered=query.ordered)


def replace_by(index: Index, name: str, query: Query) -> None:
    index.replace(name, query.text, namespaces=dict(query.namespaces), ordered=query.ordered)


def add_in_bulk(index: Index, queries: Sequence[Query], random: Random, documents: Sequence[bytes]) -> None:
    """Bare pairs where the query needs no more."""
    index.add_many(
        Subscription(f"q{place}", query.text, dict(query.namespaces), query.ordered)
        if query.namespaces or query.ordered
        else (f"q{place}", query.text)
        for place, query in enumerate(queries)
    )


def add_as_table(index: Index, queries: Sequence[Query], random: Random, documents: Sequence[bytes]) -> None:
    columns = {
        "id": pa.array([f"q{place}" for place in range(len(queries))], pa.string()),
        "query": pa.array([query.text for query in queries], pa.string()),
    }
    if any(query.namespaces for query in queries):
        bindings = [list(query.namespaces) or None for query in queries]
        columns["namespaces"] = pa.array(bindings, pa.map_(pa.string(), pa.string()))
    if any(query.ordered for query in queries):
        columns["ordered"] = pa.array([query.ordered for query in queries], pa.bool_())
    index.add_many(pa.table(columns))


def add_one_by_one(index: Index, queries: Sequence[Query], random: Random, documents: Sequence[bytes]) -> None:
    for place, query in enumerate(queries):
        add(index, f"q{place}", query)


def add_after_removals(index: Index, queries: Sequence[Query], random: Random, documents: Sequence[bytes]) -> None:
    """More is added than wanted, in another order; the rest is taken away again."""
    subscriptions = [(f"q{place}", query) for place, query in enumerate(queries)]
    decoys = [(f"d{place}", query) for place, query in enumerate(queries)]
    decoys += [(f"x{place}", plain(text)) for place, text in enumerate(DECOYS)]
    everything = subscriptions + decoys
    random.shuffle(everything)
    for name, query in everything:
        add(index, name, query)
    for name, _ in decoys:
        index.remove(name)


def add_remove_add(index: Index, queries: Sequence[Query], random: Random, documents: Sequence[bytes]) -> None:
    """Everything is added, half of it removed, a document matched, and that half added again."""
    add_in_bulk(index, queries, random, documents)
    half = [place for place in range(len(queries)) if random.random() < 0.5]
    for place in half:
        index.remove(f"q{place}")
    index.match(documents[0])
    for place in half:
        add(index, f"q{place}", queries[place])


def add_mixed(index: Index, queries: Sequence[Query], random: Random, documents: Sequence[bytes]) -> None:
    """Bulk, single changes, replacements and matches in turn, so that every kind of state is carried over."""
    add_in_bulk(index, queries[: len(queries) // 2], random, documents)
    for place in range(len(queries) // 2, len(queries)):
        if random.random() < 0.3:
            index.match(random.choice(documents))
        if random.random() < 0.3:
            index.add(f"q{place}", random.choice(DECOYS))
            replace_by(index, f"q{place}", queries[place])
        else:
            add(index, f"q{place}", queries[place])
        if place and random.random() < 0.2:
            earlier_place = random.randrange(place)
            index.remove(f"q{earlier_place}")
            add(index, f"q{earlier_place}", queries[earlier_place])


WAYS: dict[str, Callable[[Index, Sequence[Query], Random, Sequence[bytes]], None]] = {
    "bulk": add_in_bulk,
    "table": add_as_table,
    "one by one": add_one_by_one,
    "after removals": add_after_removals,
    "add-remove-add": add_remove_add,
    "mixed": add_mixed,
}


# --- what may happen before it is asked ------------------------------------------------------------------------------


def as_it_is(index: Index, queries: Sequence[Query], random: Random, cache_bytes_max: int) -> Index:
    return index


def saved_and_loaded(index: Index, queries: Sequence[Query], random: Random, cache_bytes_max: int) -> Index:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "saved.tcx"
        index.save(path)
        # The mapping outlives the name of the file.
        return Index.load(path, verify=random.random() < 0.5, cache_bytes_max=cache_bytes_max)


def loaded_and_changed(index: Index, queries: Sequence[Query], random: Random, cache_bytes_max: int) -> Index:
    """Some of the loaded subscriptions are taken out and come back, some are something else for a while."""
    loaded_index = saved_and_loaded(index, queries, random, cache_bytes_max)
    for place, query in enumerate(queries):
        chance = random.random()
        if chance < 0.1:
            loaded_index.remove(f"q{place}")
            add(loaded_index, f"q{place}", query)
        elif chance < 0.2:
            loaded_index.replace(f"q{place}", random.choice(DECOYS))
            replace_by(loaded_index, f"q{place}", query)
        elif chance < 0.25:
            add(loaded_index, "passing", random.choice(queries))
            loaded_index.remove("passing")
    return loaded_index


def saved_twice(index: Index, queries: Sequence[Query], random: Random, cache_bytes_max: int) -> Index:
    changed_index = loaded_and_changed(index, queries, random, cache_bytes_max)
    return saved_and_loaded(changed_index, queries, random, cache_bytes_max)


AFTERWARDS: dict[str, Callable[[Index, Sequence[Query], Random, int], Index]] = {
    "as it is": as_it_is,
    "saved and loaded": saved_and_loaded,
    "loaded and changed": loaded_and_changed,
    "saved twice": saved_twice,
}


# --- ways to ask it --------------------------------------------------------------------------------------------------


def from_table(table: pa.Table, documents: int) -> list[set[str]]:
    ids_by_document: list[set[str]] = [set() for _ in range(documents)]
    rows = zip(table["document"].to_pylist(), table["subscription"].to_pylist(), strict=True)
    for document, subscription in rows:
        assert subscription not in ids_by_document[document], "a subscription was delivered twice for one document"
        ids_by_document[document].add(subscription)
    return ids_by_document


def ask_one_by_one(index: Index, documents: Sequence[bytes]) -> list[set[str]]:
    return [set(index.match(document)) for document in documents]


def ask_at_once(index: Index, documents: Sequence[bytes]) -> list[set[str]]:
    return from_table(index.match_many(documents), len(documents))


def ask_two_threads(index: Index, documents: Sequence[bytes]) -> list[set[str]]:
    return from_table(index.match_many(documents, threads=2), len(documents))


def ask_in_batches(index: Index, documents: Sequence[bytes]) -> list[set[str]]:
    return from_table(pa.concat_tables(index.match_batches(documents), promote_options="default"), len(documents))


def ask_twice(index: Index, documents: Sequence[bytes]) -> list[set[str]]:
    """The second answer comes from the cache that the first one filled."""
    index.match_many(documents)
    return ask_at_once(index, documents)


CALLS: dict[str, Callable[[Index, Sequence[bytes]], list[set[str]]]] = {
    "match": ask_one_by_one,
    "match_many": ask_at_once,
    "match_many, 2 threads": ask_two_threads,
    "match_batches": ask_in_batches,
    "match_many twice": ask_twice,
}
CACHES: dict[str, int | None] = {"default": None, "none": 0, "tiny": 20_000}


@dataclass(frozen=True)
class Setting:
    """One configuration of everything that must not change an answer."""

    way: str = "bulk"
    call: str = "match_many"
    cache: str = "default"
    simd: int = -1
    seed: int = 0
    afterwards: str = "as it is"
    engine: str = "auto"

    @classmethod
    def draw(cls, random: Random, engine: str = "auto") -> Setting:
        return cls(
            random.choice(list(WAYS)),
            random.choice(list(CALLS)),
            random.choice(list(CACHES)),
            random.choice((0, 1, 2)),
            random.randrange(1 << 30),
            random.choice(("as it is", *AFTERWARDS)),
            engine,
        )

    def answers(self, queries: Sequence[Query], documents: Sequence[bytes]) -> list[set[int]]:
        """What treecast says: for each document the numbers of its queries."""
        limit = CACHES[self.cache]
        cache_bytes_max = CACHE_BYTES_MAX if limit is None else limit
        _native.testing.simd_force(self.simd)
        try:
            index = Index(engine=self.engine, cache_bytes_max=cache_bytes_max)
            WAYS[self.way](index, queries, Random(self.seed), documents)
            index = AFTERWARDS[self.afterwards](index, queries, Random(self.seed), cache_bytes_max)
            assert len(index) == len(queries)
            return [{int(name[1:]) for name in names} for names in CALLS[self.call](index, documents)]
        finally:
            _native.testing.simd_force(-1)


def compare(queries: Sequence[Query], documents: Sequence[bytes], settings: Iterable[Setting]) -> int:
    """Fail with the smallest case if some configuration differs from the oracle; else the number of decisions.

    Under the sanitizers the first configuration takes the oracle's place, whose allocations are slow there: the other
    run of the same tests has asked it."""
    settings = list(settings)
    if SANITIZED:
        expected = settings.pop(0).answers(queries, documents)
    else:
        expected = [lxml_matches(queries, document) for document in documents]
    for setting in settings:
        if setting.answers(queries, documents) != expected:
            pytest.fail(smallest(queries, documents, setting))
    return len(queries) * len(documents)


# --- shrinking -------------------------------------------------------------------------------------------------------


def differs(queries: Sequence[Query], documents: Sequence[bytes], setting: Setting) -> bool:
    if not documents:
        return False
    return setting.answers(queries, documents) != [lxml_matches(queries, document) for document in documents]


def thin(items: list[Item], still: Callable[[list[Item]], bool]) -> list[Item]:
    """Drop halves, quarters, … down to single items, as long as the case still differs."""
    size = max(1, len(items) // 2)
    while True:
        start = 0
        while start < len(items):
            fewer = items[:start] + items[start + size :]
            if still(fewer):
                items = fewer
            else:
                start += size
        if size == 1:
            return items
        size //= 2


def simpler(document: bytes) -> Iterable[bytes]:
    """Documents with one thing less: an element and what is in it, an element's tags, an attribute, a text."""
    count = len(list(etree.fromstring(document, PARSER).iter()))
    for place in range(count):
        for change in ("drop", "unwrap", "attributes", "text"):
            root = etree.fromstring(document, PARSER)
            element = list(root.iter())[place]
            parent = element.getparent()
            if change == "drop" and parent is not None:
                element.tail = None
                parent.remove(element)
            elif change == "unwrap" and parent is not None and len(element):
                at = parent.index(element)
                parent[at : at + 1] = list(element)
            elif change == "attributes" and isinstance(element.tag, str) and element.attrib:
                element.attrib.clear()
            elif change == "text" and isinstance(element.tag, str) and (element.text or element.tail):
                element.text = element.tail = None
            else:
                continue
            yield etree.tostring(root)


def shorter(query: Query) -> Iterator[Query]:
    """The query with one pair of brackets less, or without its last step; where both sides read the same text."""
    text = query.text
    if query.ordered or text != query.oracle:
        return
    bracket_places: list[int] = []
    for place, character in enumerate(text):
        if character == "[":
            bracket_places.append(place)
        elif character == "]" and bracket_places:
            start = bracket_places.pop()
            yield plain(text[:start] + text[place + 1 :])
        elif character in "/|" and place and not bracket_places:
            yield plain(text[:place])
        elif character == "|" and not bracket_places:
            yield plain(text[place + 1 :])


def accepted(query: Query, engine: str) -> bool:
    try:
        Index(engine=engine).add("q", query.text)
        compiled(query.oracle, query.oracle_namespaces)
    except (QueryError, etree.XPathSyntaxError):
        return False
    return True


def simplified(query: Query, engine: str, still: Callable[[Query], bool]) -> Query:
    for candidate in shorter(query):
        if accepted(candidate, engine) and still(candidate):
            return simplified(candidate, engine, still)
    return query


def smallest(queries: Sequence[Query], documents: Sequence[bytes], setting: Setting) -> str:
    """The report of a failure, with as few queries and as little document as still show it."""
    if not differs(queries, documents, setting):
        return f"{setting}: an answer differed once and not again: {len(queries)} queries, {len(documents)} documents"
    fewest_queries = thin(list(queries), lambda fewer: differs(fewer, documents, setting))
    fewest_documents = thin(list(documents), lambda fewer: differs(fewest_queries, fewer, setting))
    has_shrunk = True
    while has_shrunk and len(fewest_documents) == 1:
        has_shrunk = False
        for document in simpler(fewest_documents[0]):
            if len(document) < len(fewest_documents[0]) and differs(fewest_queries, [document], setting):
                fewest_documents, has_shrunk = [document], True
                break
    for place in range(len(fewest_queries)):

        def still(query: Query, at: int = place) -> bool:
            return differs([*fewest_queries[:at], query, *fewest_queries[at + 1 :]], fewest_documents, setting)

        fewest_queries[place] = simplified(fewest_queries[place], setting.engine, still)
    alone = [
        query
        for query in fewest_queries
        if differs([query], fewest_documents, replace(setting, way="bulk", afterwards="as it is"))
    ]
    lines = [f"treecast and lxml differ with {setting}"]
    lines.append(f"  alone in a new index {len(alone)} of the {len(fewest_queries)} queries still differ")
    lines += [
        f"  q{place}: {query.text!r} {dict(query.namespaces) or ''}{' ordered' * query.ordered}"
        for place, query in enumerate(fewest_queries)
    ]
    answers = setting.answers(fewest_queries, fewest_documents)
    for document, ids in zip(fewest_documents, answers, strict=True):
        lines.append(f"  document: {document!r}")
        lines.append(f"  treecast says {sorted(ids)}, lxml {sorted(lxml_matches(fewest_queries, document))}")
    return "\n".join(lines)
