"""What the reader makes of a document, on both levels of instructions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import treecast
from treecast import _native
from treecast.document import Limits, Reader, read


@pytest.fixture(params=[0, 1], ids=["scalar", "avx2"], autouse=True)
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    _native.simd_force(request.param)
    yield
    _native.simd_force(-1)


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
