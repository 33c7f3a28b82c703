"""Read XML: bytes become a Document, a flat table of elements, attributes and texts.

Use it to see a document the way treecast does, or to read it once for several uses: `Index.match`, `render`, `explain`
and their like take a Document wherever they take bytes, and do not read it again. `Index.match` reads bytes by itself.
A Document is not a tree to edit; use lxml for that. The input must be well-formed XML 1.0 with namespaces, in UTF-8,
UTF-16, US-ASCII, ISO-8859-1 or windows-1252. A DTD is never processed, and nothing is ever fetched.

    >>> from treecast.document import read
    >>> document = read(b'<a><b x="1">one</b><c/></a>')
    >>> [local for uri, local in document.names]
    ['a', 'b', 'c']
    >>> list(document.parents), list(document.depths)
    ([-1, 0, 0], [0, 1, 1])
    >>> document.slice(1), document.string_value(0)
    (b'<b x="1">one</b>', 'one')
    >>> read(b"<a><b></a>")
    Traceback (most recent call last):
    treecast.errors.DocumentError: TC202 the end tag </a> does not match the start tag <b> (line 1, byte 6)
"""

from __future__ import annotations

import atexit
import html.entities
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol

from treecast import _native
from treecast.arguments import check_instance, check_integer, check_texts, kind_of
from treecast.errors import DocumentError

Name = tuple[str, str]
Bytes = bytes | bytearray | memoryview
EntityTexts = Mapping[str, str] | Literal["html"] | None
_GAP = rb"[ \t\r\n]"
_EQUALS = _GAP + rb"*+=" + _GAP + rb"*+"
_DECLARATION = re.compile(  # as far as the encoding; possessive, so that it is read once
    rb"(?:\xef\xbb\xbf)?+<\?xml" + _GAP + rb"++version" + _EQUALS + rb"(?:\"[^\"<]*+\"|'[^'<]*+')"
    + _GAP + rb"++encoding" + _EQUALS + rb"([\"'])([A-Za-z][A-Za-z0-9._-]*+)\1"
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """How large a document may be. A document over a limit raises a DocumentLimitError that names it."""

    document_bytes_max: int = 64 << 20
    """The whole document."""
    depth_max: int = 512
    """Elements inside one another."""
    attributes_max: int = 256
    """Attributes of one element, including namespace declarations."""
    name_bytes_max: int = 1024
    """A name of an element or attribute, as written."""
    attribute_bytes_max: int = 1 << 20
    """The value of an attribute."""
    names_max: int = 500_000
    """Distinct names of elements and attributes, as written and with their namespaces; also distinct namespaces."""
    work_per_item_max: int = 16
    """Steps to decide one subscription: this many for each element, attribute, text and 64 bytes of a document, and for
    half a million items more. Beyond that it is undecided on this document (TC340); the others are answered."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if not 0 < value < 1 << 32:
                raise ValueError(f"{name} must be 1-{(1 << 32) - 1}, got {value}")
        self.native()

    def native(self) -> _native.Limits:
        """The form that native code takes."""
        return _native.Limits(*vars(self).values())


def native_limits(limits: Limits | None) -> _native.Limits:
    """The form that native code takes; None: the default ones."""
    check_instance("limits", limits, Limits, "treecast.Limits(…)")
    return (limits or Limits()).native()


def arrow_views(documents: Any) -> list[Bytes]:
    """The values of an Arrow array of binary or string, without a copy; a null becomes an empty value.

    Strings are UTF-8, whatever encoding a document declares, so its declaration is changed to UTF-8.
    """
    import pyarrow as pa

    views: list[Bytes] = []
    for chunk in documents.chunks if isinstance(documents, pa.ChunkedArray) else [documents]:
        chunk = _plain(chunk)
        kind = chunk.type
        large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
        if not (large or pa.types.is_binary(kind) or pa.types.is_string(kind)):
            raise TypeError(f"documents are a column of binary or string, not of {kind}")
        if not len(chunk):
            continue
        _, ends, data = chunk.buffers()
        numbers = memoryview(ends).cast("B").cast("q") if large else memoryview(ends).cast("B").cast("i")
        places = numbers[chunk.offset : chunk.offset + len(chunk) + 1].tolist()
        whole = memoryview(data if data is not None else b"").cast("B").toreadonly()  # Arrow's data never changes
        found: list[Bytes] = [whole[begin:end] for begin, end in pairwise(places)]
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            found = [_declared_utf8(view) for view in found]
        views += found
    return views


def _plain(values: Any) -> Any:
    """Values that lie one behind the other, in place of a dictionary or of views of them."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_binary_view(values.type) or pa.types.is_fixed_size_binary(values.type):
        return values.cast(pa.large_binary())
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def declared_encoding(data: Bytes) -> tuple[int, int] | None:
    """Where the declaration names the encoding: data[begin:end]. None where it does not."""
    found = _DECLARATION.match(data)
    return None if found is None else found.span(2)


def _declared_utf8(view: Bytes) -> Bytes:
    """The document with UTF-8 in place of any other declared encoding; all offsets stay the same."""
    found = _DECLARATION.match(view)
    if found is None or found[2].lower() in (b"utf-8", b"utf8"):
        return view
    text = bytes(view)
    begin, end = found.span(2)
    room = end - begin - len(b"UTF-8")
    if room >= 0:
        return text[:begin] + b"UTF-8" + found[1] + b" " * room + text[end + 1 :]
    behind = text.find(b"?>") + 2  # no room for it: blank out the declaration
    return b" " * behind + text[behind:]


def native_entities(entities: EntityTexts) -> _native.Entities | None:
    """The form that native code takes; "html" stands for the character names of HTML 5."""
    if entities is None:
        return None
    if isinstance(entities, str):
        if entities != "html":
            raise ValueError(f'entities must be a mapping or "html", not {entities!r}')
        return _html_entities()
    return _native.Entities(check_texts("entities", entities, 'a mapping of names to texts, or "html"'))


@lru_cache(maxsize=1)
def _html_entities() -> _native.Entities:
    atexit.register(_html_entities.cache_clear)  # nothing native may outlive the module
    texts = {name.removesuffix(";"): text for name, text in html.entities.html5.items() if name.endswith(";")}
    return _native.Entities(texts)


class Document:
    """A document as columns. Elements are numbered in document order; the root element is 0.

    It never changes, and any number of threads and indexes may use it. The limits and entities are those that it was
    read with; an index that is given one applies none of its own, except for the work of deciding. A pickle keeps them
    with `data`, which is read again when it is loaded.
    """

    __slots__ = ("_entities", "_limits", "native")

    def __init__(self, native: _native.Document, limits: Limits | None = None, entities: EntityTexts = None) -> None:
        check_document(native)
        self.native = native
        """The form that native code takes."""
        self._limits = limits
        self._entities = dict(entities) if isinstance(entities, Mapping) else entities

    def __len__(self) -> int:
        """The number of elements."""
        return len(self.native)

    def __repr__(self) -> str:
        elements = f"{len(self):,} element{'' if len(self) == 1 else 's'}"
        return f"<Document of {elements}, {self.size_bytes:,} bytes>"

    def __copy__(self) -> Document:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Document:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _read_again, (self.data, self._limits, self._entities)

    @property
    def data(self) -> bytes:
        """The bytes as given."""
        return self.native.data

    @property
    def size_bytes(self) -> int:
        """The size of `data`."""
        return self.native.size

    @property
    def names(self) -> list[Name]:
        """(namespace URI or "", local name) of each element."""
        return self.native.names()

    @property
    def parents(self) -> memoryview:
        """The parent of each element; -1 for the root."""
        return self.native.parents()

    @property
    def depths(self) -> memoryview:
        """The number of ancestors of each element."""
        return self.native.depths()

    @property
    def sizes(self) -> memoryview:
        """The number of elements in each subtree, including its root."""
        return self.native.sizes()

    @property
    def starts(self) -> memoryview:
        """Where each element starts in `data`."""
        return self.native.starts()

    @property
    def ends(self) -> memoryview:
        """Where each element ends in `data`."""
        return self.native.ends()

    @property
    def attributes(self) -> list[tuple[int, Name, str]]:
        """(element, name, value) of every attribute, in document order, without namespace declarations."""
        return self.native.attributes()

    @property
    def texts(self) -> list[tuple[int, str]]:
        """(parent element, characters) of every text, as XPath sees them: CDATA is merged, comments divide."""
        return self.native.texts()

    @property
    def labels(self) -> list[tuple[int, int, int]]:
        """(L, R, D) of each element: the numbers of its start and end tag among all tags, from 1, and its depth."""
        rows = enumerate(zip(self.depths, self.sizes, strict=True))
        return [(2 * i - depth + 1, 2 * i - depth + 2 * size, depth) for i, (depth, size) in rows]

    @property
    def post_orders(self) -> list[tuple[int, int]]:
        """(PON, LB) of each element: its post-order number, from 1, and the lowest in its subtree."""
        rows = enumerate(zip(self.depths, self.sizes, strict=True))
        return [(i - depth + size, i - depth + 1) for i, (depth, size) in rows]

    def string_value(self, element: int) -> str:
        """All text inside the element, as XPath's string()."""
        return self.native.string_value(check_integer("element", element, 0))

    def slice(self, element: int) -> bytes:
        """The element as a document of its own, in UTF-8, with all namespaces in scope declared on its start tag.

        References to the `entities` given are replaced by their text. Attributes of ancestors (xml:lang, xml:space,
        xml:base) are not copied, as in a payload of `deliver="elements"`. The bytes as given are
        `data[starts[element]:ends[element]]`.
        """
        return self.native.slice(check_integer("element", element, 0))


def check_document(native: object) -> None:
    """Raise a TypeError for what native code has not made: somebody has mistaken the class for `read`."""
    if not isinstance(native, _native.Document):
        raise TypeError(f"a Document is made by treecast.read(data), not from {kind_of(native)}")


class File(Protocol):
    """A file that is open, for bytes or for text."""

    def read(self, size: int, /) -> bytes | str: ...


class LxmlTree(Protocol):
    """An element of lxml, or an ElementTree."""

    @property
    def xpath(self) -> Any: ...


AnyDocument = Bytes | str | os.PathLike[str] | File | LxmlTree | Document
"""What an index takes: bytes, which it reads; text, which is UTF-8 then; the path of a file, or an open one; an element
or tree of lxml; or a document that has been read."""

FORMS = "bytes, a str, a Path, an open file, an element of lxml or a Document"
FILE_BYTES_MAX = (1 << 32) - 1  # as much as Limits may allow
PIECE_BYTES = 1 << 20


def native_document(document: AnyDocument, bytes_max: int = FILE_BYTES_MAX) -> Bytes | _native.Document:
    """The form that native code takes. Of a file no more is read than shows that it is longer than `bytes_max`."""
    if type(document) is bytes:
        return document
    return document.native if isinstance(document, Document) else document_bytes(document, bytes_max)


def held_document(document: AnyDocument, bytes_max: int = FILE_BYTES_MAX) -> bytes | _native.Document:
    """The same for native functions that take no other buffers than bytes."""
    native = native_document(document, bytes_max)
    return native if isinstance(native, _native.Document) else bytes(native)


def document_bytes(document: AnyDocument, bytes_max: int = FILE_BYTES_MAX) -> Bytes:
    """The bytes of a document in any form."""
    if isinstance(document, str):
        return _declared_utf8(document.encode("utf-8", "surrogatepass"))  # which the reader refuses at its place
    if isinstance(document, Document):
        return document.data
    if _is_buffer(document):
        return document  # type: ignore[return-value]
    if isinstance(document, os.PathLike):
        with Path(document).open("rb") as file:
            return _read_file(file, bytes_max)
    if is_lxml(document):
        return _serialise(document)
    if hasattr(document, "read"):
        return _read_file(document, bytes_max)  # type: ignore[arg-type]
    raise TypeError(f"a document is {FORMS}, not {kind_of(document)}")


def _is_buffer(document: object) -> bool:
    try:
        memoryview(document)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def _read_file(file: File, bytes_max: int) -> Bytes:
    pieces: list[bytes] = []
    size, is_text = 0, False
    while size <= bytes_max:
        piece = file.read(min(PIECE_BYTES, bytes_max + 1 - size))
        if isinstance(piece, str):
            piece, is_text = piece.encode("utf-8", "surrogatepass"), True
        if not isinstance(piece, bytes):  # None: nothing yet
            raise TypeError(f"a file gives bytes or str to read, not {kind_of(piece)}")
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    data = b"".join(pieces)
    return _declared_utf8(data) if is_text else data


def is_lxml(document: object) -> bool:
    """Whether it is an element or a tree of lxml, which is not imported for that."""
    etree = sys.modules.get("lxml.etree")
    return etree is not None and isinstance(document, (etree._Element, etree._ElementTree))


def _serialise(tree: Any) -> bytes:
    etree = sys.modules["lxml.etree"]
    if not etree.iselement(tree) and tree.getroot() is None:
        return b""
    data: bytes = etree.tostring(tree, encoding="UTF-8", with_tail=False)
    return data


def as_documents(answers: Sequence[_native.Document | Exception]) -> list[Document | DocumentError]:
    """What native code answers about a batch: documents, and the errors of those that were refused."""
    return [Document(one) if isinstance(one, _native.Document) else _refusal(one) for one in answers]


def _refusal(error: Exception) -> DocumentError:
    assert isinstance(error, DocumentError)
    return error


def read_many(
    documents: Sequence[bytes], *, limits: Limits | None = None, entities: EntityTexts = None
) -> list[Document | DocumentError]:
    """Read a batch in one call: a Document for each, or the DocumentError that refuses it.

    >>> [len(one) if isinstance(one, Document) else one.code for one in read_many([b"<a/>", b"<a>"])]
    [1, 'TC209']
    """
    return as_documents(_native.read_documents(documents, native_limits(limits), native_entities(entities)))


def read(data: AnyDocument, *, limits: Limits | None = None, entities: EntityTexts = None) -> Document:
    """Read one document. Raises DocumentError, or DocumentLimitError if it exceeds a limit.

    It takes what an index takes: bytes, a str, a Path, an open file or an element of lxml. A Document is returned as
    it is. `entities` gives the text for entity references that XML itself does not define: a mapping, or "html".
    """
    native, native_texts = native_limits(limits), native_entities(entities)
    if isinstance(data, Document):
        return data
    content = document_bytes(data, (limits or Limits()).document_bytes_max)
    return Document(_native.Document(bytes(content), native, native_texts), limits or Limits(), entities)


def _read_again(data: bytes, limits: Limits | None, entities: EntityTexts) -> Document:
    """What a pickle calls. A document that came over a link has no limits here: it was within those of its reader."""
    return read(data, limits=limits or Limits(*[FILE_BYTES_MAX] * len(fields(Limits))), entities=entities)


class Reader:
    """Reads a document that arrives in chunks: feed() each chunk, close() returns the Document.

    Chunks are only collected, so no part of a document is used before its end is known to be valid. The chunk that
    exceeds the size limit raises the error.

        >>> reader = Reader()
        >>> reader.feed(b"<a>")
        >>> reader.feed(b"</a>")
        >>> len(reader.close())
        1
    """

    def __init__(self, *, limits: Limits | None = None, entities: EntityTexts = None) -> None:
        self._native_limits = native_limits(limits)
        self._limits = limits or Limits()
        self._entities = entities
        self._native_entities = native_entities(entities)
        self._data: bytearray | None = bytearray()

    def feed(self, chunk: Bytes) -> None:
        """Add the next bytes of the document."""
        if self._data is None:
            raise ValueError("this Reader is closed")
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            raise TypeError(f"a chunk of a document is bytes, not {kind_of(chunk)}")
        chunk = bytes(chunk)
        if len(self._data) + len(chunk) > self._limits.document_bytes_max:
            self._data = None
            _native.refuse_length(self._native_limits)
            return
        self._data += chunk

    def close(self) -> Document:
        """Read everything that was fed. The Reader cannot be used afterwards."""
        if self._data is None:
            raise ValueError("this Reader is closed")
        data, self._data = bytes(self._data), None
        return Document(
            _native.Document(data, self._native_limits, self._native_entities), self._limits, self._entities
        )
