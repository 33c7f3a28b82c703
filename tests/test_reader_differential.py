"""The reader against lxml and expat: the same names, attributes, texts and positions, and the same refusals."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.parsers import expat

import pytest
from generators.xml import (
    ENCODINGS,
    Generator,
    check_slices,
    lxml_tree,
    seen_by_lxml,
    seen_by_treecast,
    starts_by_expat,
)
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from support.sanitized import SANITIZED

from treecast import DocumentError, _native
from treecast.document import Document, Reader, read

BOTH = (0, 1)
# What is well-formed and refused all the same: other encodings, DTDs, entities of an external DTD.
EXCLUDED = ("TC204", "TC205", "TC206")
REAL_BYTES_MAX = 4_000 if SANITIZED else 30_000


@pytest.fixture(autouse=True)
def automatic_again() -> Iterator[None]:
    yield
    _native.testing.simd_force(-1)


def read_both(data: bytes) -> Document:
    """Read on both levels, which must agree in all they tell."""
    documents = []
    for level in BOTH:
        _native.testing.simd_force(level)
        documents.append(read(data))
    one, other = documents
    assert seen_by_treecast(one) == seen_by_treecast(other)
    for column in ("parents", "depths", "sizes", "starts", "ends"):
        assert list(getattr(one, column)) == list(getattr(other, column)), column
    return one


def refusal_of(data: bytes) -> tuple[str, int, int, str] | None:
    """The refusal, which must be the same on both levels and from chunks."""
    found: set[tuple[str, int, int, str] | None] = set()
    for level in BOTH:
        _native.testing.simd_force(level)
        try:
            read(data)
            found.add(None)
        except DocumentError as error:
            found.add((error.code, error.offset, error.line, str(error)))
    assert len(found) == 1, found
    return found.pop()


def check_against_peers(data: bytes) -> None:
    document = read_both(data)
    root = lxml_tree(data)
    assert seen_by_treecast(document) == seen_by_lxml(root)
    assert list(document.starts) == starts_by_expat(data)
    check_slices(document, root)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_generated(encoding: str) -> None:
    generator = Generator(seed=len(encoding))
    elements = 0
    for _ in range(60):
        data = generator.document(encoding)
        check_against_peers(data)
        elements += len(read(data))
    assert elements > 300


@given(st.integers(min_value=0), st.sampled_from(ENCODINGS))
def test_generated_by_hypothesis(seed: int, encoding: str) -> None:
    check_against_peers(Generator(seed).document(encoding))


def accepted_by_lxml(data: bytes) -> bool:
    """libxml2's opinion on what is a good URI does not count: no namespace is ever fetched."""
    try:
        lxml_tree(data)
    except etree.XMLSyntaxError as error:
        return "is not a valid URI" in str(error) or "is not absolute" in str(error)
    return True


def accepted_by_expat(data: bytes) -> bool:
    """expat knows the names of the fourth edition, so its acceptance says more than its refusal."""
    try:
        expat.ParserCreate(namespace_separator="\x01").Parse(data, True)
    except expat.ExpatError:
        return False
    return True


@given(st.integers(min_value=0), st.data())
def test_damaged(seed: int, data: st.DataObject) -> None:
    """Damaged in a few places, it is refused whenever lxml refuses it, by the same error from both levels."""
    document = bytearray(Generator(seed).document("utf-8"))
    for _ in range(data.draw(st.integers(1, 3))):
        damage(document, data.draw(st.randoms(use_true_random=False)))
    check_damaged(bytes(document))


def damage(document: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(document)) if document else 0
    kind = rng.randrange(4)
    if kind == 0:
        del document[at : at + rng.choice((1, 1, 2, 20))]
    elif kind == 1:
        document[at:at] = rng.choice(
            (b"<", b">", b"&", b"'", b'"', b" ", b"x", b"/", b"-", b"]", b"\0", b"\xff", b"=", b":")
        )
    elif kind == 2 and document:
        document[at] = rng.randrange(256)
    else:
        other = rng.randrange(len(document) + 1)
        document[at:at] = document[other : other + rng.randrange(40)]


def check_damaged(data: bytes) -> None:
    refusal = refusal_of(data)
    if refusal is None:
        assert accepted_by_lxml(data), data
        return
    code, offset, line, message = refusal
    assert 0 <= offset <= len(data)
    assert line == len(data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    if code not in EXCLUDED and "XML version" not in message:  # both peers let version="10" pass
        assert not accepted_by_lxml(data) or not accepted_by_expat(data), (refusal, data)


def test_damaged_many() -> None:
    rng = random.Random(7)
    generator = Generator(seed=7)
    for _ in range(1_500):
        document = bytearray(generator.document("utf-8"))
        for _ in range(rng.randint(1, 3)):
            damage(document, rng)
        check_damaged(bytes(document))


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    refusal = refusal_of(data)
    assert refusal is None or refusal[1] <= len(data)


@given(st.integers(min_value=0), st.lists(st.integers(1, 50)))
def test_chunks(seed: int, lengths: list[int]) -> None:
    """However a document is cut into chunks, the result is the same."""
    data = Generator(seed).document("utf-8")
    reader, rest = Reader(), data
    for length in lengths:
        reader.feed(rest[:length])
        rest = rest[length:]
    reader.feed(rest)
    assert seen_by_treecast(reader.close()) == seen_by_treecast(read(data))


@pytest.mark.parametrize(("step", "bytes_max"), [(3, REAL_BYTES_MAX), pytest.param(1, 1 << 30, marks=pytest.mark.long)])
def test_real_documents(
    data_directory: Path | None, leave_out: Callable[[str], None], step: int, bytes_max: int
) -> None:
    """A third of the small files of the data directory, in `make long` all; the summary lists what is excluded."""
    if data_directory is None:
        leave_out("real documents, because TREECAST_DATA is not set")
        return
    done = Counter[str]()
    suffixes = (".xml", ".xsd", ".ent", ".dtd", ".mod")
    paths = sorted(path for path in data_directory.rglob("*") if path.suffix in suffixes and path.is_file())
    for path in paths[::step]:
        data = path.read_bytes()
        if len(data) > bytes_max:
            done["large"] += 1
            continue
        refusal = refusal_of(data)
        if refusal is None:
            check_real(data)
            done["equal to lxml and expat"] += 1
        elif refusal[0] in EXCLUDED and accepted_by_lxml(data):
            leave_out(f"{path.relative_to(data_directory)}: {refusal[3].splitlines()[0]}")
            done["excluded"] += 1
        else:
            assert not accepted_by_lxml(data), (path, refusal)
            done["refused by all"] += 1
    assert done["equal to lxml and expat"] > 100, done


def check_real(data: bytes) -> None:
    document = read_both(data)
    if SANITIZED:  # what the peers see was compared without
        return
    root = lxml_tree(data)
    assert seen_by_treecast(document) == seen_by_lxml(root)
    assert list(document.starts) == starts_by_expat(data)
    if len(document) < 2_000:
        check_slices(document, root)
