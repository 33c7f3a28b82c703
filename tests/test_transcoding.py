"""Documents in encodings that the reader does not take, converted on request: lxml is the judge of what they say."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

import pytest
from lxml import etree

import treecast
from treecast import DocumentError, LimitError, Limits, transcoding
from treecast.transcoding import LABELS, PIECE_BYTES, codec_of, transcode

# What each codec can write, in its own script.
SAMPLES = {
    "cp866": "Привет", "iso8859_2": "Żółć", "iso8859_3": "Ħĝ", "iso8859_4": "Ģķ", "iso8859_5": "Привет",
    "iso8859_6": "سلام", "iso8859_7": "Γειά", "iso8859_8": "שלום", "iso8859_10": "Ŧŋ", "iso8859_13": "Žą",
    "iso8859_14": "Ŵŷ", "iso8859_15": "€œ", "iso8859_16": "Șț", "koi8_r": "Привет", "koi8_u": "Привіт",
    "mac_roman": "Ωé", "mac_cyrillic": "Привет", "cp874": "ไทย", "cp1250": "Żółć", "cp1251": "Привет", "cp1252": "€",
    "cp1253": "Γειά", "cp1254": "ğış", "cp1255": "שלום", "cp1256": "سلام", "cp1257": "Žą", "cp1258": "đƠ",
    "gb18030": "中文𠮷", "big5hkscs": "中文", "euc_jp": "東京", "iso2022_jp": "東京ascii京", "cp932": "東京",
    "cp949": "한국",
}  # fmt: skip
XML = '<?xml version="1.0" encoding="{}"?>\n<a b="{}"><!--{}-->{}</a>'


def document(codec: str, label: str, text: str) -> bytes:
    return XML.format(label, text, text, text).encode(codec)


@pytest.mark.parametrize("codec", LABELS)
def test_a_document_says_the_same_in_utf8(codec: str) -> None:
    text = SAMPLES[codec]
    for label in LABELS[codec].split():
        made = transcode(document(codec, label.upper(), text))
        assert made == document("utf-8", "UTF-8", text)
    assert treecast.read(made).string_value(0) == text


@pytest.mark.parametrize(
    "label", ["Shift_JIS", "EUC-JP", "ISO-2022-JP", "GB18030", "KOI8-R", "windows-1251", "ISO-8859-2"]
)
def test_lxml_reads_the_same(label: str) -> None:
    codec = codec_of(label)
    assert codec is not None
    data = document(codec, label, SAMPLES[codec])
    assert treecast.read(transcode(data)).string_value(0) == etree.fromstring(data).xpath("string()")


def test_every_codec_writes_a_declaration_as_ascii_does() -> None:
    ascii_text = "".join(map(chr, range(0x20, 0x7F)))
    for codec in LABELS:
        assert codecs.decode(ascii_text.encode("ascii"), codec) == ascii_text


@pytest.mark.parametrize(
    "data",
    [
        b"<a/>",
        b'<?xml version="1.0"?><a/>',
        b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9</a>",
        b"\xef\xbb\xbf<?xml version='1.0' encoding='koi8-r'?><a/>",
        '<?xml version="1.0" encoding="utf-16"?><a/>'.encode("utf-16"),
        b"<?xml version='1.0' encoding='x-user-defined'?><a/>",
        b"<?xml version='1.0' encoding='ebcdic-cp-us'?><a/>",
        b"",
    ],
)
def test_what_the_reader_takes_or_nobody_can_stays_as_it_is(data: bytes) -> None:
    assert transcode(data) == data


def test_they_are_refused_unless_one_asks() -> None:
    with pytest.raises(DocumentError, match="TC204 the encoding koi8-r is not accepted"):
        treecast.read(document("koi8_r", "koi8-r", "Привет"))


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 60, PIECE_BYTES - 59, 2 * PIECE_BYTES])
def test_bytes_without_meaning_are_refused_where_they_are(size: int) -> None:
    head = b"<?xml version='1.0' encoding='euc-jp'?>\n<a>" + b"x" * size
    with pytest.raises(DocumentError) as caught:
        transcode(head + b"\xc5\xec\xff</a>")
    assert (caught.value.code, caught.value.offset, caught.value.line) == ("TC204", len(head) + 2, 2)
    with pytest.raises(DocumentError):
        transcode(head + b"\xc5")  # half a character at the end


def test_characters_across_pieces() -> None:
    for shift in range(4):
        text = "x" * shift + "東" * PIECE_BYTES
        assert treecast.read(transcode(document("cp932", "Shift_JIS", text)[:-4] + b"</a>")).string_value(0) == text


def test_a_document_is_bounded_before_and_after() -> None:
    data = document("cp932", "Shift_JIS", "東" * 100)
    for bytes_max in (len(data) - 1, len(data) + 1):  # in UTF-8 it is half as long again
        with pytest.raises(LimitError, match="TC301"):
            transcode(data, limits=Limits(document_bytes_max=bytes_max))
    assert transcode(data, limits=Limits(document_bytes_max=2 * len(data)))


def test_no_more_is_decoded_than_the_limit_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    genuine = transcoding._decoded

    def counting(data: bytes, begin: int, codec: str) -> Iterator[bytes]:
        for piece in genuine(data, begin, codec):
            decoded.append(len(piece))
            yield piece

    monkeypatch.setattr(transcoding, "_decoded", counting)
    data = document("koi8_r", "koi8-r", "я" * 4 * PIECE_BYTES)
    with pytest.raises(LimitError):
        transcode(data, limits=Limits(document_bytes_max=len(data)))
    assert sum(decoded) <= len(data) + 4 * PIECE_BYTES


def test_markup_that_appears_by_decoding_is_markup() -> None:
    """Escapes of ISO-2022-JP cannot hide a tag from us that others see: what is matched is what was decoded."""
    data = b"<?xml version='1.0' encoding='iso-2022-jp'?><a>\x1b(J<b/>\x1b(B</a>"
    assert [local for _, local in treecast.read(transcode(data)).names] == ["a", "b"]
