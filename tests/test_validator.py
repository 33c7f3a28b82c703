"""Validity by a DTD: the verdicts are those of libxml2, except where this file says so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from lxml import etree

import treecast
from treecast.errors import DocumentError, DocumentLimitError
from treecast.workload import DocumentSettings, Schema, generate_documents
from treecast.workload.content_automaton import Automata, State
from treecast.workload.content_model import Group, Name, Particle
from treecast.workload.validator import Validator

pytestmark = pytest.mark.house

WORKLOAD = Path(treecast.__file__).parent / "workload"
DTDS = {
    "news": (WORKLOAD / "news.dtd").read_text(),
    "records": (WORKLOAD / "records.dtd").read_text(),
    "types": """
        <!NOTATION gif SYSTEM "gif"> <!NOTATION png SYSTEM "png">
        <!ENTITY logo SYSTEM "logo.gif" NDATA gif> <!ENTITY seal SYSTEM "seal.png" NDATA png>
        <!ELEMENT list (head?, (entry | note)+, foot?)>
        <!ELEMENT head EMPTY> <!ELEMENT foot ANY>
        <!ELEMENT entry (#PCDATA | note)*> <!ELEMENT note (#PCDATA)>
        <!ATTLIST entry key ID #REQUIRED see IDREF #IMPLIED all IDREFS #IMPLIED kind (red | green) "red">
        <!ATTLIST note word NMTOKEN #IMPLIED words NMTOKENS #IMPLIED lang CDATA #FIXED "en">
        <!ATTLIST head image ENTITY #IMPLIED images ENTITIES #IMPLIED format NOTATION (gif | png) #IMPLIED>
        <!ATTLIST foot fixed (on | off) #FIXED "on" xml:space (default | preserve) "default">
    """,
    "models": """
        <!ELEMENT a ((b, c?) | (d, (c, e)*, e?))*> <!ELEMENT b (c?, d?)> <!ELEMENT c (d+ | e)?>
        <!ELEMENT d EMPTY> <!ELEMENT e (#PCDATA | d)*>
    """,
}
VALUES = [
    "",
    "i1",
    "i2",
    "zz",
    "red",
    "on",
    "off",
    "en",
    "gif",
    "logo",
    "seal",
    "logo seal",
    "i1 i2",
    "1",
    "-",
    "a b",
    "é",
    "ü:x",
]
INSERTS = [" ", "text", "<!-- c -->", "<?p i?>", "<![CDATA[x]]>", "<![CDATA[ ]]>", "&amp;", "&#65;", "\n\t"]


def is_valid(validator: Validator, document: bytes) -> bool:
    treecast.read(document)
    try:
        validator.check(document)
    except DocumentError as error:
        assert error.code in ("TC220", "TC221", "TC222") and error.line >= 1, error
        assert document[error.offset :].startswith(b"<"), error
        return False
    return True


def says_lxml(dtd: etree.DTD, document: bytes) -> bool:
    """A tree that is made anew: libxml2 keeps identifiers in it. Sections are kept: they are never white space."""
    valid: bool = dtd.validate(etree.fromstring(document, etree.XMLParser(strip_cdata=False)))
    return valid


def mutants(document: bytes, names: list[str], random: Random, count: int) -> Iterator[bytes]:
    """Documents that differ in one or two places; not all of them are well-formed."""
    text = document.decode()
    text = text[text.index("?>") + 2 :] if text.startswith("<?xml") else text
    for _ in range(count):
        changed = text
        for _ in range(random.choice((1, 1, 2))):
            tags = [match.span() for match in re.finditer(r"<[^>]*>", changed)]
            begin, end = random.choice(tags)
            tag = changed[begin:end]
            kind = random.randrange(7)
            if kind == 0:  # something between two tags
                changed = changed[:end] + random.choice(INSERTS) + changed[end:]
            elif kind == 1:  # another element
                name = random.choice(names)
                changed = changed[:end] + random.choice((f"<{name}/>", f"<{name}></{name}>")) + changed[end:]
            elif kind == 2:  # an attribute more
                other = re.search(r'\s([^\s=]+)="', random.choice([changed[b:e] for b, e in tags]))
                extra = f' {other[1] if other else "extra"}="{random.choice(VALUES)}"'
                changed = changed[:begin] + re.sub(r"^<([^\s/>]+)", rf"<\1{extra}", tag) + changed[end:]
            elif kind == 3:  # one less
                changed = changed[:begin] + re.sub(r'\s[^\s=]+="[^"]*"', "", tag, count=1) + changed[end:]
            elif kind == 4:  # another value
                value = random.choice(VALUES)
                changed = changed[:begin] + re.sub(r'="[^"]*"', f'="{value}"', tag, count=1) + changed[end:]
            else:  # a whole element is gone, or there twice
                element = re.match(r"<([^\s/>]+)[^>]*>[^<]*</\1>|<[^/>]*/>", changed[begin:])
                if element is not None:
                    rest = changed[begin + element.end() :]
                    changed = changed[:begin] + (element[0] * 2 if kind == 6 else "") + rest
        yield changed.encode()


def compare(text: str, documents: list[bytes], random: Random, mutants_each: int) -> tuple[int, int]:
    """How many were valid and invalid, all with the verdict of libxml2."""
    validator, dtd = Validator.from_text(text), etree.DTD(StringIO(text))
    names = sorted(validator.schema.elements)
    counts = [0, 0]
    for document in documents:
        assert is_valid(validator, document), document
        for mutant in mutants(document, names, random, mutants_each):
            try:
                treecast.read(mutant)
            except DocumentError:
                continue
            expected = says_lxml(dtd, mutant)
            assert is_valid(validator, mutant) == expected, (mutant, dtd.error_log)
            counts[expected] += 1
    return counts[1], counts[0]


SIZES = DocumentSettings(bytes_target=1_500, attributes=0.5)


@pytest.mark.parametrize("name", DTDS)
def test_verdicts_are_those_of_libxml2(name: str) -> None:
    schema = Schema.from_text(DTDS[name], name=name)
    valid, invalid = compare(DTDS[name], list(generate_documents(schema, 10, SIZES, seed=5)), Random(7), 60)
    assert valid > 20 and invalid > 100, (valid, invalid)


@pytest.mark.parametrize(
    "inner", ["", " ", "\n", "<!-- c -->", "<?p i?>", "x", "<![CDATA[]]>", "&#32;", "<head/>"], ids=ascii
)
def test_elements_that_have_to_be_empty(inner: str) -> None:
    document = f"<list><head>{inner}</head><note/></list>".encode()
    assert is_valid(Validator.from_text(DTDS["types"]), document) == (inner == "")
    assert says_lxml(etree.DTD(StringIO(DTDS["types"])), document) == (inner == "")


def real_dtds() -> list[Path]:
    data = os.environ.get("TREECAST_DATA")
    return sorted(Path(data).rglob("*.dtd")) if data else []


def test_verdicts_for_real_dtds() -> None:
    """Each DTD of TREECAST_DATA that is in one piece, and that libxml2 can use."""
    checked = []
    for path in real_dtds():
        try:
            text = path.read_text()
            etree.DTD(StringIO(text))
            validator = Validator.from_text(text, path.stem)
        except (UnicodeDecodeError, etree.DTDParseError, DocumentError):
            continue
        schema = validator.schema
        if schema.namespaces:
            continue  # prefixes: see below
        documents = [d for d in generate_documents(schema, 4, SIZES, seed=5) if says_lxml(etree.DTD(StringIO(text)), d)]
        compare(text, documents, Random(7), 40)
        checked.append(path.name)
    if not checked:
        pytest.skip("no DTDs in TREECAST_DATA")


# --- where we differ --------------------------------------------------------------------------------------------------

DIFFERENCES = [
    # XML 1.0, 3.3.3: a value that is no CDATA loses spaces around it. libxml2 has read the document without the DTD.
    ("<!ELEMENT a EMPTY> <!ATTLIST a k NMTOKEN #IMPLIED>", '<a k=" x "/>', True, False),
    ("<!ELEMENT a EMPTY> <!ATTLIST a k (x | y) #IMPLIED>", '<a k=" x"/>', True, False),
    # 3, Element Valid: white space that is written as a reference is none. libxml2 sees its character.
    ("<!ELEMENT a (b?)> <!ELEMENT b EMPTY>", "<a>&#32;</a>", False, True),
    # 3.2.1: a model that needs lookahead is an error for compatibility. libxml2 then refuses every such element.
    (
        "<!ELEMENT a ((b, c) | (b, d))> <!ELEMENT b EMPTY> <!ELEMENT c EMPTY> <!ELEMENT d EMPTY>",
        "<a><b/><d/></a>",
        True,
        False,
    ),
    # A DTD knows no namespaces: p:b is another name than b. libxml2 takes the declaration of b if there is none of p:b.
    (
        "<!ELEMENT a EMPTY> <!ATTLIST a xmlns:p CDATA #IMPLIED>",
        '<p:a xmlns:p="u"/>',
        False,
        True,
    ),
]


@pytest.mark.parametrize(("dtd", "document", "ours", "theirs"), DIFFERENCES)
def test_differences_from_libxml2(dtd: str, document: str, ours: bool, theirs: bool) -> None:
    """If one of these fails, libxml2 has changed, or we have: then the list is shorter."""
    assert is_valid(Validator.from_text(dtd), document.encode()) == ours
    assert says_lxml(etree.DTD(StringIO(dtd)), document.encode()) == theirs


# --- automata ---------------------------------------------------------------------------------------------------------


def draw_model(random: Random, depth: int = 3) -> Particle:
    occurs = random.choice(("", "", "?", "*", "+"))
    if depth == 0 or random.random() < 0.4:
        return Name(random.choice("abc"), occurs)  # type: ignore[arg-type]
    items = tuple(draw_model(random, depth - 1) for _ in range(random.randint(1, 3)))
    return Group(random.choice(("sequence", "choice")), items, occurs)  # type: ignore[arg-type]


def ends(particle: Particle, word: str, begins: set[int]) -> set[int]:
    """Where a part of a model may end in a word, if it begins at one of these places: literally what it means."""
    found = set(begins) if particle.occurs in ("?", "*") else set()
    reached = begins
    while reached:
        if isinstance(particle, Name):
            reached = {at + 1 for at in reached if word[at : at + 1] == particle.name}
        elif particle.kind == "choice":
            reached = set().union(*(ends(item, word, reached) for item in particle.items))
        else:
            for item in particle.items:
                reached = ends(item, word, reached)
        reached -= found
        found |= reached
        if particle.occurs in ("", "?"):
            break
    return found


def accepts(start: State, word: str) -> bool:
    state: State | None = start
    for letter in word:
        state = state.get(letter) if state is not None else None
    return state is not None and state.accepts


def test_automata_accept_what_the_model_says() -> None:
    """Also models that need lookahead."""
    random = Random(3)
    words = ["".join(random.choice("abc") for _ in range(random.randint(0, 7))) for _ in range(150)]
    agreed = [0, 0]
    for _ in range(150):
        model = draw_model(random)
        start = Automata(10_000).compile(model, {"a", "b", "c"})
        for word in words:
            assert accepts(start, word) == (len(word) in ends(model, word, {0})), (model, word)
            agreed[accepts(start, word)] += 1
    assert min(agreed) > 1_000, agreed


def test_equal_continuations_are_one_state() -> None:
    names = [f"n{number}" for number in range(2_000)]
    star = Group("choice", tuple(Name(name) for name in names), "*")
    automata = Automata(10_000)
    start = automata.compile(star, set(names))
    assert start["n7"] is start["n1999"] and automata.transitions < 5_000


@pytest.mark.parametrize(
    "model",
    [
        "(a | b)*, a" + ", (a | b)" * 300,  # exponential
        ", ".join(f"n{number}?" for number in range(300)),  # quadratic
        "a" + ", a" * 5_000,
    ],
)
def test_automata_are_bounded(model: str) -> None:
    declared = "".join(f"<!ELEMENT {name} EMPTY>" for name in ("a", "b", *(f"n{number}" for number in range(300))))
    with pytest.raises(DocumentLimitError, match="TC382"):
        Validator.from_text(f"<!ELEMENT r ({model})> {declared}", transitions_max=20_000)


# --- places and encodings ---------------------------------------------------------------------------------------------

ORDER = "<!ELEMENT o (i+)> <!ELEMENT i (#PCDATA)> <!ATTLIST i id ID #REQUIRED see IDREF #IMPLIED>"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("<o/>", "TC220 <o> may not be empty (line 1, byte 0)\n  hint: expected <i>"),
        ("<o>\n</o>", "TC220 <o> ends too early (line 2, byte 4)\n  hint: expected <i>"),
        ("<o>\r\n x<i id='a'/></o>", "TC220 text may not stand in <o> (line 2, byte 7)\n  hint: expected <i>"),
        ("<x/>", "TC220 the DTD declares no element <x> (line 1, byte 0)"),
        ("<o><o/></o>", "TC220 <o> may not be empty (line 1, byte 3)\n  hint: expected <i>"),
        (
            "<o><i id='é'/><o></o></o>",
            "TC220 <o> may not stand here in <o> (line 1, byte 15)\n  hint: expected <i>, its end tag",
        ),
        ("<i/>", "TC221 <i> lacks the attribute 'id' (line 1, byte 0)"),
        ("<i id='a' k='1'/>", "TC221 <i> may not have the attribute 'k' (line 1, byte 0)\n  hint: it may have id, see"),
        (
            "<o><i id='a'/><i id='a'/></o>",
            "TC222 <i> has an invalid attribute 'id': another element has the identifier 'a' (line 1, byte 14)",
        ),
        ("<o><i id='a'/><i id='b' see='c'/></o>", "TC222 no element has the identifier 'c' (line 1, byte 14)"),
    ],
)
def test_refusals_say_what_and_where(document: str, message: str) -> None:
    with pytest.raises(DocumentError) as refused:
        Validator.from_text(ORDER).check(document.encode())
    assert str(refused.value) == message


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_encodings(encoding: str) -> None:
    label = encoding.removesuffix("-sig")
    declaration = f'<?xml version="1.0" encoding="{label}"?>'
    validator = Validator.from_text(ORDER)
    valid = f"{declaration}<o><i id='é'>é</i></o>".encode(encoding)
    assert is_valid(validator, valid)
    invalid = f"{declaration}<o><i id='é'>é</i><o/></o>".encode(encoding)
    assert not is_valid_at(validator, invalid, invalid.rindex("<o/>".encode("utf-16-le" if "16" in label else "ascii")))


def is_valid_at(validator: Validator, document: bytes, offset: int) -> bool:
    treecast.read(document)
    try:
        validator.check(document)
    except DocumentError as error:
        mark = 2 if document.startswith(b"\xff\xfe") else 0
        assert error.offset + mark == offset, error
        return False
    return True


def test_long_documents_are_read_piece_by_piece() -> None:
    """The same verdict as for short ones; and the time grows with the size, not with its square."""
    validator = Validator.from_text(ORDER)
    items = "".join(f"<i id='i{number}'>text</i>" for number in range(20_000))
    validator.check(f"<o>{items}</o>".encode())
    with pytest.raises(DocumentError, match=r"TC222.*'i7' \(line 1, byte"):
        validator.check(f"<o>{items}<i id='i7'/></o>".encode())


def test_tags_that_were_seen_are_remembered_up_to_a_limit() -> None:
    validator = Validator.from_text("<!ELEMENT a EMPTY> <!ATTLIST a k CDATA #IMPLIED>")
    for number in range(10_000):
        validator.check(f"<a k='{number}'/>".encode())
    assert len(validator._tags) <= 5_000
    with pytest.raises(DocumentError, match="TC221"):
        validator.check(b"<a j='1'/>")


def test_a_dtd_in_pieces_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"TC285.*'more\.ent'"):
        Validator.from_text("<!ENTITY % more SYSTEM 'more.ent'> %more; <!ELEMENT a EMPTY>")
