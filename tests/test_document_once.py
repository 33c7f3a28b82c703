"""A document that has been read is taken wherever bytes are, with the same answers, and is not read again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from unittest.mock import patch

import pyarrow as pa
import pytest
from generators.paths_and_documents import draw_document, draw_queries, words_of
from generators.xml import ENCODINGS, Generator
from support.sanitized import fewer

import treecast
from treecast import DocumentError, Index, Limits, engines, read
from treecast.document import AnyDocument, Document, read_many
from treecast.errors import TreecastError
from treecast.index import explain as explain_module
from treecast.index.explain import explain
from treecast.links import Early, Restructuring
from treecast.model import Delivery

TRANSFORMATIONS = (
    ("whole", "//*", "document"),
    ("elements", "//*[@*]", "elements"),
    ("texts", "//text()", "elements"),
    ("built", "for $n in $msg//* where $n/@* return <r a='{$n/@*}'>{$n}</r>", "document"),
    ("steps", "drop //*[@*][2]; rename //b to renamed", "document"),
)


def all_read(documents: list[bytes]) -> list[Document]:
    answers = read_many(documents)
    return [one for one in answers if isinstance(one, Document)]


def filled(random: Random, documents: list[bytes], engine: str = "auto") -> Index:
    index = Index(engine=engine)
    for number, query in enumerate(draw_queries(random, words_of(random, documents), 60)):
        try:
            index.add(f"q{number}", str(query))
        except treecast.QueryError:  # an engine of a paper that does not take it
            continue
    if engine == "auto":
        for id, text, deliver in TRANSFORMATIONS:
            index.add(id, text, deliver=deliver)  # type: ignore[arg-type]
    return index


@pytest.mark.parametrize("engine", engines.names())
def test_every_engine_answers_the_same(engine: str) -> None:
    random = Random(engine)
    documents = [draw_document(random, namespaces=True) for _ in range(fewer(40))]
    index = filled(random, documents, engine)
    for bytes_given, document in zip(documents, all_read(documents), strict=True):
        assert index.match(document) == index.match(bytes_given)


def test_every_way_in_equals_bytes() -> None:
    random = Random(2)
    documents = [draw_document(random, namespaces=True) for _ in range(fewer(60))]
    index = filled(random, documents)
    once = all_read(documents)
    assert index.match_many(once).equals(index.match_many(documents))
    assert index.match_many(once, threads=3).num_rows == index.match_many(documents).num_rows
    assert pa.concat_tables(index.match_batches(iter(once))).equals(pa.concat_tables(index.match_batches(documents)))
    part, expected = index.match_part(once, report=True), index.match_part(documents, report=True)
    assert part.matches.equals(expected.matches)
    columns = ["document", "subscription", "payload", "code", "message"]
    assert index.render_many(once, threads=2).to_pylist() == index.render_many(documents).to_pylist()
    batches = [row for table in index.render_batches(iter(once)) for row in table.select(columns).to_pylist()]
    assert batches == index.render_many(documents).to_pylist()
    rendered = index.render_part(once, report=True).deliveries.to_pylist()
    assert rendered == index.render_part(documents, report=True).deliveries.to_pylist()
    for bytes_given, document in zip(documents, once, strict=True):
        assert index.render(document) == index.render(bytes_given)
        for id in ("elements", "built", "q1"):
            if id in index:
                assert index.explain(document, id) == index.explain(bytes_given, id)


def test_bytes_and_documents_may_be_mixed() -> None:
    index = Index()
    index.add("b", "//b")
    documents: list[AnyDocument] = [b"<a><b/></a>", read(b"<b/>"), bytearray(b"<a/>"), read(b"<a><c/><b/></a>")]
    assert index.match_part(documents, report=False).matches.to_pylist() == [["b"], ["b"], [], ["b"]]
    matches, errors = index.match_many([read(b"<b/>"), b"<b>"], on_error="report")
    assert matches.num_rows == 1 and errors.column("document").to_pylist() == [1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_whole_documents_are_delivered_as_they_were_given(encoding: str) -> None:
    generator = Generator(seed=7)
    index = Index()
    index.add("whole", "//*")
    index.add("parts", "//*/*", deliver="elements")
    for _ in range(fewer(12)):
        data = generator.document(encoding)
        document = read(data)
        assert document.data == data and document.size_bytes == len(data)
        assert index.render(document)[0] == Delivery("whole", data)
        assert index.render(document) == index.render(data)


def test_a_document_is_not_read_again() -> None:
    """Its limits are those that it was read with: an index that refuses its bytes takes it."""
    index = Index(limits=Limits(depth_max=1))
    index.add("b", "//b")
    with pytest.raises(treecast.LimitError):
        index.match(b"<a><b/></a>")
    assert index.match(read(b"<a><b/></a>")) == ["b"]
    with patch.object(explain_module, "bytes", side_effect=AssertionError, create=True):
        assert explain(read(b"<a><b/></a>"), "//b").matched


def test_the_limit_of_work_is_that_of_the_index() -> None:
    query = "//a[b//c[d//e[f//g = 1]]]"
    deep = b"".join(b"<%c>" % name for name in b"abcdefg" * 60)
    data = deep + b"".join(b"</%c>" % name for name in reversed(b"abcdefg" * 60))
    document = read(data)
    for index in (Index(), Index(limits=Limits(work_per_item_max=1))):
        index.add("q", query)
        assert index.match(document) == index.match(data)


def test_documents_outlive_what_they_were_read_with() -> None:
    """Names that come later, and tables that start afresh, change nothing for documents that were read before."""
    index = Index()
    index.add("n7", "//n7[@m7]")
    early = [read(b"<r><n%d m%d='1'/></r>" % (number, number)) for number in range(20)]
    late = [
        read(b"<r>" + b"".join(b"<x%d_%d/>" % (part, n) for n in range(400)) + b"</r>") for part in range(fewer(24))
    ]
    assert [index.match(document) for document in early] == [["n7"] if number == 7 else [] for number in range(20)]
    assert [document.names[1][1] for document in early] == [f"n{number}" for number in range(20)]
    assert [document.names[-1][1] for document in late] == [f"x{part}_399" for part in range(len(late))]


def test_threads_share_documents() -> None:
    random = Random(5)
    documents = [draw_document(random, namespaces=True) for _ in range(fewer(60))]
    index = filled(random, documents)
    once = all_read(documents)
    expected = [index.render(data) for data in documents]

    def work(seed: int) -> bool:
        order = Random(seed).sample(range(len(once)), len(once))
        fresh = read_many(documents)
        return all(
            index.render(once[place]) == expected[place] == index.render(fresh[place])  # type: ignore[arg-type]
            for place in order
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_limits_hold_for_names_that_are_known() -> None:
    """A reader that has met a long name keeps refusing it where the limit is lower."""
    name = b"a" * 20
    assert len(read(b"<%b/>" % name)) == 1
    for _ in range(2):
        with pytest.raises(DocumentError, match="TC304"):
            read(b"<%b/>" % name, limits=Limits(name_bytes_max=10))


def test_a_batch_reports_what_it_refuses() -> None:
    answers = read_many([b"<a>&x;</a>", b"", b"<a/>"], entities={"x": "y"})
    assert isinstance(answers[0], Document) and answers[0].texts == [(0, "y")]
    assert isinstance(answers[1], DocumentError) and answers[1].code == "TC209"
    assert isinstance(answers[2], Document)
    with pytest.raises(TypeError):
        Index().match_many(read(b"<a/>"))


# -- lists of steps


LISTS = (
    "drop //*[@*]",
    "keep //*[text()]",
    "drop //text(); unwrap //b",
    "rename //a to z; drop //@*",
    "keep //c, //d; rename //@x to y",
)


def test_restructuring_equals_an_index() -> None:
    """What a list leaves of a document is what a subscription with that list is delivered."""
    random = Random(11)
    documents = all_read([draw_document(random, namespaces=True) for _ in range(fewer(60))])
    answered = 0
    for steps in LISTS:
        index = Index()
        index.add("s", steps)
        for document, answer in zip(documents, Restructuring(Early(steps)).apply_many(documents), strict=True):
            (delivery,) = index.render(document)
            if isinstance(answer, TreecastError):
                assert delivery.refused or answer.code.startswith("TC2"), "several trees, or none"
                continue
            assert (answer.data if answer else b"") == delivery.payload
            answered += 1
    assert answered > len(documents)


def test_restructuring_says_what_it_refuses() -> None:
    with pytest.raises(treecast.QueryError):
        Restructuring(Early("drop"))
    rename = Restructuring(Early("rename //@x to y"))
    with pytest.raises(treecast.QueryError, match="TC119"):
        rename.apply(read(b'<a x="1" y="2"/>'))
    kept = rename.apply(read(b'<a x="1"/>'))
    assert kept is not None and kept.data == b'<a y="1"/>'
    bound = Restructuring(Early("keep //p:b", {"p": "urn:p"}))
    left = bound.apply(read(b'<a xmlns="urn:p"><b/><c/></a>'))
    assert left is not None and left.data == b'<a xmlns="urn:p"><b/></a>'
