"""A Codec: documents to bodies and back, in one format, for one link.

A body does not name its format; the packet around it does. Decoding trusts nothing: whatever the bytes are, the answer
is a Document as reading its text would give, or an error. A document that is wrong by itself is a DocumentError of its
own, and the others of the batch are answered.

    >>> from treecast import read
    >>> link = Codec("binary-zlib")
    >>> [one.data for one in link.decode_many(link.encode_many([read(b"<a>1</a>"), read(b"<b/>")]))]
    [b'<a>1</a>', b'<b/>']
    >>> link.decode_many([b"what is this?"])
    [DocumentError('TC211 the compressed form of a document is broken')]

Compression is that of Python (zlib) and of Arrow (zstd), document by document.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from treecast import _native
from treecast.document import Document, EntityTexts, Limits, as_documents, native_entities
from treecast.errors import DocumentError
from treecast.wire.dictionary import Dictionaries, Dictionary
from treecast.wire.formats import parse_format

if TYPE_CHECKING:
    import pyarrow as pa

ZLIB_LEVEL = 6
ZSTD_LEVEL = 3
_WITH_DICTIONARY = 2  # the first byte of such a form: native/document/binary.hpp
_FINGERPRINT = slice(1, 5)


class Codec:
    """Encodes and decodes in one format. `limits` and `entities` are those of reading.

    A format with a dictionary takes one, or `Dictionaries`: documents are encoded with the newest, and decoded with
    the one that they name.
    """

    def __init__(
        self,
        format: str,
        *,
        dictionary: Dictionary | Dictionaries | None = None,
        limits: Limits | None = None,
        entities: EntityTexts = None,
    ) -> None:
        self.format = parse_format(format)
        self.dictionaries = dictionary if isinstance(dictionary, Dictionaries) else Dictionaries()
        if isinstance(dictionary, Dictionary):
            self.dictionaries.add(dictionary)
        if self.format.form == "dictionary" and not len(self.dictionaries):
            raise ValueError(f"the format {format} takes a dictionary")
        self._limits = (limits or Limits()).native()
        self._entities = native_entities(entities)
        # Tokens may take as much room as the text that they stand for, where hardly any of it is regular.
        self._plain_bytes_max = 2 * (limits or Limits()).document_bytes_max + 1024

    @property
    def is_text(self) -> bool:
        """Apart from its compression."""
        return self.format.form == "text"

    def encode(self, document: Document) -> bytes:
        """The body for one document."""
        return self.encode_many([document])[0]

    def encode_many(self, documents: Iterable[Document]) -> list[bytes]:
        """The bodies for documents, in one call."""
        if self.format.form == "text":
            forms = [document.data for document in documents]
        else:
            newest = self.dictionaries.newest if self.format.form == "dictionary" else None
            forms = _native.encode_documents(
                [document.native for document in documents], newest.native if newest else None
            )
        compress = _compressor(self.format.compression)
        return forms if compress is None else [_size_prefix(len(form)) + compress(form) for form in forms]

    def decode(self, body: bytes) -> Document:
        """The document of a body. Raises DocumentError, or PeerError for a dictionary that is not known."""
        answer = self.decode_many([body])[0]
        if isinstance(answer, DocumentError):
            raise answer
        return answer

    def plain(self, bodies: Sequence[bytes]) -> tuple[Sequence[bytes], _native.WireDictionary | None]:
        """For native code that reads forms itself: the bodies without their compression, and the newest dictionary.

        Raises DocumentError if one is broken.
        """
        newest = self.dictionaries.newest if self.format.form == "dictionary" else None
        forms = [self._decompress(body) for body in bodies] if self.format.compression else bodies
        return forms, newest.native if newest else None

    def plain_parcels(self, parcels: _native.Parcels) -> tuple[Sequence[bytes] | None, _native.WireDictionary | None]:
        """The same for a message between brokers; None in place of the bodies, if these are not compressed."""
        forms, dictionary = self.plain(parcels.bodies() if self.format.compression else ())
        return forms if self.format.compression else None, dictionary

    def decode_many(self, bodies: Sequence[bytes]) -> list[Document | DocumentError]:
        """A Document for each body, or the DocumentError that refuses it. Raises PeerError as `decode` does."""
        forms: list[bytes] = list(bodies)
        error_by_place: dict[int, DocumentError] = {}
        if self.format.compression:
            for place, body in enumerate(bodies):
                try:
                    forms[place] = self._decompress(body)
                except DocumentError as error:
                    forms[place], error_by_place[place] = b"", error
        answers = self._read(forms)
        for place, refusal in error_by_place.items():
            answers[place] = refusal
        return answers

    def _read(self, forms: list[bytes]) -> list[Document | DocumentError]:
        if self.format.form == "text":
            return as_documents(_native.read_documents(forms, self._limits, self._entities))
        fingerprints = {form[_FINGERPRINT] for form in forms if form and form[0] == _WITH_DICTIONARY}
        if len(fingerprints) <= 1:
            return self._decode(forms, *fingerprints)
        answers: list[Document | DocumentError] = []  # of several dictionaries, while one follows another
        for form in forms:
            own = [form[_FINGERPRINT]] if form and form[0] == _WITH_DICTIONARY else []
            answers += self._decode([form], *own)
        return answers

    def _decode(self, forms: list[bytes], fingerprint: bytes = b"") -> list[Document | DocumentError]:
        dictionary = self.dictionaries.find(int.from_bytes(fingerprint, "little")) if len(fingerprint) == 4 else None
        native = dictionary.native if dictionary else None
        return as_documents(_native.decode_documents(forms, native, self._limits, self._entities))

    def _decompress(self, body: bytes) -> bytes:
        size, begin = _read_size(body)
        if size > self._plain_bytes_max:
            _native.refuse_length(self._limits)
        plain = _DECOMPRESSORS[self.format.compression](memoryview(body)[begin:], size)
        if plain is None or len(plain) != size:
            raise _broken()
        return plain


def _broken() -> DocumentError:
    return DocumentError("the compressed form of a document is broken", code="TC211")


def _size_prefix(size: int) -> bytes:
    """The size of the form, seven bits a byte, lowest first."""
    prefix = bytearray()
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix)


def _read_size(body: bytes) -> tuple[int, int]:
    """The size, and where what was compressed begins."""
    size = 0
    for place, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size, place + 1
    raise _broken()


def _compress_zlib(form: bytes) -> bytes:
    return zlib.compress(form, ZLIB_LEVEL)


def _decompress_zlib(data: memoryview, size: int) -> bytes | None:
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data, size + 1)
    except zlib.error:
        return None
    return plain if unpacker.eof and not unpacker.unused_data else None


@cache
def _zstd() -> pa.Codec:
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=ZSTD_LEVEL)


def _compress_zstd(form: bytes) -> bytes:
    data: bytes = _zstd().compress(form, asbytes=True)
    return data


def _decompress_zstd(data: memoryview, size: int) -> bytes | None:
    try:
        plain: bytes = _zstd().decompress(data, decompressed_size=size, asbytes=True)
    except OSError:  # Arrow's word for data that is broken
        return None
    return plain


_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {"zlib": _compress_zlib, "zstd": _compress_zstd}
_DECOMPRESSORS: dict[str, Callable[[memoryview, int], bytes | None]] = {
    "zlib": _decompress_zlib,
    "zstd": _decompress_zstd,
}


def _compressor(compression: str) -> Callable[[bytes], bytes] | None:
    return _COMPRESSORS.get(compression)
