"""Index: documents in, matches out. Forms of input, tables, errors of single documents, limits, entities."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from treecast import DocumentError, Index, LimitError, Limits

DOCUMENT = b"<a><b>\xc3\xa9</b></a>"
BAD = b"<a><b></a>"


@pytest.fixture
def index() -> Index:
    index = Index()
    index.add_many([("a", "/a"), ("b", "//b"), ("c", "//c")])
    return index


def rows(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["document"].to_pylist(), table["subscription"].to_pylist(), strict=True))


# --- forms of documents ----------------------------------------------------------------------------------------------


def test_bytes_like_documents(index: Index) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(DOCUMENT)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            assert index.match(memoryview(mapped)) == ["a", "b"]
    for form in (DOCUMENT, bytearray(DOCUMENT), memoryview(DOCUMENT), memoryview(b"--" + DOCUMENT)[2:]):
        assert index.match(form) == ["a", "b"]
        assert rows(index.match_many([form, DOCUMENT])) == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]


@pytest.mark.parametrize("wrong", [None, 1, ["<a/>"], memoryview(b"<aa/>")[::2]])
def test_other_objects_are_refused(index: Index, wrong: Any) -> None:
    with pytest.raises((TypeError, BufferError, ValueError)):
        index.match(wrong)
    with pytest.raises((TypeError, BufferError, ValueError)):
        index.match_many([DOCUMENT, wrong])


def test_a_missing_document_is_reported_in_a_sentence(index: Index) -> None:
    nothing: Any = None
    for call in (index.match, index.render):
        with pytest.raises(TypeError, match="or a Document, not None"):
            call(nothing)


def test_documents_come_in_any_iterable(index: Index) -> None:
    expected = [(0, "a"), (0, "b"), (1, "c")]
    documents = [DOCUMENT, b"<c/>"]
    forms: tuple[Any, ...] = (documents, tuple(documents), iter(documents), (d for d in documents))
    for form in forms:
        assert rows(index.match_many(form)) == expected
    for kind in (pa.binary(), pa.large_binary(), pa.string()):
        column = pa.array(documents, pa.binary()).cast(kind)
        assert rows(index.match_many(column)) == expected
        assert rows(index.match_many(pa.chunked_array([column.slice(0, 1), column.slice(1)]))) == expected


# --- the table -------------------------------------------------------------------------------------------------------


def test_the_table_has_two_columns(index: Index) -> None:
    table = index.match_many([b"<z/>", DOCUMENT, DOCUMENT, b"<c/>"])
    assert table.column_names == ["document", "subscription"]
    assert table.schema.field("document").type == pa.int64()
    kind = table.schema.field("subscription").type
    assert pa.types.is_dictionary(kind)
    assert kind.value_type in (pa.string(), pa.large_string())
    table.validate(full=True)
    assert table["document"].to_pylist() == sorted(table["document"].to_pylist())
    assert sorted(rows(table)) == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "c")]


def test_no_documents_and_no_matches(index: Index) -> None:
    for documents in ([], [b"<z/>"]):
        table = index.match_many(documents)
        assert table.num_rows == 0
        assert table.column_names == ["document", "subscription"]
        table.validate(full=True)
    assert Index().match_many([DOCUMENT]).num_rows == 0
    assert Index().match(DOCUMENT) == []


def test_results_outlive_changes_and_the_index(index: Index) -> None:
    table = index.match_many([DOCUMENT])
    index.remove("a")
    index.add_many((f"n{place}", "//b") for place in range(5000))
    index.match_many([DOCUMENT])
    assert rows(table) == [(0, "a"), (0, "b")]
    del index
    assert rows(table) == [(0, "a"), (0, "b")]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_change_nothing(index: Index, threads: int) -> None:
    documents = [b"<a>" + b"<b/>" * (place % 3) + b"<c/>" * (place % 2) + b"</a>" for place in range(200)]
    table = index.match_many(documents, threads=threads)
    assert table["document"].to_pylist() == sorted(table["document"].to_pylist())
    expected = {(place, name) for place, document in enumerate(documents) for name in index.match(document)}
    assert set(rows(table)) == expected
    assert table.num_rows == len(expected)


@pytest.mark.parametrize("threads", [0, -1, "2", 1.5])
def test_a_wrong_number_of_threads_is_refused(index: Index, threads: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        index.match_many([DOCUMENT], threads=threads)


# --- batches ---------------------------------------------------------------------------------------------------------


def test_batches_cover_everything_with_global_row_numbers(index: Index) -> None:
    documents = [b"<a/>", b"<z/>", DOCUMENT] * 400
    tables = list(index.match_batches(documents))
    assert rows(pa.concat_tables(tables)) == rows(index.match_many(documents))
    assert list(index.match_batches([])) == [] or sum(t.num_rows for t in index.match_batches([])) == 0


def test_batches_are_bounded_and_read_lazily() -> None:
    index = Index()
    index.add_many((f"s{place}", "//*") for place in range(2000))
    taken = 0

    def source() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(15_000):
            taken += 1
            yield b"<a/>"

    batches = index.match_batches(source())
    first = next(batches)
    # 30 million rows in all: the first batch must neither hold nor have read everything.
    assert 0 < first.num_rows < 10_000_000
    assert taken < 15_000
    assert first.num_rows + sum(table.num_rows for table in batches) == 30_000_000


def test_batches_see_the_index_of_their_time(index: Index) -> None:
    """A change between two batches is seen by the later one at the latest when all documents are read."""
    batches = index.match_batches([DOCUMENT])
    assert rows(next(batches)) == [(0, "a"), (0, "b")]
    index.remove("a")
    assert rows(pa.concat_tables(index.match_batches([DOCUMENT]))) == [(0, "b")]


# --- bad documents ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_an_invalid_document_raises(index: Index, threads: int) -> None:
    with pytest.raises(DocumentError) as caught:
        index.match(BAD)
    assert caught.value.code.startswith("TC2")
    assert caught.value.offset > 0
    with pytest.raises(DocumentError) as many:
        index.match_many([DOCUMENT, DOCUMENT, BAD, DOCUMENT], threads=threads)
    assert (many.value.code, many.value.offset) == (caught.value.code, caught.value.offset)
    with pytest.raises(DocumentError):
        list(index.match_batches([DOCUMENT, BAD]))
    assert index.match(DOCUMENT) == ["a", "b"]


@pytest.mark.parametrize("threads", [1, 2])
def test_invalid_documents_are_reported(index: Index, threads: int) -> None:
    documents = [BAD, DOCUMENT, b"", b"<c/>", b"<a>&nope;</a>", DOCUMENT]
    matches, errors = index.match_many(documents, on_error="report", threads=threads)
    assert rows(matches) == [(1, "a"), (1, "b"), (3, "c"), (5, "a"), (5, "b")]
    assert errors["document"].to_pylist() == [0, 2, 4]
    for place, code, message, offset in zip(
        *(errors[name].to_pylist() for name in ("document", "code", "message", "offset")), strict=True
    ):
        with pytest.raises(DocumentError) as caught:
            index.match(documents[place])
        assert (caught.value.code, caught.value.offset) == (code, offset)
        assert message
    matches, errors = index.match_many([], on_error="report")
    assert (matches.num_rows, errors.num_rows) == (0, 0)
    assert {"document", "code", "message", "offset"} <= set(errors.column_names)


def test_an_unknown_policy_is_refused(index: Index) -> None:
    policy: Any = "ignore"
    with pytest.raises(ValueError, match="on_error"):
        index.match_many([DOCUMENT], on_error=policy)


def test_a_refused_document_gives_no_match(index: Index) -> None:
    """Everything matches before the error comes; nothing of it is delivered."""
    late = b"<a><b/><c/></a><trailing/>"
    with pytest.raises(DocumentError):
        index.match(late)
    matches, errors = index.match_many([late], on_error="report")
    assert (matches.num_rows, errors.num_rows) == (0, 1)


# --- limits and entities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "value", "fits", "exceeds"),
    [
        ("document_bytes_max", 10, b"<a>123</a>", b"<a>1234</a>"),
        ("depth_max", 2, b"<a><b/></a>", b"<a><b><c/></b></a>"),
        ("attributes_max", 1, b"<a x='1'/>", b"<a x='1' y='1'/>"),
        ("name_bytes_max", 3, b"<aaa/>", b"<aaaa/>"),
        ("attribute_bytes_max", 3, b"<a x='123'/>", b"<a x='1234'/>"),
        ("names_max", 2, b"<a x='1'/>", b"<a x='1' y='1'/>"),
    ],
)
def test_limits_are_passed_through(limit: str, value: int, fits: bytes, exceeds: bytes) -> None:
    index = Index(limits=Limits(**{limit: value}))
    index.add("x", "//*")
    assert index.match(fits) == ["x"]
    with pytest.raises(LimitError) as caught:
        index.match(exceeds)
    assert isinstance(caught.value, DocumentError)
    assert limit in str(caught.value)
    _, errors = index.match_many([exceeds], on_error="report")
    assert errors["code"].to_pylist() == [caught.value.code]
    roomy = Index()
    roomy.add("x", "//*")
    assert roomy.match(exceeds) == ["x"]


def test_the_default_depth_limit() -> None:
    index = Index()
    index.add("x", "//b")
    assert index.match(b"<a>" * 511 + b"<b/>" + b"</a>" * 511) == ["x"]
    with pytest.raises(LimitError):
        index.match(b"<a>" * 512 + b"<b/>" + b"</a>" * 512)


def test_entities_are_passed_through() -> None:
    document = b"<a>&uuml;</a>"
    with pytest.raises(DocumentError):
        Index().match(document)
    forms: tuple[Any, ...] = ({"uuml": "ü"}, "html")
    for entities in forms:
        index = Index(entities=entities)
        index.add("x", "/a/text()")
        assert index.match(document) == ["x"]
    empty = Index(entities={"uuml": ""})
    empty.add("x", "/a/text()")
    assert empty.match(document) == []
    with pytest.raises(DocumentError):
        index.match(b"<a>&undeclared;</a>")


# --- parts -----------------------------------------------------------------------------------------------------------


def in_parts(index: Index, documents: list[bytes]) -> list[Any]:
    parts, done = [], 0
    while done < len(documents):
        parts.append(index.match_part(documents[done:], report=True).matches)
        done += len(parts[-1])
    return parts


@pytest.mark.parametrize("ids_max", [1, 1_000, 2_500, 10_000, 1_000_000])
def test_parts_have_no_more_ids_than_one_array_holds(ids_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the bound is lower than that of Arrow. A part has at least one document, whatever it matches."""
    index = Index()
    index.add_many((f"{number:02}" + "x" * 98, "//a" if number < 10 else "//b") for number in range(20))
    documents = [b"<a/>", b"<r><a/><b/></r>", b"<z/>", b"<b/>"] * 100
    expected = [found for part in in_parts(index, documents) for found in part.to_pylist()]
    assert [len(found) for found in expected] == [10, 20, 0, 10] * 100
    monkeypatch.setattr("treecast.index.matching.PART_ID_BYTES_MAX", ids_max)
    parts = in_parts(index, documents)
    assert [sorted(found) for part in parts for found in part.to_pylist()] == [sorted(found) for found in expected]
    sizes = [sum(map(len, part.flatten().to_pylist())) for part in parts]
    assert all(size <= ids_max or len(part) == 1 for size, part in zip(sizes, parts, strict=True))
    assert (len(parts) == 1) == (ids_max == 1_000_000)


def test_parts_of_long_ids_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is counted in bytes, not in the longest ids that there could be."""
    index = Index()
    index.add_many((f"{number:04}", "//a") for number in range(100))
    monkeypatch.setattr("treecast.index.matching.PART_ID_BYTES_MAX", 400 * 10)
    assert [len(part) for part in in_parts(index, [b"<a/>"] * 20)] == [10, 10]
