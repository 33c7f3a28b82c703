"""Wrong arguments at the public border: an error in our words, never the signature of a native function."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import treecast
from treecast import DeliveryLimits, Document, Index, Limits, Reader, Subscription, parse, read

WRONG: list[Any] = [None, 3, 3.5, "x", b"x", [], {}, object()]
FOREIGN = re.compile(r"incompatible function|Invoked with|_native|has no attribute|not supported between")
"""What native code or a line of ours would say, and a caller cannot understand."""

CALLS: dict[str, Callable[[Index, Any], object]] = {
    "add: id": lambda index, value: index.add(value, "/a"),
    "add: query": lambda index, value: index.add("new", value),
    "add: namespaces": lambda index, value: index.add("new", "/a", namespaces=value),
    "add: a namespace": lambda index, value: index.add("new", "/a", namespaces={"p": value}),
    "add: deliver": lambda index, value: index.add("new", "/a", deliver=value),
    "add_many": lambda index, value: index.add_many(value),
    "add_many: an item": lambda index, value: index.add_many([value]),
    "add_many: an id": lambda index, value: index.add_many([(value, "/a")]),
    "add_many: a query": lambda index, value: index.add_many([{"id": "new", "query": value}]),
    "add_many: namespaces": lambda index, value: index.add_many([Subscription("new", "/a", value)]),
    "replace: id": lambda index, value: index.replace(value, "/a"),
    "replace: query": lambda index, value: index.replace("a", value),
    "remove": lambda index, value: index.remove(value),
    "remove_many": lambda index, value: index.remove_many(value),
    "remove_many: an id": lambda index, value: index.remove_many([value]),
    "catch_up: gone": lambda index, value: index.catch_up(value, []),
    "catch_up: added": lambda index, value: index.catch_up([], value),
    "catch_up: an item": lambda index, value: index.catch_up([], [value]),
    "missing": lambda index, value: index.missing(value),
    "[]": lambda index, value: index[value],
    "in": lambda index, value: value in index,
    "part": lambda index, value: index.part(value),
    "match": lambda index, value: index.match(value),
    "match_many": lambda index, value: index.match_many(value),
    "match_many: a document": lambda index, value: index.match_many([value]),
    "match_many: threads": lambda index, value: index.match_many([b"<a/>"], threads=value),
    "match_many: on_error": lambda index, value: index.match_many([b"<a/>"], on_error=value),
    "match_batches": lambda index, value: list(index.match_batches(value)),
    "match_batches: a document": lambda index, value: list(index.match_batches([value])),
    "match_batches: matches_max": lambda index, value: list(index.match_batches([b"<a/>"], matches_max=value)),
    "render": lambda index, value: index.render(value),
    "render_many": lambda index, value: index.render_many(value),
    "render_batches": lambda index, value: list(index.render_batches(value)),
    "render_batches: bytes": lambda index, value: list(index.render_batches([b"<a/>"], payload_bytes_max=value)),
    "explain: document": lambda index, value: index.explain(value, "a"),
    "explain: id": lambda index, value: index.explain(b"<a/>", value),
    "load": lambda index, value: Index.load(value),
    "Index: engine": lambda index, value: Index(engine=value),
    "Index: namespaces": lambda index, value: Index(namespaces=value),
    "Index: limits": lambda index, value: Index(limits=value),
    "Index: entities": lambda index, value: Index(entities=value),
    "Index: cache_bytes_max": lambda index, value: Index(cache_bytes_max=value),
    "Index: delivery_limits": lambda index, value: Index(delivery_limits=value),
    "Index: seed": lambda index, value: Index(seed=value),
    "read": lambda index, value: read(value),
    "read: limits": lambda index, value: read(b"<a/>", limits=value),
    "read: entities": lambda index, value: read(b"<a/>", entities=value),
    "read: an entity": lambda index, value: read(b"<a/>", entities={"e": value}),
    "Index: subscriptions": lambda index, value: Index(value),
    "[]=: id": lambda index, value: index.__setitem__(value, "/a["),
    "[]=: query": lambda index, value: index.__setitem__("a", value),
    "update": lambda index, value: index.update(value),
    "update: an item": lambda index, value: index.update([value]),
    "update: a query": lambda index, value: index.update({"a": value}),
    "get": lambda index, value: index.get(value),
    "parse: match": lambda index, value: parse("/a").match(value),
    "parse": lambda index, value: parse(value),
    "parse: namespaces": lambda index, value: parse("/a", namespaces=value),
    "covers": lambda index, value: parse("/a").covers(value),
    "Reader: limits": lambda index, value: Reader(limits=value),
    "feed": lambda index, value: Reader().feed(value),
    "Limits": lambda index, value: Limits(value),
    "DeliveryLimits": lambda index, value: DeliveryLimits(value),
    "Document": lambda index, value: Document(value),
    "string_value": lambda index, value: read(b"<a/>").string_value(value),
    "slice": lambda index, value: read(b"<a/>").slice(value),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_wrong_argument_is_refused_in_our_words(
    call: Callable[[Index, Any], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in WRONG:
        index = Index()
        index.add("a", "/a")
        try:
            call(index, value)
        except (treecast.TreecastError, TypeError, ValueError, IndexError, OSError) as error:
            assert not FOREIGN.search(str(error)), (value, error)
            assert list(index) == ["a"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Index().match([b"<a/>"]), "an element of lxml or a Document, not list"),  # type: ignore[arg-type]
        (lambda: Index().add(None, "/a"), "an id is a str, not None"),  # type: ignore[arg-type]
        (lambda: Index().add("a", b"/a"), "a query is a str, not bytes"),  # type: ignore[arg-type]
        (lambda: Index()[3], "an id is a str, not int"),  # type: ignore[index]
        (lambda: Index().remove_many("abc"), "ids are a list of str, not str"),
        (lambda: Index(limits={"depth_max": 3}), "limits must be treecast.Limits(…), got dict"),  # type: ignore[arg-type]
        (lambda: Index(entities=3), 'entities must be a mapping of names to texts, or "html", got int'),  # type: ignore[arg-type]
        (lambda: Index().add("a", "/a", namespaces={"p": 3}), "both str; 'p' has int"),  # type: ignore[arg-type]
        (lambda: Index().match_many([b"<a/>"], threads=2.5), "threads must be an integer, got float"),  # type: ignore[call-overload]
        (lambda: Index().match_many(None), "match_many takes a list of documents, an Arrow array"),
        (lambda: Document(b"<a/>"), "a Document is made by treecast.read(data), not from bytes"),  # type: ignore[arg-type]
        (lambda: parse("/a").covers("/a"), "covers() takes what treecast.parse() gives, not str"),  # type: ignore[arg-type]
    ],
)
def test_the_words(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert message in str(caught.value)


def test_numbers_out_of_range_name_the_range() -> None:
    with pytest.raises(ValueError, match="threads must be 1-1024, got 0"):
        Index().match_many([b"<a/>"], threads=0)
    with pytest.raises(ValueError, match="cache_bytes_max must be 0 or more, got -1"):
        Index(cache_bytes_max=-1)
    with pytest.raises(ValueError, match="matches_max must be 1 or more, got 0"):
        Index().match_batches([], matches_max=0)


def test_what_is_shown_of_objects_is_english() -> None:
    index = Index()
    assert repr(index) == "<Index of 0 subscriptions>"
    index.add_many((f"{number}", "/a") for number in range(1000))
    assert repr(index) == "<Index of 1,000 subscriptions>"
    assert repr(read(b"<a/>")) == "<Document of 1 element, 4 bytes>"
    assert repr(read(b"<a>" + b"<b/>" * 1999 + b"</a>")) == "<Document of 2,000 elements, 8,003 bytes>"
