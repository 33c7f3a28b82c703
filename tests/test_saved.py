"""Saved indexes: what is saved comes back; what is damaged is refused."""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from generators.conditions import ConditionDrawer, draw_valued_document
from generators.paths_and_documents import Vocabulary
from support.index_fillings import IDS, each_filling, fill_machines, fill_predicates, same, saved

from treecast import DocumentError, Index, Limits, QueryError, SnapshotError

HEADER = struct.Struct("<8sIIQQQQ")  # magic, version, byte order, file bytes, sections, two checksums

# --- round trips -----------------------------------------------------------------------------------------------------


@each_filling
def test_round_trip(fill: Callable[[Index], None], tmp_path: Path) -> None:
    index = Index()
    fill(index)
    path = tmp_path / "saved.tcx"
    loaded = saved(index, path)

    same(index, loaded, IDS)
    same(index, Index.load(path, verify=False), IDS)
    same(index, Index.load(str(path)), IDS)
    same(index, saved(loaded, path), IDS)
    assert list(tmp_path.iterdir()) == [path]


@each_filling
def test_changes_after_loading(fill: Callable[[Index], None], tmp_path: Path) -> None:
    """The same changes to an index and to its loaded twin; the file stays as it was, and can be loaded again."""
    index = Index()
    fill(index)
    path = tmp_path / "saved.tcx"
    loaded = saved(index, path)
    before = path.read_bytes()
    twice = Index.load(path)
    untouched = Index.load(path)
    for each in (index, loaded):
        for id in ("1", "3", "30"):
            if id in each:
                each.remove(id)
        if "2" in each:
            each.replace("2", "//c[. = 1]")
        each.add("new", "//a[b]")
        each.add_many([(f"new {number}", f"//a[@x = {number}]") for number in range(100)])
        each.add("1", "//b", deliver="elements")
        each.add("prefixed", "//q:a[q:b]", namespaces={"q": "urn:1"})
        each.remove("new 99")
    ids = [*IDS, "new", "new 7", "new 99", "prefixed"]
    same(index, loaded, ids)
    assert path.read_bytes() == before
    original = Index()
    fill(original)
    same(original, twice, ids)
    same(original, untouched, ids)
    same(index, saved(loaded, tmp_path / "again.tcx"), ids)


def test_a_thousand_changes_after_loading(tmp_path: Path) -> None:
    """Enough to merge what was loaded with what is new, again and again."""
    random = Random("changes")
    drawer = ConditionDrawer(random, Vocabulary((("", "a"), ("", "b"), ("", "c")), (("", "x"), ("", "y"))))
    index = Index()
    fill_machines(index)
    loaded = saved(index, tmp_path / "saved.tcx")
    live = [f"late {number}" for number in range(30)]
    for number in range(1000):
        text, chance, chosen = drawer.query().text, random.random(), random.choice(live)
        for each in (index, loaded):
            if chance < 0.3:
                each.replace(chosen, text)
            elif chance < 0.5 and len(live) > 10:
                each.remove(chosen)
            else:
                each.add(f"n{number}", text)
        if 0.3 <= chance < 0.5 and len(live) > 10:
            live.remove(chosen)
        elif chance >= 0.3:
            live.append(f"n{number}")
        if number % 100 == 0:
            document = draw_valued_document(random)
            assert index.match(document) == loaded.match(document)
    same(index, loaded, live)


def test_settings_of_the_index_come_back(tmp_path: Path) -> None:
    path = tmp_path / "saved.tcx"
    index = Index(namespaces={"q": "urn:1"}, limits=Limits(depth_max=3), entities={"uuml": "ü"})
    index.add("1", "/q:a")
    index.add("2", "//a[. = 'ü']")
    index.save(path)
    loaded = Index.load(path)
    assert loaded.match(b"<a xmlns='urn:1'/>") == ["1"]
    assert loaded.match(b"<a>&uuml;</a>") == ["2"]
    with pytest.raises(DocumentError, match="TC3"):
        loaded.match(b"<a><b><c><d/></c></b></a>")
    loaded.add("3", "/q:a[q:b]")
    assert loaded.match(b"<a xmlns='urn:1'><b/></a>") == ["1", "3"]
    with pytest.raises(QueryError):
        loaded.add("3", "/a")
    other = Index.load(path, limits=Limits(depth_max=5), entities={"auml": "ä"})
    assert other.match(b"<a><b><c><d/></c></b></a>") == []
    assert other.match(b"<a>&auml;</a>") == []
    with pytest.raises(DocumentError):
        other.match(b"<a>&uuml;</a>")


def test_a_loaded_index_outlives_its_file(tmp_path: Path) -> None:
    index = Index()
    fill_machines(index)
    path = tmp_path / "saved.tcx"
    loaded = saved(index, path)
    path.unlink()
    same(index, loaded, ["1", "2", "p5"])


def test_saving_over_a_file_that_is_in_use(tmp_path: Path) -> None:
    """Who loaded the old file keeps it; the new one may be its own, changed."""
    path = tmp_path / "saved.tcx"
    index = Index()
    fill_predicates(index)
    first = saved(index, path)
    second = Index.load(path)
    second.add("new", "//z")
    second.save(path)
    same(index, first, ["1", "8", "new"])
    same(second, Index.load(path), ["1", "8", "new"])


# --- what is refused -------------------------------------------------------------------------------------------------


def load_or_refuse(path: Path) -> Index | None:
    """None for a SnapshotError; anything else that is raised is a failure."""
    try:
        return Index.load(path)
    except SnapshotError as error:
        assert error.code in ("TC501", "TC502", "TC503")
        assert str(error).startswith(error.code)
        assert error.hint
        return None


def sections(data: bytes) -> list[tuple[int, int]]:
    count = HEADER.unpack_from(data)[4]
    return [struct.unpack_from("<QQ", data, HEADER.size + 16 * number) for number in range(count)]


def test_each_byte_of_the_file(tmp_path: Path) -> None:
    """In sections or between them: no changed byte goes unnoticed."""
    index = Index()
    index.add("1", "/a[b = 1]")
    path = tmp_path / "saved.tcx"
    index.save(path)
    data = bytearray(path.read_bytes())
    random = Random("bytes")
    for place in range(len(data)):
        bit = 1 << random.randrange(8)
        data[place] ^= bit
        path.write_bytes(data)
        assert load_or_refuse(path) is None, place
        data[place] ^= bit
    path.write_bytes(data)
    assert len(Index.load(path)) == 1


@pytest.mark.parametrize("fill", [fill_predicates, fill_machines], ids=["small", "several machines"])
def test_one_bit_in_each_part_of_the_file(fill: Callable[[Index], None], tmp_path: Path) -> None:
    index = Index()
    fill(index)
    path = tmp_path / "saved.tcx"
    index.save(path)
    data = path.read_bytes()
    parts = sections(data)
    random = Random("bits")
    places = [
        random.randrange(start, min(start + len(data) // 200, len(data)))
        for start in range(0, len(data), len(data) // 200)
    ]
    places += [offset + random.randrange(size) for offset, size in parts if size]
    places += list(range(HEADER.size + 32))
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        assert load_or_refuse(path) is None, place


def test_cut_off_at_any_length(tmp_path: Path) -> None:
    index = Index()
    fill_predicates(index)
    path = tmp_path / "saved.tcx"
    index.save(path)
    data = path.read_bytes()
    lengths = {
        *range(HEADER.size + 200),
        *range(0, len(data), max(1, len(data) // 150)),
        len(data) - 1,
        len(data) - 64,
    }
    for length in sorted(lengths):
        path.write_bytes(data[:length])
        assert load_or_refuse(path) is None, length
    for more in (b"\0", b"\0" * 64, data):
        path.write_bytes(data + more)
        assert load_or_refuse(path) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"<a/>", b"TREECAST", b"TREECAST" * 100, b"\0" * 4096, b"\xff" * 4096, b"PAR1" + b"\0" * 500,
     bytes(range(256)) * 20],
)  # fmt: skip
def test_foreign_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "foreign.tcx"
    path.write_bytes(content)
    assert load_or_refuse(path) is None


def test_two_sections_swapped(tmp_path: Path) -> None:
    """Whole sections in each other's place: every byte is there, and the sum still tells."""
    index = Index()
    fill_predicates(index)
    path = tmp_path / "saved.tcx"
    index.save(path)
    data = bytearray(path.read_bytes())
    parts = [part for part in sections(bytes(data)) if part[1]]
    same_size = [(a, b) for a in parts for b in parts if a[0] < b[0] and a[1] == b[1]]
    differing = [(a, b) for a, b in same_size if data[a[0] : a[0] + a[1]] != data[b[0] : b[0] + b[1]]]
    assert differing
    (a, size), (b, _) = differing[0]
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    path.write_bytes(data)
    assert load_or_refuse(path) is None


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Index.load(tmp_path / "nothing.tcx")
    with pytest.raises(IsADirectoryError):
        Index.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Index().save(tmp_path / "no directory" / "saved.tcx")
    with pytest.raises(OSError, match="directory"):
        Index().save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_odd_file_names(tmp_path: Path) -> None:
    index = Index()
    index.add("1", "//a")
    for name in (b"with space", b"\xff\xfe", "ü".encode(), b"new\nline"):
        path = tmp_path / os.fsdecode(name)
        assert len(saved(index, path)) == 1
    with pytest.raises(ValueError, match="null"):
        index.save(f"{tmp_path}/a\0b")
    with pytest.raises(ValueError, match="null"):
        Index.load(f"{tmp_path}/a\0b")
    assert len(list(tmp_path.iterdir())) == 4


def test_a_pipe_is_not_a_saved_index(tmp_path: Path) -> None:
    """It is refused at once; nobody writes to it."""
    os.mkfifo(tmp_path / "pipe")
    assert load_or_refuse(tmp_path / "pipe") is None


def test_nothing_is_left_of_a_refused_load(tmp_path: Path) -> None:
    """A refused file is closed and unmapped again."""
    index = Index()
    fill_machines(index)
    path = tmp_path / "saved.tcx"
    index.save(path)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    data[sections(bytes(data))[5][0]] ^= 1
    path.write_bytes(data)
    for _ in range(5):
        assert load_or_refuse(path) is None
    assert str(path) not in Path("/proc/self/maps").read_text()
    opened = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert str(path) not in opened


# --- other format versions -------------------------------------------------------------------------------------------

WORD = (1 << 64) - 1
PRIME = 0x9E3779B97F4A7C15


def turned(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & WORD


def checksum(data: bytes, seed: int = 0) -> int:
    """As native/base/snapshot.cpp has it: eight lanes over words of eight bytes."""
    lanes = [(seed + PRIME * (lane + 1)) & WORD for lane in range(8)]
    whole = len(data) // 64 * 64
    for start in (*range(0, whole, 64), whole):
        words = struct.unpack("<8Q", data[start : start + 64].ljust(64, b"\0"))
        lanes = [turned((lane ^ word) * PRIME & WORD, 29) for lane, word in zip(lanes, words, strict=True)]
    total = len(data) * PRIME & WORD
    for lane in lanes:
        total = turned((total ^ lane) * PRIME & WORD, 31)
    return total


def give_version(path: Path, version: int) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 8, version)
    struct.pack_into("<Q", data, HEADER.size - 8, 0)
    table = bytes(data[HEADER.size : HEADER.size + 16 * HEADER.unpack_from(data)[4]])
    struct.pack_into("<Q", data, HEADER.size - 8, checksum(table, checksum(bytes(data[: HEADER.size]))))
    path.write_bytes(data)


@each_filling
def test_another_format_version_is_rebuilt(fill: Callable[[Index], None], tmp_path: Path) -> None:
    index = Index()
    fill(index)
    path = tmp_path / "saved.tcx"
    index.save(path)
    current = HEADER.unpack_from(path.read_bytes())[1]
    same_version = path.read_bytes()
    give_version(path, current)
    assert path.read_bytes() == same_version  # the checksum here is the one over there
    give_version(path, current + 1)
    with pytest.warns(UserWarning, match="another format version"):
        rebuilt = Index.load(path)
    same(index, rebuilt, IDS)
    rebuilt.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(index, Index.load(path), IDS)


def test_a_missing_place_is_named(tmp_path: Path) -> None:
    place = tmp_path / "no" / "where.tcx"
    with pytest.raises(FileNotFoundError) as caught:
        Index().save(place)
    assert caught.value.filename == str(place)
