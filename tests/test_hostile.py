"""Documents from strangers: each gets its answer, whole and in chunks, and nothing crashes, hangs or fetches.

The large ones are the size at which anything quadratic would not come back; their small twins are fed byte by byte.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.sanitized import fewer

from treecast import DocumentError, LimitError, _native
from treecast.document import Document, Limits, Reader, read

MB = fewer(1_000_000)
NAMES = fewer(300_000)
LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))

# name: (document, the code of its refusal or None)
SMALL: dict[str, tuple[bytes, str | None]] = {
    "billion laughs": (f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><a>&l9;</a>'.encode(), "TC205"),
    "quadratic blow-up": (b'<!DOCTYPE a [<!ENTITY x "' + b"y" * 5_000 + b'">]><a>' + b"&x;" * 500 + b"</a>", "TC205"),
    "external entity": (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "TC205"),
    "parameter entity": (b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1/x">%x;]><a/>', "TC205"),
    "recursive entity": (b'<!DOCTYPE a [<!ENTITY x "&y;"><!ENTITY y "&x;">]><a>&x;</a>', "TC205"),
    "attribute-list bomb": (b"<!DOCTYPE a [<!ATTLIST a " + b"x CDATA 'y' " * 1_000 + b">]><a/>", "TC205"),
    "default attribute": (b'<!DOCTYPE r [<!ATTLIST r role CDATA "admin">]><r/>', "TC205"),
    "conditional section": (b"<!DOCTYPE a [<![INCLUDE[<!ENTITY x 'y'>]]>]><a/>", "TC205"),
    "DTD behind a comment": (b"<!DOCTYPE a [<!-- ]> --><?p ]>?><!ENTITY x 'y'>]><a/>", "TC205"),
    "DTD in UTF-16": ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>'.encode("utf-16"), "TC205"),
    "DTD in unmarked UTF-16": (
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a [<!ENTITY x "y">]><a/>'.encode("utf-16-be"),
        "TC205",
    ),
    "external subset": (b'<!DOCTYPE a PUBLIC "-//x//y" "http://127.0.0.1:9/x.dtd"><a/>', None),
    "undeclared entity": (b'<!DOCTYPE a SYSTEM "x.dtd"><a b="&x;"/>', "TC206"),
    "XInclude": (
        b'<a xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="file:///etc/passwd" parse="text"/></a>',
        None,
    ),
    "schemaLocation": (
        b'<a xmlns:s="http://www.w3.org/2001/XMLSchema-instance" s:schemaLocation="urn:x http://127.0.0.1:9/x.xsd"/>',
        None,
    ),
    "stylesheet": (b'<?xml-stylesheet href="http://127.0.0.1:9/x.xsl"?><a/>', None),
    "depth": (b"<a>" * 2_000 + b"</a>" * 2_000, "TC302"),
    "attributes": (b"<a " + b" ".join(b'x%d=""' % i for i in range(1_000)) + b"/>", "TC303"),
    "namespace declarations": (b"<a " + b" ".join(b'xmlns:x%d="u"' % i for i in range(1_000)) + b"/>", "TC303"),
    "long name": (b"<" + b"a" * 1_025 + b"/>", "TC304"),
    "long attribute name": (b"<a " + b"a" * 1_025 + b'=""/>', "TC304"),
    "long entity name": (b"<a>&" + b"a" * 1_025 + b";</a>", "TC304"),
    "overlong UTF-8": (b"<a>\xc0\xbc</a>", "TC204"),
    "overlong NUL": (b"<a>\xc0\x80</a>", "TC204"),
    "overlong in three": (b"<a>\xe0\x80\xbc</a>", "TC204"),
    "surrogate in UTF-8": (b"<a>\xed\xa0\x80</a>", "TC204"),
    "beyond Unicode": (b"<a>\xf4\x90\x80\x80</a>", "TC204"),
    "cut UTF-8": (b"<a>\xe2\x82</a>", "TC204"),
    "lone surrogate in UTF-16": (b"\xff\xfe<\0a\0>\0\0\xd8<\0/\0a\0>\0", "TC204"),
    "half a unit of UTF-16": ("<a/>".encode("utf-16") + b"\n", "TC204"),
    "UTF-7": (b'<?xml version="1.0" encoding="UTF-7"?>+ADw-a/+AD4-', "TC204"),
    "UTF-7 undeclared": (b"+ADw-a/+AD4-", "TC201"),
    "UTF-32": ("<a/>".encode("utf-32"), "TC204"),
    "UTF-32 unmarked": ("<a/>".encode("utf-32-be"), "TC204"),
    "EBCDIC": ('<?xml version="1.0"?><a/>'.encode("cp037"), "TC204"),
    "UTF-16 declared as UTF-8": ('<?xml version="1.0" encoding="UTF-8"?><a/>'.encode("utf-16"), "TC204"),
    "UTF-8 declared as UTF-16": (b'<?xml version="1.0" encoding="UTF-16"?><a/>', "TC204"),
    "marked UTF-8 declared as Latin-1": (b'\xef\xbb\xbf<?xml version="1.0" encoding="ISO-8859-1"?><a/>', "TC204"),
    "wrong byte order": (b"\xff\xfe" + '<?xml version="1.0" encoding="UTF-16BE"?><a/>'.encode("utf-16-le"), "TC204"),
    "US-ASCII with more": (b'<?xml version="1.0" encoding="US-ASCII"?><a>\xe9</a>', "TC204"),
    "windows-1252 with a hole": (b'<?xml version="1.0" encoding="windows-1252"?><a>\x81</a>', "TC204"),
    "NUL": (b"<a>\0</a>", "TC203"),
    "NUL reference": (b"<a>&#0;</a>", "TC203"),
    "illegal reference": (b"<a>&#xFFFF;</a>", "TC203"),
    "reference that overflows": (b"<a>&#4294967361;</a>", "TC203"),
    "control character": (b"<a>\x08</a>", "TC203"),
    "version 2.0": (b'<?xml version="2.0"?><a/>', "TC201"),
    "version 1.1": (b'<?xml version="1.1"?><a>&#x85;</a>', None),
    "version 1.1 control": (b'<?xml version="1.1"?><a>&#x1;</a>', "TC203"),
    "duplicate attribute": (b"<a x='1' x='1'/>", "TC208"),
    "duplicate through prefixes": (b"<a xmlns:p='u' xmlns:q='&#117;' p:x='1' q:x='1'/>", "TC208"),
    "unbound prefix": (b"<p:a/>", "TC207"),
    "prefix out of scope": (b"<a><b xmlns:p='u'/><p:c/></a>", "TC207"),
    "xml rebound": (b"<a xmlns:xml='urn:x'/>", "TC207"),
    "xmlns bound": (b"<a xmlns:xmlns='http://www.w3.org/2000/xmlns/'/>", "TC207"),
    "empty": (b"", "TC209"),
    "blank": (b" \n", "TC209"),
    "truncated": (b"<a><b>x</b>", "TC209"),
    "two roots": (b"<a/><a/>", "TC201"),
    "trailing junk": (b"<a/>junk", "TC201"),
    "trailing NUL": (b"<a/>\0", "TC203"),
    "gzip": (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "TC203"),
    "HTML": (b"<!doctype html><p>", "TC201"),
    "JSON": (b'{"a": 1}', "TC201"),
}


def many(pattern: bytes, count: int) -> bytes:
    return b"".join(pattern % i for i in range(count))


# Made when needed; the second is the least number of elements, or the code.
LARGE: dict[str, tuple[Callable[[], bytes], int | str]] = {
    "depth 1,000,000": (lambda: b"<a>" * MB, "TC302"),
    "2,000,000 siblings": (lambda: b"<a>" + b"<b/>" * (2 * MB) + b"</a>", 2 * MB + 1),
    "2,000,000 texts": (lambda: b"<a>" + b"x<b/>" * (2 * MB) + b"</a>", 2 * MB + 1),
    "100,000 attributes": (lambda: b"<a" + many(b' x%d=""', 100_000) + b"/>", "TC303"),
    "100,000 declarations on one": (lambda: b"<a" + many(b' xmlns:x%d="u"', 100_000) + b"/>", "TC303"),
    "100,000 declarations": (lambda: b"<a>" + many(b'<b xmlns:x%d="u"/>', 100_000) + b"</a>", 100_001),
    "100,000 namespaces": (lambda: b"<a>" + many(b'<p:b xmlns:p="u%d"/>', 100_000) + b"</a>", 100_001),
    "declarations at every depth": (
        lambda: many(b'<a xmlns:p="u%d" xmlns="v">', 500) + b"<p:b/>" * MB + b"</a>" * 500,
        MB + 500,
    ),
    "one declaration 200,000 times": (lambda: b"<a>" + b'<p:b xmlns:p="u" p:x=""/>' * 200_000 + b"</a>", 200_001),
    "20 MB name": (lambda: b"<" + b"a" * (20 * MB) + b"/>", "TC304"),
    "20 MB attribute": (lambda: b'<a b="' + b"x" * (20 * MB) + b'"/>', "TC305"),
    "20 MB attribute of references": (lambda: b'<a b="' + b"&amp;" * (4 * MB) + b'"/>', "TC305"),
    "20 MB comment": (lambda: b"<a><!--" + b"- " * (10 * MB) + b"--></a>", 1),
    "20 MB instruction": (lambda: b"<a><?p " + b"?" * (20 * MB) + b"?></a>", 1),
    "20 MB text": (lambda: b"<a>" + b"x" * (20 * MB) + b"</a>", 1),
    "20 MB text of brackets": (lambda: b"<a>" + b"]" * (20 * MB) + b"</a>", 1),
    "20 MB text of references": (lambda: b"<a>" + b"&lt;" * (5 * MB) + b"</a>", 1),
    "20 MB text of line ends": (lambda: b"<a>" + b"\r" * (20 * MB) + b"</a>", 1),
    "20 MB CDATA": (lambda: b"<a><![CDATA[" + b"]]" * (10 * MB) + b"]]></a>", 1),
    "a million CDATA sections": (lambda: b"<a>" + b"<![CDATA[x]]>" * MB + b"</a>", 1),
    "20 MB white space in a tag": (lambda: b"<a" + b" " * (20 * MB) + b"/>", 1),
    "20 MB white space before": (lambda: b" " * (20 * MB) + b"<a/>", 1),
    "20 MB system identifier": (lambda: b"<!DOCTYPE a SYSTEM '" + b"x" * (20 * MB) + b"'><a/>", 1),
    "20 MB of '<'": (lambda: b"<" * (20 * MB), "TC201"),
    "20 MB of '<?'": (lambda: b"<?a?>" * (4 * MB), "TC209"),
    "300,000 names": (lambda: b"<a>" + many(b"<n%d/>", NAMES) + b"</a>", NAMES + 1),
    "300,000 attribute names": (lambda: b"<a>" + many(b'<b n%d=""/>', NAMES) + b"</a>", NAMES + 1),
    "300,000 long names": (lambda: b"<a>" + many(b"<" + b"n" * 40 + b"%d/>", NAMES) + b"</a>", NAMES + 1),
    "600,000 names": (lambda: b"<a>" + many(b"<n%d/>", 600_000) + b"</a>", "TC309"),
    "70 MB": (lambda: b"<a>" + b"x" * 70_000_000 + b"</a>", "TC301"),
}


@pytest.fixture(params=[0, 1], ids=["scalar", "avx2"], autouse=True)
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    _native.testing.simd_force(request.param)
    yield
    _native.testing.simd_force(-1)


def fed(data: bytes, chunk_bytes: int) -> Document:
    reader = Reader()
    for at in range(0, len(data), chunk_bytes):
        reader.feed(data[at : at + chunk_bytes])
    return reader.close()


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    data, code = SMALL[name]
    if code is None:
        assert len(read(data)) == len(fed(data, 1))
        return
    with pytest.raises(DocumentError) as whole:
        read(data)
    with pytest.raises(DocumentError) as chunked:
        fed(data, 1)
    assert whole.value.code == code
    assert str(whole.value) == str(chunked.value)
    assert isinstance(whole.value, LimitError) == code.startswith("TC3")
    assert 0 <= whole.value.offset <= len(data)
    assert len(str(whole.value)) < 2_000


@pytest.mark.parametrize("name", LARGE)
def test_large(name: str) -> None:
    make, wanted = LARGE[name]
    data = make()
    ways: list[Callable[[bytes], Document]] = [read]
    if _native.testing.simd_level() > 0:  # chunks are joined before they are read, so once will do
        ways.append(lambda whole: fed(whole, 1 << 16))
    for way in ways:
        if isinstance(wanted, int):
            assert len(way(data)) == wanted
        else:
            with pytest.raises(DocumentError) as refused:
                way(data)
            assert refused.value.code == wanted


def test_every_prefix_is_refused() -> None:
    data = (
        '<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE a SYSTEM "x" [ <?p?> ]><!-- c -->'
        "<a xmlns:p=\"u\" p:b='&lt;é'>t&#65;<![CDATA[x]]><b/><?p q?></a>"
    ).encode()
    read(data)
    for cut in range(len(data)):
        with pytest.raises(DocumentError) as refused:
            read(data[:cut])
        assert refused.value.code in ("TC209", "TC204"), data[:cut]
        assert refused.value.offset <= cut


def test_nothing_is_fetched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        (tmp_path / "x").write_text('<!ENTITY e "SECRET">')
        for place in (address, (tmp_path / "x").as_uri()):
            assert len(read(f'<!DOCTYPE a SYSTEM "{place}"><a/>'.encode())) == 1
            for subset in (f'<!ENTITY e SYSTEM "{place}">', f'<!ENTITY % e SYSTEM "{place}">%e;'):
                with pytest.raises(DocumentError) as refused:
                    read(f"<!DOCTYPE a [{subset}]><a>&e;</a>".encode())
                assert "SECRET" not in str(refused.value)
            with pytest.raises(DocumentError, match="TC206"):
                read(f'<!DOCTYPE a SYSTEM "{place}"><a>&e;</a>'.encode())
        with pytest.raises(BlockingIOError):
            server.accept()


def test_names_do_not_pile_up() -> None:
    """A reader that has met very many names starts its table afresh, and reads on."""
    documents = [b"<a>" + b"".join(b'<n%d.%d x%d=""/>' % (i, j, j) for j in range(60_000)) + b"</a>" for i in range(5)]
    assert _native.read_many([*documents, b"<a/>"], Limits().native()) == 5 * 60_001 + 1
