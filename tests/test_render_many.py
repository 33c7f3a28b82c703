"""`Index.render_many` and `render_batches`: what `render` gives document by document, as tables and by threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from test_work_limit import DEEP, HEAVY

from treecast import Index, Limits
from treecast.errors import DocumentError
from treecast.model import DeliveryLimits

NAMES = ["document", "subscription", "payload", "code", "message"]
DOCUMENTS = [
    b"<news><item n='%d'><title>A &amp; %d</title>%s</item></news>" % (n, n, b"<p>text</p>" * (n % 7))
    for n in range(60)
] + [b"<other/>", DEEP, b"\xef\xbb\xbf<news/>"]
BAD = [b"<news>", b"<a></b>"]


@pytest.fixture(scope="module")
def index() -> Index:
    """Every kind of delivery, some of them refused, and one subscription that a document leaves undecided."""
    limits = DeliveryLimits(payload_bytes_max=110)
    index = Index(limits=Limits(work_per_item_max=1), delivery_limits=limits)
    index.add_many([("whole", "/news"), ("again", "//item"), ("heavy", HEAVY)])
    index.add("titles", "//title", deliver="elements")
    index.add("long", "//item", deliver="elements")
    index.add("number", "//item/@n", deliver="elements")
    index.add("built", "for $i in $msg//item where $i/p return <o n='{$i/@n}'>{$i/title}</o>")
    index.add("steps", "from /news drop //p; rename //title to t")
    return index


def one_by_one(index: Index, documents: list[bytes]) -> list[tuple[Any, ...]]:
    return [
        (number, made.subscription, None if made.refused else made.payload)
        + ((made.refused.code, str(made.refused)) if made.refused else (None, None))
        for number, document in enumerate(documents)
        for made in index.render(document)
    ]


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    assert table.schema.names == NAMES
    table.validate(full=True)
    return list(zip(*(table[name].to_pylist() for name in NAMES), strict=True))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_answer_is_that_of_render(index: Index, threads: int) -> None:
    expected = one_by_one(index, DOCUMENTS)
    assert {row[3] for row in expected} == {None, "TC330", "TC340"}
    assert {row[1] for row in expected} == set(index.subscriptions()["id"].to_pylist())
    table = index.render_many(DOCUMENTS, threads=threads)
    assert rows(table) == expected
    assert table["subscription"].type == index.match_many(DOCUMENTS[:1])["subscription"].type
    assert table["document"].type == pa.int64()
    assert pa.types.is_dictionary(table["payload"].type)

    tables = list(index.render_batches(iter(DOCUMENTS), threads=threads, payload_bytes_max=1000))
    assert len(tables) > 3
    assert [row for table in tables for row in rows(table)] == expected
    # A table ends with the document that brings it to the limit: no more than that of each thread is over it.
    assert all(table["payload"].cast(pa.large_binary()).nbytes < 30_000 for table in tables)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_bad_documents(index: Index, threads: int) -> None:
    documents = [*DOCUMENTS[:5], BAD[0], *DOCUMENTS[5:9], BAD[1], DOCUMENTS[9]]
    deliveries, errors = index.render_many(documents, threads=threads, on_error="report")
    good = [document for document in documents if document not in BAD]
    assert [row[1:] for row in rows(deliveries)] == [row[1:] for row in one_by_one(index, good)]
    assert errors.select(["document", "subscription"]).to_pylist() == [
        {"document": 5, "subscription": None},
        {"document": 10, "subscription": None},
    ]
    assert errors.schema == index.match_many(documents, on_error="report")[1].schema
    with pytest.raises(DocumentError) as caught:
        index.render_many(documents, threads=threads)
    assert caught.value.document == 5

    pieces = list(index.render_batches(documents, threads=threads, on_error="report", payload_bytes_max=1))
    assert len(pieces) > len(documents) // (threads + 1)  # a piece has at most as many documents as there are threads
    assert [row for made, _ in pieces for row in rows(made)] == rows(deliveries)
    assert pa.concat_tables([found for _, found in pieces]) == errors
    before: list[Any] = []
    with pytest.raises(DocumentError) as caught:
        before.extend(index.render_batches(documents, threads=threads, payload_bytes_max=1))
    assert caught.value.document == 5


def test_equal_payloads_are_held_once(index: Index) -> None:
    many = Index()
    many.add_many((f"s{number}", "/news") for number in range(1000))
    document = b"<news>" + b"x" * 10_000 + b"</news>"
    table = many.render_many([document, document])
    assert [len(chunk.dictionary) for chunk in table["payload"].chunks] == [2]
    assert table.num_rows == 2000
    assert table["payload"][1999].as_py() == document
    assert pa.types.is_large_binary(table["payload"].cast(pa.large_binary()).type)


def test_it_outlives_the_index_and_its_changes() -> None:
    index = Index()
    index.add("a", "/a")
    table = index.render_many([b"<a/>"])
    index.remove("a")
    index.add_many((f"new {number}", "/a") for number in range(5000))
    del index
    assert rows(table) == [(0, "a", b"<a/>", None, None)]


def test_nothing_in_nothing_out(index: Index) -> None:
    for documents in ([], pa.array([], pa.binary()), [b"<none/>"]):
        table, errors = index.render_many(documents, on_error="report")
        assert (rows(table), errors.num_rows) == ([], 0)
    assert rows(Index().render_many([b"<a/>"] * 3, threads=2)) == []
    assert list(index.render_batches([])) == []


def test_forms_of_documents(index: Index) -> None:
    expected = rows(index.render_many(DOCUMENTS[:3]))
    given: list[Any] = [
        pa.array(DOCUMENTS[:3], pa.binary()),
        [bytearray(document) for document in DOCUMENTS[:3]],
        iter(DOCUMENTS[:3]),
    ]
    for documents in given:
        assert rows(index.render_many(documents, threads=2)) == expected
    with pytest.raises(TypeError, match="render_many takes a sequence of documents; for a single one use render"):
        index.render_many(DOCUMENTS[0])


def test_wrong_settings(index: Index) -> None:
    for settings in ({"threads": 0}, {"threads": 1025}, {"on_error": "ignore"}):
        with pytest.raises(ValueError, match=r"must be"):
            index.render_many([], **settings)
        with pytest.raises(ValueError, match=r"must be"):
            index.render_batches([], **settings)
    with pytest.raises(ValueError, match="payload_bytes_max must be 1 or more, got 0"):
        index.render_batches([], payload_bytes_max=0)


def test_documents_are_read_as_far_as_needed(index: Index) -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield DOCUMENTS[1]

    batches = index.render_batches(endless(), payload_bytes_max=1000)
    first, second = next(batches), next(batches)
    assert first["document"][-1].as_py() + 1 == second["document"][0].as_py()
    assert taken < 10_000
