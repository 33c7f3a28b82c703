"""Records cut from files, against lxml and expat: the same elements, namespaces and offsets, whatever the parts."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from generators.xml import ENCODINGS, LOCALS, Generator, canonical, in_scope, lxml_tree, seen_by_lxml, starts_by_expat
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from treecast import DocumentError, LimitError
from treecast.document import read
from treecast.inputs import records
from treecast.inputs.records import Part, Record, Rule, plan, split

Row = tuple[bytes | None, int, int | None, str | None]


class Dripping(io.BytesIO):
    """A file that gives so many bytes at a time, however many are asked for."""

    def __init__(self, data: bytes, piece: int) -> None:
        super().__init__(data)
        self.piece = piece

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self.piece)


def rows(data: bytes, rule: Rule | None = None, piece: int = 1 << 20, **options: Any) -> list[Row]:
    """Each row of each batch; errors as their codes."""
    found = []
    for batch in split(Dripping(data, piece), rule or Rule(), **options):
        batch.validate(full=True)
        for row in batch.to_pylist():
            error = row["error"]
            found.append((row["document"], row["offset"], row["ordinal"], error and error["code"]))
    return found


def by_parts(data: bytes, rule: Rule, part_bytes: int) -> list[Row]:
    parts = plan(io.BytesIO(data), rule, part_bytes=part_bytes)
    assert parts[0].offset == 0 and parts[-1].end is None
    for one, following in pairwise(parts):
        assert one.end == following.offset and following.offset - one.offset >= part_bytes
    return [row for part in parts for row in rows(data, rule, part=part)]


def documents(data: bytes, **options: Any) -> list[bytes | None]:
    return [row.document for row in records.records(io.BytesIO(data), **options)]


def named(elements: Any, names: Sequence[str]) -> list[Any]:
    """The outermost elements of these names, as spelled, among some and below."""
    found = []
    for element in elements:
        if isinstance(element.tag, str):
            spelled = (
                f"{element.prefix}:{etree.QName(element).localname}"
                if element.prefix
                else etree.QName(element).localname
            )
            found += [element] if spelled in names else named(element, names)
    return found


def check_against_lxml(data: bytes, rule: Rule, found: list[Row]) -> None:
    """The records are the elements that lxml finds, at the bytes where expat finds them, with the same namespaces."""
    root = lxml_tree(data)
    everything = [element for element in root.iter() if isinstance(element.tag, str)]
    starts = dict(zip(everything, starts_by_expat(data), strict=True))
    if rule.record == "*":
        expected = [element for element in root if isinstance(element.tag, str)]
    else:
        expected = named([root], [rule.record] if isinstance(rule.record, str) else rule.record)
    assert [row[1:] for row in found] == [(starts[e], i, None) for i, e in enumerate(expected)]
    for (document, *_), element in zip(found, expected, strict=True):
        assert document is not None
        again = etree.fromstring(document)
        read(document)
        assert seen_by_lxml(again) == seen_by_lxml(element)
        assert in_scope(again) == in_scope(element)
        assert canonical(again) == canonical(element)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("record", ["*", "item", ("a", "p:b", "ümlaut")])
def test_same_records_as_lxml(encoding: str, record: str | tuple[str, ...]) -> None:
    generator = Generator(7)
    rule = Rule(record)
    count = 0
    for _ in range(60):
        data = generator.document(encoding)
        found = rows(data, rule)
        check_against_lxml(data, rule, found)
        count += len(found)
    assert count > 10


@given(
    seed=st.integers(0, 10**6),
    encoding=st.sampled_from(ENCODINGS),
    record=st.sampled_from(["*", *LOCALS[:4], ("a", "b", "p:c")]),
    piece=st.sampled_from([1, 2, 3, 7, 64]),
    part_bytes=st.integers(1, 400),
    batch_bytes=st.sampled_from([1, 100, 1 << 22]),
)
def test_same_records_whatever_the_pieces_and_parts(
    seed: int, encoding: str, record: str | tuple[str, ...], piece: int, part_bytes: int, batch_bytes: int
) -> None:
    data = Generator(seed).document(encoding)
    rule = Rule(record)
    whole = rows(data, rule)
    check_against_lxml(data, rule, whole)
    assert rows(data, rule, piece, batch_bytes=batch_bytes) == whole
    assert by_parts(data, rule, part_bytes) == whole


@given(seed=st.integers(0, 10**6), encoding=st.sampled_from(ENCODINGS), cut=st.floats(0, 1), piece=st.integers(1, 9))
def test_a_cut_off_file_gives_its_complete_records_and_one_error(
    seed: int, encoding: str, cut: float, piece: int
) -> None:
    data = Generator(seed).document(encoding)
    whole = rows(data)
    cut_data = data[: int(cut * len(data))]
    found = rows(cut_data)
    assert found == rows(cut_data, piece=piece) == by_parts(cut_data, Rule(), 50)
    if found and found[-1][3]:
        *found, (document, offset, ordinal, code) = found
        assert (document, ordinal) == (None, None) and (code in ("TC204", "TC209") or len(cut_data) < 4)
        assert offset <= len(cut_data)
    else:
        assert lxml_tree(cut_data) is not None
    assert found == whole[: len(found)]
    later = [start for _, start, _, _ in whole[1:] if start <= len(cut_data)]
    assert len(found) >= len(later)  # a record is complete where the next one begins


MARKUP = [
    "<",
    ">",
    "/",
    "!--",
    "-->",
    "![CDATA[",
    "]]>",
    "?",
    "?>",
    '"',
    "'",
    "=",
    "a",
    "b",
    " ",
    "xmlns",
    ":",
    "&x;",
    "</a>",
]


@given(
    st.lists(st.sampled_from([*MARKUP, "<a>", "<b>", "</b>", "<a/>", "<!DOCTYPE a", "[", "]", "é"])), st.integers(1, 5)
)
def test_any_text_gives_rows_the_same_ones_in_pieces(parts: list[str], piece: int) -> None:
    data = "".join(parts).encode()
    check_any(data, piece)


@given(
    st.binary(max_size=60), st.sampled_from([b"", b"<a>", b"\xff\xfe<\0a\0>\0", b"\xef\xbb\xbf<a>"]), st.integers(1, 5)
)
def test_any_bytes_give_rows_the_same_ones_in_pieces(data: bytes, before: bytes, piece: int) -> None:
    check_any(before + data, piece)


def check_any(data: bytes, piece: int) -> None:
    for rule in (Rule(), Rule("a", {"x": "<é>"}), Rule(("a", "b"), record_bytes_max=9)):
        whole = rows(data, rule)
        assert rows(data, rule, piece) == whole
        assert by_parts(data, rule, 3) == whole
        broken = [row for row in whole if row[2] is None]
        assert len(broken) <= 1 and broken == whole[len(whole) - len(broken) :]
        try:
            lxml_tree(data)
        except (etree.XMLSyntaxError, ValueError):
            continue
        too_long = ("TC305",) if rule.record_bytes_max == 9 else ()  # a start tag outside the records
        # No well-formed file is refused for its markup.
        assert not broken or broken[0][3] in ("TC204", "TC205", *too_long)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"<r><a>1</a><a>2</a></r>", [b"<a>1</a>", b"<a>2</a>"]),
        (b"<r><a><a>1</a></a><a/></r>", [b"<a><a>1</a></a>", b"<a/>"]),
        (b"<r><!-- <a> --><a/><?p <a> ?><![CDATA[<a>]]></r>", [b"<a/>"]),
        (b"<r><a><!-- </a> --><![CDATA[</a>]]><?p </a>?></a></r>", [b"<a><!-- </a> --><![CDATA[</a>]]><?p </a>?></a>"]),
        (b"<r x='>' y=\"'\"><a b='/>\"' c=\"</a>\"/></r>".replace(b"</a>", b"/a>"), [b'<a b=\'/>"\' c="/a>"/>']),
        (b"<!DOCTYPE r SYSTEM '>[' [ <!-- ]> --> <?p ]> ?> ]><r><a/></r>", [b"<a/>"]),
        (b"<r xmlns='u'><a/><a xmlns=''/><a xmlns='v'/></r>", [b"<a xmlns='u'/>", b"<a xmlns=''/>", b"<a xmlns='v'/>"]),
        (b"<r xmlns:p='u' p:x='1' xml:lang='de'><p:a x=''/></r>", [b"<p:a xmlns:p='u' x=''/>"]),
        (b"<r></r>", []),
        (b"<r/>", []),
    ],
)
def test_cases(data: bytes, expected: list[bytes]) -> None:
    assert documents(data) == expected


def test_names_are_as_spelled_and_the_outermost_counts() -> None:
    data = b"<r><g xmlns='u'><a>1<a/></a></g><p:a xmlns:p='v'/><h xmlns=''><a/></h><a/></r>"
    assert documents(data, record="a") == [b"<a xmlns='u'>1<a/></a>", b"<a/>", b"<a/>"]
    assert documents(data, record=["p:a", "h"]) == [b"<p:a xmlns:p='v'/>", b"<h xmlns=''><a/></h>"]
    assert documents(data, record="r") == [data]
    assert documents(data, record="none") == []


@pytest.mark.parametrize(
    ("data", "before", "code", "offset"),
    [
        (b"", 0, "TC209", 0),
        (b"  ", 0, "TC209", 2),
        (b"<r><a/>", 1, "TC209", 7),
        (b"<r><a/><a>", 1, "TC209", 10),
        (b"<r><a/></r", 1, "TC209", 10),
        (b"<r><a/></r><!-", 1, "TC209", 14),
        (b"<r><a/><a></b></r>", 1, "TC202", 10),
        (b"<r><a/></r></r>", 1, "TC202", 11),
        (b"<r><a/></r><r/>", 1, "TC201", 11),
        (b"<r><a/></r>x", 1, "TC201", 11),
        (b"<r><a/></r><?xml version='1.0'?>", 1, "TC201", 11),
        (b"x<r/>", 0, "TC201", 0),
        (b"<r><a/>< a/></r>", 1, "TC201", 8),
        (b"<r><a/><a x='<'/></r>", 1, "TC201", 13),
        (b"<r><a/><!-- -- --></r>", 1, "TC201", 12),
        (b"<r><a/><!ELEMENT a></r>", 1, "TC201", 7),
        (b"<r x><a/></r>", 0, "TC201", 3),
        (b"<!DOCTYPE r [<!ENTITY x 'y'>]><r><a>&x;</a></r>", 0, "TC205", 13),
        (b"<?xml version='1.0' encoding='EUC-JP'?><r><a/></r>", 0, "TC204", 30),
        (b"\xff\xfe<\0r\0/\0>\0\n", 0, "TC204", 11),
    ],
)
def test_a_broken_file_is_one_row_behind_its_records(data: bytes, before: int, code: str, offset: int) -> None:
    *good, (document, at, ordinal, error_code) = rows(data)
    assert (len(good), document, at, ordinal, error_code) == (before, None, offset, None, code)
    last = list(records.records(io.BytesIO(data)))[-1]
    assert isinstance(last.error, DocumentError) and last.error.offset == offset and last.ordinal is None


@pytest.mark.parametrize("piece", [1, 1000])
def test_a_record_over_the_limit_is_an_error_and_the_rest_goes_on(piece: int) -> None:
    data = b"<r><a>1</a><a>" + b"<b c='<!--'/>".replace(b"<!", b"!") * 500 + b"</a><a>3</a></r>"
    rule = Rule(record_bytes_max=40)
    assert rows(data, rule, piece) == [
        (b"<a>1</a>", 3, 0, None),
        (None, 11, 1, "TC301"),
        (b"<a>3</a>", len(data) - 12, 2, None),
    ]
    *_, error, _ = records.records(io.BytesIO(data), record_bytes_max=40)
    assert isinstance(error.error, DocumentError) and "raise record_bytes_max" in str(error.error)


def test_namespaces_and_entities_count_towards_the_limit() -> None:
    data = b"<r xmlns='urn:long-enough'><a/><a xmlns=''/></r>"
    assert [row[3] for row in rows(data, Rule(record_bytes_max=20))] == ["TC305"]
    assert [row[3] for row in rows(data, Rule(record_bytes_max=29))] == [None, None]
    data = b"<r><a>&x;</a></r>"
    assert [row[3] for row in rows(data, Rule(entities={"x": "y" * 60}, record_bytes_max=50))] == ["TC301"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"<" + b"n" * 70_000 + b"/>", "TC304"),
        (b"<r " + b" ".join(b"xmlns:p%d='u'" % i for i in range(300)) + b"><a/></r>", "TC303"),
        (b"<r xmlns='" + b"u" * 70_000 + b"'><a/></r>", "TC303"),
        (b"<r>" + b"<a>" * 70_000, "TC302"),
        (b"<r></r" + b" " * 200_000 + b">", "TC202"),
    ],
    ids=["name", "namespaces", "long namespace", "depth", "end tag"],
)
def test_what_a_file_may_grow_to_is_limited(data: bytes, code: str) -> None:
    assert [row[3] for row in rows(data)] == [row[3] for row in rows(data, piece=999)] == [code]


def test_entities_are_replaced_where_they_are_references() -> None:
    entities = {"u": "ü", "m": "<&>\"'", "s": "\t\r\n", "empty": "", "e": "e", "lt": "never"}
    data = b"""<r xmlns:p="urn:&e;"><a x='&u;&m;&s;' y="&m;">&u;&m;&s;&empty;&lt;&#252;<![CDATA[&u;]]>"""
    data += b"""<!--&u;--><?p &u;?>&no;</a></r>"""
    (document,) = documents(data, entities=entities)
    assert document is not None and b"&u;" in document
    with pytest.raises(DocumentError, match=r"TC206.*&no;"):
        read(document)
    document = document.replace(b"&no;", b"")
    expected = read(data.replace(b"&no;", b""), entities=entities)
    found = read(document)
    assert found.attributes == [(0, name, value) for _, name, value in expected.attributes]
    assert found.texts == [(0, text) for _, text in expected.texts]
    assert etree.fromstring(document).nsmap == {"p": "urn:e"}
    assert documents(data) == [data[data.index(b"<a") : data.index(b"</r>")].replace(b"<a", b'<a xmlns:p="urn:&e;"')]


def test_html_entities() -> None:
    assert documents(b"<r><a>M&uuml;ller&nbsp;&amp;</a></r>", entities="html") == ["<a>Müller\xa0&amp;</a>".encode()]


def test_bytes_without_meaning_spoil_their_record_only() -> None:
    text = "<?xml version='1.0' encoding='windows-1252'?><r><a>ü</a><a>\x81</a><a>€</a></r>"
    data = text.replace("€", "\x80").encode("latin-1")
    assert refusals(data) == [None, "TC204", None]
    assert refusals(b"<?xml version='1.0' encoding='US-ASCII'?><r><a>\xc3\xbc</a><a/></r>") == ["TC204", None]
    assert refusals(b"<r><a>\xff</a><a/></r>") == ["TC204", None]
    lone = "<r><a>\ud800x</a><a>\U0001f600</a></r>".encode("utf-16", "surrogatepass")
    assert refusals(lone) == ["TC204", None]
    assert rows(lone)[1][1] == 2 + 2 * len("<r><a>?x</a>")


def refusals(data: bytes) -> list[str | None]:
    """The code with which each record is refused when it is read."""
    codes: list[str | None] = []
    for piece in (1, 1000):
        codes.clear()
        for document, *_ in rows(data, piece=piece):
            assert document is not None
            try:
                read(document)
                codes.append(None)
            except DocumentError as error:
                codes.append(error.code)
    return codes


def test_memory_is_bounded_by_the_batch_not_by_what_namespaces_make_of_small_records() -> None:
    data = b"<r xmlns='" + b"u" * 60_000 + b"'>" + b"<a/>" * 250 + b"</r>"
    sizes = [batch.nbytes for batch in split(io.BytesIO(data), batch_bytes=1 << 20)]
    assert sum(sizes) > 12_000_000 and max(sizes) < 2 << 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"record": ""},
        {"record": []},
        {"record": "a b"},
        {"record": ["a", "*"]},
        {"record_bytes_max": 0},
        {"entities": "latin"},
    ],
)
def test_invalid_rules_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"record|entities"):
        Rule(**wrong)
    with pytest.raises(ValueError, match="part_bytes"):
        plan(io.BytesIO(), Rule(), part_bytes=0)


def test_an_invalid_state_is_refused() -> None:
    with pytest.raises(ValueError, match="no state"):
        rows(b"<r/>", part=Part(1, None, 0, b"\x01\x02"))


def test_a_limit_error_is_one() -> None:
    found = list(records.records(io.BytesIO(b"<r><a>12345</a></r>"), record_bytes_max=6))
    assert found == [Record(None, 3, 0, found[0].error)]
    assert isinstance(found[0].error, LimitError)


def test_a_bibliography(data_directory: Path | None, leave_out: Callable[[str], None]) -> None:
    if data_directory is None:
        leave_out("the records of a real bibliography")
        data = b"<?xml version='1.0' encoding='ISO-8859-1'?><!DOCTYPE dblp SYSTEM 'dblp.dtd'>\n<dblp>" + (
            b"<article key='a'><author>J&uuml;rgen \xfc</author></article>\n<www/>" * 500 + b"</dblp>"
        )
    else:
        data = (data_directory / "docs/dblp-sample/sample.xml").read_bytes()
    rule = Rule(("article", "incollection"), "html")
    found = rows(data, rule)
    assert len(found) > 100
    for document, *_ in found:
        assert document is not None
        read(document)
    for part_bytes in (1, 1000, 77_777):
        assert by_parts(data, rule, part_bytes) == found


def test_declarations_do_not_grow_without_bound() -> None:
    """A namespace declared once is copied into each record: 100 KB would become 600 MB."""
    data = b"<r xmlns:n='" + b"u" * 60_000 + b"'>" + b"<a/>" * 10_000 + b"</r>"
    whole = rows(data)
    assert whole[-1][0] is None and whole[-1][2:] == (None, "TC306")
    assert 200 < len(whole) < 500 and sum(len(row[0] or b"") for row in whole) < 32 << 20
    assert by_parts(data, Rule(), 100) == whole  # every part knows what came before it
    # Where records are of a size that is worth it, much more may be copied.
    data = b"<r xmlns:n='" + b"u" * 20_000 + b"'>" + (b"<a>" + b"x" * 300 + b"</a>") * 3_000 + b"</r>"
    assert len(rows(data)) == 3_000 and rows(data)[-1][3] is None
