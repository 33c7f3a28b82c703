"""Documents in other encodings than the reader's, converted to UTF-8 on request.

Use it where a source still writes Shift_JIS, GBK or KOI8-R. It is a step of its own, because it costs about as much as
matching, and because subscribers then get other bytes than those that came. What the reader takes as it is (UTF-8,
UTF-16, US-ASCII, ISO-8859-1, windows-1252) is returned unchanged, and so is what nobody can read: the reader says why.

    >>> import treecast
    >>> from treecast.transcoding import transcode
    >>> index = treecast.Index()
    >>> index.add("cities", '//city[. = "東京"]')
    >>> data = '<?xml version="1.0" encoding="Shift_JIS"?><city>東京</city>'.encode("shift_jis")
    >>> index.match(transcode(data))
    ['cities']

The labels are those of the WHATWG Encoding Standard that XML can write (a name begins with a letter), and mean what
browsers take them to mean: Shift_JIS is windows-31j, GB2312 and GBK are GB18030, Big5 has the characters of Hong Kong.
The codecs are Python's. Not taken: `replacement` and `x-user-defined`, which are no encodings of documents.

Hostile input: a document is at most `document_bytes_max` long, before and after; it is decoded in pieces, and the first
piece that exceeds the limit ends it. Bytes that mean nothing are refused (TC204), never replaced, so that nothing is
hidden in them.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from functools import lru_cache

from treecast import _native
from treecast.arguments import kind_of
from treecast.document import Bytes, Limits, declared_encoding, native_limits
from treecast.errors import DocumentError

PIECE_BYTES = 1 << 16

# Python's codec -> the labels that stand for it, in lower case.
LABELS = {
    "cp866": "cp866 csibm866 ibm866",
    "iso8859_2": "iso-8859-2 csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 l2 latin2",
    "iso8859_3": "iso-8859-3 csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 l3 latin3",
    "iso8859_4": "iso-8859-4 csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 l4 latin4",
    "iso8859_5": "iso-8859-5 csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5",
    "iso8859_6": "iso-8859-6 arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e "
    "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6",
    "iso8859_7": "iso-8859-7 csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
    "sun_eu_greek",
    "iso8859_8": "iso-8859-8 csiso88598e csiso88598i csisolatinhebrew hebrew iso-8859-8-e iso-8859-8-i iso-ir-138 "
    "iso8859-8 iso88598 iso_8859-8 logical visual",
    "iso8859_10": "iso-8859-10 csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859_13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859_14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859_15": "iso-8859-15 csisolatin9 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859_16": "iso-8859-16",
    "koi8_r": "koi8-r cskoi8r koi koi8 koi8_r",
    "koi8_u": "koi8-u koi8-ru",
    "mac_roman": "macintosh csmacintosh mac x-mac-roman",
    "mac_cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "windows-874 dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1252": "x-cp1252",
    "cp1253": "windows-1253 cp1253 x-cp1253",
    "cp1254": "windows-1254 cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 l5 latin5 x-cp1254",
    "cp1255": "windows-1255 cp1255 x-cp1255",
    "cp1256": "windows-1256 cp1256 x-cp1256",
    "cp1257": "windows-1257 cp1257 x-cp1257",
    "cp1258": "windows-1258 cp1258 x-cp1258",
    "gb18030": "gb18030 chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jp": "euc-jp cseucpkdfmtjapanese x-euc-jp",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis",
    "cp949": "euc-kr cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 "
    "windows-949",
}


def transcode(data: Bytes, *, limits: Limits | None = None) -> bytes:
    """The document in UTF-8, with a declaration that says so; as it is, where the reader takes it or nobody can.

    Raises DocumentError (TC204) for bytes that mean nothing in the declared encoding, and the reader's LimitError
    (TC301) for a document that is longer than `document_bytes_max`, before or after.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a document is bytes, not {kind_of(data)}")
    native = native_limits(limits)
    bytes_max = (limits or Limits()).document_bytes_max
    given = bytes(data)
    if len(given) > bytes_max:
        _native.refuse_length(native)
    declared = declared_encoding(given)
    codec = None if declared is None else codec_of(given[slice(*declared)].decode("ascii"))
    if declared is None or codec is None or given.startswith(codecs.BOM_UTF8):
        return given
    begin, end = declared
    made = [given[:begin], b"UTF-8"]
    # All of these encodings write the declaration as ASCII does, so only what follows the label is decoded.
    size = begin + len(b"UTF-8")
    for piece in _decoded(given, end, codec):
        made.append(piece)
        size += len(piece)
        if size > bytes_max:
            _native.refuse_length(native)
    return b"".join(made)


@lru_cache(maxsize=1)
def _codecs() -> dict[str, str]:
    return {label: codec for codec, labels in LABELS.items() for label in labels.split()}


def codec_of(label: str) -> str | None:
    """Python's codec for a label in any case; None where there is none, or the reader needs none."""
    return _codecs().get(label.lower())


def _decoded(data: bytes, begin: int, codec: str) -> Iterator[bytes]:
    """The bytes from there on, in UTF-8, in pieces."""
    decoder = codecs.getincrementaldecoder(codec)("strict")
    for start in range(begin, len(data), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        pending = len(decoder.getstate()[0])
        try:
            text = decoder.decode(piece, start + PIECE_BYTES >= len(data))
        except UnicodeDecodeError as error:
            offset = start - pending + error.start
            line = data.count(b"\n", 0, offset) + 1
            message = f"these bytes have no meaning in the declared encoding, which is read as {codec}"
            raise DocumentError(
                message, code="TC204", hint="declare the encoding that the bytes are in", offset=offset, line=line
            ) from None
        yield text.encode("utf-8")
