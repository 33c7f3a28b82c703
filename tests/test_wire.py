"""The formats of links: what was encoded is decoded to the same document, column by column and byte by byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from random import Random

import pytest
from generators.paths_and_documents import draw_document
from generators.xml import ENCODINGS, Generator
from support.sanitized import fewer

from treecast import DocumentError, Index, Limits, PeerError, _native, read
from treecast.document import Document, read_many
from treecast.wire import FORMATS, Codec, Dictionaries, Dictionary, agree, parse_format
from treecast.workload import DocumentSettings, Schema, generate_documents

PECULIAR = (
    b"<a/>",
    b"<a></a>",
    b"<a >x</a >",
    b"<a\n/>",
    b"<a b='1' c=\"2\"/>",
    b'<a  b="1"/>',
    b'<a b = "1"/>',
    b'<a b=""/>',
    b'<a b="&amp;" c="\t"/>',
    b"<a>]]</a>",
    b"<a>]]<b/>></a>",
    b"<a>x &amp; y</a>",
    b"<a>x\r\ny</a>",
    b"<a><![CDATA[x]]></a>",
    b"<a>x<![CDATA[<y>]]>z<!-- c -->w<?p i?></a>",
    b"<a><!-- only --></a>",
    b'<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "a.dtd">\n<!-- before --><a/>\n<!-- after --><?p?>\n',
    b"\xef\xbb\xbf<a/>",
    b'<?xml version="1.0" encoding="utf-8"?><a/>',
    b'<?xml version="1.0" encoding="US-ASCII"?><a/>',
    '<?xml version="1.0" encoding="ISO-8859-1"?><a>é</a>'.encode("latin-1"),
    '<?xml version="1.0" encoding="UTF-16"?><a>é</a>'.encode("utf-16"),
    b'<a xmlns="urn:1"><b xmlns=""/><c xmlns:p="urn:2" p:x="1"><p:d/></c></a>',
    b'<p:a xmlns:p="urn:1" xmlns:q="urn:1" p:x="1"><q:a q:x="2"/></p:a>',
    b'<a xmlns:xmlns2="urn:1" xmlns2:xmlns="1"/>',
    b"<a xml:lang='en' xml:space=\"preserve\"> </a>",
    b"<" + b"n" * 400 + b' a="' + b"v" * 400 + b'">' + b"t" * 400 + b"</" + b"n" * 400 + b">",
    b'<a b="x>y/>"><c d="/"/></a>',
    "<ä ö='ü'>ß</ä>".encode(),
)


@pytest.fixture(autouse=True)
def automatic_again() -> Iterator[None]:
    yield
    _native.testing.simd_force(-1)


def codecs(documents: list[Document]) -> list[Codec]:
    """All formats, and dictionaries that know everything, something and nothing."""
    learnt = Dictionary.learn(documents, count_min=1)
    some = Dictionary(learnt.names[1::2], learnt.values[1::2])
    made = [Codec(format, dictionary=learnt) for format in FORMATS]
    return [*made, Codec("dictionary", dictionary=some), Codec("dictionary", dictionary=Dictionary(("zzz",)))]


def check(documents: list[Document], given: list[Codec]) -> None:
    for codec in given:
        for level in (0, 1):
            _native.testing.simd_force(level)
            answers = codec.decode_many(codec.encode_many(documents))
            for document, answer in zip(documents, answers, strict=True):
                assert isinstance(answer, Document), (codec.format, document.data, answer)
                different = _native.testing.same_columns(document.native, answer.native)
                assert different == "", (codec.format, different, document.data)
                assert answer.data == document.data


def test_peculiar_documents() -> None:
    documents = [read(data) for data in PECULIAR]
    check(documents, codecs(documents))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_generated_documents(encoding: str) -> None:
    generator = Generator(seed=3)
    documents = [read(generator.document(encoding)) for _ in range(fewer(60))]
    check(documents, codecs(documents))


def test_entities_of_the_caller_are_known_to_both_ends() -> None:
    document = read(b'<a b="&x;">&x;&y;</a>', entities={"x": "1", "y": "<2>"})
    codec = Codec("binary", entities={"x": "1", "y": "<2>"})
    answer = codec.decode(codec.encode(document))
    assert _native.testing.same_columns(document.native, answer.native) == ""
    with pytest.raises(DocumentError, match="TC206"):
        Codec("binary").decode(codec.encode(document))


def test_decoded_documents_match_and_render_as_the_text_does() -> None:
    rng = Random(4)
    texts = [draw_document(rng, namespaces=True) for _ in range(fewer(60))]
    documents = [one for one in read_many(texts) if isinstance(one, Document)]
    index = Index()
    index.add("whole", "//*[@*]")
    index.add("parts", "//*/*", deliver="elements")
    index.add("built", "for $n in $msg//* return <r>{$n/@*}{$n/text()}</r>")
    index.add("steps", "drop //@*; keep //*[text()]")
    for codec in codecs(documents):
        decoded = [one for one in codec.decode_many(codec.encode_many(documents)) if isinstance(one, Document)]
        assert index.match_many(decoded).equals(index.match_many(texts))
        assert index.render_many(decoded).to_pylist() == index.render_many(texts).to_pylist()
        assert index.explain(decoded[0], "parts") == index.explain(texts[0], "parts")


def test_what_was_decoded_can_be_encoded_again() -> None:
    document = read(PECULIAR[14])
    binary, text = Codec("binary"), Codec("text-zlib")
    again = binary.decode(text.encode(binary.decode(binary.encode(document))) and binary.encode(document))
    assert binary.encode(again) == binary.encode(document)


def test_news_shrinks_as_the_paper_says() -> None:
    """Figure 7 in small: the dictionary is clearly smaller than text, and compression helps all forms."""
    schema = Schema.news()
    settings = DocumentSettings(bytes_target=5_000)
    documents = [read(data) for data in generate_documents(schema, 20, settings, seed=1)]
    dictionary = Dictionary.learn(documents[:10], schema=schema)
    sizes = {name: sum(map(len, Codec(name, dictionary=dictionary).encode_many(documents[10:]))) for name in FORMATS}
    assert sizes["dictionary"] < 0.8 * sizes["text"] and sizes["binary"] < sizes["text"]
    assert all(
        sizes[f"{form}-{how}"] < sizes[form] for form in ("text", "binary", "dictionary") for how in ("zlib", "zstd")
    )


# -- hostile bytes


def refusals(codec: Codec, body: bytes) -> str:
    """The code of what refuses it; empty where it is a document, which must then be what its own text gives."""
    found = set()
    for level in (0, 1):
        _native.testing.simd_force(level)
        try:
            answer = codec.decode(body)
        except (DocumentError, PeerError) as error:
            found.add(f"{error.code} {error}")
            continue
        plain = read(answer.data)
        assert _native.testing.same_columns(plain.native, answer.native) == "", answer.data
        found.add("")
    assert len(found) == 1, found
    return found.pop()


def test_damaged_bodies_give_the_document_of_some_text_or_an_error() -> None:
    rng = random.Random(8)
    generator = Generator(seed=9)
    documents = [read(generator.document("utf-8")) for _ in range(20)] + [read(data) for data in PECULIAR]
    codec = Codec("dictionary", dictionary=Dictionary.learn(documents, count_min=1))
    plain = Codec("binary")
    seen = set()
    for _ in range(fewer(12_000)):
        chosen = rng.choice((codec, plain))
        body = bytearray(chosen.encode(rng.choice(documents)))
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(body)) if rng.random() < 0.5 else rng.randrange(min(len(body), 40))
            kind = rng.randrange(4)
            if kind == 0:
                body[at] = rng.randrange(256)
            elif kind == 1:
                body[at] ^= 1 << rng.randrange(8)
            elif kind == 2:
                del body[at : at + rng.randrange(4)]
            else:
                body[at:at] = rng.choice((b"<", b"&", b"]]>", b'"', b"\0", b"\x80", b"\xff\xff\xff\xff\x0f", b"x"))
            if not body:
                break
        seen.add(refusals(chosen, bytes(body))[:5])
    assert {"", "TC211"} <= seen


def number(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def form(
    tokens: list[int],
    *,
    names: list[bytes],
    raw: bytes = b"",
    values: bytes = b"",
    texts: bytes = b"",
    size: int,
    elements: int = 1,
    count: int = 0,
) -> bytes:
    """A form made by hand: of a text of that size, with so many elements and texts."""
    structure = b"".join(map(number, tokens))
    raw_bytes = sum(map(len, names)) + len(raw)
    header = b"".join(map(number, (size, elements, count, len(names), len(structure), raw_bytes, len(values))))
    lengths = b"".join(number(len(name)) for name in names)
    return b"\x01" + header + lengths + structure + b"".join(names) + raw + values + b"<" + texts


ENDS, TEXT, START, EMPTY, WITH, EMPTY_WITH, CONTENT, TAG = range(8)


def test_a_form_made_by_hand() -> None:
    body = form([0, 0, START, 1 << 3 | TEXT, ENDS], names=[b"a"], texts=b"x", size=8, count=1)
    assert Codec("binary").decode(body).data == b"<a>x</a>"


HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "TC211"),
    "an unknown kind": (b"\x07", "TC211"),
    "cut off": (b"\x01\x05", "TC211"),
    "markup in a text": (
        form([0, 0, START, 4 << 3 | TEXT, ENDS], names=[b"a"], texts=b"<b/>", size=11, count=1),
        "TC211",
    ),
    "a reference in a text": (
        form([0, 0, START, 3 << 3 | TEXT, ENDS], names=[b"a"], texts=b"&x;", size=10, count=1),
        "TC211",
    ),
    "the end of CDATA in a text": (
        form([0, 0, START, 3 << 3 | TEXT, ENDS], names=[b"a"], texts=b"]]>", size=10, count=1),
        "TC211",
    ),
    "two texts side by side": (
        form([0, 0, START, 1 << 3 | TEXT, 1 << 3 | TEXT, ENDS], names=[b"a"], texts=b"xy", size=9, count=2),
        "TC211",
    ),
    "an empty text": (form([0, 0, START, TEXT, ENDS], names=[b"a"], size=7, count=1), "TC211"),
    "a character cut in two": (
        form(
            [0, 0, START, 1 << 3 | TEXT, EMPTY, 1 << 3 | TEXT, ENDS],
            names=[b"a"],
            texts="é".encode(),
            size=13,
            elements=2,
            count=2,
        ),
        "TC211",
    ),
    "a quote in a value": (
        form([0, 0, EMPTY_WITH, 1, 2, 7], names=[b"a", b"b"], values=b'x" c="y', size=16),
        "TC211",
    ),
    "an attribute twice": (
        form([0, 0, EMPTY_WITH, 2, 2, 1, 2, 1], names=[b"a", b"b"], values=b"xy", size=16),
        "TC208",
    ),
    "a prefix that is not bound": (form([0, 0, EMPTY], names=[b"p:a"], size=6), "TC207"),
    "a name that is none": (form([0, 0, EMPTY], names=[b"1a"], size=5), "TC201"),
    "a name with a space": (form([0, 0, EMPTY], names=[b"a b"], size=6), "TC211"),
    "a name of two colons": (form([0, 0, EMPTY], names=[b"a:b:c"], size=8), "TC207"),
    "a name that nobody gave": (form([0, 0, 9 << 3 | EMPTY], names=[b"a"], size=4), "TC211"),
    "more end tags than start tags": (form([0, 0, START, 5 << 3 | ENDS], names=[b"a"], size=7), "TC211"),
    "no end tag": (form([0, 0, START], names=[b"a"], size=7), "TC211"),
    "text before the root": (form([0, 0, 1 << 3 | TEXT], names=[], texts=b"x", size=1, count=1), "TC211"),
    "two roots": (form([0, 0, EMPTY, EMPTY], names=[b"a"], size=8, elements=2), "TC211"),
    "a tag before the root": (form([4, 0, EMPTY], names=[b"a"], raw=b"<b/>", size=8), "TC211"),
    "a DTD": (
        form([29, 0, EMPTY], names=[b"a"], raw=b"<!DOCTYPE a [<!ENTITY x ''>]>", size=33),
        "TC205",
    ),
    "another encoding": (
        form([44, 0, EMPTY], names=[b"a"], raw=b'<?xml version="1.0" encoding="ISO-8859-1"?>\n', size=48),
        "TC211",
    ),
    "a tag in content": (
        form([0, 0, START, 4 << 3 | CONTENT, ENDS], names=[b"a"], raw=b"<b/>", size=11),
        "TC211",
    ),
    "a comment without end": (
        form([0, 0, START, 4 << 3 | CONTENT, ENDS], names=[b"a"], raw=b"<!--", size=11),
        "TC209",
    ),
    "a tag without end": (form([0, 0, 4 << 4 | TAG], names=[], raw=b"<a b", size=4), "TC209"),
    "something behind a tag": (form([0, 0, 6 << 4 | TAG], names=[], raw=b"<a/> x", size=6), "TC211"),
    "a wrong end tag": (
        form([0, 0, START, (4 << 1 | 1) << 3 | TAG], names=[b"a"], raw=b"</b>", size=7),
        "TC202",
    ),
    "a text that is shorter than it says": (form([0, 0, EMPTY], names=[b"a"], size=5), "TC211"),
    "a text that is longer than it says": (form([0, 0, EMPTY], names=[b"a"], size=3), "TC211"),
    "more elements than tokens": (form([0, 0, EMPTY], names=[b"a"], size=4, elements=1 << 31), "TC211"),
    "a control character": (
        form([0, 0, START, 1 << 3 | TEXT, ENDS], names=[b"a"], texts=b"\x01", size=8, count=1),
        "TC211",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_forms_are_refused(case: str) -> None:
    body, code = HOSTILE[case]
    assert refusals(Codec("binary"), body)[:5] == code


def test_limits_hold() -> None:
    deep, wide = read(b"<a><b><c/></b></a>"), read(b'<a b="1" c="2"/>')
    long = read(b'<a name.that.is.long="a value that is long"/>')
    encode = Codec("binary").encode
    cases = (
        (deep, Limits(depth_max=2), "TC302"),
        (wide, Limits(attributes_max=1), "TC303"),
        (long, Limits(name_bytes_max=10), "TC304"),
        (long, Limits(attribute_bytes_max=10), "TC305"),
        (long, Limits(document_bytes_max=20), "TC301"),
        (deep, Limits(names_max=2), "TC309"),
    )
    for document, limits, code in cases:
        with pytest.raises(DocumentError, match=code):
            Codec("binary", limits=limits).decode(encode(document))
        with pytest.raises(DocumentError, match=code):
            read(document.data, limits=limits)


@pytest.mark.parametrize("how", ["zlib", "zstd"])
def test_compressed_bodies_are_bounded_and_checked(how: str) -> None:
    codec = Codec(f"binary-{how}", limits=Limits(document_bytes_max=1000))
    body = codec.encode(read(b"<a>" + b"x" * 500 + b"</a>"))
    assert codec.decode(body).texts == [(0, "x" * 500)]
    with pytest.raises(DocumentError, match="TC301"):
        codec.decode(codec.encode(read(b"<a>" + b"x" * 9_000 + b"</a>")))
    for broken in (b"", b"\xff" * 9, body[:-1], body + b"x", b"\x05" + body[2:], body[:4] + b"??" + body[6:]):
        with pytest.raises(DocumentError, match=r"TC211|TC301"):
            codec.decode(broken)


def test_one_bad_body_does_not_spoil_a_batch() -> None:
    for name in FORMATS:
        codec = Codec(name, dictionary=Dictionary(("a",)))
        good = codec.encode(read(b"<a>x</a>"))
        answers = codec.decode_many([good, b"\x09", good])
        assert [isinstance(answer, Document) for answer in answers] == [True, False, True], name


# -- dictionaries and agreement


def test_dictionaries_are_told_apart() -> None:
    document = read(b'<a b="one">x</a>')
    first, second = Dictionary(("a", "b"), ("one",)), Dictionary(("b", "a"), ("one",), version=2)
    body = Codec("dictionary", dictionary=first).encode(document)
    with pytest.raises(PeerError, match="TC487"):
        Codec("dictionary", dictionary=second).decode(body)
    both = Dictionaries()
    both.add(first)
    both.add(second)
    assert both.newest is second
    receiver = Codec("dictionary", dictionary=both)
    newer = Codec("dictionary", dictionary=second).encode(document)
    assert [one.data for one in receiver.decode_many([body, newer, body])] == [document.data] * 3  # type: ignore[union-attr]
    for version in range(3, 9):
        both.add(Dictionary(("c",), version=version))
    assert len(both) == both.versions_max
    with pytest.raises(PeerError, match="TC487"):
        receiver.decode(body)


def test_dictionaries_are_bounded_and_travel() -> None:
    document = read(b"".join([b"<r>", *(b'<n%d a="v%d"/>' % (n, n) for n in range(200)), b"</r>"]))
    small = Dictionary.learn([document], names_max=10, values_max=5, count_min=1)
    assert (len(small.names), len(small.values)) == (10, 5)
    assert sum(map(len, Dictionary.learn([document], count_min=1, bytes_max=50).names)) <= 50
    codec = Codec("dictionary", dictionary=Dictionary.from_bytes(small.to_bytes()))
    assert codec.decode(codec.encode(document)).data == document.data
    for bad in (
        b"",
        b"[]",
        b'[1,["a"],[1]]',
        b'[1,["a","a"],[]]',
        b'[1,["a"],["<"]]',
        b'["1",["a"],[]]',
        b"[" * 99_999,
    ):
        with pytest.raises(PeerError, match="TC487"):
            Dictionary.from_bytes(bad)
    with pytest.raises(PeerError, match="TC487"):
        Dictionary.from_bytes(b"[1,[],[]]", bytes_max=5)


def test_a_schema_gives_every_name_a_number() -> None:
    schema = Schema.from_text('<!ELEMENT a (b*)> <!ELEMENT b EMPTY> <!ATTLIST b c (one|two) "one" d CDATA #FIXED "x">')
    dictionary = Dictionary.of_schema(schema)
    assert set(dictionary.names) == {"a", "b", "c", "d"} and set(dictionary.values) == {"one", "two", "x"}
    body = Codec("dictionary", dictionary=dictionary).encode(read(b'<a><b c="two" d="x"/></a>'))
    assert b"two" not in body and b"a" not in body[5:]


def test_the_two_ends_agree() -> None:
    assert agree(["dictionary-zstd", "binary"], FORMATS) == "dictionary-zstd"
    assert agree(["of-the-future", "binary"], ["of-the-future", "binary"]) == "binary"
    assert agree(["binary"], []) == "text"
    assert [str(parse_format(name)) for name in FORMATS] == list(FORMATS) and len(FORMATS) == 9
    with pytest.raises(PeerError, match="TC486"):
        parse_format("of-the-future")
    with pytest.raises(ValueError, match="takes a dictionary"):
        Codec("dictionary")
