"""What the reader makes of a document, with both instruction sets."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

import treecast
from treecast import _native
from treecast.document import Limits, Reader, read


@pytest.fixture(params=[0, 1], ids=["scalar", "avx2"], autouse=True)
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    _native.testing.simd_force(request.param)
    yield
    _native.testing.simd_force(-1)


def test_the_processor_is_recognised() -> None:
    """As Linux does; BMI, POPCNT and LZCNT come with AVX2, and the parts of AVX-512 with each other."""
    flags: set[str] = set()
    if platform.machine() == "x86_64":
        flags = set(re.findall(r"\w+", re.findall("^flags.*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[0]))
    avx2 = {"avx2", "bmi1", "bmi2", "popcnt", "abm"} <= flags
    avx512 = avx2 and {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags
    assert _native.testing.simd_best() == avx2 + avx512


def test_columns() -> None:
    document = read(b'<a x="1"><b>one<c/></b> two<p:d xmlns:p="urn:p" p:y="2"/></a>')
    assert document.names == [("", "a"), ("", "b"), ("", "c"), ("urn:p", "d")]
    assert list(document.parents) == [-1, 0, 1, 0]
    assert list(document.depths) == [0, 1, 2, 1]
    assert list(document.sizes) == [4, 2, 1, 1]
    assert list(document.starts) == [0, 9, 15, 27]
    assert list(document.ends) == [61, 23, 19, 57]
    assert document.attributes == [(0, ("", "x"), "1"), (3, ("urn:p", "y"), "2")]
    assert document.texts == [(1, "one"), (0, " two")]
    assert document.labels == [(1, 8, 0), (2, 5, 1), (3, 4, 2), (6, 7, 1)]
    assert document.post_orders == [(4, 1), (2, 1), (1, 1), (3, 3)]
    assert document.string_value(0) == "one two"
    assert document.slice(1) == b"<b>one<c/></b>"


def test_chunks() -> None:
    reader = Reader(limits=Limits(document_bytes_max=8))
    reader.feed(b"<a>")
    with pytest.raises(treecast.DocumentError, match="TC301"):
        reader.feed(b"123456")
    with pytest.raises(ValueError, match="closed"):
        reader.feed(b"")


def test_texts_are_those_of_xpath() -> None:
    document = read(b"<a>1<!-- -->2<![CDATA[<3>]]>&amp;\r\n4<?p?><b/><![CDATA[]]>5\r</a>")
    assert document.texts == [(0, "1"), (0, "2<3>&\n4"), (0, "5\n")]
    assert document.string_value(0) == "12<3>&\n45\n"


def test_attribute_values_are_normalised() -> None:
    document = read(b"<a x=' \t\n\r\n\r' y='&#9;&#10;&#13;' z='&lt;\"'/>")
    assert [value for _, _, value in document.attributes] == ["     ", "\t\n\r", '<"']


def test_namespaces() -> None:
    document = read(b"<a xmlns='u' x='1'><p:b xmlns:p='v' p:x='2' xmlns=''><c/></p:b><d xml:lang='en'/></a>")
    assert document.names == [("u", "a"), ("v", "b"), ("", "c"), ("u", "d")]
    xml = "http://www.w3.org/XML/1998/namespace"
    assert [name for _, name, _ in document.attributes] == [("", "x"), ("v", "x"), (xml, "lang")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_offsets_are_those_of_the_bytes_given(encoding: str) -> None:
    label = encoding.removesuffix("-sig")
    data = f'<?xml version="1.0" encoding="{label}"?><a é="ü">éé<b>ß</b></a>'.encode(encoding)
    document = read(data)
    inner = "<b>ß</b>".encode("utf-16-le" if encoding == "utf-16" else label)
    assert document.starts[1] == data.index(inner)
    assert document.ends[1] == data.index(inner) + len(inner)
    assert document.slice(1) == "<b>ß</b>".encode()
    assert document.data == data
    assert document.string_value(0) == "ééß"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "windows-1252"])
def test_a_slice_is_a_document_of_its_own(encoding: str) -> None:
    """It is UTF-8, and declares every namespace in scope: content may use prefixes too (`t:person`)."""
    feed = f"""<?xml version="1.0" encoding="{encoding}"?>
<feed xmlns="urn:atom" xmlns:dc="urn:dc" xmlns:t="urn:t" xml:lang="de">
<entry dc:date="1"><dc:creator type="t:person">J&uuml;rgen é</dc:creator></entry><plain xmlns=""/></feed>"""
    document = read(feed.encode(encoding), entities="html")
    slices = [document.slice(element) for element in range(len(document))]
    scope = 'xmlns="urn:atom" xmlns:dc="urn:dc" xmlns:t="urn:t"'
    assert slices[1].decode() == f'<entry {scope} dc:date="1"><dc:creator type="t:person">Jürgen é</dc:creator></entry>'
    assert slices[3] == b'<plain xmlns:dc="urn:dc" xmlns:t="urn:t" xmlns=""/>'
    for element, alone in enumerate(map(read, slices)):  # without the entities that the feed needed
        end = element + document.sizes[element]
        assert alone.names == document.names[element:end]
        assert alone.string_value(0) == document.string_value(element)
        assert alone.attributes == [(of - element, *rest) for of, *rest in document.attributes if element <= of < end]


ENCODINGS = {  # what each is read as
    "utf-8": "UTF-8 utf-8 UTF8",
    "ascii": "US-ASCII ascii ANSI_X3.4-1968 ISO646-US iso-ir-6 us IBM367 cp367",
    "iso-8859-1": "ISO-8859-1 iso_8859-1 ISO8859-1 latin1 Latin1 L1 iso-ir-100 IBM819 CP819",
    "windows-1252": "windows-1252 Windows-1252 cp1252 CP1252",
    "utf-16": "UTF-16 utf16 UTF-16LE utf16le",
}


@pytest.mark.parametrize(
    ("encoding", "name"), [(key, name) for key, names in ENCODINGS.items() for name in names.split()]
)
def test_encodings_by_their_names(encoding: str, name: str) -> None:
    """Those that libxml2 knows as well."""
    text = f'<?xml version="1.0" encoding="{name}"?><a>{"a" if encoding == "ascii" else "é"}</a>'
    data = text.encode(encoding)
    assert read(data).texts == [(0, etree.fromstring(data).text)]


@pytest.mark.parametrize(
    "name",
    [
        "UT-F-8",
        "U-T-F-8",
        "UTF_8",
        "I-SO-8859-1",
        "ISO-8859-1-",
        "ISO88591",
        "latin-1",
        "us_ascii",
        "windows1252",
        "utf-8-sig",
    ],
)
def test_names_that_resemble_those_of_encodings_are_refused(name: str) -> None:
    for data in (
        f'<?xml version="1.0" encoding="{name}"?><a/>'.encode(),
        f'<?xml version="1.0" encoding="{name}"?><a/>'.encode("utf-16"),
    ):
        with pytest.raises(treecast.DocumentError, match=f"TC204 the encoding {name} is not accepted"):
            read(data)
    with pytest.raises(etree.XMLSyntaxError, match="encoding"):
        etree.fromstring(f'<?xml version="1.0" encoding="{name}"?><a/>'.encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_error_offset_and_line(encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>\r\n<a>\ré\n<b></c></a>'
    before = text[: text.index("</c>")].encode(encoding)
    with pytest.raises(treecast.DocumentError) as refused:
        read(text.encode(encoding))
    assert (refused.value.code, refused.value.offset, refused.value.line) == ("TC202", len(before), 4)


def test_errors_come_in_document_order() -> None:
    for data, code in (
        (b"<a></b>\0", "TC202"),
        (b"<a>\0</b>", "TC203"),
        (b"<a></b>\xff", "TC202"),
        (b"<a>\xff</b>", "TC204"),
    ):
        with pytest.raises(treecast.DocumentError, match=code):
            read(data)


def test_entities() -> None:
    given = {"uuml": "ü", "markup": "<b>&amp;", "break": "1\n2", "none": ""}
    document = read(b"<a x='&uuml;&break;'>&uuml;&markup;<b>&none;</b>&break;&lt;</a>", entities=given)
    assert document.attributes == [(0, ("", "x"), "ü1 2")]
    assert document.texts == [(0, "ü<b>&amp;"), (0, "1\n2<")]
    assert read(b"<a>&eacute;&nbsp;&NotEqualTilde;</a>", entities="html").string_value(0) == "é\xa0\u2242\u0338"
    with pytest.raises(treecast.DocumentError, match="TC206"):
        read(b"<a>&euml;</a>", entities=given)


@pytest.mark.parametrize("wrong", [{"": "x"}, {"1": "x"}, {"a b": "x"}, {"a": "\0"}, {"a": "\ufffe"}])
def test_wrong_entities(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="entity"):
        read(b"<a/>", entities=wrong)


def test_entities_cannot_blow_up() -> None:
    with pytest.raises(treecast.LimitError, match="TC301"):
        read(b"<a>" + b"&x;" * 3_000 + b"</a>", entities={"x": "y" * 1_000}, limits=Limits(document_bytes_max=100_000))


@pytest.mark.parametrize(
    ("limits", "fits", "too_large", "code"),
    [
        (Limits(document_bytes_max=10), b"<a>123</a>", b"<a>1234</a>", "TC301"),
        (Limits(depth_max=2), b"<a><b/></a>", b"<a><b><c/></b></a>", "TC302"),
        (Limits(attributes_max=2), b"<a b='' xmlns='u'/>", b"<a b='' xmlns='u' c=''/>", "TC303"),
        (Limits(name_bytes_max=3), b"<abc/>", b"<abcd/>", "TC304"),
        (Limits(name_bytes_max=3), b"<\xc3\xa9a/>", b"<\xc3\xa9\xc3\xa9/>", "TC304"),
        (Limits(attribute_bytes_max=3), b"<a b='123'/>", b"<a b='1234'/>", "TC305"),
        (Limits(attribute_bytes_max=5), b"<a b='&amp;'/>", b"<a b='&amp;x'/>", "TC305"),
        (Limits(names_max=2), b"<a b=''><a b=''/></a>", b"<a b=''><c/></a>", "TC309"),
        (Limits(names_max=2), b"<a b=''/>", b"<a b='' c=''/>", "TC309"),
        (Limits(names_max=2), b"<a xmlns:p='u'/>", b"<a xmlns:p='u' p:a=''/>", "TC309"),
        # Of these all are written alike: the namespaces are too many, then the names in them.
        (
            Limits(names_max=2),
            b"<a xmlns:p='u'><a xmlns:p='v'/></a>",
            b"<a xmlns:p='u'><a xmlns:p='v'/><a xmlns:p='w'/></a>",
            "TC309",
        ),
        (Limits(names_max=2), b"<a xmlns='u'><a xmlns='v'/></a>", b"<a xmlns='u'><a xmlns='v' a=''/></a>", "TC309"),
    ],
)
def test_limits(limits: Limits, fits: bytes, too_large: bytes, code: str) -> None:
    read(fits, limits=limits)
    with pytest.raises(treecast.DocumentError, match=code) as refused:
        read(too_large, limits=limits)
    assert isinstance(refused.value, treecast.LimitError)
    limit = next(name for name, value in vars(limits).items() if value != vars(Limits())[name])
    assert f"treecast.Limits({limit}=" in refused.value.hint


def test_a_name_met_under_a_higher_limit_is_measured_again() -> None:
    name = b"n" * 30
    read(b"<" + name + b"/>")
    with pytest.raises(treecast.LimitError, match="TC304"):
        read(b"<" + name + b"/>", limits=Limits(name_bytes_max=29))


def test_names_of_earlier_documents_do_not_count() -> None:
    index = treecast.Index(limits=Limits(names_max=3))
    index.add("c", "//c")
    fits = [b"<a%d b%d=''><c/></a%d>" % (i, i, i) for i in range(5)]
    too_many = b"<d><e/><f/><g/></d>"
    for _ in range(2):  # once with names that are new, once with known ones
        for document in fits:
            assert index.match(document) == ["c"]
            for _ in range(2):
                with pytest.raises(treecast.LimitError, match="TC309"):
                    index.match(too_many)


@pytest.mark.parametrize(
    "wrong",
    [
        {"depth_max": 0},
        {"depth_max": 65_536},
        {"document_bytes_max": 1 << 32},
        {"name_bytes_max": -1},
        {"names_max": 0},
    ],
)
def test_wrong_limits(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Limits(**wrong)


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match="bytes"):
        read(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="depth_max"):
        Limits(depth_max=1.5)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        read(b"<a/>").slice(1)
    assert len(read(bytearray(b"<a/>"))) == len(read(memoryview(b"<a/>"))) == 1


def test_columns_outlive_their_document() -> None:
    starts = read(b"<a>" + b"<b/>" * 100 + b"</a>").starts
    assert starts[100] == 3 + 4 * 99
    with pytest.raises(TypeError):
        starts[0] = 1


@pytest.mark.parametrize("level", [0, 1])
def test_known_names_do_not_change_errors(level: int) -> None:
    """A name that the reader has met before is not examined again; what is wrong after it is found all the same."""
    limits = treecast.Limits(depth_max=2).native()
    refused = []
    for before in (b"<c/>", b"<other/>"):
        _native.testing.simd_force(level)
        try:
            with pytest.raises(treecast.DocumentError) as caught:
                _native.read_many([before, b"<a><b><c\x14"], limits)
        finally:
            _native.testing.simd_force(-1)
        refused.append((caught.value.code, caught.value.offset))
    assert refused == [("TC302", 6)] * 2
