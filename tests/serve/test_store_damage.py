"""Damage to a store: a torn end is cut off, a flipped bit is found or does no harm, what is intact stays readable."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from support.store_model import Model

from treecast import Index
from treecast.overlay.storage import Append, BodyGoneError, DropBefore, Put, StorageError
from treecast.serve.store import Store, StoreSettings
from treecast.serve.store.segment import HEADER_BYTES, header, scan

pytestmark = pytest.mark.house

SMALL = StoreSettings(segment_bytes_max=3000, page_bytes=1024, checkpoint_bytes=16 << 10)
MARK = b"\x01\xffMARK\x00\x00"


def filled(path: Path, seed: int, groups: int) -> Model:
    """A store, closed, and what it holds."""
    random, model = Random(seed), Model()
    with Store.open(path, SMALL) as store:
        for _ in range(groups):
            changes = [change for change in model.draw(random) if not isinstance(change, DropBefore)]
            store.write(changes)
            model.apply(changes)
    return model


def active_segment(path: Path) -> Path:
    return max((path / "bodies").glob("*.log"))


def outcome(path: Path, *models: Model) -> str:
    """What comes of a store that may be damaged: "intact", "found" by somebody, or else what is wrong and not found."""
    try:
        with Store.open(path, SMALL) as store:
            for model in models:
                try:
                    difference = model.difference(store)
                except BodyGoneError:  # also a StorageError, but one that says that nothing is wrong
                    difference = "a body is gone"
                if not difference:
                    return "intact"
            return "found" if store.verify() else difference
    except StorageError as error:
        assert error.code in ("TC420", "TC422", "TC423"), error
        return "found"


def test_a_torn_end_of_the_log_is_cut_off_at_every_byte(tmp_path: Path) -> None:
    """The last group was written to the log, in part, and never committed."""
    model = filled(tmp_path / "store", 1, 12)
    path = active_segment(tmp_path / "store")
    before = path.read_bytes()
    mark = before[:8]
    number = model.last_body
    group = b"".join(header(mark, number + n, b"torn" * n) + b"torn" * n for n in range(1, 4))
    for length in range(len(group) + 1):
        path.write_bytes(before + group[:length])
        with Store.open(tmp_path / "store", SMALL) as store:
            if length % 16 == 0:
                assert model.difference(store) == ""
            with pytest.raises(BodyGoneError):
                store.body(number + 1)
        assert path.read_bytes() == before
    with Store.open(tmp_path / "store", SMALL) as store:
        store.write([Append(number + 1, b"the number is free")])
        assert store.body(number + 1) == b"the number is free"


def test_a_log_that_lost_its_end_is_damaged_at_every_byte(tmp_path: Path) -> None:
    model = filled(tmp_path / "store", 2, 12)
    path = active_segment(tmp_path / "store")
    whole = path.read_bytes()
    for length in range(len(whole) - 60, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageError) as caught:
            Store.open(tmp_path / "store", SMALL)
        assert caught.value.code == "TC422"
    path.write_bytes(whole)
    assert outcome(tmp_path / "store", model) == "intact"
    path.unlink()
    assert outcome(tmp_path / "store", model) == "found"


def test_a_torn_end_of_the_log_of_sqlite(tmp_path: Path) -> None:
    """The store is as it was before its last group or after it, wherever SQLite's log ends. The process died before it
    told anybody that this group is stored: after that, it would be a loss."""
    random, model = Random(5), Model()
    with Store.open(tmp_path / "store", SMALL) as store:
        for _ in range(6):
            former = model.copy()
            changes = [*model.draw(random), Put("queue", 1, random.randbytes(50)), Append(model.last_body + 50, b"x")]
            start = (tmp_path / "store" / "tables.sqlite-wal").stat().st_size
            untold = (tmp_path / "store" / "last-group").read_bytes()
            store.write(changes)
            model.apply(changes)
        shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    wal = (tmp_path / "crashed" / "tables.sqlite-wal").read_bytes()
    outcomes = []
    for length in (*range(start, len(wal), 211), len(wal)):
        shutil.copytree(tmp_path / "crashed", tmp_path / "copy")
        (tmp_path / "copy" / "tables.sqlite-shm").unlink()
        (tmp_path / "copy" / "tables.sqlite-wal").write_bytes(wal[:length])
        if length < len(wal):
            assert outcome(tmp_path / "copy", model, former) == "found"
        (tmp_path / "copy" / "last-group").write_bytes(untold)
        outcomes.append(outcome(tmp_path / "copy", former) == "intact")
        if not outcomes[-1]:
            assert outcome(tmp_path / "copy", model) == "intact", length
        shutil.rmtree(tmp_path / "copy")
    assert outcomes == [True] * (len(outcomes) - 1) + [False]


def files_of(store: Path) -> dict[str, list[Path]]:
    return {
        "log": sorted((store / "bodies").glob("*.log")),
        "offsets": sorted((store / "bodies").glob("*.offsets")),
        "tables": [store / "tables.sqlite"],
        "wal": [store / "tables.sqlite-wal"],
        "identity": [store / "store.json"],
    }


def flip(random: Random, source: Path, file: Path, target: Path, begin: int = 0) -> int:
    """Copy a store, with one bit changed, behind `begin`, in one of its files."""
    data = bytearray(file.read_bytes())
    place = random.randrange(begin, len(data))
    data[place] ^= 1 << random.randrange(8)
    shutil.copytree(source, target)
    (target / file.relative_to(source)).write_bytes(data)
    return place


@pytest.mark.parametrize("part", ["log", "offsets", "tables", "identity"])
def test_flipped_bits_are_found_or_do_no_harm(tmp_path: Path, part: str) -> None:
    """One bit at a time, anywhere in a file. Whoever reads is told, or `verify` tells, or nothing has changed."""
    random, model = Random(9), filled(tmp_path / "store", 7, 25)
    counts = {"intact": 0, "found": 0}
    for _ in range({"tables": 100, "log": 60}.get(part, 40)):
        file = random.choice(files_of(tmp_path / "store")[part])
        place = flip(random, tmp_path / "store", file, tmp_path / "copy")
        came = outcome(tmp_path / "copy", model)
        assert came in counts, f"{file.name}, byte {place}: {came}"
        counts[came] += 1
        shutil.rmtree(tmp_path / "copy")
    assert counts["intact" if part == "offsets" else "found"] > 20, counts


def test_flipped_bits_in_the_log_of_sqlite(tmp_path: Path) -> None:
    """They are found, unless they are in a last group that nobody was told of: it looks as if it was not stored."""
    random, model = Random(9), filled(tmp_path / "store", 7, 5)
    wal = tmp_path / "store" / "tables.sqlite-wal"
    with Store.open(tmp_path / "store", StoreSettings(segment_bytes_max=3000)) as store:
        for _ in range(4):
            former, last, untold = model.copy(), wal.stat().st_size, (tmp_path / "store" / "last-group").read_bytes()
            changes = [*model.draw(random), Put("queue", 1, random.randbytes(99))]
            store.write(changes)
            model.apply(changes)
        shutil.copytree(tmp_path / "store", tmp_path / "crashed", ignore=shutil.ignore_patterns("*-shm"))
    source = tmp_path / "crashed"
    counts = {"intact": 0, "found": 0}
    (wal,) = files_of(source)["wal"]
    for number in range(60):
        place = flip(random, source, wal, tmp_path / "copy", last if number % 3 == 0 else 0)
        is_told = number % 2 == 0
        if not is_told:
            (tmp_path / "copy" / "last-group").write_bytes(untold)
        for _ in range(2):  # what was found is found again
            came = outcome(tmp_path / "copy", model, *([former] if place >= last else []))
            expected = "found" if is_told or place < last else "intact"
            assert came == expected, f"byte {place} of {len(wal.read_bytes())}: {came}"
        counts[came] += 1
        shutil.rmtree(tmp_path / "copy")
    assert counts["intact"] >= 10 and counts["found"] >= 40


def test_a_damaged_body_hides_no_other(tmp_path: Path) -> None:
    """A flipped bit in any place of a record, header or body: all others are read, also after the next start."""
    with Store.open(tmp_path / "store") as store:
        store.write([Append(number, bytes([number]) * 40) for number in range(1, 30, 2)])
    path = active_segment(tmp_path / "store")
    whole = path.read_bytes()
    begin = 5 * (HEADER_BYTES + 40)
    for place in range(begin, begin + HEADER_BYTES + 40):
        data = bytearray(whole)
        data[place] ^= 4
        path.write_bytes(data)
        with Store.open(tmp_path / "store") as store:
            for number in range(1, 30, 2):
                if number == 11:
                    with pytest.raises(StorageError, match="TC422"):
                        store.body(number)
                else:
                    assert store.body(number) == bytes([number]) * 40
            assert [damage.message for damage in store.verify()] == ["bodies 10 to 12, or some of them"]


def test_a_body_that_rots_while_the_store_is_open(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.write([Append(1, b"one" * 30), Append(2, b"two" * 30)])
        path = active_segment(tmp_path / "store")
        with path.open("r+b") as file:
            file.seek(HEADER_BYTES + 5)
            file.write(b"?")
        with pytest.raises(StorageError, match="TC422 document 1 is damaged"):
            store.body(1)
        assert store.body(2) == b"two" * 30
        store.write([Append(3, b"three")])
        assert store.body(3) == b"three"


def test_a_body_cannot_pretend_to_be_a_record() -> None:
    """Somebody sends what looks like a record, and the one around it is damaged. Without the mark it stays content."""
    forged = header(b"guessed?", 2, b"forged") + b"forged"
    first = header(MARK, 1, forged) + forged
    second = header(MARK, 5, b"real") + b"real"
    damaged = bytearray(first + second)
    damaged[HEADER_BYTES - 1] ^= 1
    found = scan(bytes(damaged), MARK, first=1, last=5)
    assert (list(found.numbers), found.damaged) == ([5], ((1, 4),))


def test_verify_lists_everything(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store.open(path, SMALL) as store:
        for number in range(1, 31):
            store.write([Append(number, bytes(500)), Put("t", number, b"value %d" % number)])
        store.save_index(Index(), 1)
    segments, offsets = sorted((path / "bodies").glob("*.log")), sorted((path / "bodies").glob("*.offsets"))
    segments[0].rename(segments[0].with_suffix(".lost"))
    segments[1].with_suffix(".lost").touch()
    segments[1].write_bytes(segments[1].read_bytes()[:-10])
    segments[2].write_bytes(segments[2].read_bytes().replace(bytes(500), bytes(499) + b"x", 1))
    offsets[3].write_bytes(b"?")
    tables = (path / "tables.sqlite").read_bytes()
    (path / "tables.sqlite").write_bytes(tables.replace(b"value 17", b"value 71"))
    with Store.open(path, SMALL) as store:
        (path / "store.json").write_bytes(b"{}")
        (path / f"index-{1:020}.tcx").write_bytes(b"?")
        damage = store.verify()
        with pytest.raises(StorageError, match="TC422 the value of 17 in table 't' is damaged"):
            store.get("t", 17)
        with pytest.raises(StorageError, match="TC422"):
            store.scan("t", 10, 20)
        with pytest.raises(StorageError, match="TC422"):
            store.body(1)
        assert len(store.scan("t", 17, 100)) == 13
    assert [(found.file.replace("0", ""), found.is_repairable) for found in damage] == [
        ("store.json", False),
        ("tables.sqlite", False),
        ("bodies/1.log", False),
        ("bodies/6.log", False),
        ("bodies/6.log", False),
        ("bodies/11.log", False),
        ("bodies/16.offsets", True),
        ("index-1.tcx", True),
    ]
