"""Documents as text, paths, open files and elements of lxml, wherever their bytes are taken; pickles of a Document."""

from __future__ import annotations

import copy
import io
import mmap
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from treecast import Document, DocumentError, Index, LimitError, Limits, Reader, parse, read

TEXT = '<list xmlns:p="urn:p"><p:city>Köln</p:city></list>'
DATA = TEXT.encode()
QUERY = '/list/p:city[. = "Köln"]'

CALLS: dict[str, Callable[[Index, Any], object]] = {
    "match": lambda index, document: index.match(document),
    "match_many": lambda index, document: index.match_many([document])["subscription"].to_pylist(),
    "match_many, a report": lambda index, document: index.match_many(iter([document]), on_error="report")[1].num_rows,
    "match_batches": lambda index, document: [table.num_rows for table in index.match_batches(iter([document]))],
    "render": lambda index, document: index.render(document),
    "render_many": lambda index, document: index.render_many([document])["payload"].to_pylist(),
    "render_batches": lambda index, document: [table.num_rows for table in index.render_batches([document])],
    "explain": lambda index, document: str(index.explain(document, "q")),
    "read": lambda index, document: read(document).data,
    "parse": lambda index, document: parse(QUERY, namespaces={"p": "urn:p"}).match(document),
}


@pytest.fixture
def index() -> Index:
    index = Index(namespaces={"p": "urn:p"})
    index.add("q", QUERY)
    return index


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "list.xml"
    path.write_bytes(DATA)
    return path


class Piecewise:
    """A file that gives a byte at a time, and has nothing but read()."""

    def __init__(self) -> None:
        self._data = io.BytesIO(DATA)

    def read(self, size: int, /) -> bytes:
        return self._data.read(min(size, 1))


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "str": lambda path: TEXT,
    "bytearray": lambda path: bytearray(DATA),
    "memoryview": lambda path: memoryview(DATA),
    "mmap": lambda path: mapped(path),
    "Path": lambda path: path,
    "file of bytes": lambda path: path.open("rb"),
    "file of text": lambda path: path.open(encoding="utf-8"),
    "BytesIO": lambda path: io.BytesIO(DATA),
    "StringIO": lambda path: io.StringIO(TEXT),
    "any file": lambda path: Piecewise(),
    "element": lambda path: etree.fromstring(TEXT),
    "tree": lambda path: etree.parse(path),
    "Document": lambda path: read(DATA),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_call_takes_every_form(
    index: Index, file: Path, call: Callable[[Index, Any], object], source: Callable[[Path], Any]
) -> None:
    assert call(index, source(file)) == call(index, DATA)


def test_text_is_utf_8_whatever_it_declares(index: Index) -> None:
    text = f'<?xml version="1.0" encoding="UTF-16"?>{TEXT}'
    assert index.match(text) == index.match(io.StringIO(text)) == ["q"]
    with pytest.raises(DocumentError):
        index.match(text.encode())


def test_text_with_half_a_character_is_a_bad_document(index: Index) -> None:
    matches, errors = index.match_many(["<a>\ud800</a>", TEXT], on_error="report")
    assert matches["document"].to_pylist() == [1]
    _, expected = index.match_many([b"<a>\xed\xa0\x80</a>"], on_error="report")
    assert errors == expected


def test_a_part_of_a_tree_keeps_its_namespaces_and_loses_its_tail() -> None:
    root = etree.fromstring('<a xmlns="urn:x"><b>1</b>tail</a>')
    query = parse("/b[. = 1]", namespaces=root.nsmap)
    assert query.match(root[0])
    assert read(root[0]).data == b'<b xmlns="urn:x">1</b>'


def test_an_empty_tree_is_a_bad_document(index: Index) -> None:
    with pytest.raises(DocumentError):
        index.match(etree.ElementTree())


def test_elements_of_lxml_need_no_import_of_it() -> None:
    code = "import sys, treecast; treecast.parse('/a').match('<a/>'); print('lxml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("call", ["match_many", "render_many", "match_batches", "render_batches"])
def test_a_single_document_is_no_sequence_of_them(index: Index, file: Path, call: str) -> None:
    for source in ("str", "Path", "BytesIO", "element", "tree", "Document"):
        with pytest.raises(TypeError, match=r"for a single one use (match|render)\(\)"):
            list(getattr(index, call)(SOURCES[source](file)))


class Endless:
    """A file without an end; counts what is read of it."""

    def __init__(self) -> None:
        self.bytes_read = 0

    def read(self, size: int, /) -> bytes:
        self.bytes_read += size
        return b" " * size


@pytest.mark.parametrize("call", ["match", "match_many", "match_batches", "render", "render_many", "render_batches"])
def test_a_file_is_read_as_far_as_the_limit(call: str) -> None:
    index, file = Index({"q": "/a"}, limits=Limits(document_bytes_max=1000)), Endless()
    with pytest.raises(LimitError, match="TC301"):
        list(getattr(index, call)(file if call in ("match", "render") else [file]))
    assert file.bytes_read == 1001


def test_what_is_no_document_is_refused(index: Index, tmp_path: Path) -> None:
    class Broken:
        def read(self, size: int, /) -> None:
            return None

    wrong: list[Any] = [None, 3, [DATA], object()]
    for value in wrong:
        with pytest.raises(TypeError, match="a document is bytes, a str, a Path, an open file, an element of lxml or"):
            index.match(value)
    with pytest.raises(TypeError, match="a file gives bytes or str to read, not None"):
        index.match(Broken())  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        index.match(tmp_path / "missing.xml")


# --- pickles ---------------------------------------------------------------------------------------------------------


def reader_of(data: bytes, **settings: Any) -> Document:
    reader = Reader(**settings)
    reader.feed(data)
    return reader.close()


@pytest.mark.parametrize("make", [read, reader_of])
@pytest.mark.parametrize("entities", ["html", {"euro": "€"}])
def test_a_document_is_pickled_with_its_limits_and_entities(make: Callable[..., Document], entities: Any) -> None:
    document = make(b"<a><b>&euro;</b></a>", limits=Limits(depth_max=2), entities=entities)
    other = pickle.loads(pickle.dumps(document))
    assert isinstance(other, Document)
    assert (other.data, other.texts, other.names) == (document.data, document.texts, document.names)
    assert parse('/a[b = "€"]').match(other)


def test_a_pickle_is_read_within_the_limits_of_the_document() -> None:
    deep = b"<a>" * 600 + b"</a>" * 600
    assert len(pickle.loads(pickle.dumps(read(deep, limits=Limits(depth_max=600))))) == 600


def test_copies_are_the_document_itself() -> None:
    document = read(DATA)
    assert copy.copy(document) is document is copy.deepcopy(document)


def test_a_query_that_has_matched_is_pickled() -> None:
    query = parse("/a[b]")
    assert query.match(b"<a><b/></a>")
    assert pickle.loads(pickle.dumps(query)).match(b"<a/>") is False
